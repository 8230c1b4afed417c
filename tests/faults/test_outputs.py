"""Files that commands write: whole or not at all, where the path says and nowhere else, and checked before any work."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from limits import files_of_at_most
from matplotlib.figure import Figure

import capax
from capax import memory, outputs
from capax.cli import main
from capax.errors import OutputError, ReportError, StoreError, StoreWriteError
from capax.figures import drawing
from capax.reports import report
from capax.store import importing, table_files
from capax.store.merge import merge

ROWS = pl.DataFrame({"seq_len": [4], "n_heads": [1]})

WRITERS: dict[str, Callable[[Path], Any]] = {
    "law.json": lambda path: capax.save_law(capax.load_law(), path),
    "runs.csv": lambda path: table_files.to_file(ROWS, path),
    "runs.parquet": lambda path: table_files.to_file(ROWS, path),
    "weights.safetensors": lambda path: _built().save(path),
    "report.html": lambda path: report.write("a page", path),
    "figure.pdf": lambda path: drawing.save(Figure(), path),
    "figure.png": lambda path: drawing.save(Figure(), path),
    "merged.db": lambda path: merge([_store()], path),
}
"""Everything that writes a file for the user."""
OURS = {"weights.safetensors"}
"""What replaces a file of its own kind alone."""


def _built() -> Any:
    return capax.construct(capax.Relations(n_items=4), capax.KeyQueryChannel(d_model=3))


def _store(rows: int = 1) -> Path:
    path = Path("one.db")
    if not path.exists():
        with capax.Store(path) as store:
            columns = {name: [1] * rows for name in importing.REQUIRED}
            store.import_rows(pl.DataFrame({**columns, "text": ["x" * 1000] * rows}), "a paper")
    return path


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The code of a command that prints one line on stderr and nothing else, and the line."""
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), (out, err)
    return int(exit_.value.code or 0), err


@pytest.mark.parametrize("name", WRITERS)
def test_what_lies_beside_an_output_is_nobodys_to_take(name: str) -> None:
    """A victim's file is not written through a link that waits under a name that can be guessed."""
    _store()
    Path("victim").write_text("mine")
    guesses = [f"{name}.part", f"{name}.partial", Path(name).with_suffix(".partial").name, f"{name}.tmp"]
    for guess in guesses:
        Path(guess).symlink_to("victim")
    before = sorted(os.listdir())
    WRITERS[name](Path(name))
    assert Path("victim").read_text() == "mine"
    assert all(Path(guess).is_symlink() for guess in guesses)
    assert sorted(set(os.listdir()) - set(before)) == [name]


@pytest.mark.parametrize("name", WRITERS)
def test_a_link_is_followed_and_stays(name: str) -> None:
    """The file that it leads to is replaced in its own folder, or made where there is none."""
    _store()
    Path("far").mkdir()
    Path(name).symlink_to(f"far/real-{name}")
    WRITERS[name](Path(name))
    assert Path(name).is_symlink()
    assert os.listdir("far") == [f"real-{name}"]
    assert Path(f"far/real-{name}").stat().st_size
    if name != "merged.db":
        there = Path(f"far/real-{name}")
        there.write_bytes(before := there.read_bytes() if name in OURS else b"old")
        there.touch()
        inode = there.stat().st_ino
        WRITERS[name](Path(name))
        assert Path(name).is_symlink()
        assert Path(name).read_bytes()[:3] != b"old"
        assert there.stat().st_ino != inode or there.read_bytes() != before


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "merged.db"])
def test_a_pipe_is_written_to_and_stays_a_pipe(name: str) -> None:
    os.mkfifo(name)
    with open(os.open(name, os.O_RDONLY | os.O_NONBLOCK), "rb") as pipe:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 2**20)  # all that is written waits there to be read
        outputs.check(Path(name))
        WRITERS[name](Path(name))
        assert stat.S_ISFIFO(os.stat(name).st_mode)
        assert os.listdir() == [name]
        read = pipe.read()
    Path(name).unlink()
    WRITERS[name](Path(name))
    assert len(read) == Path(name).stat().st_size > 0


