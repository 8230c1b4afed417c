"""Work that was lost: sweeps that forgot, or ended in silence."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sweeping import TASK, spec, sweep, timeless

import capax
from capax import devices, machine
from capax.cli import main
from capax.errors import SpecError, SweepFailed
from capax.results import Measurement
from capax.store import Store
from capax.sweeps import packs
from capax.sweeps.adaptive import sweep_adaptively
from capax.sweeps.executors import Executor, Job, Processes, Report, do
from capax.training import checkpoints, loop, workers
from capax.training.loop import Course, Interrupted, pause, train
from capax.training.pack import Outcome, Pack, Status
from capax.training.workers import Workers


@pytest.fixture
def at_step(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Have something happen before the steps of some numbers; gives the list whose length is the steps made so far."""
    monkeypatch.setattr(loop, "REPORT_SECONDS", -1.0)
    step = Course.step

    def plan(happens: Callable[[], object], *numbers: int) -> list[int]:
        made: list[int] = []

        def counted(self: Course, out_of_time: Callable[[], bool]) -> None:
            made.append(len(self.active))
            if len(made) in numbers:
                happens()
            step(self, out_of_time)

        monkeypatch.setattr(Course, "step", counted)
        return made

    return plan


# Scripts without a guard, and calls that are wrong

UNGUARDED = """
import sys
import capax
from capax.errors import SweepFailed
runs = [capax.Run(task=capax.Sequences(seq_len=3, vocab_size=5, library_size=4), model=capax.Transformer(d_model=2),
    training=capax.Training(max_epochs=1), protocol=capax.Mac(restarts=1))]
try:
    for run in capax.sweep(runs, sys.argv[1], workers=2, device="cpu"):
        print("done by a worker")
except SweepFailed as error:
    print(error)
for run in capax.sweep(runs, sys.argv[1], workers=1, device="cpu"):
    print("done here")
"""


@pytest.mark.very_slow
def test_a_script_without_a_guard_works_in_its_own_process_or_is_told_in_one_line(tmp_path: Path) -> None:
    """A worker imports the script anew and cannot start: one line says what to write. One worker is the script."""
    (tmp_path / "script.py").write_text(UNGUARDED)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "s.db")]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    told, *done = ended.stdout.splitlines()
    assert told.startswith("workers: ")
    assert 'if __name__ == "__main__":' in told
    assert done == ["done here"]
    assert ended.stderr == ""


def test_a_measurement_whose_workers_cannot_start_is_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise BrokenProcessPool

    monkeypatch.setattr(workers.ProcessPoolExecutor, "submit", broken)
    with pytest.raises(workers.WorkerDied) as error:
        capax.measure(TASK, spec().model, restarts=4, workers=2, device="cpu")
    assert str(error.value) == machine.UNSTARTED


