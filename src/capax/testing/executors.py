"""What every executor does: the contract of `capax.sweeps.executors`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from capax.protocols.measure import measure
from capax.specs import Capacity, Mac, Run, Sequences, Training, Transformer
from capax.sweeps.executors import Executor, Job, Report

PATIENCE = 120
"""Seconds that a report may take."""


def all_reports(executor: Executor, count: int) -> list[Report]:
    """The next reports, in any order."""
    reports: list[Report] = []
    deadline = time.monotonic() + PATIENCE
    while len(reports) < count:
        assert time.monotonic() < deadline, "a job was not reported"
        reports += executor.wait(1.0)
    assert executor.wait(0.0) == []
    return reports


class ExecutorSuite:
    """Tests that every executor passes; it asks for a fixture `executor` with two slots, which it does not close."""

    @pytest.fixture
    def ending(self, executor: Executor) -> Executor:
        """One that a test may end; another one, where tests share theirs."""
        return executor

    def test_jobs_are_reported_once_with_the_results_of_measure(self, executor: Executor) -> None:
        jobs = [Job((run,)) for run in (small(), capacity(seed=1))]
        for job in jobs:
            executor.submit(job)
        reports = all_reports(executor, 2)
        assert {report.job for report in reports} == set(jobs)
        for report in reports:
            assert report.trouble is None
            (found,), run = report.measurements, report.job.runs[0]
            alone = measure(run.task, run.model, run.training, protocol=run.protocol, seed=run.seed, device="cpu")
            assert found.model_copy(update={"seconds": 0.0}) == alone.model_copy(update={"seconds": 0.0})

    def test_runs_of_one_shape_train_together(self, executor: Executor) -> None:
        executor.submit(Job(tuple(small(seed) for seed in range(3))))
        (report,) = all_reports(executor, 1)
        assert [found.spec.seed for found in report.measurements] == [0, 1, 2]
        alone = [measure(r.task, r.model, r.training, restarts=2, seed=r.seed, device="cpu") for r in report.job.runs]
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
        deadline = time.monotonic() + PATIENCE
        while not list(tmp_path.rglob("*.safetensors")):
            assert time.monotonic() < deadline, "it writes no checkpoint"
            assert ending.wait(0.1) == []
        ending.stop()
        (report,) = all_reports(ending, 1)
        assert report.trouble == "stopped"
        assert report.measurements == ()
        assert list(tmp_path.rglob("*.safetensors")), "it left a checkpoint"
        ending.submit(Job((small(),)))
        (report,) = all_reports(ending, 1)
        assert report.trouble is None, "what is submitted after a stop runs"

    def test_closing_ends_everything(self, ending: Executor) -> None:
        ending.submit(Job((endless(),)))
        ending.wait(1.0)
        ending.close()
        assert ending.wait(0.0) == []


def small(seed: int = 0, epochs: int = 3, library_size: int = 40) -> Run:
    """A run of a fraction of a second."""
    return Run(
        task=Sequences(seq_len=4, vocab_size=10, library_size=library_size),
        model=Transformer(d_model=8, d_head=8),
        training=Training(max_epochs=epochs),
        protocol=Mac(restarts=2),
        seed=seed,
    )


def capacity(seed: int = 0) -> Run:
    """Another one, of the bits that the network can hold."""
    return small(seed).replace(training=Training(cycle_steps=5, max_steps=35), protocol=Capacity(restarts=2))


def endless(seed: int = 0) -> Run:
    """A run that does not end by itself while a test lasts."""
    return small(seed, epochs=10_000_000, library_size=900).replace(
        training=Training(max_epochs=10_000_000, patience=10_000_000)
    )


def impossible() -> Run:
    """A run that finds no memory: one of its weights would take 160 GB."""
    return small().replace(model=Transformer(d_model=200_000, d_head=200_000))
