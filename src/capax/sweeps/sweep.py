"""Sweeps: every run of a study exactly once, whatever happens on the way."""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from capax import machine
from capax.errors import SpecError, SweepFailed
from capax.results import Measurement
from capax.specs import Mac, Run
from capax.specs.spec import whole
from capax.store import Store
from capax.sweep_lock import Standing
from capax.sweeps.executors import Executor, Job, Processes, Report
from capax.sweeps.grid import read_study, shapes
from capax.sweeps.packs import shape_of

if TYPE_CHECKING:
    from capax.laws.law import Law

WAIT_SECONDS = 1.0


@dataclass(frozen=True)
class SweepProgress:
    """Where a sweep stands.

    Attributes:
        total: runs of the study.
        stored: of these, those that were in the store before.
        done, running, failed: of the others.
        memorized: items that the finished runs recalled.
        seconds_left: until the end, by the pace so far; None before the first run is done.
    """

    total: int
    stored: int
    done: int
    running: int
    failed: int
    memorized: int
    seconds_left: float | None


Watch = Callable[[SweepProgress], None]


def sweep(
    study: Path | str | Iterable[Run],
    store: Store | Path | str | None = None,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    device: str = "auto",
    retries: int = 1,
    keep_going: bool = True,
    progress: Watch | None = None,
    allow_many: bool = False,
) -> Iterator[Measurement]:
    """Do every run of a study that its store lacks, and yield all its runs: stored ones first, then as they come.

    A run is written to the store before it is yielded. What was killed is done when the sweep is started again; long
    runs go on from their checkpoints (`<store>-checkpoints`), with the same result. `KeyboardInterrupt` asks the runs
    in flight to write theirs, and is then raised anew; a second one ends everything at once.

    Args:
        study: a study file (`read_study`), or the runs themselves.
        store: where finished runs are kept; the study file's own when not given.
        executor: where runs are done; local processes when not given. It is left open when it was given.
        workers: local processes; one per core, at most 8, when not given (one on a GPU).
        device: `auto`, `cpu` or `cuda`.
        retries: how often a run whose process died, or that found no memory, is tried again.
        keep_going: go on when a run has failed; its error is kept in the store.
        progress: called with a `SweepProgress` when something has changed.
        allow_many: allow study files of more than a million runs.

    Raises:
        StudyError: for a study file that is not allowed.
        StoreError: for a store that cannot be used, or that another sweep is using.
        SweepFailed: when a run failed and `keep_going` is False.
    """
    runs, place = _runs_and_store(study, store, allow_many)
    _check(retries)
    where = machine.choose_device(device)
    with ExitStack() as stack:
        opened = place if isinstance(place, Store) else stack.enter_context(Store(place))
        record = stack.enter_context(opened.sweeping())
        if executor is None:
            executor = stack.enter_context(Processes(_processes(workers, where)))

        def tell(seen: SweepProgress) -> None:
            record(Standing(seen.total, seen.stored, seen.done, seen.running, seen.failed))
            if progress is not None:
                progress(seen)

        yield from _Sweep(runs, opened, executor, where, retries, keep_going, tell).run()


def sweep_adaptively(
    study: Path | str | Iterable[Run],
    store: Store | Path | str | None = None,
    *,
    law: Law,
    budget: float,
    target: Mapping[str, Sequence[float]] | None = None,
    until: float | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    device: str = "auto",
    retries: int = 1,
    progress: Watch | None = None,
    allow_many: bool = False,
) -> Iterator[Measurement]:
    """Of a study's runs, do those that tell most of a law at a target, per second, until a budget is spent.

    Runs that the store holds are known from the start and cost nothing. Costs are taken from a few timed steps of each
    shape, then from what runs took; see `capax.sweeps.adapt` for the choice. Yields new measurements as they come.

    Args:
        law: the law to be, not fitted.
        budget: seconds of training, summed over workers.
        target: the law's columns for the architectures whose prediction is wanted; the study's largest value of each
            when not given.
        until: end when half the interval of the law's mean at the target, on the log scale, is as narrow.

    The other arguments and what is raised are as in `sweep`.
    """
    from capax.sweeps.adapt import adaptive, candidate_table
    from capax.sweeps.preview import estimate_seconds

    runs, place = _runs_and_store(study, store, allow_many)
    _check(retries)
    where = machine.choose_device(device)
    with ExitStack() as stack:
        opened = place if isinstance(place, Store) else stack.enter_context(Store(place))
        record = stack.enter_context(opened.sweeping())
        if executor is None:
            executor = stack.enter_context(Processes(_processes(workers, where)))
        kept = executor

        done = memorized = failed = 0

        def tell(batch: SweepProgress) -> None:
            """The state of all batches so far: how many runs there will be is not known, so no time is told."""
            seen = replace(
                batch,
                total=len(runs),
                stored=len(known),
                done=done + batch.done,
                failed=failed + batch.failed,
                memorized=memorized + batch.memorized,
                seconds_left=None,
            )
            record(Standing(None, seen.stored, seen.done, seen.running, seen.failed))
            if progress is not None:
                progress(seen)

        def run_batch(batch: list[Run]) -> Iterator[Measurement]:
            nonlocal done, memorized, failed
            found = []
            for run in _Sweep(tuple(batch), opened, kept, where, retries, True, tell).run():
                found.append(run)
                yield run
            done, memorized = done + len(found), memorized + sum(run.memorized for run in found)
            failed += len(batch) - len(found)

        known = [found for run in runs if (found := opened.get(run.key())) is not None]
        offered = candidate_table(runs)
        yield from adaptive(
            law,
            runs,
            {name: [float(np.max(offered[name]))] for name in law.columns} if target is None else target,
            run_batch,
            lambda run: estimate_seconds(run, where),
            budget=budget,
            count=2 * executor.slots,
            until=until,
            measured=known,
        )


