"""Jobs of a batch scheduler such as Slurm, through submitit (extra `submitit`).

submitit shares no memory with its jobs, but a folder that all nodes see: it pickles the job there, and the job its
report. A job goes on for as long as a file there says that its driver wants it; without the file it writes its
checkpoints and ends. A driver that was killed cannot remove its file: its jobs go on to their end, and what they
reached is in the checkpoints, where the next driver's jobs, which wait until the members are free, find it.
"""

from __future__ import annotations

import importlib
import logging
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from capax import machine
from capax.errors import LONGEST, SpecError, said, shown
from capax.specs.spec import whole
from capax.sweeps.cluster import ClusterError
from capax.sweeps.executors import Executor, Job, Report, do

CLUSTERS = ("slurm", "local")
MOST_IN_QUEUE = 64
POLL_SECONDS = 0.25
GRACE_SECONDS = 15.0
"""A shared file system may show a file so much later than the scheduler says that its job has ended."""
WANTED = "wanted"
ALONE = ("nodes", "tasks_per_node", "ntasks_per_node")
DEFAULTS = {"name": "capax", "timeout_min": 60, "cpus_per_task": 1}


class SubmititJobs(Executor):
    """Each job is one of a batch scheduler, on one CPU or one GPU.

    A job that meets its time limit, or is preempted, writes its checkpoint and is reported as died: a sweep submits it
    again, and it resumes.

    Args:
        folder: for jobs, their reports and logs, on a file system that all nodes see; one sweep at a time.
        cluster: `slurm`, or `local` for processes of this machine, to try it without a scheduler.
        device: `cuda` takes a GPU per job; `auto` is `cpu`, since nobody knows here what the nodes have.
        slots: most jobs in the queue; 64 on Slurm, one per core locally when not given.
        parameters: of `submitit.AutoExecutor.update_parameters`, such as `timeout_min` (60 when not given), `mem_gb`,
            `slurm_partition`.

    Raises:
        ClusterError: when submitit is not installed, there is no Slurm here, or it does not know a parameter.
        SpecError: for another cluster, or parameters that ask for more than one process.
    """

    def __init__(
        self,
        folder: Path | str,
        cluster: str = "slurm",
        device: str = "cpu",
        slots: int | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        if cluster not in CLUSTERS:
            raise SpecError(f"submitit: {' or '.join(CLUSTERS)}, got {shown(cluster)}")
        for name in parameters or {}:
            if name.removeprefix(f"{cluster}_") in ALONE:
                raise SpecError(f"submitit: a job is one process on one node, so that {name} cannot be given")
        if device not in ("auto", "cpu", "cuda"):
            raise SpecError(f"device: 'auto', 'cpu' or 'cuda' with submitit, got {shown(device)}")
        self.device = "cuda" if device == "cuda" else "cpu"
        self.slots = (machine.cores() if cluster == "local" else MOST_IN_QUEUE) if slots is None else slots
        whole("workers", self.slots)
        try:
            submitit = importlib.import_module("submitit")
        except ImportError:
            raise ClusterError("submitit: is not installed; pip install 'capax[submitit]'") from None
        logging.getLogger("submitit").setLevel(logging.CRITICAL)  # it would write on stdout
        self._folder = Path(folder).absolute()
        self._session = self._folder / uuid.uuid4().hex
        self._local = cluster == "local"
        self._has_lost = False
        gpu = {"gpus_per_node": 1} if self.device == "cuda" else {}
        try:
            self._executor: Any = submitit.AutoExecutor(self._session, cluster=cluster)
            self._executor.update_parameters(**DEFAULTS | gpu | dict(parameters or {}))
        except (RuntimeError, ValueError, NameError, TypeError, AssertionError, OSError) as error:
            self._leave()
            raise ClusterError(f"submitit: {error}") from None
        self._running: dict[Any, Job] = {}
        self._cancelled: set[Any] = set()
        self._given_up: dict[Any, float] = {}
        self._stopping = False

    @property
    def running(self) -> int:
        """Jobs that were submitted and not yet reported."""
        return len(self._running)

    def submit(self, job: Job) -> None:
        """Submit a job.

        Raises:
            ClusterError: when the scheduler refuses it.
        """
        wanted = self._session / WANTED
        if not self._running and not wanted.exists():  # not before: only now does the sweep hold its store
            for other in self._folder.glob(f"*/{WANTED}"):  # of drivers that were killed
                other.unlink(missing_ok=True)
            self._session.mkdir(parents=True, exist_ok=True)
            wanted.touch()
            self._stopping = False
        try:
            with machine.starting_workers():  # the driver tells local jobs of Ctrl-C, as those on other nodes
                handle = self._executor.submit(_do_in_job, job, wanted)
        except (RuntimeError, OSError) as error:
            raise ClusterError(f"submitit: {error}") from None
        self._running[handle] = job

    def wait(self, seconds: float) -> list[Report]:
        """The jobs that ended, looked for in the folder."""
        deadline = time.monotonic() + seconds
        while True:
            reports = [report for handle in list(self._running) if (report := self._report(handle)) is not None]
            left = deadline - time.monotonic()
            if reports or not self._running or left <= 0:
                return reports
            time.sleep(min(left, POLL_SECONDS))

    def _report(self, handle: Any) -> Report | None:
        """How a job ended; None when it has not."""
        job = self._running[handle]
        if handle in self._cancelled:
            report = Report(job, trouble="stopped")
        elif not handle.done():
            return None
        elif handle.paths.result_pickle.exists():
            report = self._read(handle, job)
        elif not self._local and time.monotonic() < self._given_up.setdefault(handle, time.monotonic() + GRACE_SECONDS):
            return None
        else:
            report = Report(job, trouble="died", message=f"its job died: {self._last_line(handle)}")
        del self._running[handle]
        return report

    def _read(self, handle: Any, job: Job) -> Report:
        try:
            report = handle.result()
        except Exception:  # what kept the job from its start, such as a package that the node lacks
            return Report(job, trouble="raised", message=self._last_line(handle))
        for path in (handle.paths.submission_file, handle.paths.submitted_pickle, handle.paths.result_pickle):
            path.unlink(missing_ok=True)
        if report.trouble == "stopped" and not self._stopping:
            return Report(job, trouble="timeout", message="its time was up, or it was preempted (timeout_min?)")
        return report

    def stop(self) -> None:
        """Ask the jobs to write their checkpoints and end; those that wait in the queue are cancelled."""
        self._stopping = True
        (self._session / WANTED).unlink(missing_ok=True)
        for handle in self._running:
            if not self._local and not handle.paths.stdout.exists():
                handle.cancel(check=False)
                self._cancelled.add(handle)

    def close(self) -> None:
        """Cancel all jobs; local ones end within seconds."""
        (self._session / WANTED).unlink(missing_ok=True)
        for handle in self._running:
            handle.cancel(check=False)
        while self._local and not all(handle.done() for handle in self._running):
            time.sleep(POLL_SECONDS)
        self._running = {}
        self._leave()

    def _leave(self) -> None:
        """Remove the folder of this driver, but for the logs of jobs that were lost."""
        if not self._has_lost:
            shutil.rmtree(self._session, ignore_errors=True)
        with suppress(OSError):  # there are logs of others
            self._folder.rmdir()

    def _last_line(self, handle: Any) -> str:
        """The last words of a job that was lost; its log is kept."""
        self._has_lost = True
        log, lines = handle.paths.stderr, [""]
        with suppress(OSError):
            lines += [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        return f"{lines[-1][:300] or 'without a word'} (log: {log})"


def _do_in_job(job: Job, wanted: Path) -> Report:
    """Do a job on a node, until it is done, unwanted, or told that its time is nearly up."""
    told: list[int] = []
    for name in ("SIGTERM", "SIGUSR2"):  # of the scheduler, before it kills; submitit's own handlers would end at once
        signal.signal(getattr(signal, name), lambda number, _: told.append(number))
    looked = 0.0

    def stopping() -> bool:
        nonlocal looked
        if not told and time.monotonic() - looked > POLL_SECONDS:
            looked = time.monotonic()
            if not wanted.exists():
                told.append(0)
        return bool(told)

    try:
        with _alone(job, stopping) as alone:
            return do(job, stopping) if alone else Report(job, trouble="stopped")
    except Exception as error:  # as of a process
        return Report(job, trouble="raised", message=said(error, LONGEST))


@contextmanager
def _alone(job: Job, stopping: Callable[[], bool]) -> Iterator[bool]:
    """Wait until no other job trains these members in the folder of their checkpoints; whether that was waited for.

    Such a job has a driver that was killed.
    """
    with ExitStack() as stack:
        for seed in sorted(run.seed for run in job.runs):
            if job.checkpoints is None:
                break
            job.checkpoints.mkdir(parents=True, exist_ok=True)
            while True:
                if stopping():
                    yield False
                    return
                with suppress(Timeout):
                    stack.enter_context(FileLock(job.checkpoints / f"{seed}.lock", timeout=POLL_SECONDS).acquire())
                    break
        yield True
