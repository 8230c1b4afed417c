"""What cannot be printed, an interrupt at any moment and what Python is given wrong: one line that says it."""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cyclopts import App
from invocations import WITHOUT_LAW

import capax
from capax import machine
from capax.cli import command_line, main, streams
from capax.errors import LONGEST, CapaxError, one_line
from capax.interrupts import INTERRUPTED
from capax.store import tables
from capax.store.merge import merge
from capax.sweeps import executors
from capax.sweeps.packs import whole_pack
from capax.theory.construct.matrices import save_matrices
from capax.training import loop
from capax.training.workers import Workers

TASK = capax.Sequences(seq_len=3, vocab_size=4, library_size=4)
MODEL = capax.Transformer(d_model=4, d_head=2)
TRAINING = capax.Training(max_epochs=1)
TINY = "--d-model 4 --d-head 2 --restarts 1 --workers 1 --store more.db"

COMMANDS = {
    "measure sequences": f"--seq-len 3 --vocab-size 4 --library-size 4 --max-epochs 1 {TINY}",
    "measure biographies": f"--library-size 4 --reduction 50 --max-epochs 1 {TINY}",
    "measure facts": f"facts.tsv --max-epochs 1 {TINY}",
    "measure text": f"letters.txt --tokenization bytes --seq-len 4 --max-epochs 1 {TINY}",
    "measure associations": f"--context-size 2 --library-size 4 --n-classes 2 --max-epochs 1 {TINY}",
    "measure relations": f"--n-items 4 --max-epochs 1 {TINY}",
    "sweep": "study.toml --dry-run",
    "watch": "s.db --once",
    "fit": "--data reference --law bits",
    "predict sequences": "--n-heads 1 --d-model 16 --seq-len 8 --law reference:power",
    "predict associations": "--n-heads 2 --context-size 8 --d-model 32 --d-head 16",
    "predict relations": "--n-edges 100 --d-model 32",
    "plan sequences": "--items 100 --seq-len 8 --vocab-size 100 --n-heads 1",
    "plan facts": "facts.tsv --n-layers 1 --tokenizations code",
    "plan associations": "--items 200 --context-size 8",
    "plan relations": "--items 64",
    "size": "config.json --bits 100",
    "bounds": "--seq-len 8 --vocab-size 10",
    "check assumptions": "q.npy c.npy --samples 10",
    "check model": "--seq-len 3 --vocab-size 4 --library-size 4 --d-model 4 --d-head 2",
    "runs list": "--store s.db",
    "runs show": "{sequences} --store s.db",
    "runs export": "r.csv --store s.db",
    "runs import": "theirs.csv --store spare.db",
    "runs delete": "{sequences} --store spare.db",
    "runs merge": "s.db --out merged.db",
    "runs recall": "{sequences} 0,1 --store s.db",
    "runs memorization": "{text} --store s.db",
    "runs probe": "{sequences} --store s.db --trials 2",
    "quantize": "{sequences} --store s.db --bits 4",
    "construct associations": "--n-heads 1 --context-size 2 --d-head 2 --d-model 4 --n-classes 2",
    "construct relations": "--n-items 6 --d-model 4",
    "check saturation": "{associations} --store s.db",
    "report": "s.db",
    "figure": "bounds s.db --out f.svg",
    "reproduce": "--list",
    "info": "",
}
"""Every command that is done in a moment, by its arguments."""

