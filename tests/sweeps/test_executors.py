"""Local processes keep the executors' contract, and what is theirs alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

import capax
from capax import machine
from capax.sweeps.executors import Executor, Job, Processes, do
from capax.testing import ExecutorSuite
from capax.testing.executors import all_reports, endless, small


@pytest.fixture(scope="module")
def executor() -> Iterator[Processes]:
    with Processes(2) as executor:
        yield executor


@pytest.mark.slow
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

    def test_the_last_job_has_the_cores_of_those_that_ended(
        self, executor: Processes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(machine, "cores", lambda: 2)
        shares = []
        for seed in range(2):
            executor.submit(Job((small(seed),)))
            shares.append(executor._cores.value)
        all_reports(executor, 2)
        assert [*shares, executor._cores.value] == [2, 1, 2]


def test_a_job_asks_for_its_cores_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """They change no bit: tests of trainings compare them."""
    monkeypatch.setattr("capax.training.ensemble.CACHE_FLOATS", 1000)
    asked = []

    def cores() -> int:
        asked.append(1 + len(asked) % 2)
        return asked[-1]

    (one,), (other,) = (do(Job((small(),)), lambda: False, *given).measurements for given in ((), (cores,)))
    assert set(asked) == {1, 2}
    assert one.model_copy(update={"seconds": 0.0}) == other.model_copy(update={"seconds": 0.0})


def test_workers_must_be_some() -> None:
    with pytest.raises(capax.CapaxError, match=r"^workers: .*got 0"):
        Processes(0)
