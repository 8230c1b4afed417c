"""Where jobs are done: one small contract, and local processes that keep it.

Contract. A job is some runs that train together. `submit` takes one (at most `slots` are in flight), `wait` reports
what has ended: every job exactly once, with its measurements or with why there are none. A job that dies, raises or
finds no memory harms no other. `stop` asks the jobs in flight to write their checkpoints and end (they are reported as
stopped); `close` ends everything at once. Results do not depend on the executor.
"""

from __future__ import annotations

import multiprocessing
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from ctypes import c_bool
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from capax import machine
from capax.errors import CapaxError
from capax.results import Measurement
from capax.specs import Run
from capax.specs.spec import whole

Trouble = Literal["died", "memory", "raised", "stopped"]


@dataclass(frozen=True)
class Job:
    """Runs that train together.

    Attributes:
        runs: equal but for their seeds; one, for a protocol that searches.
        device: `cpu` or `cuda`.
        checkpoints: the folder for their checkpoints.
        pack_size: members that train together; measured where it is not known and worth it, see `packs`.
    """

    runs: tuple[Run, ...]
    device: str = "cpu"
    checkpoints: Path | None = None
    pack_size: int | None = None


@dataclass(frozen=True)
class Report:
    """How a job ended.

    Attributes:
        measurements: one per run, in order; none when there was trouble.
        trouble: the process died, memory was not to be had, the training raised, or it was stopped from outside.
        message: what went wrong, on one line.
        pack_size: members that train together best, where this was measured.
    """

    job: Job
    measurements: tuple[Measurement, ...] = ()
    trouble: Trouble | None = None
    message: str = ""
    pack_size: int | None = None


class Executor(ABC):
    """A place where jobs are done; a context manager that closes it."""

    slots: int

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Start a job; at most `slots` may be in flight."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Report]:
        """The jobs that ended since the last call; after `seconds` at the latest."""

    @abstractmethod
    def stop(self) -> None:
        """Ask the jobs in flight to write their checkpoints and end."""

    @abstractmethod
    def close(self) -> None:
        """End everything now."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Processes(Executor):
    """Local processes, one torch thread each. Each has a pool of its own: the death of one is the others' nothing.

    Args:
        workers: processes.
    """

    def __init__(self, workers: int) -> None:
        self.slots = whole("workers", workers)
        self._context = multiprocessing.get_context("spawn")
        self._stopping = self._context.RawValue(c_bool, False)
        self._idle: list[ProcessPoolExecutor] = []
        self._running: dict[Future[Report], tuple[Job, ProcessPoolExecutor]] = {}

    def submit(self, job: Job) -> None:
        """Start a job in an idle process, or in a new one."""
        pool = self._idle.pop() if self._idle else self._pool()
        with machine.starting_workers():
            try:
                future = pool.submit(_do_in_worker, job)
            except BrokenProcessPool:  # it died while it was idle
                pool = self._pool()
                future = pool.submit(_do_in_worker, job)
        self._running[future] = (job, pool)

    def _pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=self._context, initializer=_start_worker, initargs=(self._stopping,))

    def wait(self, seconds: float) -> list[Report]:
        """The jobs that ended; the process of a job that died is replaced."""
        done, _ = wait(self._running, timeout=seconds, return_when=FIRST_COMPLETED)
        reports = []
        for future in done:
            job, pool = self._running.pop(future)
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                pool.shutdown(wait=False)
                reports.append(Report(job, trouble="died", message="its process died (killed, or out of memory?)"))
            elif error is not None:
                self._idle.append(pool)
                reports.append(Report(job, trouble="raised", message=one_line(error)))
            else:
                self._idle.append(pool)
                reports.append(future.result())
        return reports

    def stop(self) -> None:
        """Ask the jobs in flight to write their checkpoints and end."""
        self._stopping.value = True

    def close(self) -> None:
        """End all processes now."""
        for pool in [*self._idle, *(pool for _, pool in self._running.values())]:
            for process in list((getattr(pool, "_processes", None) or {}).values()):
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)
        self._idle, self._running = [], {}


def do(job: Job, stopping: Callable[[], bool]) -> Report:
    """Do a job in this process."""
    import torch

    from capax.measures.measure import perform, perform_together
    from capax.sweeps import packs
    from capax.training.loop import Interrupted
    from capax.training.workers import OutOfMemory, Workers

    def watch(_: Any) -> None:
        if stopping():
            raise Interrupted

    torch.set_num_threads(1)
    size, measured = job.pack_size, None
    try:
        pack = packs.whole_pack(job.runs, job.device)
        if size is None and packs.worth_measuring(job.runs[0], len(pack.members)):
            size = measured = packs.best_size(pack)
        with Workers(1, pack_size=size) as workers:
            if len(job.runs) == 1:
                found = [perform(job.runs[0], workers, job.device, watch, False, job.checkpoints)[0]]
            else:
                found = perform_together(job.runs, workers, job.device, watch, job.checkpoints)
    except Interrupted:
        return Report(job, trouble="stopped")
    except (OutOfMemory, MemoryError) as error:
        return Report(job, trouble="memory", message=one_line(error) or "out of memory")
    except (CapaxError, ArithmeticError, RuntimeError, ValueError, OSError) as error:
        return Report(job, trouble="raised", message=one_line(error))
    return Report(job, tuple(found), pack_size=measured)


def one_line(error: BaseException) -> str:
    """An error on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]


_stopping: Any


def _start_worker(stopping: Any) -> None:
    """Set up a worker: Ctrl-C is the driver's, and it ends when the driver is gone."""
    global _stopping
    _stopping = stopping
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    machine.end_with_parent()


def _do_in_worker(job: Job) -> Report:
    return do(job, lambda: bool(_stopping.value))