LONG = {"calibrate", "demo"}
"""Commands that train for a while."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that the commands read."""
    place = tmp_path_factory.mktemp("inputs")
    options: dict[str, Any] = {"restarts": 1, "store": place / "s.db", "keep_weights": True}
    sequences = capax.measure(TASK, MODEL, TRAINING, **options)
    layer = capax.AssociativeAttention(d_model=4, d_head=2)
    library = capax.Associations(context_size=2, library_size=4, n_classes=2)
    associations = capax.measure(library, layer, TRAINING, **options)
    (place / "facts.tsv").write_text("key\tanswer\n" + "".join(f"k{n}\ta{n}\n" for n in range(20)))
    (place / "letters.txt").write_text("".join(chr(97 + n * n % 26) for n in range(80)))
    letters = capax.Text(library=str(place / "letters.txt"), tokenization="bytes", seq_len=4)
    text = capax.measure(letters, MODEL, TRAINING, **options)
    keys = {"sequences": sequences.key, "associations": associations.key, "text": text.key}
    (place / "keys.json").write_text(json.dumps(keys))
    shutil.copy(place / "s.db", place / "spare.db")
    (place / "theirs.csv").write_text("seq_len,n_heads,d_model,memorized\n8,1,32,100\n")
    rng = np.random.default_rng(0)
    np.save(place / "q.npy", rng.normal(size=(4, 6)))
    np.save(place / "c.npy", rng.normal(size=(2, 6)))
    (place / "config.json").write_text('{"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1}')
    (place / "study.toml").write_text(
        '[task]\ntask = "sequences"\nseq_len = 3\nvocab_size = 4\nlibrary_size = 4\n'
        "[model]\nd_model = 4\nd_head = 2\n[training]\nmax_epochs = 1\n"
    )
    return place


@pytest.fixture
def _there(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)


def leaves(app: App, before: str = "") -> Iterator[str]:
    """The names of all commands, groups too."""
    for name in app:
        if not name.startswith("-"):
            yield (whole := f"{before}{name}")
            yield from leaves(app[name], f"{whole} ")


def words(command: str) -> list[str]:
    keys = json.loads(Path("keys.json").read_text())
    return [*command.split(), *COMMANDS[command].format(**keys).split()]


def full() -> io.TextIOWrapper:
    return open("/dev/full", "w")


def nobody_reads() -> io.TextIOWrapper:
    reading, writing = os.pipe()
    os.close(reading)
    return open(writing, "w")


