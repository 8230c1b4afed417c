"""What a protocol makes of trainings, and what it may ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capax.results import CapacityEstimate, Interval, KeyDimensionSearch, Search, ShatterEpochs
from capax.specs import Model, Run

if TYPE_CHECKING:  # a page shows counts without torch
    from capax.training.pack import Outcome

Train = Callable[..., "list[Outcome]"]
"""Trains members of a run (`capax.protocols.perform`)."""


@dataclass(frozen=True)
class Count:
    """What a protocol counted, before units.

    Attributes:
        best: the training that counts.
        outcomes: all trainings.
        library_size: items that could have been recalled.
        model: that it is of, where the protocol searched for one of its sizes.
        of: items of the library that `memorized` is a count of, by which chance is reckoned.
        notes: what a reader must know of the count.
    """

    memorized: int
    best: Outcome
    outcomes: list[Outcome]
    library_size: int
    of: int
    interval: Interval | None = None
    search: Search | KeyDimensionSearch | None = None
    shatter: ShatterEpochs | None = None
    capacity: CapacityEstimate | None = None
    model: Model | None = None
    notes: tuple[str, ...] = ()


def out_of_time(outcome: Outcome, run: Run) -> bool:
    """Whether the time limit, and nothing else, ended a training."""
    training = run.training
    goes_on = not training.stop_when_complete and training.patience is None
    reasons = ("budget", "complete") if goes_on else ("budget",)
    return outcome.stop_reason in reasons and outcome.steps != run.budget_of(outcome.library_size)
