"""How far a measurement is, from the states of its members."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from capax.results import Measurement
from capax.specs import Run
from capax.training.pack import Status


@dataclass(frozen=True)
class Progress:
    """A measurement under way.

    Attributes:
        members: latest state of each member that has begun.
        total: members known so far (a search adds more).
        seconds: since the measurement began, or went on from its checkpoints.
        seconds_left: until it ends if no member improves any more; None before the first epoch.
        run: what is measured; None where runs of several seeds train together.
        epochs: of all members since then.
    """

    members: tuple[Status, ...]
    total: int
    seconds: float
    seconds_left: float | None
    run: Run | None = None
    epochs: int = 0

    @property
    def seconds_in_all(self) -> float | None:
        """Those since it began and those that are left."""
        return None if self.seconds_left is None else self.seconds + self.seconds_left

    @property
    def done(self) -> int:
        """Members that have stopped."""
        return sum(status.stop_reason is not None for status in self.members)

    @property
    def leader(self) -> Status:
        """The member that has recalled the largest share of its library."""
        return max(self.members, key=lambda status: status.memorized / status.library_size)


Callback = Callable[[Progress], None]


@runtime_checkable
class Finishing(Protocol):
    """A callback that is given the run, too, once it is measured and stored."""

    def finish(self, run: Measurement) -> None:
        """Take a finished run."""


def finish(callback: object, run: Measurement) -> None:
    """Give a finished run to a callback that takes it."""
    if isinstance(callback, Finishing):
        callback.finish(run)


class Tracker:
    """Gathers states from packs and passes a `Progress` on."""

    def __init__(self, callback: Callback | None, run: Run | None) -> None:
        self._callback, self._run = callback, run
        self._started = time.monotonic()
        self._states: dict[tuple[int, int], Status] = {}
        self._earlier: list[Status] = []
        self._total = 0
        self._before = 0  # epochs of earlier processes, whose seconds are not counted

    def begin(self, members: int) -> None:
        """So many more are to be trained; numbers of earlier ones may come again."""
        self._earlier.extend(self._states.values())
        self._states = {}
        self._total += members

    def __call__(self, states: list[Status]) -> None:
        """Take the latest states of some members."""
        if self._callback is None:
            return
        found = {(status.seed, status.member): status for status in states}
        self._before += sum(status.epoch for key, status in found.items() if key not in self._states)
        self._states |= found
        seconds = time.monotonic() - self._started
        members = (*self._earlier, *self._states.values())
        reached = sum(status.epoch for status in members)
        done = reached - self._before
        # Members not begun are taken to need as many epochs as the others' mean.
        expected = sum(status.epoch + status.epochs_left for status in members) * self._total / len(members)
        left = None if done == 0 else seconds * (expected - reached) / done
        self._callback(Progress(members, self._total, seconds, left, self._run, done))
