"""An interrupt at any moment is one line, and ends what runs."""

from __future__ import annotations

import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from smallest import MODEL, TASK, TRAINING, ended

import capax
from capax import machine
from capax.interrupts import INTERRUPTED
from capax.sweeps import executors
from capax.sweeps.packs import whole_pack
from capax.training import loop
from capax.training.workers import Workers

INTERRUPTING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background are started to ignore it
number = signal.SIGINT
del sys.modules["signal"]

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "{module}":
            os.kill(os.getpid(), number)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["capax", "predict", "--n-heads", "1", "--d-model", "16", "--seq-len", "8", "--law", "reference:power"]
from capax.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["signal", "capax.cli", "cyclopts", "capax.cli.plan"])
def test_an_interrupt_while_modules_are_imported_is_one_line(module: str) -> None:
    """At the first moment, before the command is known, in a library, and in a command, which keeps no runs."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTING.format(module=module)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "capax: interrupted\n")


@pytest.mark.parametrize(
    ("command", "said"),
    [("info", ""), ("report s.db", ""), ("measure sequences --store s.db", "; finished runs are saved")],
)
def test_an_interrupt_speaks_of_saved_runs_where_there_are_any(
    command: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    capax.Store("s.db").close()

    def interrupts(*_: Any) -> None:
        raise KeyboardInterrupt

    for path in ("capax.machine.versions", "capax.store.store.Store.each", "capax.protocols.measure.perform"):
        monkeypatch.setattr(path, interrupts)
    assert ended(command.split()) == INTERRUPTED
    assert capsys.readouterr().err == f"capax: interrupted{said}\n"


@pytest.mark.slow
@pytest.mark.parametrize("keep_weights", [False, True])
def test_a_measurement_that_was_interrupted_goes_on_from_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_weights: bool
) -> None:
    monkeypatch.setattr(loop, "REPORT_SECONDS", -1.0)
    training = TRAINING.replace(max_epochs=40, patience=None, stop_when_complete=False)

    def measured(name: str, progress: Callable[[Any], None] | None = None) -> capax.Measurement:
        store = tmp_path / f"{name}.db"
        return capax.measure(
            TASK, MODEL, training, restarts=2, store=store, keep_weights=keep_weights, progress=progress
        )

    def interrupts(state: capax.Progress) -> None:
        if state.leader.epoch == 20:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        measured("interrupted", interrupts)
    assert caught.value.__notes__[0] == "the same command goes on from its checkpoint"
    kept = tmp_path / "interrupted.db-checkpoints"
    assert len(list(kept.rglob("*.safetensors"))) == 1
    epochs: list[int] = []
    found = measured("interrupted", lambda state: epochs.append(state.leader.epoch))
    assert epochs[0] == 21  # a step later
    assert not kept.exists()
    assert found.model_dump(exclude={"seconds"}) == measured("whole").model_dump(exclude={"seconds"})


def test_the_entry_imports_next_to_nothing_before_it_answers_interrupts() -> None:
    code = "import sys; before = set(sys.modules); import capax.__main__; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    light = {"__future__", "capax", "capax.__main__", "warnings"}
    assert {name for name in done.stdout.split() if not name.startswith("importlib")} <= light


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has no masks")
def test_workers_never_hear_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """From their first moment on: one that is interrupted while it imports torch prints a traceback."""
    code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    with machine.starting_workers():
        done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    blocked: list[bool] = []

    def submit(*_: Any) -> Future[Any]:
        blocked.append(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
        future: Future[Any] = Future()
        future.set_result([])
        return future

    monkeypatch.setattr(executors.ProcessPoolExecutor, "submit", submit)
    with executors.Processes(1) as processes:
        processes.submit(executors.Job(()))
    pack = whole_pack((capax.Run(task=TASK, model=MODEL, training=TRAINING, protocol=capax.Mac(), seed=0),), "cpu")
    Workers(2)._in_pool([pack], lambda _: None, None, 1)
    assert blocked == [True, True]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


class Lost:
    """Interrupts that are lost: in the callback of a weak reference, as in each import, and made another error."""

    def in_a_callback(self, _: Any = None) -> None:
        watched = Lost()
        reference = weakref.ref(watched, lambda _: signal.raise_signal(signal.SIGINT))
        del watched
        assert reference() is None

    def as_an_error(self, _: Any = None) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("Error calling __set_name__") from None


@pytest.mark.parametrize("lost", [Lost().in_a_callback, Lost().as_an_error])
def test_an_interrupt_that_is_lost_in_a_training_ends_it_a_little_later(
    monkeypatch: pytest.MonkeyPatch, lost: Callable[..., None]
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    monkeypatch.setattr(loop, "REPORT_SECONDS", -1.0)
    steps: list[int] = []

    def progress(_: Any) -> None:
        steps.append(0)
        if len(steps) == 3:
            lost()

    with pytest.raises(KeyboardInterrupt):
        capax.measure(TASK, MODEL, TRAINING.replace(max_epochs=20), restarts=1, progress=progress)
    assert len(steps) == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_step_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt in an import may be lost, and the first step of a process would take half a second longer."""
    monkeypatch.setitem(sys.modules, "torch.fx.experimental.symbolic_shapes", None)  # and with it sympy
    assert capax.measure(TASK, MODEL, TRAINING, restarts=1).epochs == 1


def test_an_interrupt_never_stops_a_pool_halfway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the midst of its start, nor where it holds locks: ended in between it would be waited for forever."""
    submitted: list[Future[Any]] = []

    def submit(*_: Any) -> Future[Any]:
        signal.raise_signal(signal.SIGINT)
        submitted.append(Future())
        return submitted[-1]

    monkeypatch.setattr(executors.ProcessPoolExecutor, "submit", submit)
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *_: None)  # another thread than the main one may hear it
    pack = whole_pack((capax.Run(task=TASK, model=MODEL, training=TRAINING, protocol=capax.Mac(), seed=0),), "cpu")
    with pytest.raises(KeyboardInterrupt):
        Workers(2)._in_pool([pack], lambda _: None, None, 1)
    assert len(submitted) == 1
    assert not submitted[0]._waiters  # type: ignore[attr-defined]
