"""A run as its protocol says: the trainings of each, and the measurement that comes of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from capax import devices
from capax.protocols.assemble import assemble
from capax.protocols.budget import budget
from capax.protocols.capacity import capacity
from capax.protocols.count import Count
from capax.protocols.mac import best_of_restarts, mac
from capax.protocols.mls import mls
from capax.protocols.progress import Callback, Tracker
from capax.protocols.shatter import shatter
from capax.results import Measurement
from capax.specs import Budget, Capacity, Mac, Mls, Model, Run, Shatter
from capax.training.pack import Outcome, Pack
from capax.training.room import refuse_too_large
from capax.training.workers import Workers

PROCEDURES: dict[type, Callable[..., Count]] = {
    Mac: mac,
    Mls: mls,
    Shatter: shatter,
    Budget: budget,
    Capacity: capacity,
}
"""What each protocol does: called with a run, its protocol, and what trains its members."""


def perform(
    run: Run,
    workers: Workers,
    device: str,
    progress: Callback | None = None,
    keep_weights: bool = False,
    checkpoints: Path | None = None,
) -> tuple[Measurement, list[Outcome]]:
    """Do a run, and return its measurement and the outcomes of its trainings, that which counts first.

    Args:
        checkpoints: a folder where trainings leave their state: a run that was killed goes on from there, and its
            seconds and time limit count those before. The caller removes it once the measurement is kept.
    """
    run.task.refuse_faults()
    refuse_too_large(run, device)
    trainer = _Trainer([run], workers, device, Tracker(progress, run), keep_weights, checkpoints)
    count = PROCEDURES[type(run.protocol)](run, run.protocol, trainer)
    others = [outcome for outcome in count.outcomes if outcome is not count.best]
    return assemble(run, count, trainer.seconds, device), [count.best, *others]


def perform_together(
    runs: Sequence[Run],
    workers: Workers,
    device: str,
    progress: Callback | None = None,
    checkpoints: Path | None = None,
) -> list[Measurement]:
    """Do MAC runs that differ in their seeds alone, all their restarts in one pack.

    Each measurement is that of the run by itself (on the CPU bit for bit) but for its `seconds`: the time of all,
    divided by the number of runs. A time limit is for each run, so the pack has as many times the seconds. Where the
    last digits may depend on the pack (a single restart, a GPU, compiled code, a user's module, some processors), a
    note names the seeds that trained together.

    Args:
        checkpoints: as in `perform`.

    Raises:
        ValueError: for runs of another protocol, that differ in more than their seeds, or that have equal seeds.
    """
    if not runs or any(not run.protocol.together for run in runs):
        raise ValueError("runs: at least one, and only of protocol 'mac', train together")
    if len({run.replace(seed=0).key() for run in runs}) > 1:
        raise ValueError("runs: only runs that differ in nothing but their seed train together")
    if len({run.seed for run in runs}) < len(runs):
        raise ValueError("runs: each needs a seed of its own to train together")
    refuse_too_large(runs[0], device)
    trainer = _Trainer(runs, workers, device, Tracker(progress, None), checkpoints=checkpoints)
    protocol: Any = runs[0].protocol
    counts = best_of_restarts(runs, protocol, trainer)
    exact = device == "cpu" and not runs[0].training.compile and runs[0].model.exact
    exact = exact and len(counts[0].outcomes) > 1 and devices.rounds_batches_alike()
    seeds = ", ".join(str(run.seed) for run in runs)
    packed = () if exact or len(runs) == 1 else (f"pack: trained with seeds {seeds}",)
    seconds = trainer.seconds / len(runs)
    return [assemble(run, count, seconds, device, packed) for run, count in zip(runs, counts, strict=True)]


class _Trainer:
    """Trains what a protocol asks for, on one clock; runs that differ in their seeds alone share packs.

    Attributes:
        seconds_before: time that went into the trainings before this process took them up.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        workers: Workers,
        device: str,
        tracker: Tracker,
        keep_weights: bool = False,
        checkpoints: Path | None = None,
    ) -> None:
        self._runs, self._workers, self._device, self._tracker = runs, workers, device, tracker
        self._keep_weights, self._checkpoints = keep_weights, checkpoints
        self._started, self.seconds_before = time.monotonic(), 0.0

    @property
    def seconds(self) -> float:
        """Time since the runs began, in whatever process."""
        return time.monotonic() - self._started + self.seconds_before

    def __call__(
        self,
        members: Sequence[int],
        sizes: Sequence[int],
        one_library: bool,
        model: Model | None = None,
        d_heads: Sequence[int] | None = None,
    ) -> list[Outcome]:
        """Train some members of each run; outcomes run by run.

        Args:
            model: another one than the runs'.
            d_heads: the members' head sizes, where these differ.
        """
        run, times = self._runs[0], len(self._runs)
        limit = run.training.time_limit
        pack = Pack(
            run.task,
            model or run.model,
            run.training,
            tuple(run.seed for run in self._runs for _ in members),
            tuple(members) * times,
            tuple(sizes) * times,
            largest=max(sizes),
            mixed=len(set(sizes)) > 1,
            one_library=one_library,
            device=self._device,
            seconds=None if limit is None else max(limit * times - self.seconds, 0.0),
            keep_weights=self._keep_weights,
            d_heads=None if d_heads is None else tuple(d_heads) * times,
        )
        self._tracker.begin(len(pack.members))
        outcomes = self._workers.train(pack, self._tracker, self._checkpoints)
        self.seconds_before += sum(outcome.seconds_before for outcome in outcomes) / self._workers.busy
        return outcomes
