"""Sweeps: every run exactly once, whatever happens on the way."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from begun import begun
from study import STUDY

import capax
from capax.errors import SpecError, StoreError, StoreWriteError, SweepFailed, TrackerError
from capax.results import Measurement
from capax.sweeps.adaptive import sweep_adaptively
from capax.sweeps.executors import Executor, Here, Job, Report, do
from capax.sweeps.under_way import SweepProgress, together
from capax.testing.executors import impossible, small
from capax.training.checkpoints import folder_of


def timeless(runs: list[Measurement]) -> dict[str, Measurement]:
    return {run.key: run.model_copy(update={"seconds": 0.0}) for run in runs}


def study(tmp_path: Path, epochs: int = 3) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(epochs=epochs))
    return path


def stored(path: Path) -> list[Measurement]:
    with capax.Store(path, create=False) as store:
        return store.runs()


@pytest.mark.slow
def test_a_sweep_is_its_single_measurements(tmp_path: Path) -> None:
    seen: list[SweepProgress] = []
    runs = list(capax.sweep(study(tmp_path), workers=1, device="cpu", progress=seen.append))
    assert len(runs) == 12
    for run in runs[:4]:
        spec = run.spec
        alone = capax.measure(spec.task, spec.model, spec.training, restarts=2, seed=spec.seed, device="cpu")
        assert timeless([run]) == timeless([alone])
    assert timeless(stored(tmp_path / "s.db")) == timeless(runs)
    assert (seen[-1].done, seen[-1].running, seen[-1].failed, seen[-1].total) == (12, 0, 0, 12)
    assert seen[-1].memorized == sum(run.memorized for run in runs)
    assert not (tmp_path / "s.db-checkpoints").exists()


def test_only_what_is_missing_runs(tmp_path: Path) -> None:
    first = list(capax.sweep([small(0), small(1)], tmp_path / "s.db", workers=1, device="cpu"))
    seen: list[SweepProgress] = []
    again = list(capax.sweep([small(1), small(2)], tmp_path / "s.db", workers=1, device="cpu", progress=seen.append))
    assert again[0] == first[1]
    assert (seen[-1].stored, seen[-1].done) == (1, 1)
    assert len(stored(tmp_path / "s.db")) == 3


def test_what_is_there_is_given_with_the_labels_that_it_then_has(tmp_path: Path) -> None:
    list(capax.sweep([small()], tmp_path / "s.db", workers=1, device="cpu", name="mine", tags=["old"]))
    (again,) = capax.sweep([small()], tmp_path / "s.db", workers=1, device="cpu", tags=["new"])
    assert [again] == stored(tmp_path / "s.db")
    assert (again.name, set(again.tags)) == ("mine", {"old", "new"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"progress": 3}, "progress: a function of a SweepProgress, got 3"),
        ({"executor": 3}, "executor: one of capax.sweeps, or none, got 3"),
        ({"store": 3}, "store: a file, or an open capax.Store, got 3"),
        ({"keep_going": 3}, "keep_going: True or False, got 3"),
        ({"allow_many": "x"}, "allow_many: True or False, got 'x'"),
    ],
)
def test_arguments_are_checked_when_it_is_called(arguments: dict[str, Any], said: str, tmp_path: Path) -> None:
    given = {"store": tmp_path / "s.db", "workers": 1} | arguments
    with pytest.raises(SpecError, match=f"^{said}$"):
        capax.sweep([small()], **given)
    with pytest.raises(SpecError, match=f"^{said}$"):
        sweep_adaptively([small()], law=capax.ECM(), budget=1, **given)


def test_a_run_given_twice_runs_once(tmp_path: Path) -> None:
    assert len(list(capax.sweep([small(), small()], tmp_path / "s.db", workers=1, device="cpu"))) == 1


def test_a_run_that_fails_is_kept_with_its_error_and_tried_again_later(tmp_path: Path) -> None:
    runs = [impossible(), small()]
    found = list(capax.sweep(runs, tmp_path / "s.db", workers=1, device="cpu", retries=0))
    assert [run.spec for run in found] == [small()]
    with capax.Store(tmp_path / "s.db", create=False) as store:
        (failure,) = store.failures()
    assert failure.key == impossible().key()
    assert failure.attempts == 1
    assert failure.error
    list(capax.sweep(runs, tmp_path / "s.db", workers=1, device="cpu", retries=0))
    with capax.Store(tmp_path / "s.db", create=False) as store:
        assert store.failures()[0].attempts == 2
    with pytest.raises(SweepFailed, match=impossible().key()[:12]):
        list(capax.sweep(runs, tmp_path / "s.db", workers=1, device="cpu", retries=0, keep_going=False))


@pytest.mark.slow
def test_a_second_sweep_on_a_store_is_refused(tmp_path: Path) -> None:
    first = capax.sweep([small(0), small(1)], tmp_path / "s.db", workers=1, device="cpu")
    next(first)
    with pytest.raises(StoreError, match=str(os.getpid())):
        list(capax.sweep([small(2)], tmp_path / "s.db", workers=1, device="cpu"))
    first.close()
    assert len(list(capax.sweep([small(0), small(1)], tmp_path / "s.db", workers=1, device="cpu"))) == 2


def test_packs_hold_runs_equal_but_for_their_seed() -> None:
    runs = tuple(small(seed, epochs=epochs) for epochs in (3, 4) for seed in range(20))
    found = list(together(runs))
    assert sum(found, ()) == runs
    for pack in found:
        assert len({run.replace(seed=0).key() for run in pack}) == 1
        assert len(pack) * 2 <= 32


class Unlucky(Executor):
    """An executor whose jobs meet the troubles that it is told to, in turn, and are done when there are none left."""

    slots = 2

    def __init__(self, troubles: list[str]) -> None:
        self.troubles, self.jobs, self.sizes, self.stopped = troubles, list[Job](), list[int](), False
        self.pack_sizes: list[int | None] = []

    @property
    def running(self) -> int:
        return len(self.jobs)

    def submit(self, job: Job) -> None:
        assert len(self.jobs) < self.slots
        self.jobs.append(job)
        self.sizes.append(len(job.runs))
        self.pack_sizes.append(job.pack_size)

    def wait(self, seconds: float) -> list[Report]:
        job = self.jobs.pop(0)
        if self.troubles:
            return [Report(job, trouble=self.troubles.pop(0), message="as told")]  # type: ignore[arg-type]
        return [do(job, lambda: False)]

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None: ...


def test_a_pack_that_finds_no_memory_is_split(tmp_path: Path) -> None:
    executor = Unlucky(["memory", "memory"])
    runs = [small(seed) for seed in range(4)]
    seen: list[SweepProgress] = []
    found = list(capax.sweep(runs, tmp_path / "s.db", executor=executor, device="cpu", progress=seen.append))
    assert {run.spec for run in found} == set(runs)
    assert executor.sizes == [4, 2, 2, 1, 1]
    assert {state.running for state in seen} >= {0, 4, 2, 1}  # runs, not packs
    assert seen[-1].running == 0


def test_restarts_that_find_no_memory_together_are_tried_half_as_many_at_once(tmp_path: Path) -> None:
    executor = Unlucky(["memory"] * 2)
    run = small().replace(protocol=capax.Mac(restarts=7))
    (found,) = capax.sweep([run], tmp_path / "s.db", executor=executor, device="cpu")
    assert executor.pack_sizes == [None, 3, 2]
    assert [one.curve for one in found.members] == [
        one.curve for one in do(Job((run,)), lambda: False).measurements[0].members
    ]


def test_a_measured_pack_that_finds_no_memory_is_halved_from_its_size(tmp_path: Path) -> None:
    class Measuring(Unlucky):
        def wait(self, seconds: float) -> list[Report]:
            (report,) = super().wait(seconds)
            return [replace(report, pack_size=4)]

    executor = Measuring(["memory"])
    run = small().replace(protocol=capax.Mac(restarts=9))
    list(capax.sweep([run], tmp_path / "s.db", executor=executor, device="cpu"))
    assert executor.pack_sizes == [None, 2]
    with capax.Store(tmp_path / "s.db") as store:
        assert [*store.pack_sizes().values()] == [4]  # of the pack that found memory


def test_a_pack_size_is_measured_once_in_a_sweep(tmp_path: Path) -> None:
    class Measuring(Unlucky):
        def wait(self, seconds: float) -> list[Report]:
            (report,) = super().wait(seconds)
            return [replace(report, pack_size=2 if report.job.pack_size is None else None)]

    executor = Measuring([])
    executor.slots = 1
    runs = [small(epochs=epochs) for epochs in (2, 3, 4)]  # budgets change no step's time
    assert len(list(capax.sweep(runs, tmp_path / "s.db", executor=executor, device="cpu"))) == 3
    assert executor.pack_sizes == [None, 2, 2]


def test_an_executor_serves_another_sweep_after_one_that_failed(tmp_path: Path) -> None:
    class Finishing:
        def __call__(self, seen: SweepProgress) -> None: ...

        def finish(self, run: Measurement) -> None:
            raise OSError("no network")

    with Here() as executor:
        with pytest.raises(TrackerError, match=r"^progress: OSError: no network$"):
            list(capax.sweep([small(0)], tmp_path / "a.db", executor=executor, device="cpu", progress=Finishing()))
        found = list(capax.sweep([small(1), small(2)], tmp_path / "b.db", executor=executor, device="cpu"))
    assert len(found) == len(stored(tmp_path / "b.db")) == 2


def test_a_job_that_somebody_else_stops_ends_the_sweep(tmp_path: Path) -> None:
    with pytest.raises(SweepFailed, match=r"^a job was stopped from outside; it goes on from its checkpoint$"):
        list(capax.sweep([small()], tmp_path / "s.db", executor=Unlucky(["stopped"]), device="cpu"))


def test_a_loop_that_is_left_early_leaves_nothing_running(tmp_path: Path) -> None:
    executor = Unlucky([])
    runs = [small(epochs=epochs) for epochs in (2, 3, 4)]
    for _ in capax.sweep(runs, tmp_path / "s.db", executor=executor, device="cpu"):
        break
    assert executor.stopped
    assert executor.running == 0
    assert len(stored(tmp_path / "s.db")) == 2  # both that were in flight
    (found,) = capax.sweep([small(9)], tmp_path / "other.db", executor=executor, device="cpu")
    assert stored(tmp_path / "other.db") == [found]


@pytest.mark.parametrize("fails", ["finish", "progress"])
def test_a_loop_that_is_left_while_a_sweep_ends_leaves_nothing_running(fails: str, tmp_path: Path) -> None:
    class Failing:
        def __call__(self, seen: SweepProgress) -> None:
            if fails == "progress" and seen.done:
                raise ValueError("mine")

        def finish(self, run: Measurement) -> None:
            if fails == "finish":
                raise ValueError("mine")

    executor = Unlucky([])
    executor.slots = 3
    runs = [small(epochs=epochs) for epochs in (2, 3, 4, 5)]
    swept = capax.sweep(runs, tmp_path / "s.db", executor=executor, device="cpu", progress=Failing())
    with suppress(TrackerError):
        for number, _ in enumerate(swept):
            if number == 1:
                break
    swept.close()  # type: ignore[attr-defined]
    assert executor.running == 0
    assert len(stored(tmp_path / "s.db")) == 3


def test_runs_that_cannot_be_kept_are_named_when_a_loop_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept = capax.sweep([small(0, 2), small(1, 3)], tmp_path / "s.db", executor=Unlucky([]), device="cpu")
    next(swept)

    def full(self: capax.Store, measurement: Measurement) -> None:
        raise StoreWriteError("no room")

    monkeypatch.setattr(capax.Store, "add", full)
    with pytest.raises(StoreWriteError, match="runs not kept"):
        swept.close()  # type: ignore[attr-defined]


def test_what_memory_was_found_for_is_remembered(tmp_path: Path) -> None:
    executor = Unlucky(["memory"])
    executor.slots = 1
    runs = [small(epochs=epochs).replace(protocol=capax.Mac(restarts=8)) for epochs in (2, 3)]
    assert len(list(capax.sweep(runs, tmp_path / "s.db", executor=executor, device="cpu"))) == 2
    assert executor.pack_sizes == [None, None, 4] or executor.pack_sizes == [None, 4, 4]
    with capax.Store(tmp_path / "s.db") as store:
        assert [*store.pack_sizes().values()] == [4]


def test_a_progress_that_raises_loses_no_run(tmp_path: Path) -> None:
    class Both(Unlucky):
        def wait(self, seconds: float) -> list[Report]:
            return [report for _ in range(len(self.jobs)) for report in super(Both, self).wait(seconds)]

    def raising(seen: SweepProgress) -> None:
        if seen.done:
            raise ValueError("mine")

    runs = [small(epochs=epochs) for epochs in (2, 3)]
    with pytest.raises(TrackerError, match=r"^progress: ValueError: mine$"):
        list(capax.sweep(runs, tmp_path / "s.db", executor=Both([]), device="cpu", progress=raising))
    assert {run.spec for run in stored(tmp_path / "s.db")} == set(runs)


def test_a_pack_whose_time_is_up_goes_on_whole_while_its_checkpoints_advance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not get as far as a checkpoint is halved, since a smaller one may."""
    steps = iter([10, 10, 20, 20, 30, 30, *[30] * 20])  # of the two runs of a pack, at each end of its time
    monkeypatch.setattr("capax.training.checkpoints.reached", lambda folder, seed: next(steps))
    executor = Unlucky(["timeout"] * 4)
    found = list(capax.sweep([small(0), small(1)], tmp_path / "s.db", executor=executor, device="cpu"))
    assert executor.sizes == [2, 2, 2, 2, 1, 1]
    assert len(found) == 2