def test_a_pipe_that_nobody_reads_is_an_error_and_not_waited_for() -> None:
    os.mkfifo("law.json")
    with pytest.raises(ReportError, match=r"^out: .*law\.json: "):
        capax.save_law(capax.load_law(), "law.json")


def test_a_device_is_written_to_and_stays_a_device() -> None:
    """As `--out /dev/null`, which was replaced by a file; a device of our own, in case it is again."""
    try:
        os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        Path("null").write_bytes(b"")
    except PermissionError:
        pytest.skip("devices cannot be made here")
    outputs.check(Path("null"))
    for write in (lambda path: capax.save_law(capax.load_law(), path), lambda path: report.write("a page", path)):
        write(Path("null"))
        assert stat.S_ISCHR(os.stat("null").st_mode)
    assert os.listdir() == ["null"]


def test_our_own_stdout_is_written_to(capfd: pytest.CaptureFixture[str]) -> None:
    """As `--out /dev/stdout > file`: the file that the shell has opened is not replaced by another."""
    there = os.stat("/dev/stdout")
    report.write("a page\n", Path("/dev/stdout"))
    print("and what else is said")
    assert capfd.readouterr().out == "a page\nand what else is said\n"
    assert os.path.samestat(os.stat("/dev/stdout"), there)


def test_an_output_has_the_rights_of_the_file_before_it() -> None:
    umask = os.umask(0o027)
    try:
        report.write("new", Path("new.html"))
        Path("old.html").touch()
        Path("old.html").chmod(0o604)
        report.write("new", Path("old.html"))
    finally:
        os.umask(umask)
    assert stat.S_IMODE(Path("new.html").stat().st_mode) == 0o640
    assert stat.S_IMODE(Path("old.html").stat().st_mode) == 0o604


@pytest.mark.parametrize("name", WRITERS)
def test_no_room_leaves_what_was_there(name: str) -> None:
    """Of whatever format: matplotlib's PDF said 'Stream' object has no attribute 'pos'."""
    _store(rows=100)
    if name in OURS:
        WRITERS[name](Path(name))
    elif name != "merged.db":
        Path(name).write_text("before")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    room = 45_056 if name == "merged.db" else 4  # of a store, to open it
    with files_of_at_most(room), pytest.raises(OutputError, match=rf"cannot write {name}: \w+") as error:
        WRITERS[name](Path(name))
    assert error.value.exit_code == 1
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize("arguments", ["runs export out/r.csv --store one.db", "runs merge one.db --out out/m.db"])
def test_a_folder_that_is_read_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    _store()
    Path("out").mkdir()
    opened = Path.open

    def refusing(path: Path, *options: Any, **named: Any) -> Any:
        if path.parent.name == "out":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *options, **named)

    monkeypatch.setattr(Path, "open", refusing)  # nothing is read-only for the superuser
    code, line = ended(capsys, *arguments.split())
    assert code == 1
    (path,) = (word for word in arguments.split() if word.startswith("out/"))
    assert line.endswith(f"cannot write {path}: Permission denied\n")
    assert os.listdir("out") == []


EARLY = {
    "fit --store missing.db --out {}": "json",
    "fit --store missing.db --compare --figure {}": "png",
    "runs export {} --store missing.db": "csv",
    "runs merge missing.db --out {}": "db",
    "construct associations --n-heads 1 --context-size 2 --d-head 2 --library no.npy --save {}": "safetensors",
    "construct relations --graph missing.csv --save {}": "safetensors",
    "bounds --seq-len -1 --figure {}": "png",
    "check saturation 0 --store missing.db --out {}": "npy",
    "check saturation 0 --store missing.db --figure {}": "png",
    "runs probe 0 --store missing.db --figure {}": "png",
    "report missing.db --out {}": "html",
    "figure bounds missing.db --out {}": "png",
    "demo --store missing/s.db --figure {}": "png",
    "measure sequences --store missing/s.db --sensitivity lr --figure {}": "png",
}
"""Commands that cannot succeed for two reasons: the one of their output is told, since it is looked for first."""