def test_a_script_on_stdin_is_told_in_one_line_that_no_worker_can_import_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any worker is started: each would print that there is no such file."""
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "<stdin>", raising=False)
    for starts in (
        lambda: sweep([spec()], tmp_path / "s.db", workers=2),
        lambda: capax.measure(TASK, spec().model, workers=2),
        lambda: Processes(2),
    ):
        with pytest.raises(SpecError, match=r"^workers: .*stdin"):
            starts()
    assert [*tmp_path.iterdir()] == []
    assert len([*sweep([spec(epochs=1)], tmp_path / "s.db")]) == 1


def test_a_worker_that_imports_a_sweep_ends_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("multiprocessing.current_process", lambda: type("Child", (), {"_inheriting": True})())
    with pytest.raises(SystemExit):
        machine.end_if_imported_by_a_worker()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"store": None}, "store: a sweep of runs needs one"),
        ({"store": "no/s.db"}, "store: folder .* does not exist"),
        ({"workers": 0}, "workers: at least 1, got 0"),
        ({"retries": -1}, "retries: at least 0, got -1"),
        ({"study": "none.toml"}, "none.toml"),
        ({"study": [1]}, r"study: a study file, or runs \(capax.Run\), got 1"),
        ({"study": 5}, r"study: a study file, or runs \(capax.Run\), got 5"),
        ({"device": "abacus"}, "device: .*abacus"),
    ],
)
def test_a_sweep_checks_its_arguments_when_it_is_called(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    """Not when its first run is asked for, which a caller may never do; and nothing is left behind."""
    asked: dict[str, Any] = {"study": [spec()], "store": tmp_path / "s.db", "device": "cpu"} | options
    with pytest.raises(capax.CapaxError, match=said):
        capax.sweep(**asked)
    with pytest.raises(capax.CapaxError, match=said):
        sweep_adaptively(**asked, law=capax.PowerLaw(), budget=1)
    with pytest.raises(SpecError, match=r"^budget: "):
        sweep_adaptively([spec()], tmp_path / "s.db", law=capax.PowerLaw(), budget=0)
    assert list(tmp_path.iterdir()) == []


def test_an_adaptive_sweep_refuses_a_law_of_other_runs(tmp_path: Path) -> None:
    for law, why in (
        (capax.AssociationLaw(), "is of associations; runs of this study have no (d_head|context_size)"),
        (capax.CapacityLaw(), "is fitted to capacity_bits, which protocol capacity measures; .* this study are of mac"),
    ):
        with pytest.raises(capax.CapaxError, match=f"^law: .* {why}"):
            sweep_adaptively([spec()], tmp_path / "s.db", law=law, budget=1)
    searched = capax.Run(
        task=capax.Relations(graph="permutation", n_items=8),
        model=capax.KeyQueryChannel(d_model=4),
        protocol=capax.Budget(),
    )
    with pytest.raises(SpecError, match=r"^law: power is of sequences; runs of this study have no seq_len"):
        sweep_adaptively([searched], tmp_path / "s.db", law=capax.PowerLaw(), budget=1)
    assert list(tmp_path.iterdir()) == []


class Told(Executor):
    """Reports what it is told to, several jobs at once."""

    def __init__(self, trouble: str | None = None, slots: int = 2) -> None:
        self.trouble, self.slots, self.jobs = trouble, slots, list[Job]()

    @property
    def running(self) -> int:
        return len(self.jobs)

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def wait(self, seconds: float) -> list[Report]:
        jobs, self.jobs = self.jobs, []
        if self.trouble is not None:
            return [Report(job, trouble=self.trouble, message="as told") for job in jobs]  # type: ignore[arg-type]
        return [do(job, lambda: False) for job in jobs]

    def stop(self) -> None: ...

    def close(self) -> None: ...


def test_a_sweep_whose_processes_all_die_is_an_error(tmp_path: Path) -> None:
    runs = [spec(d_model=width) for width in (2, 4)]
    with pytest.raises(SweepFailed, match=r"^every run failed, as its process died"):
        list(sweep(runs, tmp_path / "s.db", executor=Told("died")))
    with pytest.raises(SweepFailed, match="as told"):  # none could start: there is no use in trying the others
        list(sweep(runs, tmp_path / "t.db", executor=Told("unstarted")))
    with Store(tmp_path / "t.db") as store:
        assert store.failures() == []


def test_an_adaptive_sweep_stops_at_a_failure_where_it_is_told_to(tmp_path: Path) -> None:
    runs, law = [spec(d_model=width) for width in (2, 4, 8)], capax.PowerLaw()
    assert list(sweep_adaptively(runs, tmp_path / "s.db", law=law, budget=60, executor=Told("raised"))) == []
    with pytest.raises(SweepFailed, match="as told"):
        list(
            sweep_adaptively(
                runs, tmp_path / "t.db", law=law, budget=60, executor=Told("raised"), retries=0, keep_going=False
            )
        )


# Resuming


def pack(members: int = 6, **options: Any) -> Pack:
    return Pack(
        TASK.replace(library_size=300),
        capax.Transformer(n_heads=2, d_model=8, d_head=6),
        capax.Training(batch_size=128, max_epochs=12, lr=1e-2),
        seeds=tuple(place % 3 for place in range(members)),
        members=tuple(range(members)),
        sizes=(300, 5, 140, 300, 6, 300)[:members],
        largest=300,
        mixed=True,
        one_library=False,
        **options,
    )


def interrupting(at: int) -> Callable[[list[Status]], None]:
    left = at

    def watch(_: list[Status]) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Interrupted

    return watch


def without_weights(outcomes: list[Outcome]) -> list[Outcome]:
    return [replace(outcome, weights=None) for outcome in outcomes]


@pytest.mark.slow
def test_a_training_goes_on_whatever_packs_its_members_were_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packs of another size at each start: no member ever falls back, and the end is that of an undisturbed one."""
    monkeypatch.setattr(loop, "REPORT_SECONDS", -1.0)
    whole = pack(keep_weights=True)
    calm = Workers(1).train(whole)
    steps = [0, 0, 0]
    for size, at in ((6, 4), (2, 3), (4, 7), (1, 8), (3, 2)):
        with suppress(Interrupted):
            Workers(1, pack_size=size).train(whole, interrupting(at), tmp_path)
        before, steps = steps, [checkpoints.reached(tmp_path, seed) for seed in range(3)]
        assert all(new >= old for new, old in zip(steps, before, strict=True))
        assert sum(steps) > sum(before)
    found = Workers(1, pack_size=5).train(whole, checkpoints=tmp_path)
    assert without_weights(found) == without_weights(calm)
    for one, other in zip(found, calm, strict=True):
        assert {n: w.tolist() for n, w in (one.weights or {}).items()} == {
            n: w.tolist() for n, w in (other.weights or {}).items()
        }
    alone = [Workers(1).train(whole.part([place]), checkpoints=tmp_path)[0] for place in range(6)]
    assert without_weights(alone) == without_weights(calm)


