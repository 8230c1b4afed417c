"""Local processes keep the executors' contract, and what is theirs alone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import capax
from capax.sweeps.executors import Executor, Job, Processes
from capax.testing import ExecutorSuite
from capax.testing.executors import all_reports, endless, small


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with Processes(2) as executor:
        yield executor


class TestProcesses(ExecutorSuite):
    @pytest.fixture
    def ending(self) -> Iterator[Executor]:
        with Processes(1) as executor:
            yield executor

    def test_a_killed_process_loses_its_job_alone(self) -> None:
        with Processes(2) as executor:
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

    def test_processes_end_with_their_driver(self, tmp_path: Path) -> None:
        """A driver that is killed leaves no process behind."""
        import subprocess
        import sys

        code = """
from capax.testing.executors import endless
from capax.sweeps.executors import Job, Processes
if __name__ == "__main__":
    executor = Processes(1)
    executor.submit(Job((endless(),)))
    executor.wait(1.0)
    (future,) = executor._running
    print(*executor._running[future][1]._processes, flush=True)
    executor.wait(60)
"""
        script = tmp_path / "driver.py"
        script.write_text(code)
        with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as driver:
            assert driver.stdout is not None
            worker = int(driver.stdout.readline())
            driver.kill()
        deadline = time.monotonic() + 30
        while Path(f"/proc/{worker}").exists() and "Z" not in Path(f"/proc/{worker}/stat").read_text().split()[2]:
            assert time.monotonic() < deadline, "the worker lives on"
            time.sleep(0.1)


def test_workers_must_be_some() -> None:
    with pytest.raises(capax.CapaxError, match=r"^workers: .*got 0"):
        Processes(0)
