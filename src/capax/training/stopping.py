"""When a member stops, and its best evaluation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from capax.results import StopReason
from capax.specs import Training
from capax.tasks.library import Evaluation

DIVERGED_LOSS = 10.0
"""A mean loss beyond this many times the larger of a uniform guess's and the first step's counts as diverged, as one
that is not finite does: a network may start far off, and learn."""


class Information(NamedTuple):
    """What a member knows about its library: how far its code for the items is below log2 of a uniform guess, in bits.

    Attributes:
        clipped: summed over the items that it codes better than the guess does.
        signed: summed over all items.
        recalled: which rows of the library are recalled, a bit each, as hexadecimal digits; empty where the task does
            not break its counts down.
    """

    clipped: float
    signed: float
    recalled: str = ""


class CycleEnd(NamedTuple):
    """Where a member is at the end of a cycle of its learning rate.

    Attributes:
        epochs, steps: since the start.
        memorized: items that it recalls.
        bits, signed_bits: `Information.clipped` and `Information.signed`.
    """

    epochs: int
    steps: int
    memorized: int
    bits: float
    signed_bits: float


def converged_at(ends: Sequence[float], tolerance: float) -> int | None:
    """The number of the cycle, from 1, that first changed the most known before by less than a share; None if none.

    It is the third at the earliest: two gains tell whether they shrink.

    Args:
        ends: bits known at the ends of cycles.
        tolerance: the share.
    """
    most = ends[0] if ends else 0.0
    for number, bits in enumerate(ends[1:], 2):
        if number > 2 and abs(bits - most) < tolerance * most:
            return number
        most = max(most, bits)
    return None


@dataclass
class Record:
    """One member's training so far: its curve, its best evaluation, and whether it has stopped.

    Attributes:
        curve: `(epoch, memorized, loss)` at each evaluation; the loss is the mean over the epochs since the last one
            (None before the first step); epochs are whole ones.
        budget: steps until it stops, if there is such a budget.
        first_loss: of its first step; None before that, and in older checkpoints.
        highest: the most items that any evaluation recalled.
        score, metrics: how good the best evaluation was, and what else the task measures there.
        complete: whether an evaluation left nothing to learn.
        information: what it knew at its best evaluation, once it has stopped.
        cycles: the ends of its cycles, where its learning rate has any; then the best evaluation is one of these.
    """

    library_size: int
    budget: int | None = None
    curve: list[tuple[int, int, float | None]] = field(default_factory=list)
    best: int = -1
    best_epoch: int = 0
    highest: int = -1
    score: tuple[float, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
    complete: bool = False
    first_loss: float | None = None
    lowest_loss: float = math.inf
    stale: int = 0
    steps: int = 0
    stop_reason: StopReason | None = None
    information: Information | None = None
    cycles: list[CycleEnd] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.highest = max([self.highest, *(count for _, count, _ in self.curve)])  # older checkpoints have none

    @property
    def epoch(self) -> int:
        """The epoch of the last evaluation."""
        return self.curve[-1][0] if self.curve else 0

    def observe(
        self,
        epoch: int,
        evaluation: Evaluation,
        loss: float | None,
        training: Training,
        uniform_loss: float,
        cycle: Literal["within", "end"] | None = None,
        out_of_time: bool = False,
        information: Information | None = None,
    ) -> bool:
        """Note an evaluation and decide; returns whether it is the best so far.

        Args:
            cycle: where in a cycle of the learning rate it is. Within one it is the best only where the training ends
                with it; at the end of one `observe_cycle` says whether it is.
            out_of_time: whether the training ends here.
            information: what is known, where the loss of the whole library says which evaluation is the best.
        """
        memorized = evaluation.memorized
        finite = loss is None or math.isfinite(loss)
        self.curve.append((epoch, memorized, loss if finite else None))
        risen = loss is not None and loss > DIVERGED_LOSS * max(uniform_loss, self.first_loss or 0.0)
        if not finite or (risen and not evaluation.complete):
            self.best = max(self.best, 0)
            self.stop_reason = "diverged"
            return False
        more = memorized > self.highest
        self.highest = max(self.highest, memorized)
        lower = loss is not None and loss < self.lowest_loss * (1 - training.min_loss_drop)
        if loss is not None and lower:
            self.lowest_loss = loss
        self.stale = 0 if more or lower else self.stale + 1
        self.complete = self.complete or evaluation.complete
        if self.complete and training.stop_when_complete:
            self.stop_reason = "complete"
        elif training.patience is not None and self.stale >= training.patience:
            self.stop_reason = "complete" if self.complete else "plateau"
        elif out_of_time or (self.budget is not None and self.steps >= self.budget):
            self.stop_reason = "complete" if self.complete else "budget"
        counts = cycle is None or (cycle == "within" and self.stop_reason is not None)
        score = evaluation.score
        if training.best_by == "loss":
            score = (-math.inf if information is None else information.signed,)
        better = counts and score > self.score
        if better:
            self.best, self.best_epoch, self.metrics = memorized, epoch, evaluation.metrics
            self.score = score
            self.information = None  # what a cycle's end knew is not what is kept now
        return better

    def observe_cycle(self, evaluation: Evaluation, information: Information | None, training: Training) -> bool:
        """Note where a cycle ended, after `observe`; returns whether it is the best end so far."""
        if self.stop_reason == "diverged" or information is None:
            self.best, self.stop_reason = max(self.best, 0), "diverged"
            return False
        before = max((end.bits for end in self.cycles), default=0.0)
        self.cycles.append(
            CycleEnd(self.epoch, self.steps, evaluation.memorized, information.clipped, information.signed)
        )
        gained, later = information.clipped - before, len(self.cycles) > 1
        done = self.stop_reason == "complete" and training.stop_when_complete
        tolerance = None if done else training.cycle_tolerance
        if tolerance is not None and converged_at([end.bits for end in self.cycles], tolerance) == len(self.cycles):
            self.stop_reason = "converged"
        if later and gained <= 0 and self.stop_reason != "complete":
            return False
        self.best, self.best_epoch, self.metrics = evaluation.memorized, self.epoch, evaluation.metrics
        self.score, self.information = evaluation.score, information
        return True