@pytest.mark.parametrize("command", EARLY)
def test_an_output_is_checked_before_any_work(capsys: pytest.CaptureFixture[str], command: str) -> None:
    ending = EARLY[command]
    Path(f"folder.{ending}").mkdir()
    for name, said in (
        (f"none/x.{ending}", "no such folder none"),
        (f"folder.{ending}", "is a folder"),
        (f"{'x' * 300}.{ending}", "File name too long"),
    ):
        code, line = ended(capsys, *command.format(name).split())
        assert (code, said in line) == (2, True), line
    assert os.listdir() == [f"folder.{ending}"]


def test_a_name_with_a_null_character_is_told() -> None:
    for write in (outputs.check, lambda path: report.write("a page", path)):
        with pytest.raises(ReportError, match="out: cannot write"):
            write(Path("a\0b"))


def test_a_store_is_not_overwritten_from_python_either() -> None:
    _store()
    with pytest.raises(ReportError, match=r"one\.db is a store"):
        capax.save_law(capax.load_law(), "one.db")


@pytest.mark.parametrize("table", ["runs", "failures"])
def test_a_key_that_is_a_path_deletes_nothing(capsys: pytest.CaptureFixture[str], table: str) -> None:
    """Keys are names of files beside the store; a store of somebody else may hold any text."""
    task = capax.Sequences(seq_len=3, vocab_size=4, library_size=4)
    model, training = capax.Transformer(d_model=4, d_head=2), capax.Training(max_epochs=1)
    run = capax.measure(task, model, training, restarts=1)
    with capax.Store("theirs.db") as store:
        store.add(run)
        store.fail(run.spec.replace(seed=1), "why")
    victim = Path("deep.safetensors")
    victim.write_text("mine")
    Path("theirs.db-weights/inner").mkdir(parents=True)
    for key in ("../deep", "inner/../../deep", "A" * 64, 7):
        with closing(sqlite3.connect("theirs.db")) as connection, connection:
            connection.execute(f"UPDATE {table} SET key = ?", (key,))
        for arguments in (["delete", str(key)[:4]], ["delete", "."], ["--json"], []):
            code, line = ended(capsys, "runs", *arguments, "--store", "theirs.db")
            assert code == 2
            assert "a key is 64 hexadecimal digits" in line
        with pytest.raises(StoreError, match="64 hexadecimal digits"):
            merge(["theirs.db"], "merged.db")
    assert victim.read_text() == "mine"
    with capax.Store("ours.db") as store:
        assert store.weights_path(run.key).name == f"{run.key}.safetensors"
        for key in ("../deep", "", run.key.upper(), f"{run.key}/x"):
            with pytest.raises(StoreError, match="64 hexadecimal digits"):
                store.weights_path(key)
            with pytest.raises(StoreError, match="64 hexadecimal digits"):
                store.delete(key)


def test_weights_are_kept_by_the_same_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    path = Path("s.db-weights") / "key.safetensors"
    path.parent.mkdir()
    Path("victim").write_text("mine")
    path.with_suffix(".partial").symlink_to(Path("victim").absolute())
    memory.save(path, {"query": torch.ones(2)})
    assert Path("victim").read_text() == "mine"
    assert len(os.listdir(path.parent)) == 2
    monkeypatch.setattr(os, "replace", _no_room)
    monkeypatch.setattr(Path, "write_bytes", _no_room)
    with pytest.raises(StoreWriteError, match=r"s\.db-weights: .*No space left"):
        memory.save(path, {"query": torch.ones(2)})
    assert len(os.listdir(path.parent)) == 2


def _no_room(*_: Any) -> None:
    raise OSError(28, "No space left on device")
