"""A running sweep: the order of its jobs, what it stores, and how it handles failures."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Container, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from capax.errors import CapaxError, StoreError, StoreWriteError, SweepFailed, TrackerError
from capax.interrupts import EndedAtOnce, deferred
from capax.protocols.measure import labelled, stored_labelled
from capax.protocols.progress import finish
from capax.results import Measurement
from capax.specs import Run
from capax.specs.labels import UNCALLED, Labels
from capax.store import Store
from capax.store.lock import SweepProgress as SweepProgress
from capax.store.lock import Watch as Watch
from capax.store.store import KEPT
from capax.sweeps.executors import Executor, Job, Report
from capax.sweeps.grid import shapes
from capax.sweeps.packs import shape_of
from capax.training import checkpoints

WAIT_SECONDS = 1.0
THE_REST = "the same sweep does the others"
"""Noted on an interrupt, after `KEPT`."""


class UnderWay:
    """One running sweep.

    Attributes:
        dead: runs that failed because their process died.
    """

    def __init__(
        self,
        runs: tuple[Run, ...],
        store: Store,
        executor: Executor,
        device: str,
        retries: int,
        keep_going: bool,
        progress: Watch,
        labels: Labels = UNCALLED,
    ) -> None:
        self._runs, self._store, self._executor, self._device = runs, store, executor, device
        self._retries, self._keep_going, self._progress, self._labels = retries, keep_going, progress, labels
        self._queue: deque[Job] = deque()
        self._reports: deque[Report] = deque()
        self._found: deque[Measurement] = deque()
        self._tries: dict[tuple[str, int], tuple[int, int]] = {}
        self._pack_sizes: dict[str, int] = {}
        self._kept: set[str] = set()
        self._unsaved: dict[str, None] = {}
        self._ending: CapaxError | None = None
        self._stopped = False
        self._started = time.monotonic()
        self._stored = self._done = self._failed = self._memorized = self._in_flight = self.dead = 0

    def run(self) -> Generator[Measurement]:
        """All runs, stored ones first. An interrupt says what is kept, and how the rest is done."""
        try:
            yield from self._run()
        except KeyboardInterrupt as error:
            error.add_note(KEPT)
            error.add_note(THE_REST)
            raise

    def _run(self) -> Generator[Measurement]:
        self._kept = self._store.keys()
        missing = tuple(run for run in self._runs if run.key() not in self._kept)
        self._stored = len(self._runs) - len(missing)
        for run in self._runs:
            if run.key() in self._kept and (found := self._store.get(run.key())) is not None:
                self._memorized += found.memorized
                yield stored_labelled(self._store, found, self._labels)
        self._pack_sizes = self._store.pack_sizes()
        self._queue.extend(map(self._job, together(missing)))
        try:
            self._tell()
            while self._queue or self._executor.running:
                while self._queue and self._executor.running < self._executor.slots:
                    with deferred():  # what was submitted is known to the executor
                        self._executor.submit(job := self._sized(self._queue.popleft()))
                        self._in_flight += len(job.runs)
                    self._tell()
                yield from self._ended()
                if self._ending is not None:
                    raise self._ending
            if missing:
                self._store.settle()
        except EndedAtOnce:
            raise
        except GeneratorExit:  # nobody takes what comes now, but it is stored
            self._drain()
            raise
        except (KeyboardInterrupt, CapaxError) as error:
            self._drain(error)
            yield from self._found
            raise
        self._tidy(missing)

    def _drain(self, error: BaseException | None = None) -> None:
        """Ask the jobs in flight to end, start no other, and store what comes; only a second Ctrl-C does not wait.

        Raises:
            StoreWriteError: for what could not be stored.
        """
        self._stopped = True
        self._queue.clear()
        self._executor.stop()
        interrupt = error if isinstance(error, KeyboardInterrupt) else None
        while self._executor.running or self._reports:
            try:
                self._handle_ended()
            except KeyboardInterrupt as another:
                if interrupt is not None or isinstance(another, EndedAtOnce):
                    raise
                interrupt = another
        if self._unsaved:
            raise self._not_kept(self._ending or error or SweepFailed("the loop was left")) from None
        if interrupt is not None and interrupt is not error:
            raise interrupt

    def _ended(self) -> Iterator[Measurement]:
        """The measurements of the jobs that end next."""
        self._handle_ended()
        while self._found:
            yield self._found.popleft()

    def _handle_ended(self) -> None:
        """Wait for jobs to end and store their measurements; interrupts are deferred, so that nothing is lost."""
        with deferred():
            ended = self._executor.wait(WAIT_SECONDS)
            self._in_flight -= sum(len(report.job.runs) for report in ended)
            self._reports.extend(ended)
            while self._reports:
                kept = self._take(self._reports[0])
                self._reports.popleft()
                self._found.extend(kept)
                try:
                    self._tell()
                except CapaxError as error:
                    self._ending = self._ending or error

    def _take(self, report: Report) -> list[Measurement]:
        job = report.job
        called = [labelled(measurement, self._labels) for measurement in report.measurements]
        kept = [measurement for measurement in called if self._keep(measurement)]
        if report.trouble is None and (size := report.pack_size or job.pack_size) is not None:
            shape = shape_of(job.runs[0], self._device)
            if size != self._pack_sizes.get(shape):  # measured now, or what memory was found for
                self._pack_sizes[shape] = size
                self._attempt(partial(self._store.remember_pack_size, shape, size))
        if kept:
            self._forget(job.runs[0])
        if report.trouble == "unstarted":
            self._ending = self._ending or SweepFailed(report.message)
        elif report.trouble == "stopped" and not self._stopped:  # Ctrl-C, which is then raised, or somebody else
            self._ending = self._ending or SweepFailed("a job was stopped from outside; it goes on from its checkpoint")
        elif report.trouble in ("died", "timeout", "memory", "raised") and not self._again(report):
            self._fail(report)
        return kept

    def _keep(self, measurement: Measurement) -> bool:
        """Store a measurement; whether it could be. One that could never be read again is a failed run."""
        try:
            written = self._attempt(partial(self._store.add, measurement))
        except StoreError as error:
            self._note_failed(measurement.spec, str(error))
            return False
        if not written:
            self._unsaved[measurement.key] = None
            return False
        if measurement.key not in self._kept:
            self._kept.add(measurement.key)
            self._done += 1
            self._memorized += measurement.memorized
        return True

    def _attempt(self, write: Callable[[], None]) -> bool:
        """Write something; a failure ends the sweep once all jobs that have ended are handled."""
        try:
            write()
        except StoreWriteError as error:
            self._ending = self._ending or error
            return False
        return True

    def _not_kept(self, error: BaseException) -> StoreWriteError:
        keys = ", ".join(key[:12] for key in self._unsaved)
        folder = self._store.checkpoints
        stay = f"their checkpoints stay in {folder}" if any(folder.rglob("*.*")) else "they have no checkpoints"
        return StoreWriteError(f"{error}; runs not kept: {keys}; {stay}")

    def _folder(self, run: Run) -> Path:
        return checkpoints.folder_of(run, self._store.checkpoints)

    def _job(self, runs: tuple[Run, ...]) -> Job:
        return Job(runs, self._device, self._folder(runs[0]))

    def _sized(self, job: Job) -> Job:
        """A job whose pack has the size that was measured, before this sweep or in it."""
        known = self._pack_sizes.get(shape_of(job.runs[0], self._device))
        return replace(job, pack_size=known) if job.pack_size is None else job

    def _again(self, report: Report) -> bool:
        """Try a job again: a pack that was too large (or was killed) in halves, a single run as it was.

        One that found no memory for its restarts is tried with half as many at once, down to two; a pack whose time was
        up goes on as it was, while its checkpoints advance.

        Deaths do not count against a run whose checkpoints have advanced since the last one.
        """
        runs = report.job.runs
        if report.trouble == "raised":
            return False
        key = runs[0].key(), len(runs)
        tries, before = self._tries.get(key, (0, 0))
        reached = sum(checkpoints.reached(self._folder(run), run.seed) for run in runs)
        if report.trouble == "timeout" and reached > before:
            self._tries[key] = (tries, reached)
            self._queue.append(report.job)
            return True
        if len(runs) > 1:
            half = len(runs) // 2
            self._queue.extend(map(self._job, (runs[:half], runs[half:])))
            return True
        members = runs[0].protocol.most_trainings
        size = min(report.pack_size or report.job.pack_size or members, members)
        if report.trouble == "memory" and size > 2:
            self._queue.append(replace(report.job, pack_size=max(size // 2, 2)))
            return True
        tries = 1 if report.trouble == "died" and reached > before else tries + 1
        self._tries[key] = (tries, reached)
        if tries > self._retries:
            return False
        self._queue.append(report.job)
        return True

    def _fail(self, report: Report) -> None:
        for run in report.job.runs:
            self._note_failed(run, report.message)
        if report.trouble in ("died", "timeout"):
            self.dead += len(report.job.runs)

    def _note_failed(self, run: Run, message: str) -> None:
        self._attempt(partial(self._store.fail, run, message))
        self._failed += 1
        if not self._keep_going:
            self._ending = self._ending or SweepFailed(f"run {run.key()[:12]} failed: {message}")

    def _forget(self, run: Run) -> None:
        """Remove the checkpoints of stored runs that share a run's folder."""
        checkpoints.forget(self._folder(run), lambda seed: run.replace(seed=seed).key() in self._kept)

    def _tidy(self, missing: tuple[Run, ...]) -> None:
        """Remove the checkpoints that this sweep, or one that was killed, left of stored runs."""
        for runs in (missing, self._runs):
            for folder, run in {self._folder(run): run for run in runs}.items():
                if folder.exists():
                    self._forget(run)
                    checkpoints.tidy(folder)
            try:
                self._store.checkpoints.rmdir()
            except FileNotFoundError:
                return
            except OSError:  # there are more: of other studies, of runs that failed, or of runs kept before
                continue

    def _tell(self) -> None:
        left = len(self._runs) - self._stored - self._done - self._failed
        pace = (time.monotonic() - self._started) / self._done if self._done else None
        self._progress(
            SweepProgress(
                total=len(self._runs),
                stored=self._stored,
                done=self._done,
                running=self._in_flight,
                failed=self._failed,
                memorized=self._memorized,
                seconds_left=None if pace is None else pace * left,
            )
        )


