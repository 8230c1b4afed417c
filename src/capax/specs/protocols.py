"""Protocols: how a count is made from trainings."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from capax.specs.spec import MOST_TRAININGS, Size, Spec
from capax.text import counted, listed

Compared = Literal["memorized_above_chance", "total_key_dim"]


class _Protocol(Spec):
    """How a count is made from trainings.

    Attributes:
        redraws: whether its trainings have libraries of their own.
        one_library: whether all its trainings learn the same library, so that they are restarts, and the best counts.
        counts_sizes: whether its count is the size of a library, rather than items of one of a known size.
        counted: what its count is called.
        compared: the column by which two of its measurements are compared; None where there is no such number.
        of: what a task's items have to be for it (`Task.reads`); None for any.
    """

    redraws: ClassVar[bool] = False
    one_library: ClassVar[bool] = False
    counts_sizes: ClassVar[bool] = False
    counted: ClassVar[str] = "memorized"
    compared: ClassVar[Compared | None] = "memorized_above_chance"
    of: ClassVar[str | None] = None

    @property
    def most_trainings(self) -> int:
        """Trainings that it may take."""
        raise NotImplementedError(f"{type(self).__name__}.most_trainings")

    def largest(self, model: Any, d_head: int) -> Any:
        """The model of its largest trainings: with its most heads, of the given size, where it searches for them."""
        return model

    def words(self) -> str:
        """How a count is made of trainings, in words."""
        raise NotImplementedError(f"{type(self).__name__}.words")

    def libraries(self, sizes: Collection[int]) -> str:
        """How many items there are in libraries of these sizes, in words."""
        return f"{'libraries of ' if len(set(sizes)) > 1 else ''}{listed(sizes)}"


class Mac(_Protocol):
    """Maximum attainable capacity: the best count of several restarts on one library (paper: 5, the best is kept)."""

    one_library: ClassVar[bool] = True

    protocol: Literal["mac"] = "mac"
    restarts: Annotated[
        Size,
        Field(
            le=MOST_TRAININGS,
            description="Restarts: each has new initial weights and batch order, and the same library.",
        ),
    ] = 5

    def words(self) -> str:
        """How a count is made of trainings, in words."""
        return f"the best of {counted(self.restarts, 'restart')} on one library"

    @property
    def most_trainings(self) -> int:
        """The restarts."""
        return self.restarts


class Mls(_Protocol):
    """Maximum library size: the largest library that is memorized whole, as the 50 % point of success against log size.

    `library_size` of the task is the largest size that is tried.
    """

    redraws: ClassVar[bool] = True
    counts_sizes: ClassVar[bool] = True
    counted: ClassVar[str] = "largest library"

    protocol: Literal["mls"] = "mls"
    first_size: Annotated[Size, Field(description="Library size where the search begins.")] = 16
    seeds: Annotated[int, Field(ge=2, le=MOST_TRAININGS, description="Trainings per round of the search.")] = 16
    max_trainings: Annotated[
        int, Field(ge=8, le=MOST_TRAININGS, description="Trainings after which the search ends.")
    ] = 96
    interval_width: Annotated[
        float,
        Field(
            gt=0, lt=1, description="The search ends when its 95 % interval is narrower than this share of its centre."
        ),
    ] = 0.1

    def words(self) -> str:
        """How a count is made of trainings, in words."""
        return (
            f"the largest library memorized whole: 50 % point of up to {self.max_trainings} trainings, {self.seeds} a "
            f"round from {self.first_size} on, until its interval is narrower than {self.interval_width:.0%}"
        )

    def libraries(self, sizes: Collection[int]) -> str:
        """The largest sizes that are tried, in words."""
        return f"libraries of up to {listed(sizes)}"

    @property
    def most_trainings(self) -> int:
        """Trainings after which the search ends."""
        return self.max_trainings


class Shatter(_Protocol):
    """Epochs until a library is memorized whole, over many trials.

    Paper: 1000 trials, 16 sequences, seq_len 8, d_model 16.
    """

    redraws: ClassVar[bool] = True
    counted: ClassVar[str] = "memorized (best)"
    compared: ClassVar[Compared | None] = None

    protocol: Literal["shatter"] = "shatter"
    trials: Annotated[
        int, Field(ge=2, le=MOST_TRAININGS, description="Trials; library, weights and batch order are redrawn in each.")
    ] = 1000

    def words(self) -> str:
        """How a count is made of trainings, in words."""
        return f"epochs until the library is whole, over {self.trials} trials"

    @property
    def most_trainings(self) -> int:
        """The trials."""
        return self.trials


class Budget(_Protocol):
    """The smallest total key dimension D_K* = n_heads · d_head at which relations are recognized, over head counts.

    For each head count the smallest d_head at which half of the trainings succeed (F1 at least `target_f1`), or, as
    the paper seems to do, at which their mean F1 does.
    """

    of: ClassVar[str | None] = "pairs"
    counted: ClassVar[str] = "recalled"
    compared: ClassVar[Compared | None] = "total_key_dim"

    protocol: Literal["budget"] = "budget"
    head_counts: Annotated[tuple[Size, ...], Field(min_length=1, description="Head counts to choose from.")] = (
        1, 2, 4, 8,
    )  # fmt: skip
    restarts: Annotated[
        int,
        Field(
            ge=2,
            le=MOST_TRAININGS,
            description="Trainings per head size; each draws its own graph, vectors and weights.",
        ),
    ] = 3
    target_f1: Annotated[float, Field(gt=0, le=1, description="F1 from which a training counts as a success.")] = 0.99
    criterion: Annotated[
        Literal["half", "mean"],
        Field(description="What counts as enough: half of the trainings succeed, or their mean F1 reaches the target."),
    ] = "half"
    max_trainings: Annotated[
        int, Field(ge=8, le=MOST_TRAININGS, description="Trainings per head count after which a search ends.")
    ] = 24

    def words(self) -> str:
        """How a count is made of trainings, in words."""
        how = "half of the trainings reach" if self.criterion == "half" else "the mean reaches"
        return (
            f"the smallest total key dimension at which {how} F1 {self.target_f1:g}, {self.restarts} trainings a head "
            f"size, up to {self.max_trainings} a search"
        )

    @property
    def most_trainings(self) -> int:
        """Trainings of all head counts after which their searches end."""
        return len(self.head_counts) * self.max_trainings

    def largest(self, model: Any, d_head: int) -> Any:
        """With its most heads."""
        return model.replace(n_heads=max(self.head_counts), d_head=min(model.d_model, d_head))

    @model_validator(mode="after")
    def _sorted(self) -> Self:
        object.__setattr__(self, "head_counts", tuple(sorted(set(self.head_counts))))
        return self


PROTOCOLS: dict[str, type[Mac] | type[Mls] | type[Shatter] | type[Budget]] = {
    str(kind.model_fields["protocol"].default): kind for kind in (Mac, Mls, Shatter, Budget)
}
ProtocolName = Literal["mac", "mls", "shatter", "budget"]
Protocol = Annotated[Mac | Mls | Shatter | Budget, Field(discriminator="protocol")]
