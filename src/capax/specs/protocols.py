"""Protocols: how a count is made from trainings."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from capax.errors import SpecError
from capax.specs.spec import MOST_TRAININGS, Size, Spec
from capax.specs.training import Training
from capax.text import counted, listed

Compared = Literal["memorized_above_chance", "total_key_dim"]

CYCLES: dict[str, Any] = {
    "schedule": "cycles",
    "cycle_steps": 100,
    "cycle_decay": 0.7,
    "cycle_tolerance": 0.05,
    "warmup": 0.1,
    "batch_size": 100_000,
    "eval_steps": 50,
    "patience": None,
    "stop_when_complete": False,
    "max_epochs": None,
    "min_steps": None,
}
"""Training to convergence."""

MOST_CYCLES = 8
"""That a training has where it is given no budget."""

RECIPE: dict[str, Any] = {
    "optimizer": "soap",
    "warmup": 0.3,
    "lr": 0.05,
    "gain_lr": 6.0,
    "beta1": 0.8,
    "beta2": 0.95,
    "basis_beta": 0.95,
    "basis_every": 5,
}
"""What knew most after equal time in a search over cells of several shapes (docs/capacity.md)."""

EXPECTED_DENSITY = 2.3
"""Bits per parameter (`Model.product_parameters`) by which the first library is sized."""


class _Protocol(Spec):
    """How a count is made from trainings.

    Attributes:
        redraws: whether its trainings have libraries of their own.
        one_library: whether all its trainings learn the same library, so that they are restarts, and the best counts.
        counts_sizes: whether its count is the size of a library, rather than items of one of a known size.
        counted: what its count is called.
        compared: the column by which two of its measurements are compared; None where there is no such number.
        of: what a task's items have to be for it (`Task.reads`); None for any.
        not_of: items that it has no meaning for.
        asks_when_complete: whether it asks when a library is complete, so that its trainings end there.
        together: whether runs that differ in their seeds alone may train in one pack.
        follows: what may follow its first trainings, which alone can be reckoned with before; nothing when empty.
    """

    redraws: ClassVar[bool] = False
    one_library: ClassVar[bool] = False
    together: ClassVar[bool] = False
    follows: ClassVar[str] = ""
    counts_sizes: ClassVar[bool] = False
    counted: ClassVar[str] = "memorized"
    compared: ClassVar[Compared | None] = "memorized_above_chance"
    of: ClassVar[str | None] = None
    not_of: ClassVar[str | None] = None
    asks_when_complete: ClassVar[bool] = False

    @classmethod
    def suits(cls, items: str) -> bool:
        """Whether it counts items of a kind (`Task.reads`)."""
        return cls.of in (None, items) and cls.not_of != items

    @property
    def most_trainings(self) -> int:
        """Trainings that it may take."""
        raise NotImplementedError(f"{type(self).__name__}.most_trainings")

    def largest(self, model: Any, d_head: int) -> Any:
        """The model of its largest trainings: with its most heads, of the given size, where it searches for them."""
        return model

    def usual_training(self, model: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Training where a run gives nothing else, before what its task says.

        Args:
            given: the fields that the run gives.
        """
        return {}

    def usual_library(self, task: Any, model: Any) -> int | None:
        """Items where a run gives no number; None where the task's own default stands."""
        return None

    def refuse(self, task: Any, training: Training) -> None:
        """Refuse a task or a training that it cannot count by.

        Raises:
            ValueError: that names the field.
        """

    def refuse_to_start(self, training: Training) -> None:
        """Refuse a training that runs of earlier versions may have, but no new one.

        Raises:
            SpecError: that names the field.
        """
        if self.asks_when_complete and not training.stop_when_complete:
            name = type(self).__name__.lower()
            raise SpecError(
                f"stop_when_complete: True, as protocol {name!r} asks when a library is complete, got False"
            )

    def words(self) -> str:
        """How a count is made of trainings, in words."""
        raise NotImplementedError(f"{type(self).__name__}.words")

    def libraries(self, sizes: Collection[int]) -> str:
        """How many items there are in libraries of these sizes, in words."""
        return f"{'libraries of ' if len(set(sizes)) > 1 else ''}{listed(sizes)}"