def ended(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    return int(exit_.value.code or 0)


SINKS = {full: "No space left on device", nobody_reads: "nobody reads it"}


def unwritable(capfd: pytest.CaptureFixture[str], sink: Callable[[], io.TextIOWrapper], arguments: list[str]) -> None:
    """One line and code 1."""
    with sink() as stdout, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        code = ended(arguments)
        patch.undo()
        assert (code, capfd.readouterr().err) == (1, f"capax: cannot write to stdout: {SINKS[sink]}\n"), arguments


@pytest.mark.usefixtures("_there")
@pytest.mark.usefixtures("only_our_own")
def test_no_command_ends_in_a_traceback_where_stdout_takes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Each command with one of the sinks: what is done about them does not know which command it is."""
    every = set(leaves(command_line()))
    groups = {name for name in every if any(other.startswith(f"{name} ") for other in every)}
    assert every - groups == set(COMMANDS) | LONG | WITHOUT_LAW
    for command, sink in zip(sorted(COMMANDS), cycle(SINKS), strict=False):
        unwritable(capfd, sink, words(command))


@pytest.mark.parametrize("sink", SINKS)
def test_no_help_ends_in_a_traceback_where_stdout_takes_nothing(
    capfd: pytest.CaptureFixture[str], sink: Callable[[], io.TextIOWrapper]
) -> None:
    for arguments in (["--help"], ["--version"], ["demo", "--help"], ["info", "--json"]):
        unwritable(capfd, sink, arguments)


def test_a_stdout_or_stderr_that_is_closed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert ended(["info"]) == 1
    assert capfd.readouterr().err == "capax: cannot write to stdout: it is closed\n"
    with open("/dev/full", "wb", buffering=0) as raw:
        for sink in (None, io.TextIOWrapper(raw, write_through=True)):
            with monkeypatch.context() as patch:
                patch.setattr(sys, "stderr", sink)
                assert ended(["info", "--nothing"]) == 2
            assert capfd.readouterr().out == ""


class Terminal(io.TextIOWrapper):
    """A stdout of some encoding."""

    def __init__(self, encoding: str) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding=encoding)

    def said(self) -> str:
        return self.bytes.getvalue().decode(self.encoding)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("command", ["bounds", "plan sequences"])
@pytest.mark.usefixtures("_there")
def test_signs_that_a_terminal_lacks_are_written_out(
    monkeypatch: pytest.MonkeyPatch, command: str, encoding: str
) -> None:
    said = {}
    for name in (encoding, "utf-8"):
        stdout = Terminal(name)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stdout)
            assert ended(words(command)) == 0
        said[name] = stdout.said()
    assert said[encoding].count("?") == said["utf-8"].count("?")  # none stands for a sign
    assert len(said[encoding].splitlines()) == len(said["utf-8"].splitlines())
    if command == "bounds":
        assert "Omega(sqrt N)" in said[encoding]


def test_json_is_the_same_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for encoding in ("ascii", "utf-8"):
        stdout = Terminal(encoding)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stdout)
            assert ended(["bounds", "--seq-len", "8", "--vocab-size", "10", "--json"]) == 0
        found[encoding] = json.loads(stdout.said())
    assert found["ascii"] == found["utf-8"]
    assert "√" in json.dumps(found["ascii"], ensure_ascii=False)
    assert json.loads('"\U0001d49f"'.encode("ascii", "capax-json")) == "\U0001d49f"


def test_every_letter_has_a_stand_in() -> None:
    text = "Härmä: σ ≥ √N × 2 – Ω(d) − 3…\udcff\U0001d49f"
    assert text.encode("ascii", "capax-plain").decode() == "Harma: sigma >= sqrt N x 2 - Omega(d) - 3...\\xffD"


@pytest.mark.parametrize("columns", ["0", "1", "-3", "99999999999", "²", ""])
@pytest.mark.usefixtures("_there")
def test_any_width_of_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Any, columns: str) -> None:
    for name in ("COLUMNS", "LINES"):
        monkeypatch.setenv(name, columns)
    for command in ("bounds", "runs list", "watch", "plan sequences"):
        assert ended(words(command)) == 0
    assert ended(["--help"]) == 0
    out = capsys.readouterr().out
    assert out
    assert max(map(len, out.splitlines())) < streams.LARGEST_SCREEN


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


def test_a_long_message_is_cut_in_the_middle() -> None:
    said = str(CapaxError(f"store: {'x' * 5000}/{'y' * 5000}: it is not there"))
    assert len(said) <= LONGEST
    assert said.startswith("store: xxx")
    assert said.endswith("yyy: it is not there")
    assert str(CapaxError("n" * LONGEST)) == "n" * LONGEST


def test_control_characters_of_the_user_are_shown_and_not_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    evil = "a\x1b[2J\x07\x9b31m\u202e\x7fb"
    escaped = "a\\x1b[2J\\x07\\x9b31m\\u202e\\x7fb"
    assert one_line(f"x\n{evil}\r\n") == f"x {escaped}"
    for arguments in (
        ["runs", "--store", evil],
        ["runs", f"--{evil}"],
        [evil],
        ["predict", "--n-heads", evil, "--d-model", "8", "--seq-len", "8", "--law", "reference:power"],
        ["fit", "--data", f"{evil}.csv"],
        ["measure", "sequences", "--library", f"{evil}.txt"],
        ["fit", "--store", f"{folder}/s.db", "--where", evil],
    ):
        assert ended(arguments) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert err[:-1].isprintable()
        assert "\\x1b" in err
    assert ended(["runs", "export", f"{evil}.csv", "--store", f"{folder}/s.db"]) == 0
    assert capsys.readouterr().out == f"3 rows written to {escaped}.csv\n"
    rows = tables.read(folder / "s.db").select("seq_len", "n_heads", "d_model", "memorized").drop_nulls()
    with capax.Store("s.db") as store:
        store.import_rows(rows.with_columns(memorized=1), evil)
        store.fail(capax.Run(task=TASK, model=MODEL, training=TRAINING, protocol=capax.Mac(), seed=0), evil)
    for arguments in (["runs", "--store", "s.db"], ["runs", "--store", "s.db", "--failed"]):
        assert ended(arguments) == 0
        out = capsys.readouterr().out
        assert "\\x1b" in out
        assert out.replace("\n", "").isprintable()


NUMBERS = (10**30, 10**400, 10**5000, -1, -(10**400), math.nan, math.inf, -math.inf)
PATHS = ("missing", "folder", "x" * 5000, "a\0b", "\ud800", f"folder/{'y' * 300}", "file/in")


OF_NUMBERS: dict[str, Callable[[Any], Any]] = {
    **{
        f"bounds.{name}": lambda value, name=name: capax.bounds(capax.Transformer(), **{name: value})
        for name in ("seq_len", "vocab_size", "context_size", "n_items", "n_edges", "library_size", "bits")
    },
    **{
        f"plan.{name}": lambda value, name=name: capax.plan(
            "reference:power", **{"target": 9, "seq_len": 8, name: value}
        )
        for name in ("target", "seq_len", "vocab_size", "probability", "multiple")
    },
    **{
        f"plan.{name}": lambda value, name=name: capax.plan("reference:power", 9, seq_len=8, **{name: [value]})
        for name in ("n_heads", "n_layers", "d_model")
    },
    **{
        f"predict.{name}": lambda value, name=name: capax.predict(
            "reference:power", n_heads=1, d_model=32, extrapolate=True, **{"seq_len": 8, name: value}
        )
        for name in ("seq_len", "vocab_size", "level")
    },
    "check_model.seed": lambda value: capax.check_model(MODEL, TASK, seed=value),
    "Run.seed": lambda value: capax.Run(task=TASK, model=MODEL, training=TRAINING, protocol=capax.Mac(), seed=value),
    "measure.seed": lambda value: capax.measure(TASK, MODEL, TRAINING, restarts=1, seed=value),
    "measure.workers": lambda value: capax.measure(TASK, MODEL, TRAINING, restarts=1, workers=value),
    "sweep.retries": lambda value: list(capax.sweep([], "s.db", retries=value)),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_python_says_which_number_cannot_be(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No OverflowError and no ValueError: an error of capax that names the field, at once."""
    monkeypatch.chdir(tmp_path)
    checked = name.startswith(("bounds.", "measure.workers"))  # in tests, for their types
    for value in (value for value in NUMBERS if isinstance(value, int) or not checked):
        with pytest.raises(CapaxError) as error:
            OF_NUMBERS[name](value)
        assert {"target": "items"}.get(name.partition(".")[2], name.partition(".")[2]) in str(error.value)
        assert len(str(error.value)) <= LONGEST


OF_PATHS: dict[str, Callable[[str], Any]] = {
    "library": lambda path: capax.Associations(library=path),
    "library:": lambda path: capax.Sequences(library=path),
    "graph": lambda path: capax.Relations(graph=path),
    "store": lambda path: capax.read(path),
    "store:": lambda path: capax.load("0", path),
    "store: ": lambda path: capax.measure(TASK, MODEL, TRAINING, restarts=1, store=f"{path}/s.db"),
    "store:  ": lambda path: list(capax.sweep([], f"{path}/s.db")),
    "law": lambda path: capax.load_law(path),
    "law:": lambda path: capax.plan(path, 9, seq_len=8),
    "out": lambda path: capax.save_law(capax.load_law(), f"{path}/law.json"),
    "out:": lambda path: merge(["s.db"], f"{path}/merged.db"),
    "save": lambda path: save_matrices(Path(f"{path}/w.safetensors"), {}),
}


@pytest.mark.parametrize("name", OF_PATHS)
def test_python_says_which_path_cannot_be(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No OSError and no ValueError, however long or strange the name is."""
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    for path in PATHS:
        with pytest.raises(CapaxError) as error:
            OF_PATHS[name](path)
        assert name.strip(": ") in str(error.value)
        assert len(str(error.value)) <= LONGEST
        assert str(error.value).isprintable()


def test_a_library_whose_name_is_no_text_is_refused_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be trained, and then be lost: no JSON holds such a name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "\udcff.txt").write_text("1 2 3\n2 3 1\n")
    assert ended(["measure", "sequences", "--library", "\udcff.txt", "--vocab-size", "4"]) == 2
    assert capsys.readouterr().err == "capax: library: should be text in UTF-8, got '\\udcff.txt'\n"


def test_a_law_says_which_number_cannot_be() -> None:
    law = capax.load_law()
    row = {"seq_len": [8], "n_heads": [1], "d_model": [16]}
    for level in NUMBERS:
        with pytest.raises(CapaxError, match="level"):
            law.predict_interval(row, level)
    for ask in (law.predict, law.predict_interval):
        with pytest.raises(CapaxError, match="d_model"):
            ask({**row, "d_model": [10**400]})
