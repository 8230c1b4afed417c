"""Jobs on a Ray cluster, as plain tasks (extra `ray`)."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import threading
from typing import Any

from capax import interrupts
from capax.errors import LONGEST, CapaxError, SpecError, said, shown
from capax.specs.spec import whole
from capax.sweeps.executors import Executor, Job, Report, do

CONNECT_SECONDS = 5
LEAST_SHARE = 1e-4
"""Ray counts shares of a GPU in these."""


class ClusterError(CapaxError):
    """The package of a cluster is not installed, there is no such cluster, or it has not what is asked for."""


class RayTasks(Executor):
    """Each job is a Ray task on one CPU (or one GPU); a job of a node that is lost is reported as died.

    Nodes need this package and, for runs that go on after a fault, the store's folder (for the checkpoints).

    Args:
        address: `local` for a cluster on this machine that ends with the executor, `HOST:PORT` of a running one, or
            `auto` for the one that runs on this machine, or that RAY_ADDRESS names.
        device: `cuda` takes a GPU per job, `auto` one where the cluster has any.
        slots: most jobs in flight; for `local` also its CPUs. As many as fit the cluster when not given.
        gpus_per_run: the share of a GPU that a job takes, `num_gpus` of Ray's tasks: with 0.25, four jobs share one.

    Raises:
        ClusterError: when Ray is not installed, nothing answers at the address, or the cluster has no such device.
        SpecError: for a share that is not above 0 and at most 1, or where jobs take no GPU.
    """

    def __init__(
        self, address: str, device: str = "cpu", slots: int | None = None, gpus_per_run: float | None = None
    ) -> None:
        if device not in ("auto", "cpu", "cuda"):
            raise SpecError(f"device: 'auto', 'cpu' or 'cuda' on a Ray cluster, got {shown(device)}")
        if slots is not None:
            whole("workers", slots)
        if gpus_per_run is not None:
            if device == "cpu":
                raise SpecError(f"gpus_per_run: needs device 'cuda', got {shown(gpus_per_run)}")
            if isinstance(gpus_per_run, bool | str) or not LEAST_SHARE <= gpus_per_run <= 1:
                raise SpecError(f"gpus_per_run: above 0 and at most 1, by {LEAST_SHARE}, got {shown(gpus_per_run)}")
        try:
            ray = importlib.import_module("ray")
        except ImportError:
            raise ClusterError("ray: is not installed; pip install 'capax[ray]'") from None
        _check_address(address)
        self._ray: Any = ray
        before = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(
                address=address,
                num_cpus=slots if address == "local" else None,
                include_dashboard=False if address == "local" else None,
                log_to_driver=False,
                logging_level="ERROR",
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ClusterError(f"ray: cannot connect to {address!r}: {said(error, LONGEST)}") from None
        if before is interrupts.end:  # Ray's own handler would end the sweep without its checkpoints
            signal.signal(signal.SIGTERM, before)
        there = ray.cluster_resources()
        self.device = "cuda" if device == "cuda" or (device == "auto" and there.get("GPU", 0) >= 1) else "cpu"
        unit = "GPU" if self.device == "cuda" or gpus_per_run is not None else "CPU"
        share = 1.0 if gpus_per_run is None else gpus_per_run
        found = int(there.get(unit, 0)) * jobs_each(share)
        self.slots = found if slots is None else min(found, slots)
        if self.slots == 0:
            self.close()
            raise ClusterError(f"ray: the cluster at {address!r} has no {unit}")
        needs = {"num_cpus": 1, "num_gpus": share if self.device == "cuda" else 0, "max_retries": 0}
        self._task = ray.remote(**needs)(_do_on_node)
        self._running: dict[Any, Job] = {}

    @property
    def running(self) -> int:
        """Jobs that were submitted and not yet reported."""
        return len(self._running)

    def submit(self, job: Job) -> None:
        """Start a task."""
        self._running[self._task.remote(job)] = job

    def wait(self, seconds: float) -> list[Report]:
        """The tasks that ended."""
        if not self._running:
            return []
        done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        return [self._report(reference, self._running.pop(reference)) for reference in done]

    def _report(self, reference: Any, job: Job) -> Report:
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except exceptions.TaskCancelledError:
            return Report(job, trouble="stopped")
        except exceptions.OutOfMemoryError as error:
            return Report(job, trouble="memory", message=said(error, LONGEST))
        except exceptions.RayTaskError as error:
            return Report(job, trouble="raised", message=said(error, LONGEST))
        except exceptions.RayError as error:
            return Report(job, trouble="died", message=said(error, LONGEST))

    def stop(self) -> None:
        """Interrupt the tasks: they write their checkpoints and end."""
        for reference in self._running:
            self._ray.cancel(reference, force=False)

    def close(self) -> None:
        """Leave the cluster; tasks in flight are ended."""
        for reference in getattr(self, "_running", {}):
            self._ray.cancel(reference, force=True)
        self._running = {}
        self._ray.shutdown()


def jobs_each(share: float) -> int:
    """Jobs that fit one GPU, of which each takes a share; Ray counts in ten-thousandths."""
    return round(1 / LEAST_SHARE) // round(share / LEAST_SHARE)


def _check_address(address: str) -> None:
    """Fail at once where nothing answers; Ray itself would try for minutes."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or "local"  # without it Ray looks among this machine's processes
    if address == "local":
        return
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal():
        raise ClusterError(f"ray: 'auto', 'local' or HOST:PORT, got {address!r}")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(f"ray: nothing answers at {address!r}: {error}") from None


def _do_on_node(job: Job) -> Report:
    """Do a job in a task. Ray cancels with an interrupt; here it only asks for a checkpoint and an end."""
    asked = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: asked.set())
    try:
        return do(job, asked.is_set)
    finally:
        signal.signal(signal.SIGINT, before)