class Mac(_Protocol):
    """Maximum attainable capacity: the best count of several restarts on one library (paper: 5, the best is kept)."""

    one_library: ClassVar[bool] = True
    together: ClassVar[bool] = True

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
    asks_when_complete: ClassVar[bool] = True
    counted: ClassVar[str] = "largest library"
    not_of: ClassVar[str | None] = "pairs"

    protocol: Literal["mls"] = "mls"
    first_size: Annotated[Size, Field(description="Library size where the search begins, at most `library_size`.")] = 16
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

    Paper: 1000 trials, 16 sequences; seq_len 8 and d_model 16 by the name of the figure's file.
    """

    redraws: ClassVar[bool] = True
    asks_when_complete: ClassVar[bool] = True
    counted: ClassVar[str] = "memorized (best)"
    compared: ClassVar[Compared | None] = None

    protocol: Literal["shatter"] = "shatter"
    trials: Annotated[
        int, Field(ge=2, le=MOST_TRAININGS, description="Trials; library, weights and batch order are redrawn in each.")
    ] = 1000

    def usual_training(self, model: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """An evaluation every epoch, whatever is usual for the task."""
        return {} if "eval_steps" in given else {"eval_every": 1, "eval_steps": None}

    def words(self) -> str:
        """How a count is made of trainings, in words."""
        return f"epochs until the library is whole, over {self.trials} trials"

    @property
    def most_trainings(self) -> int:
        """The trials."""
        return self.trials


class Budget(_Protocol):
    """The smallest total key dimension D_K* = n_heads · d_head at which relations are recognized, over head counts.

    For each head count the smallest d_head at which half of the trainings succeed (F1 at least `target_f1`), or
    at which their mean F1 does. Both are ours: how the paper searches is not known.
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
        most = f"up to {self.max_trainings} a search"
        return f"the smallest {self.interval_of}, {self.restarts} trainings a head size, {most}"

    @property
    def interval_of(self) -> str:
        """What the interval of a result is of."""
        how = "half of the trainings reach" if self.criterion == "half" else "the mean reaches"
        return f"total key dimension at which {how} F1 {self.target_f1:g}"

    @property
    def most_trainings(self) -> int:
        """Trainings of all head counts after which their searches end."""
        return len(self.head_counts) * self.max_trainings

    def largest(self, model: Any, d_head: int) -> Any:
        """With its most heads."""
        return model.of_heads(max(self.head_counts), min(model.d_model, d_head))

    @model_validator(mode="after")
    def _sorted(self) -> Self:
        object.__setattr__(self, "head_counts", tuple(sorted(set(self.head_counts))))
        return self


class Capacity(_Protocol):
    """The bits that a model can hold: trained to convergence on a library about twice as large, and extrapolated.

    Where a library is not given it has twice the bits that are expected; where more than 70 % of its bits are known at
    the end, and it is drawn, one of twice the size follows.
    """

    one_library: ClassVar[bool] = True
    follows: ClassVar[str] = "a library of twice the size follows one of which over 70% is known"
    counted: ClassVar[str] = "recalled"
    not_of: ClassVar[str | None] = "pairs"
    compared: ClassVar[Compared | None] = None

    protocol: Literal["capacity"] = "capacity"
    restarts: Annotated[
        int,
        Field(
            ge=2,
            le=MOST_TRAININGS,
            description="Restarts: initial weights anew, the library the same; their mean and spread count.",
        ),
    ] = 3

    def words(self) -> str:
        """How a count is made of trainings, in words."""
        return f"the bits known at convergence, over {self.restarts} restarts on one library"

    def libraries(self, sizes: Collection[int]) -> str:
        """The first sizes that are tried, in words."""
        return f"libraries of {listed(sizes)} or more"

    @property
    def most_trainings(self) -> int:
        """The restarts; of a larger library there are as many again."""
        return self.restarts

    def usual_training(self, model: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Eight cycles at most, until one adds too little; and SOAP as it won, where no optimizer is given."""
        first = given.get("cycle_steps") or CYCLES["cycle_steps"]
        return CYCLES | {"max_steps": first * (2**MOST_CYCLES - 1)} | (RECIPE if "optimizer" not in given else {})

    def usual_library(self, task: Any, model: Any) -> int | None:
        """Items that have twice the bits that are expected of the model."""
        expected = EXPECTED_DENSITY * model.product_parameters(**task.sizes())
        return max(math.ceil(2 * expected / task.information_per_item()), 2)

    def refuse(self, task: Any, training: Training) -> None:
        """Only trainings that can converge, on tasks with probabilities."""
        if not task.has_probabilities:
            raise ValueError(
                f"protocol: 'capacity' counts bits, and task {task.task!r} gives no probabilities of items"
            )
        if not task.information_per_item():
            raise ValueError("library: its items have one answer only, so that they have no bits to be held")
        if training.schedule != "cycles":
            raise ValueError(f"schedule: protocol 'capacity' trains in 'cycles', got {training.schedule!r}")
        if training.cycle_tolerance is None:
            raise ValueError(
                "cycle_tolerance: protocol 'capacity' trains until a cycle adds less than this share, got none"
            )


PROTOCOLS: dict[str, type[Mac] | type[Mls] | type[Shatter] | type[Budget] | type[Capacity]] = {
    str(kind.model_fields["protocol"].default): kind for kind in (Mac, Mls, Shatter, Budget, Capacity)
}
ProtocolName = Literal["mac", "mls", "shatter", "budget", "capacity"]
Protocol = Annotated[Mac | Mls | Shatter | Budget | Capacity, Field(discriminator="protocol")]
