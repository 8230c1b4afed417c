"""Where jobs run: one small contract, and two executors that keep it, local processes and this process alone.

Contract. A job is some runs that train together. `submit` takes one (at most `slots` are in flight), `wait` reports
what has ended: every job exactly once, with its measurements or with why there are none; `running` counts those that
were submitted and not yet reported. A job that dies, raises or finds no memory harms no other. `stop` asks the jobs in
flight to write their checkpoints and end (they are reported as stopped), and what is submitted once they have ended
runs as before; `close` ends everything at once. Results do not depend on the executor.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from ctypes import c_bool, c_int
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import torch

from capax import interrupts, machine
from capax.devices import VISIBLE, Device
from capax.errors import LONGEST, CapaxError, said
from capax.protocols.perform import perform, perform_together
from capax.results import Measurement
from capax.specs import Run
from capax.specs.spec import whole
from capax.sweeps import packs
from capax.training.ensemble import AtOnce, one
from capax.training.loop import Interrupted
from capax.training.workers import OutOfMemory, Workers

Trouble = Literal["died", "timeout", "unstarted", "memory", "raised", "stopped"]


@dataclass(frozen=True)
class Job:
    """Runs that train together.

    Attributes:
        runs: equal but for their seeds; one, for a protocol that searches.
        device: `cpu`, `cuda` or `mps`.
        checkpoints: the folder for the checkpoints of these and of all runs that are equal to them but for their seeds.
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
        trouble: the process died, its time was up, no process could start, memory ran out, the training raised, or it
            was stopped from outside.
        message: the error, on one line.
        pack_size: members that train together best, where this was measured; those that memory ran out with.
    """

    job: Job
    measurements: tuple[Measurement, ...] = ()
    trouble: Trouble | None = None
    message: str = ""
    pack_size: int | None = None


class Executor(ABC):
    """Runs jobs; a context manager that closes it."""

    slots: int
    device: Device | None = None
    """Where its jobs compute, if not on a device of this machine."""

    @property
    @abstractmethod
    def running(self) -> int:
        """Jobs that were submitted and not yet reported."""

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Start a job; at most `slots` may be in flight."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Report]:
        """The jobs that ended since the last call; after `seconds` at the latest, unless it does them itself."""

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


def local(workers: int, gpus: tuple[str, ...] = ()) -> Executor:
    """Local processes; with one worker this process, so that no script is imported again, unless its GPU is named.

    Raises:
        SpecError: for less than one worker.
    """
    return Here() if workers == 1 and not gpus else Processes(workers, gpus)


def usual_workers(device: str, gpus: tuple[str, ...]) -> int:
    """Local processes where nothing is said: one per GPU, or one per core but at most 8."""
    return min(machine.cores(), 8) if device == "cpu" else max(len(gpus), 1)


class Here(Executor):
    """Runs one job at a time, in this process; Ctrl-C waits until the job has written its checkpoint."""

    slots = 1

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._reports: list[Report] = []
        self._stopping = False

    @property
    def running(self) -> int:
        """Jobs that were submitted and not yet reported."""
        return len(self._jobs) + len(self._reports)

    def submit(self, job: Job) -> None:
        """Take a job; `wait` does it."""
        if not self.running:
            self._stopping = False
        self._jobs.append(job)

    def wait(self, seconds: float) -> list[Report]:
        """Do a job, however long it takes."""
        with interrupts.deferred():
            if self._jobs:
                self._reports.append(self._do(self._jobs[0]))
                self._jobs.pop(0)
        reports, self._reports = self._reports, []
        return reports

    def _do(self, job: Job) -> Report:
        try:
            return do(job, lambda: self._stopping or interrupts.waiting())
        except Exception as error:  # as of a process
            return Report(job, trouble="raised", message=said(error, LONGEST))

    def stop(self) -> None:
        """Ask the job to write its checkpoint and end."""
        self._stopping = True

    def close(self) -> None:
        """Forget the jobs."""
        self._jobs, self._reports = [], []


class Processes(Executor):
    """Local processes, one torch thread each. Each has a pool of its own: if one dies the others are unaffected.

    Where fewer jobs are left than there are processes, each computes micro-batches on the cores of those that idle,
    which changes no bit.

    Args:
        workers: processes.
        gpus: which they are shared out among, by their names for CUDA: with as many processes as GPUs each has its own.
    """

    def __init__(self, workers: int, gpus: tuple[str, ...] = ()) -> None:
        machine.end_if_imported_by_a_worker()
        machine.check_script()
        self.slots = whole("workers", workers)
        self._context = multiprocessing.get_context("spawn")
        self._stopping, self._started = (self._context.RawValue(c_bool, False) for _ in range(2))
        self._cores = self._context.RawValue(c_int, 1)  # of each job
        self._idle: list[ProcessPoolExecutor] = []
        self._gpus, self._gpu_of = gpus, dict[ProcessPoolExecutor, str]()
        self._running: dict[Future[Report], tuple[Job, ProcessPoolExecutor]] = {}

    @property
    def running(self) -> int:
        """Jobs that were submitted and not yet reported."""
        return len(self._running)

    def submit(self, job: Job) -> None:
        """Start a job in an idle process, or in a new one."""
        if not self._running:
            self._stopping.value = False
        pool = self._idle.pop() if self._idle else self._pool()
        with machine.starting_workers():
            try:
                future = pool.submit(_do_in_worker, job)
            except BrokenProcessPool:  # it died while it was idle
                self._discard(pool)
                pool = self._pool()
                future = pool.submit(_do_in_worker, job)
        self._running[future] = (job, pool)
        self._share_cores()

    def _share_cores(self) -> None:
        cores = 1 if self._gpus else min(self.slots, machine.cores())
        self._cores.value = max(cores // max(len(self._running), 1), 1)

    def _pool(self) -> ProcessPoolExecutor:
        gpu = least_used(self._gpus, [*self._gpu_of.values()])
        shared = (self._stopping, self._started, self._cores, gpu)
        pool = ProcessPoolExecutor(1, mp_context=self._context, initializer=_start_worker, initargs=shared)
        if gpu is not None:
            self._gpu_of[pool] = gpu
        return pool

    def _discard(self, pool: ProcessPoolExecutor) -> None:
        """Leave a pool whose process is gone; its GPU is free."""
        pool.shutdown(wait=False)
        self._gpu_of.pop(pool, None)

    def wait(self, seconds: float) -> list[Report]:
        """The jobs that ended; the process of a job that died is replaced."""
        done, _ = wait(self._running, timeout=seconds, return_when=FIRST_COMPLETED)
        reports = []
        for future in done:
            job, pool = self._running.pop(future)
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                self._discard(pool)
                if self._started.value:
                    reports.append(Report(job, trouble="died", message="its process died (killed, or out of memory?)"))
                else:
                    reports.append(Report(job, trouble="unstarted", message=machine.UNSTARTED))
            elif error is not None:
                self._idle.append(pool)
                reports.append(Report(job, trouble="raised", message=said(error, LONGEST)))
            else:
                self._idle.append(pool)
                reports.append(future.result())
        self._share_cores()
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
        self._idle, self._running, self._gpu_of = [], {}, {}


def least_used(gpus: Sequence[str], taken: Sequence[str]) -> str | None:
    """The GPU for another process: the first of those that fewest have; None where there is none."""
    return min(gpus, key=taken.count, default=None)


def do(job: Job, stopping: Callable[[], bool], cores: AtOnce = one) -> Report:
    """Do a job in this process, on as many cores as there are for it now."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _done(job, stopping, cores)
    finally:
        torch.set_num_threads(before)