@pytest.mark.very_slow
def test_a_member_that_is_left_alone_by_a_resume_is_what_it_is_in_its_pack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a shape whose products are rounded differently in a pack of one; members leave the pack at different steps."""
    monkeypatch.setattr(loop, "REPORT_SECONDS", -1.0)
    whole = Pack(
        capax.Sequences(seq_len=8, vocab_size=20, library_size=24, loss="all", recall="last"),
        capax.Transformer(n_heads=3, d_model=1, d_head=4, ffn="none", norms=False),
        capax.Training(batch_size=8, lr=1e-2, precision="float64", max_epochs=12, patience=2),
        seeds=(0, 1, 2, 3),
        members=(0,) * 4,
        sizes=(24,) * 4,
        largest=24,
        mixed=False,
        one_library=False,
    )
    calm = train(whole)
    left = [outcome.steps for outcome in calm]
    for at in (2, min(left) + 2):  # while all train, and when one has left
        begun = tmp_path / f"begun {at}"
        with pytest.raises(Interrupted):
            train(whole, interrupting(at), begun)
        parts = [[0], [2, 1], [3]] if at == 2 else [[2], [3, 1], [0]]
        folder = tmp_path / f"{at} in parts"
        shutil.copytree(begun, folder)
        for part in map(whole.part, parts):
            with suppress(Interrupted):
                Workers(1).train(part, interrupting(3), folder)
        found = [outcome for part in parts for outcome in Workers(1).train(whole.part(part), checkpoints=folder)]
        assert found == [calm[place] for part in parts for place in part]
    new = Workers(1).train(replace(whole, seeds=(0, 1, 2, 7)), checkpoints=begun)
    assert new == train(replace(whole, seeds=(0, 1, 2, 7)))


@pytest.mark.slow
def test_runs_of_a_pack_that_died_go_on_in_halves_and_alone(tmp_path: Path, at_step: Any) -> None:
    """Also where the study has lost a seed meanwhile."""

    class Killed(BaseException): ...

    def die() -> None:
        raise Killed

    runs = tuple(spec(seed) for seed in range(4))
    calm = timeless(do(Job(runs), lambda: False).measurements)
    made = at_step(die, 25)
    stops = iter([False] * 20 + [True])
    assert do(Job(runs, checkpoints=tmp_path), lambda: next(stops)).trouble == "stopped"
    begun = checkpoints.reached(tmp_path, 0)
    assert begun > 15
    with suppress(Killed):
        do(Job(runs[:2], checkpoints=tmp_path), lambda: False)
    for part in (runs[:1], runs[1:3]):
        made.clear()
        found = do(Job(part, checkpoints=tmp_path), lambda: False).measurements
        assert len(made) <= 40 - begun
        assert timeless(found).items() <= calm.items()


@pytest.mark.very_slow
def test_a_study_ends_though_every_process_is_killed_after_three_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is turned by hand, a tenth of a second a step; a kill asks nobody for a checkpoint."""
    now, born, lives = 1000.0, 1000.0, 0
    monkeypatch.setattr("time.monotonic", lambda: now)
    step = Course.step

    class Killed(BaseException): ...

    def timed(self: Course, out_of_time: Callable[[], bool]) -> None:
        nonlocal now
        step(self, out_of_time)
        now += 0.1
        if now - born > 3:
            raise Killed

    monkeypatch.setattr(Course, "step", timed)
    whole = replace(pack(2), training=capax.Training(batch_size=128, max_epochs=25, patience=1000))
    while True:
        born, lives = now, lives + 1
        assert lives < 40
        with suppress(Killed):
            outcomes = train(whole, checkpoint=tmp_path)
            break
    monkeypatch.undo()
    assert lives > 2
    assert without_weights(outcomes) == without_weights(train(whole))


