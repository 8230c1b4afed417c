"""When a member stops, and what it reached."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from capax.specs import Training

StopReason = Literal["complete", "plateau", "budget", "diverged"]
DIVERGED_LOSS = 10.0
"""A mean loss beyond this many times that of a uniform guess counts as diverged, as one that is not finite does."""


@dataclass
class Record:
    """One member's training so far: its curve, its best evaluation, and whether it has stopped.

    Attributes:
        curve: `(epoch, memorized, loss)` at each evaluation; the loss is the mean over the epochs since the last one
            (None before the first step).
    """

    library_size: int
    curve: list[tuple[int, int, float | None]] = field(default_factory=list)
    best: int = -1
    best_epoch: int = 0
    lowest_loss: float = math.inf
    stale: int = 0
    steps: int = 0
    stop_reason: StopReason | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the last evaluation."""
        return self.curve[-1][0] if self.curve else 0

    def observe(self, epoch: int, memorized: int, loss: float | None, training: Training, uniform_loss: float) -> bool:
        """Note an evaluation and decide; returns whether it is the best so far."""
        self.curve.append((epoch, memorized, loss if loss is not None and math.isfinite(loss) else None))
        if loss is not None and not loss <= DIVERGED_LOSS * uniform_loss:
            self.best = max(self.best, 0)
            self.stop_reason = "diverged"
            return False
        better = memorized > self.best
        lower = loss is not None and loss < self.lowest_loss * (1 - training.min_loss_drop)
        if better:
            self.best, self.best_epoch = memorized, epoch
        if loss is not None and lower:
            self.lowest_loss = loss
        self.stale = 0 if better or lower else self.stale + 1
        if memorized == self.library_size:
            self.stop_reason = "complete"
        elif self.stale >= training.patience:
            self.stop_reason = "plateau"
        elif training.max_epochs is not None and epoch >= training.max_epochs:
            self.stop_reason = "budget"
        return better