def test_a_run_whose_process_dies_is_tried_again_as_told(tmp_path: Path) -> None:
    assert len(list(capax.sweep([small()], tmp_path / "a.db", executor=Unlucky(["died"]), device="cpu"))) == 1
    with pytest.raises(SweepFailed, match=r"^every run failed, as its process died"):
        list(capax.sweep([small()], tmp_path / "b.db", executor=Unlucky(["died"] * 2), device="cpu"))
    both = capax.sweep([small(), small(epochs=4)], tmp_path / "b.db", executor=Unlucky(["died"] * 3), device="cpu")
    assert len(list(both)) == 1
    patient = capax.sweep([small()], tmp_path / "c.db", executor=Unlucky(["died"] * 3), retries=3, device="cpu")
    assert len(list(patient)) == 1


def test_what_raises_is_not_tried_again(tmp_path: Path) -> None:
    executor = Unlucky(["raised"])
    assert list(capax.sweep([small()], tmp_path / "a.db", executor=executor, device="cpu")) == []
    assert executor.sizes == [1]


DRIVER = """
import sys
import capax
if __name__ == "__main__":
    list(capax.sweep(sys.argv[1], workers=2, device="cpu"))
"""


def _children(driver: subprocess.Popen[bytes]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()]


def _wait_for_end(process: int) -> None:
    """Of a process that is no child of this one's."""
    deadline = time.monotonic() + 30
    with suppress(FileNotFoundError, ProcessLookupError):  # it is gone
        while "Z" not in Path(f"/proc/{process}/stat").read_text().split()[2]:
            assert time.monotonic() < deadline, "it lives on"
            time.sleep(0.05)


