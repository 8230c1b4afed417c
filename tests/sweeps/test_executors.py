"""Local processes keep the executors' contract, and what is theirs alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

import capax
from capax.sweeps.executors import Executor, Job, Processes
from capax.testing import ExecutorSuite
from capax.testing.executors import all_reports, endless, small


@pytest.fixture(scope="module")
def executor() -> Iterator[Processes]:
    with Processes(2) as executor:
        yield executor


class TestProcesses(ExecutorSuite):
    @pytest.fixture
    def ending(self) -> Iterator[Executor]:
        with Processes(1) as executor:
            yield executor

    def test_a_killed_process_loses_its_job_alone(self, executor: Processes) -> None:
        executor.submit(Job((endless(),)))
        while not executor._started.value:
            executor.wait(0.05)
        (future,) = executor._running
        (process,) = executor._running[future][1]._processes
        executor.submit(Job((small(),)))
        os.kill(process, signal.SIGKILL)
        reports = {report.job.runs[0]: report for report in all_reports(executor, 2)}
        assert reports[endless()].trouble == "died"
        assert reports[small()].trouble is None
        executor.submit(Job((small(1),)))
        executor.submit(Job((small(2),)))
        assert all(report.trouble is None for report in all_reports(executor, 2))


def test_workers_must_be_some() -> None:
    with pytest.raises(capax.CapaxError, match=r"^workers: .*got 0"):
        Processes(0)