def test_the_pause_between_checkpoints_follows_what_a_kill_and_what_saving_cost() -> None:
    assert pause(trained=0.0, saving=0.0) <= 2
    assert pause(trained=100.0, saving=0.01) == pytest.approx(10)
    assert pause(trained=1e6, saving=0.01) == 120
    assert pause(trained=0.0, saving=2.0) == 100  # at most 2 % of the time goes into saving


def test_the_size_of_packs_is_timed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again by each process that is killed before its first run is done."""
    sizes = iter([4, 2])
    monkeypatch.setattr(packs, "best_size", lambda pack: next(sizes))
    monkeypatch.setattr(packs, "worth_measuring", lambda run, members: True)
    job = Job((spec(), spec(1)), checkpoints=tmp_path)
    assert do(job, lambda: True).trouble == "stopped"
    assert do(job, lambda: False).pack_size == 4


@pytest.mark.very_slow
def test_a_second_study_leaves_the_checkpoints_of_the_first(tmp_path: Path, at_step: Any) -> None:
    """They go when their own run is kept, and then nothing is left."""
    store, folder = tmp_path / "s.db", tmp_path / "s.db-checkpoints"
    made = at_step(lambda: signal.raise_signal(signal.SIGINT), 30)
    with pytest.raises(KeyboardInterrupt):
        list(sweep([spec(), spec(1)], store))
    assert len(list(folder.rglob("*.safetensors"))) == 1
    assert len(list(sweep([spec(2), spec(d_model=2)], store))) == 2
    assert len(list(folder.rglob("*.safetensors"))) == 1
    made.clear()
    assert len(list(sweep([spec(1)], store))) == 1  # one of the two, from where it was
    assert len(made) == 40 - 30
    assert len(list(folder.rglob("*.safetensors"))) == 1
    made.clear()
    assert len(list(sweep([spec(), spec(1)], store))) == 2
    assert len(made) == 40 - 30
    assert not folder.exists()


@pytest.mark.slow
def test_a_death_after_progress_is_not_one_try_of_few(tmp_path: Path) -> None:
    """Workers are killed every few steps: a run that goes on each time is not given up."""
    lives = 0

    class Mortal(Told):
        def wait(self, seconds: float) -> list[Report]:
            nonlocal lives
            (job,), self.jobs, lives = self.jobs, [], lives + 1
            stops = iter([False] * 8 + [True] * 10)
            found = do(job, lambda: next(stops))
            return [replace(found, trouble="died")] if found.trouble == "stopped" else [found]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "REPORT_SECONDS", -1.0)
        assert len(list(sweep([spec()], tmp_path / "s.db", executor=Mortal(slots=1), retries=1))) == 1
    assert lives > 4


@pytest.mark.slow
def test_a_checkpoint_of_another_processor_is_taken_up_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "REPORT_SECONDS", -1.0)
    one = pack(2)
    calm = train(one)
    with monkeypatch.context() as elsewhere, suppress(Interrupted):
        elsewhere.setattr(devices, "processor", lambda device: "x86_64 ABACUS")
        train(one, interrupting(5), tmp_path)
    begun = checkpoints.reached(tmp_path, 0)
    found = train(one, checkpoint=tmp_path)
    assert begun > 3
    note = "checkpoint: went on from another processor (x86_64 ABACUS): last digits may differ"
    assert [outcome.notes for outcome in found] == [(note,)] * 2
    assert [replace(outcome, notes=()) for outcome in found] == calm
    run = spec(epochs=2)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(devices, "processor", lambda device: "x86_64 ABACUS")
        assert do(Job((run,), checkpoints=tmp_path), lambda: False).measurements[0].notes == ()
    assert do(Job((run,), checkpoints=tmp_path), lambda: False).measurements[0].notes == (note,)


# Ends from outside


@pytest.fixture
def _heeded() -> Iterator[None]:
    """SIGHUP as a terminal leaves it: tests that run under nohup inherit that it is ignored, as the command does."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("_heeded")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_that_end_a_process_leave_a_checkpoint(
    tmp_path: Path, at_step: Any, capsys: pytest.CaptureFixture[str], number: signal.Signals, code: int
) -> None:
    study = tmp_path / "study.toml"
    study.write_text("[task]\nlibrary_size = 60\nseq_len = 4\nvocab_size = 10\n[training]\nmax_epochs = 40\n")
    before = signal.getsignal(number)
    at_step(lambda: signal.raise_signal(number), 10)
    with pytest.raises(SystemExit) as exit_:
        main(["sweep", str(study), "--workers", "1", "--quiet"])
    assert exit_.value.code == code
    assert capsys.readouterr().err == "capax: interrupted; finished runs are saved; the same sweep does the others\n"
    assert len(list(tmp_path.rglob("*.safetensors"))) == 1
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path, at_step: Any) -> None:
    made = at_step(lambda: [signal.raise_signal(signal.SIGINT) for _ in range(2)], 10)
    with pytest.raises(KeyboardInterrupt):
        list(sweep([spec()], tmp_path / "s.db"))
    assert len(made) == 10
    assert list(tmp_path.rglob("*.safetensors")) == []


@pytest.mark.parametrize("raised", [False, True])
def test_ctrl_c_while_finished_jobs_are_stored_loses_none_and_ends(
    raised: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two jobs end at once, and the interrupt comes as the first is stored, as a signal or from within."""
    add, interrupted = Store.add, False

    def interrupting_add(self: Store, run: Measurement) -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            if raised:
                raise KeyboardInterrupt
            signal.raise_signal(signal.SIGINT)
        add(self, run)

    monkeypatch.setattr(Store, "add", interrupting_add)
    runs, found = [spec(epochs=2, d_model=width) for width in (2, 4, 6)], []
    with pytest.raises(KeyboardInterrupt):
        found += sweep(runs, tmp_path / "s.db", executor=Told())
    with Store(tmp_path / "s.db") as store:
        assert store.keys() == {run.key() for run in runs[:2]}
