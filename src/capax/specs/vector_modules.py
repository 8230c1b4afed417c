"""A user's modules that read vectors: of associations, and of relations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from capax.errors import shown
from capax.specs.model import Scored
from capax.specs.modules import Module
from capax.specs.protocols import Protocol
from capax.specs.spec import LARGEST_SIZE
from capax.specs.training import Training


class VectorModule(Module):
    """What a user's modules of vectors have in common: `arguments` say `d_model`, the channels of a vector."""

    @model_validator(mode="after")
    def _has_width(self) -> Self:
        width = self.arguments.get("d_model")
        if type(width) is not int or not 1 <= width <= LARGEST_SIZE:
            raise ValueError(
                f"arguments: d_model is required, the channels of a vector, 1 to {LARGEST_SIZE}, got {shown(width)}"
            )
        return self

    @property
    def d_model(self) -> int:
        """Channels of a vector."""
        width: Any = self.arguments["d_model"]
        return int(width)


class AssociationModule(VectorModule):
    """A user's `torch.nn.Module` that maps queries and contexts to scores of the classes, or the numbers of a label.

    It is called with queries `(batch, d_model)` and contexts `(batch, context_size, d_model)`, and gives
    `(batch, n_outputs)`. The factory is called with those of `context_size` and `n_outputs` (classes, or numbers of a
    label) that its signature names, and with `arguments`, among which is `d_model`.
    """

    reads: ClassVar[str] = "examples"
    ensemble_class: ClassVar[str] = "capax.models.module_traits:TriedExamples"

    model: Literal["association_module"] = "association_module"  # type: ignore[assignment]

    def told(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """What the factory is called with of a task, where its signature names it."""
        return {name: sizes[name] for name in ("context_size", "n_outputs")}


class RelationModule(VectorModule):
    """A user's `torch.nn.Module` that maps the vectors of items to a score of each ordered pair of them.

    It is called with items `(batch, n, d_model)`, the whole graph's or those of some contexts, and gives scores
    `(batch, n, n)` of sources (rows) and targets (columns): a pair is an edge where its score is above zero; an item
    with itself says nothing. The factory is called with those of `n_items` and `context_size` that its signature names,
    and with `arguments`, among which is `d_model`; where the budget protocol searches, with `n_heads` and `d_head` too.
    """

    reads: ClassVar[str] = "pairs"
    ensemble_class: ClassVar[str] = "capax.models.module_traits:TriedPairs"
    usual_lr: ClassVar[Mapping[str, float]] = {"adam": 0.01}

    model: Literal["relation_module"] = "relation_module"  # type: ignore[assignment]

    @property
    def needs_context(self) -> bool:
        """True: what a module makes of other items is not known."""
        return True

    def told(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """What the factory is called with of a task, where its signature names it."""
        return {"n_items": sizes["n_items"], "context_size": sizes.get("context_size", sizes["n_items"])}

    def floats_per_row(self, sizes: Mapping[str, int], scored: Scored) -> int:
        """Numbers in the widest activation of one context; of a source, where the whole graph is the only one."""
        return super().floats_per_row(sizes, scored) if "context_size" in sizes else sizes["n_items"]

    @property
    def n_heads(self) -> int | None:
        """Heads, where its arguments say so."""
        return self._count("n_heads")

    @property
    def d_head(self) -> int | None:
        """Channels of a query and a key, where its arguments say so."""
        return self._count("d_head")

    @property
    def total_key_dim(self) -> int | None:
        """n_heads · d_head, where its arguments say both."""
        return None if self.n_heads is None or self.d_head is None else self.n_heads * self.d_head

    def _count(self, name: str) -> int | None:
        value = self.arguments.get(name)
        return value if type(value) is int else None

    def of_heads(self, n_heads: int, d_head: int) -> Self:
        """The module with so many heads, by its arguments."""
        return self.replace(arguments={**self.arguments, "n_heads": n_heads, "d_head": d_head})

    def refuse(self, training: Training, protocol: Protocol) -> None:
        """Refuse heads where they are searched for."""
        super().refuse(training, protocol)
        for name in ("n_heads", "d_head"):
            if protocol.protocol == "budget" and name in self.arguments:
                raise ValueError(
                    f"arguments: {name} is what protocol 'budget' chooses, got {shown(self.arguments[name])}"
                )