def _done(job: Job, stopping: Callable[[], bool], cores: AtOnce) -> Report:
    def watch(_: Any) -> None:
        if stopping():
            raise Interrupted

    size, measured = job.pack_size, None
    try:
        pack = packs.whole_pack(job.runs, job.device)
        if size is None and packs.worth_measuring(job.runs[0], len(pack.members)):
            size = measured = packs.best_size_once(pack, packs.shape_of(job.runs[0], job.device), job.checkpoints)
        with Workers(1, pack_size=size, cores=cores) as workers:
            if len(job.runs) == 1:
                found = [perform(job.runs[0], workers, job.device, watch, False, job.checkpoints)[0]]
            else:
                found = perform_together(job.runs, workers, job.device, watch, job.checkpoints)
    except Interrupted:
        return Report(job, trouble="stopped")
    except (OutOfMemory, MemoryError) as error:
        return Report(job, trouble="memory", message=said(error, LONGEST), pack_size=size)
    except (CapaxError, ArithmeticError, RuntimeError, ValueError, OSError) as error:
        return Report(job, trouble="raised", message=said(error, LONGEST))
    return Report(job, tuple(found), pack_size=measured)


_stopping: Any
_cores: Any


def _start_worker(stopping: Any, started: Any, cores: Any, gpu: str | None) -> None:
    """Set up a worker: Ctrl-C and what ends like it are the driver's, and it ends when the driver is gone."""
    global _stopping, _cores
    if gpu is not None:  # read when CUDA is first used, so that `cuda` is this one
        os.environ[VISIBLE] = gpu
    _stopping, _cores = stopping, cores
    for number in (signal.SIGINT, *interrupts.ENDINGS):  # a scheduler sends them to every process of a job
        signal.signal(number, signal.SIG_IGN)
    machine.end_with_parent()
    sys.stdout = sys.stderr  # the driver's is for its result
    started.value = True


def _do_in_worker(job: Job) -> Report:
    return do(job, lambda: bool(_stopping.value), lambda: int(_cores.value))