def reported(
    ended: Generator[Measurement], progress: Watch | None, known: Container[str] = ()
) -> Generator[Measurement]:
    """The measurements of a running sweep, each given to the `finish` of the progress as well, but for known ones.

    Raises:
        CapaxError: what `finish` raised (`telling`), after what is under way has ended as by Ctrl-C and kept its
            checkpoints.
    """
    with closing(ended):
        run = next(ended, None)
        while run is not None:
            failed: CapaxError | None = None
            try:
                if run.key not in known:
                    with telling():
                        finish(progress, run)
            except CapaxError as error:
                failed, progress = error, None
            yield run
            run = next(ended, None) if failed is None else ended.throw(failed)


@contextmanager
def telling() -> Iterator[None]:
    """Raise what somebody's progress raises as an error of capax, after which a sweep ends in order."""
    try:
        yield
    except CapaxError:
        raise
    except Exception as error:
        raise TrackerError(f"progress: {type(error).__name__}: {error}") from error


MOST_MEMBERS = 32
"""Members of runs that are equal but for their seed train together, up to so many."""


def together(runs: tuple[Run, ...]) -> Iterator[tuple[Run, ...]]:
    """The runs in groups that train together."""
    for same in shapes(runs):
        protocol = same[0].protocol
        count = max(MOST_MEMBERS // protocol.most_trainings, 1) if protocol.together else 1
        for start in range(0, len(same), count):
            yield same[start : start + count]
