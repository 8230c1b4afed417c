"""Associations (Mahdavi et al. 2024, arXiv 2306.02010)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from capax.specs.associative import AssociativeAttention
from capax.specs.model import Model
from capax.specs.plugins import resolve
from capax.specs.protocols import Protocol
from capax.specs.spec import LARGEST_LIBRARY, Size, filled_in, must_be_given
from capax.specs.task import Task
from capax.text import Over, counted

MOST_CLASSES = 1_000_000
MOST_NUMBERS = 2**31
"""Numbers that a library's vectors may consist of: 8 GB in float32."""


class Associations(Task):
    """Remember labels: each item is a query vector, a context of token vectors, and the label of the pair.

    Entries are independent, labels too, or all are the user's arrays. The vectors have the model's `d_model` channels.
    Defaults are those of the paper's published code where it has one value, but for how many examples there are and
    how long they are trained (its own: `--paper mahdavi2024`).
    """

    reads: ClassVar[str] = "examples"
    learner: ClassVar = AssociativeAttention
    unit: ClassVar[str] = "associations"
    share: ClassVar[str | None] = "accuracy"
    loss_unit: ClassVar[str] = "nats per example of classes, mean squared error of real labels"
    axes: ClassVar[tuple[str, ...]] = ("context_size",)
    library_class: ClassVar[str] = "capax.tasks.associations:AssociationLibrary"
    memory_class: ClassVar[str] = "capax.memory:AssociativeMemory"
    constructor: ClassVar[str | None] = "capax.theory.construct.constructors:LAYER"
    usual_training: ClassVar[Mapping[str, Any]] = {
        "batch_size": 256,
        "schedule": "cosine",
        "warmup": 0.05,
        "eval_steps": 500,
        "patience": None,
        "max_epochs": 500,
        "min_steps": 5000,
    }

    task: Literal["associations"] = "associations"
    context_size: Annotated[Size, Field(description="Tokens in a context.")] = 32
    library: Annotated[
        str,
        Field(
            description="Where the examples come from: 'random', or a .safetensors file or a folder of .npy files that "
            "holds queries, contexts and labels."
        ),
    ] = "random"
    library_size: Annotated[
        Size,
        Field(
            description="Examples to remember (ours; one of the paper's: 10000); with the user's it follows from them."
        ),
    ] = 1000
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
    n_classes: Annotated[int, Field(ge=2, le=MOST_CLASSES, description="Different classes.")] = 100
    d_out: Annotated[Size, Field(description="Numbers in a real label.")] = 1
    tolerance: Annotated[
        float, Field(gt=0, description="A real label is recalled when no number of it is further off (ours).")
    ] = 0.05
    library_sha256: Annotated[
        str | None,
        filled_in("Content of the user's arrays: filled in when they are read, checked when they are used."),
    ] = None

    @property
    def n_outputs(self) -> int:
        """Numbers that the model gives for an example: one a class, or the label's."""
        return self.n_classes if self.labels == "classes" else self.d_out

    @property
    def items(self) -> str:
        """What an item is, in a few words."""
        label = f"{self.n_classes} classes" if self.labels == "classes" else f"{self.labels} labels"
        return self._of_file(f"{self.contexts} context of {self.context_size}, {label}")

    def words(self) -> str:
        """The task in a few words."""
        return self.items

    @property
    def has_probabilities(self) -> bool:
        """Of classes."""
        return self.labels == "classes"

    @property
    def targets_drawn(self) -> bool:
        """Whether labels are drawn."""
        return self.drawn

    def bound_facts(self) -> dict[str, Any]:
        """Whether all examples share one context."""
        return {"shared_context": self.contexts == "shared"}

    def described(self, over: Over, number: str) -> str:
        """What is to be remembered and when it counts as recalled, in a sentence."""
        own = f"associations of {self._user_file(self.library)}"
        origin = "random associations" if self.library == "random" else own
        drawn = {"shared": "shared by all", "fresh": "one each", "bag": f"drawn from {self.bag_size} tokens"}
        if self.labels == "classes":
            label, counts = f"one of {self.n_classes} classes", "its class has the highest score"
        else:
            label = f"{self.labels} labels of {counted(self.d_out, 'number')}"
            counts = f"every number of its label is within {self.tolerance:g}"
        return (
            f"{number} {origin}: contexts of {over.counted('context_size', 'token')} ({drawn[self.contexts]}), "
            f"{label}, {self.entries} entries; an example counts when {counts}"
        )

    def sizes(self) -> dict[str, int]:
        """`n_outputs`, `context_size`, and `n_contexts`: 1 where all examples share one."""
        contexts = 1 if self.contexts == "shared" else self.library_size
        return {"n_outputs": self.n_outputs, "context_size": self.context_size, "n_contexts": contexts}

    def bound_sizes(self) -> dict[str, Any]:
        """`context_size`, `library_size`, and `n_classes` or `d_out`; a real label is worth no number of bits."""
        classes = self.labels == "classes"
        label = (
            {"n_classes": self.n_classes, "bits_per_item": self.bits_per_item()} if classes else {"d_out": self.d_out}
        )
        return {"context_size": self.context_size, "library_size": self.library_size} | label

    def library_bytes(self, model: Model) -> int:
        """Bytes that one library takes while it is drawn, at least."""
        chosen = self.library_size * self.bag_size if self.contexts == "bag" else 0
        labels = self.library_size * (1 if self.labels == "classes" else self.d_out)
        return 8 * (self._numbers(model) + chosen + labels)

    def _numbers(self, model: Model) -> int:
        """Numbers in all its vectors."""
        return (self.sizes()["n_contexts"] * self.context_size + self.library_size) * int(getattr(model, "d_model", 0))

    def guess_probability(self) -> float:
        """1/C for a class; for a real label that the best constant is no further off than the tolerance (ours).

        The paper gives no chance for real labels.
        """
        if self.labels == "classes":
            return 1 / self.n_classes
        if self.labels == "uniform":
            return min(2 * self.tolerance, 1.0) ** self.d_out
        if self.labels == "normal":
            return math.erf(self.tolerance / math.sqrt(2)) ** self.d_out
        labels = resolve("capax.tasks.association_files:read")(Path(self.library)).labels
        return float(resolve("capax.tasks.association_files:constant_share")(labels, self.tolerance))

    def bits_per_item(self) -> float:
        """−log2 of `guess_probability`, by logarithms: the power of many numbers may be too small for a float."""
        each = {"uniform": min(2 * self.tolerance, 1.0), "normal": math.erf(self.tolerance / math.sqrt(2))}
        if self.labels in each:
            return 0.0 - self.d_out * math.log2(each[self.labels])  # 0 of what is always right, not -0
        return super().bits_per_item()

    def refuse(self, model: Model, protocol: Protocol) -> None:
        """Refuse vectors of more numbers than there is memory for."""
        if (numbers := self._numbers(model)) > MOST_NUMBERS:
            raise ValueError(
                f"library_size: its vectors may have at most {MOST_NUMBERS} numbers, {self.library_size} "
                f"examples have {numbers}"
            )

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
        given: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        described = resolve("capax.tasks.association_files:describe")(Path(self.library), given)
        if described.get("n_classes", 0) > MOST_CLASSES:
            raise ValueError(f"n_classes: at most {MOST_CLASSES}, but {self.library} has {described['n_classes']}")
        self.fill(**described)
        self.model_fields_set.discard("library_sha256")  # a copy with changes reads the arrays again
