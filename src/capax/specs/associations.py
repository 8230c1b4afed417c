"""Associations and the attention layer that learns them (Mahdavi et al. 2024, arXiv 2306.02010)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from capax.specs.spec import LARGEST_LIBRARY, LARGEST_SIZE, Size, Spec, must_be_given


class Associations(Spec):
    """Remember labels: each item is a query vector, a context of token vectors, and the label of the pair.

    Entries are independent, labels too, or all are the user's arrays. The vectors have the model's `d_model` channels.
    Defaults are those of the paper's published code where it has one value.
    """

    task: Literal["associations"] = "associations"
    context_size: Annotated[Size, Field(description="Tokens in a context.")] = 32
    library: Annotated[
        str,
        Field(
            description="Where the examples come from: 'random', or a .safetensors file or a folder of .npy files that "
            "holds queries, contexts and labels."
        ),
    ] = "random"
    library_size: Annotated[Size, Field(description="Examples to remember; with the user's it follows from them.")] = (
        10_000
    )
    contexts: Annotated[
        Literal["shared", "fresh", "bag"],
        Field(description="One context for all, one for each example, or tokens of each drawn from one bag."),
    ] = "shared"
    bag_size: Annotated[Size, Field(description="Tokens in the bag.")] = 500
    entries: Annotated[
        Literal["uniform", "normal", "given"],
        Field(description="Entries of the vectors: uniform in [0, 1), standard normal, or the user's."),
    ] = "uniform"
    labels: Annotated[
        Literal["classes", "uniform", "normal", "given"],
        Field(description="A class each, or real numbers: uniform in [0, 1), standard normal, or the user's."),
    ] = "classes"
    n_classes: Annotated[int, Field(ge=2, le=1_000_000, description="Different classes.")] = 100
    d_out: Annotated[Size, Field(description="Numbers in a real label.")] = 1
    tolerance: Annotated[
        float, Field(gt=0, description="A real label is recalled when no number of it is further off (ours).")
    ] = 0.05
    library_sha256: Annotated[
        str | None,
        Field(description="Content of the user's arrays: filled in when they are read, checked when they are used."),
    ] = None

    @property
    def n_outputs(self) -> int:
        """Numbers that the model gives for an example: one a class, or the label's."""
        return self.n_classes if self.labels == "classes" else self.d_out

    @property
    def files(self) -> tuple[str, ...]:
        """Fields that name the user's files."""
        return () if self.library_sha256 is None else ("library",)

    @property
    def items(self) -> str:
        """What an item is, in a few words."""
        label = f"{self.n_classes} classes" if self.labels == "classes" else f"{self.labels} labels"
        return f"{self.contexts} context of {self.context_size}, {label}"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.library != "random" and self.library_sha256 is None:
            must_be_given("library_sha256")
            self._describe_arrays()
        if self.library == "random":
            for name in ("entries", "labels"):
                if getattr(self, name) == "given":
                    raise ValueError(f"{name}: 'given' is for the user's arrays, but library is 'random'")
            if self.library_sha256 is not None:
                raise ValueError("library_sha256: only for the user's arrays, but library is 'random'")
            if self.contexts == "bag" and self.bag_size < self.context_size:
                raise ValueError(
                    f"bag_size: at least context_size = {self.context_size} (tokens do not repeat), got {self.bag_size}"
                )
        for name, needed in self._without_effect().items():
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name}: only with {needed}, got {getattr(self, name)}")
        if self.library_size > LARGEST_LIBRARY:
            raise ValueError(f"library_size: at most {LARGEST_LIBRARY} items, got {self.library_size}")
        return self

    def _without_effect(self) -> dict[str, str]:
        """Fields that mean nothing beside the others, and what they need."""
        idle = {} if self.contexts == "bag" else {"bag_size": "contexts='bag'"}
        if self.labels == "classes":
            return idle | dict.fromkeys(("d_out", "tolerance"), "real labels")
        return idle | {"n_classes": "labels='classes'"}

    def _describe_arrays(self) -> None:
        """Sizes, kinds and content hash of the user's arrays come from the arrays themselves."""
        from capax.tasks.association_files import describe

        given: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        for name, value in describe(Path(self.library), given).items():
            object.__setattr__(self, name, value)
            self.model_fields_set.add(name)
        self.model_fields_set.discard("library_sha256")  # a copy with changes reads the arrays again


class AssociativeAttention(Spec):
    """One attention layer that a query asks about its context; the query is never among the keys.

    `plain` is the theory's: f(E, e) = Σ_h W_O,hᵀ W_V,hᵀ Eᵀ softmax(E W_K,h W_Q,hᵀ e); no bias, scale, skip or FFN.
    `mahdavi2024` is that of the published experiments: a linear embedding of query and tokens, sinusoidal positions
    (the query at 0), scores over √d_model, one value per head, and a linear read-out after the output matrix.
    """

    model: Literal["associative_attention"] = "associative_attention"
    n_heads: Annotated[Size, Field(description="Attention heads.")] = 1
    d_model: Annotated[Size, Field(description="Channels of a query and of a token.")] = 64
    d_head: Annotated[Size, Field(description="Channels of a projected query and of a key.")] = 64
    d_value: Annotated[
        int | None,
        Field(
            ge=1,
            le=LARGEST_SIZE,
            description="Channels of a value. When not given: 1 in the published layer, as many as a read-out needs "
            "(the fewer of d_model and the outputs) in the plain one.",
        ),
    ] = None
    profile: Annotated[
        Literal["plain", "mahdavi2024"], Field(description="The theory's layer, or the published experiments'.")
    ] = "plain"

    @property
    def total_key_dim(self) -> int:
        """n_heads · d_head."""
        return self.n_heads * self.d_head

    def value_size(self, n_outputs: int) -> int:
        """Channels of a value, for a model of so many outputs."""
        if self.d_value is not None:
            return self.d_value
        return 1 if self.profile == "mahdavi2024" else min(self.d_model, n_outputs)