def _kill_one(driver: subprocess.Popen[bytes], chance: random.Random) -> None:
    """Kill the driver, or one of its workers."""
    victim = chance.choice([*_children(driver), driver.pid, driver.pid])
    with suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)


def _swept_under_fire(tmp_path: Path, kills: int, seed: int) -> int:
    """Start a sweep again and again while processes are killed at random moments; how many kills there were."""
    script, chance, done = tmp_path / "driver.py", random.Random(seed), 0
    script.write_text(DRIVER)
    for _ in range(20 * kills):
        with subprocess.Popen([sys.executable, script, tmp_path / "study.toml"], stderr=subprocess.DEVNULL) as driver:
            while driver.poll() is None:
                time.sleep(chance.uniform(0.1, 6.0))
                if driver.poll() is None and done < kills:
                    _kill_one(driver, chance)
                    done += 1
            if driver.returncode == 0:
                return done
    raise AssertionError("the sweep did not end")


def _is_undisturbed(tmp_path: Path) -> None:
    """Every run once, the file whole, results those of an undisturbed sweep."""
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    (tmp_path / "calm").mkdir()
    calm = list(capax.sweep(study(tmp_path / "calm", epochs=EPOCHS), workers=2, device="cpu"))
    found = stored(tmp_path / "s.db")
    assert len(found) == 12
    assert timeless(found) == timeless(calm)


