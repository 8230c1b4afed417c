"""What every executor does: the contract, to be inherited."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs import endless, impossible, small

import capax
from capax.sweeps.executors import Executor, Job, Processes, Report

PATIENCE = 120


def all_reports(executor: Executor, count: int) -> list[Report]:
    """The next reports, in any order."""
    reports: list[Report] = []
    deadline = time.monotonic() + PATIENCE
    while len(reports) < count:
        assert time.monotonic() < deadline, "a job was not reported"
        reports += executor.wait(1.0)
    assert executor.wait(0.0) == []
    return reports


class ExecutorContract:
    """Tests that any executor passes; a subclass gives `executor` with two slots."""

    @pytest.fixture
    def ending(self, executor: Executor) -> Executor:
        """One that a test may end; another one, where tests share theirs."""
        return executor

    def test_jobs_are_reported_once_with_the_results_of_measure(self, executor: Executor) -> None:
        jobs = [Job((small(seed),)) for seed in range(2)]
        for job in jobs:
            executor.submit(job)
        reports = all_reports(executor, 2)
        assert {report.job for report in reports} == set(jobs)
        for report in reports:
            assert report.trouble is None
            (found,), run = report.measurements, report.job.runs[0]
            alone = capax.measure(run.task, run.model, run.training, restarts=2, seed=run.seed, device="cpu")
            assert found.model_copy(update={"seconds": 0.0}) == alone.model_copy(update={"seconds": 0.0})

    def test_runs_of_one_shape_train_together(self, executor: Executor) -> None:
        executor.submit(Job(tuple(small(seed) for seed in range(3))))
        (report,) = all_reports(executor, 1)
        assert [found.spec.seed for found in report.measurements] == [0, 1, 2]
        alone = [
            capax.measure(r.task, r.model, r.training, restarts=2, seed=r.seed, device="cpu") for r in report.job.runs
        ]
        assert [f.members for f in report.measurements] == [a.members for a in alone]

    def test_a_job_without_memory_harms_no_other(self, executor: Executor) -> None:
        executor.submit(Job((impossible(),)))
        executor.submit(Job((small(),)))
        reports = {report.job.runs[0]: report for report in all_reports(executor, 2)}
        assert reports[small()].trouble is None
        assert reports[impossible()].trouble in ("memory", "raised", "died")
        assert reports[impossible()].message
        assert "\n" not in reports[impossible()].message

    def test_stopped_jobs_are_reported_and_go_on_from_their_checkpoints(self, ending: Executor, tmp_path: Path) -> None:
        ending.submit(Job((endless(),), checkpoints=tmp_path))
        assert ending.wait(2.0) == []
        ending.stop()
        (report,) = all_reports(ending, 1)
        assert report.trouble == "stopped"
        assert report.measurements == ()
        assert list(tmp_path.rglob("*")), "it left a checkpoint"

    def test_closing_ends_everything(self, ending: Executor) -> None:
        ending.submit(Job((endless(),)))
        ending.wait(1.0)
        ending.close()
        assert ending.wait(0.0) == []


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with Processes(2) as executor:
        yield executor


class TestProcesses(ExecutorContract):
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

        code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from jobs import endless
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
    with pytest.raises(capax.CapaxError, match="workers: at least 1, got 0"):
        Processes(0)