def _runs_and_store(
    study: Path | str | Iterable[Run], store: Store | Path | str | None, allow_many: bool
) -> tuple[tuple[Run, ...], Store | Path | str]:
    if isinstance(study, Path | str):
        read = read_study(study, allow_many=allow_many)
        runs, store = read.runs, store or read.store
    else:
        runs = tuple({run.key(): run for run in study}.values())
    if store is None:
        raise SpecError("store: a sweep needs one: give a file, or name it in the study")
    return runs, store


def _check(retries: int) -> None:
    whole("retries", retries, 0)


def _processes(workers: int | None, device: str) -> int:
    return (1 if device == "cuda" else min(machine.cores(), 8)) if workers is None else workers


class _Sweep:
    """One sweep under way."""

    def __init__(
        self,
        runs: tuple[Run, ...],
        store: Store,
        executor: Executor,
        device: str,
        retries: int,
        keep_going: bool,
        progress: Watch,
    ) -> None:
        self._runs, self._store, self._executor, self._device = runs, store, executor, device
        self._retries, self._keep_going, self._progress = retries, keep_going, progress
        self._checkpoints = store.path.with_name(store.path.name + "-checkpoints")
        self._queue: deque[Job] = deque()
        self._tries: dict[str, int] = {}
        self._pack_sizes: dict[str, int] = {}
        self._started = time.monotonic()
        self._stored = self._done = self._running = self._failed = self._memorized = 0

    def run(self) -> Iterator[Measurement]:
        known = self._store.keys()
        missing = tuple(run for run in self._runs if run.key() not in known)
        self._stored = len(self._runs) - len(missing)
        for run in self._runs:
            if run.key() in known and (found := self._store.get(run.key())) is not None:
                self._memorized += found.memorized
                yield found
        self._pack_sizes = self._store.pack_sizes()
        self._queue.extend(map(self._job, together(missing)))
        self._tell()
        try:
            while self._queue or self._running:
                while self._queue and self._running < self._executor.slots:
                    self._executor.submit(self._queue.popleft())
                    self._running += 1
                    self._tell()
                yield from self._take(self._executor.wait(WAIT_SECONDS))
        except (KeyboardInterrupt, SweepFailed):
            self._queue.clear()
            self._executor.stop()
            while self._running:
                yield from self._take(self._executor.wait(WAIT_SECONDS))
            raise
        if self._failed == 0:
            shutil.rmtree(self._checkpoints, ignore_errors=True)

    def _take(self, reports: Iterable[Report]) -> Iterator[Measurement]:
        for report in reports:
            self._running -= 1
            for measurement in report.measurements:
                self._store.add(measurement)
                self._done += 1
                self._memorized += measurement.memorized
            if report.measurements and report.job.checkpoints is not None:
                shutil.rmtree(report.job.checkpoints, ignore_errors=True)
            if report.pack_size is not None:
                self._store.remember_pack_size(shape_of(report.job.runs[0], self._device), report.pack_size)
            if report.trouble in ("died", "memory") and self._again(report):
                continue
            if report.trouble not in (None, "stopped"):
                self._fail(report)
            self._tell()
            yield from report.measurements

    def _job(self, runs: tuple[Run, ...]) -> Job:
        folder = self._checkpoints / runs[0].key()
        return Job(runs, self._device, folder, self._pack_sizes.get(shape_of(runs[0], self._device)))

    def _again(self, report: Report) -> bool:
        """Try a job once more: a pack that was too large (or that something killed) in halves, a run as it was."""
        runs = report.job.runs
        if len(runs) > 1:
            half = len(runs) // 2
            self._queue.extend(map(self._job, (runs[:half], runs[half:])))
            return True
        key = runs[0].key()
        self._tries[key] = self._tries.get(key, 0) + 1
        if self._tries[key] > self._retries:
            return False
        self._queue.append(report.job)
        return True

    def _fail(self, report: Report) -> None:
        for run in report.job.runs:
            self._store.fail(run, report.message)
            self._failed += 1
        if not self._keep_going:
            self._tell()
            raise SweepFailed(f"run {report.job.runs[0].key()[:12]} failed: {report.message}")

    def _tell(self) -> None:
        left = len(self._runs) - self._stored - self._done - self._failed
        pace = (time.monotonic() - self._started) / self._done if self._done else None
        self._progress(
            SweepProgress(
                total=len(self._runs),
                stored=self._stored,
                done=self._done,
                running=self._running,
                failed=self._failed,
                memorized=self._memorized,
                seconds_left=None if pace is None else pace * left,
            )
        )


MOST_MEMBERS = 32
"""Members of runs that are equal but for their seed train together, up to so many."""


def together(runs: tuple[Run, ...]) -> Iterator[tuple[Run, ...]]:
    """Runs cut into those that train together."""
    for same in shapes(runs):
        protocol = same[0].protocol
        together = max(MOST_MEMBERS // protocol.restarts, 1) if isinstance(protocol, Mac) else 1
        for start in range(0, len(same), together):
            yield same[start : start + together]
