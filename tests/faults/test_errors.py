"""What cannot be printed, on any terminal, and names that no text holds: one line that says it."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cyclopts import App
from invocations import WITHOUT_LAW
from made_base import SHAPE, write_base
from smallest import MODEL, TASK, TRAINING, ended

import capax
from capax.cli import command_line, streams
from capax.errors import LONGEST, CapaxError, one_line
from capax.store import tables

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
    "fit": "--data reference:grid --law bits",
    "predict sequences": "--n-heads 1 --d-model 16 --seq-len 8 --law reference:power",
    "predict associations": "--n-heads 2 --context-size 8 --d-model 32 --d-head 16",
    "predict relations": "--n-items 100 --n-edges 100 --d-model 32",
    "plan sequences": "--items 100 --seq-len 8 --vocab-size 100 --n-heads 1",
    "plan facts": "facts.tsv --n-layers 1 --tokenizations code",
    "plan associations": "--items 200 --context-size 8",
    "plan relations": "--n-items 6 --d-model 4",
    "size": "config.json --bits 100",
    "completion": "bash",
    "bounds": "--seq-len 8 --vocab-size 10",
    "check assumptions": "q.npy c.npy --samples 10",
    "check model": "--seq-len 3 --vocab-size 4 --library-size 4 --d-model 4 --d-head 2",
    "runs list": "--store s.db",
    "runs show": "{sequences} --store s.db",
    "runs export": "r.csv --store s.db",
    "runs import": "theirs.csv --store spare.db",
    "runs tag": "{sequences} v2 --name ours --store s.db",
    "runs delete": "{sequences} --store spare.db",
    "runs merge": "s.db --out merged.db",
    "runs recall": "{sequences} 0,1 --store s.db",
    "runs memorization": "{text} --store s.db",
    "runs probe": "{sequences} --store s.db --trials 2",
    "runs checkpoint": "{hf} out --store hf.db",
    "plan lora": "facts.tsv --base base",
    "quantize": "{sequences} --store s.db --bits 4",
    "construct associations": "--n-heads 1 --context-size 2 --d-head 2 --d-model 4 --n-classes 2",
    "construct relations": "--n-items 6 --d-model 4",
    "verify": "claim.safetensors",
    "runs save": "{associations} w.safetensors --store s.db",
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
    llama = capax.HuggingFace(config={"model_type": "llama", **SHAPE}, set={})
    hf = capax.measure(TASK, llama, TRAINING, **{**options, "store": place / "hf.db"})
    write_base(place / "base")
    keys = {"sequences": sequences.key, "associations": associations.key, "text": text.key, "hf": hf.key}
    (place / "keys.json").write_text(json.dumps(keys))
    shutil.copy(place / "s.db", place / "spare.db")
    capax.construct(capax.Relations(n_items=4), capax.KeyQueryChannel(d_model=3)).save(place / "claim.safetensors")
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


PARTS = 5
"""Of the commands: the first is tried always, the others with the slow tests."""
SINKS = {full: "capax: cannot write to stdout: No space left on device\n", nobody_reads: ""}


def unwritable(capfd: pytest.CaptureFixture[str], sink: Callable[[], io.TextIOWrapper], arguments: list[str]) -> None:
    """Code 1 and one line, or none where nobody reads."""
    with sink() as stdout, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        code = ended(arguments)
        patch.undo()
        assert (code, capfd.readouterr().err) == (1, SINKS[sink]), arguments


@pytest.mark.usefixtures("only_our_own")
def test_every_command_is_known_here() -> None:
    every = set(leaves(command_line()))
    groups = {name for name in every if any(other.startswith(f"{name} ") for other in every)}
    assert every - groups == set(COMMANDS) | LONG | WITHOUT_LAW


@pytest.mark.slow
@pytest.mark.usefixtures("_there")
@pytest.mark.usefixtures("only_our_own")
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.very_slow) for part in range(1, PARTS))])
def test_no_command_ends_in_a_traceback_where_stdout_takes_nothing(
    part: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each command with one of the sinks: what is done about them does not know which command it is."""
    for command, sink in list(zip(sorted(COMMANDS), cycle(SINKS), strict=False))[part::PARTS]:
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


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_a_library_whose_name_is_no_text_is_refused_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be trained, and then be lost: no JSON holds such a name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "\udcff.txt").write_text("1 2 3\n2 3 1\n")
    assert ended(["measure", "sequences", "--library", "\udcff.txt", "--vocab-size", "4"]) == 2
    assert capsys.readouterr().err == "capax: library: should be text in UTF-8, got '\\udcff.txt'\n"