EPOCHS = 400


@pytest.mark.very_slow
def test_a_sweep_survives_the_death_of_a_worker_and_of_its_driver(tmp_path: Path) -> None:
    """One of two workers is killed after the first result, the driver after the next, and the sweep begun again.

    A driver that is killed leaves no process behind.
    """
    path = study(tmp_path, epochs=60)
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)

    def wait_for_runs(count: int) -> None:
        known = 0
        while known < count:
            assert driver.poll() is None, "the sweep ended before it was killed"
            with suppress(StoreError):  # while the store is being made
                known = len(stored(tmp_path / "s.db"))
            time.sleep(0.02)

    with subprocess.Popen([sys.executable, script, path], stderr=subprocess.DEVNULL) as driver:
        wait_for_runs(1)
        os.kill(max(_children(driver)), signal.SIGKILL)
        before = len(stored(tmp_path / "s.db"))
        wait_for_runs(before + 1)
        left = _children(driver)
        driver.kill()
    assert left
    for worker in left:
        _wait_for_end(worker)
    kept = timeless(stored(tmp_path / "s.db"))
    assert before < len(kept) < 12
    list(capax.sweep(path, workers=1, device="cpu"))
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found = stored(tmp_path / "s.db")
    assert len(found) == 12
    assert timeless(found).items() >= kept.items()
    packs = together(tuple(run.spec for run in found))
    calm = [run for pack in packs for run in do(Job(pack), lambda: False).measurements]
    assert timeless(found) == timeless(calm)


@pytest.mark.very_slow
def test_a_sweep_survives_kills_at_random_moments(tmp_path: Path) -> None:
    study(tmp_path, epochs=EPOCHS)
    assert _swept_under_fire(tmp_path, kills=3, seed=1) >= 1
    _is_undisturbed(tmp_path)


@pytest.mark.very_slow
def test_a_sweep_survives_fifty_kills(tmp_path: Path) -> None:
    kills, number = 0, 0
    while kills < 50:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        study(folder, epochs=EPOCHS)
        kills += _swept_under_fire(folder, kills=10, seed=number)
        _is_undisturbed(folder)


def test_a_sweep_of_another_seed_leaves_the_checkpoints_of_a_run_that_goes_on(tmp_path: Path) -> None:

    file = begun(folder_of(small(1), tmp_path / "s.db-checkpoints"), small(1))
    list(capax.sweep([small(0)], tmp_path / "s.db", workers=1, device="cpu"))
    assert file.exists()
    list(capax.sweep([small(1)], tmp_path / "s.db", workers=1, device="cpu"))
    assert not file.exists()
