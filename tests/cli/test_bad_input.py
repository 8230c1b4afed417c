"""Bad input gets one clear line and exit code 2, and leaves files as they were."""

import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from commands import refused
from limits import files_of_at_most

from capax.cli import main
from capax.store.schema import APPLICATION_ID


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--n-heads", "0"], ["n_heads", "0", "at least 1"]),
        (["--d-model", "-3"], ["d_model", "-3", "at least 1"]),
        (["--d-head", "0"], ["d_head", "0", "at least 1"]),
        (["--d-value", "0"], ["d_value", "0", "at least 1"]),
        (["--n-layers", "0"], ["n_layers", "0", "at least 1"]),
        (["--batch-size", "0"], ["batch_size", "0", "at least 1"]),
        (["--restarts", "0"], ["restarts", "0", "at least 1"]),
        (["--library-size", "0"], ["library_size", "0", "at least 1"]),
        (["--vocab-size", "1"], ["vocab_size", "1", "at least 2"]),
        (["--seq-len", "1"], ["seq_len", "1", "at least 2"]),
        (["--store", ""], ["store: should not be empty"]),
        (["--library", ""], ["library: should not be empty"]),
        (["--figure", ""], ["figure: should not be empty"]),
        (["--lr", "nan"], ["lr", "nan", "finite"]),
        (["--lr", "-1"], ["lr", "-1", "greater than 0"]),
        (["--time-limit", "0"], ["time_limit", "0", "greater than 0"]),
        (["--seed", "-1"], ["seed", "-1", "at least 0"]),
        (["--workers", "0"], ["workers", "0", "at least 1"]),
        (["--threads", "0"], ["threads", "0", "at least 1"]),
        (["--vocab-size", "2", "--seq-len", "4", "--library-size", "9"], ["library_size", "9", "at most 8"]),
        (["--library", "all", "--vocab-size", "100"], ["library_size", "at most 10000000", "100^7"]),
        (["--library", "everything"], ["library", "everything", "'random', 'all'"]),
        (["--library", "missing.txt"], ["missing.txt", "no such file"]),
        (["--ffn", "big"], ["ffn", "big", "mlp"]),
        (["--protocol", "best"], ["protocol", "best", "mac"]),
        (["--protocol", "mls", "--restarts", "3"], ["restarts", "mls"]),
        (["--protocol", "mls", "--keep-weights"], ["keep_weights", "mls"]),
        (["--heads", "2"], ["--heads"]),
        (["--n-heads", "two"], ["n_heads", "two"]),
        (["--n-heads"], ["n_heads: needs a value, got none"]),
        (["--device", "cuda"], ["device", "cuda", "cpu"]),
        (["--task", "relations"], ["--task"]),
    ],
)
def test_measure_refuses(capsys: pytest.CaptureFixture[str], flags: list[str], said: list[str]) -> None:
    import torch

    if "cuda" in flags and torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    line = refused(capsys, "measure", "sequences", *flags)
    for word in said:
        assert word in line, line
    assert list(Path.cwd().iterdir()) == []  # nothing half written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 2 3\n4 5\n", ["line 2", "2 tokens", "3"]),
        ("", ["empty"]),
        ("1 2 3\n1 x 4\n", ["line 2", "'x'"]),
        ("1 2 3.5\n", ["line 1", "'3.5'"]),
        ("1 2 3\n7 8 900\n", ["sequence 2", "900", "vocab_size 100"]),
        ("1 2 -3\n", ["sequence 1", "-3"]),
        ("1 2 3\n4 5 6\n1 2 3\n", ["1 and 3", "same"]),
        ("1 2 3\n1 2 4\n", ["1 and 2", "contradict", "3 and 4"]),
        ("1\n2\n", ["1 token", "at least 2"]),
    ],
)
def test_bad_sequence_files(capsys: pytest.CaptureFixture[str], text: str, said: list[str]) -> None:
    Path("s.txt").write_text(text)
    line = refused(capsys, "measure", "sequences", "--library", "s.txt", "--vocab-size", "100")
    for word in ["s.txt", *said]:
        assert word in line, line


@pytest.mark.slow
def test_sequences_that_are_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("s.npy", np.arange(2)[:, None] * np.ones((1, 100_001), dtype=int))
    line = refused(capsys, "measure", "sequences", "--library", "s.npy")
    assert "seq_len: at most 100000, but s.npy has sequences of 100001" in line


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no UTF-8 are Linux's")
def test_folders_whose_names_are_no_utf8(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.fsdecode(b"no\xff"))
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("s.txt").write_text("1 2 3\n4 5 6\n")
    Path("f.tsv").write_text("a\tb\tc\nd\te\tf\n")
    Path("g.csv").write_text("source,target\n0,1\n1,2\n")
    Path("s.toml").write_text("[task]\nlibrary_size = 5\n")
    Path("t.csv").write_text("seq_len,n_heads,d_model,memorized\n8,1,8,20\n")
    for arguments in (
        ("measure", "sequences", "--library", "s.txt"),
        ("measure", "facts", "f.tsv"),
        ("measure", "relations", "--graph", "g.csv", "--d-head", "2"),
        ("sweep", "s.toml", "--dry-run", "--json"),
        ("fit", "--data", "t.csv", "--law", "power"),
    ):
        assert "a path in UTF-8, got" in refused(capsys, *arguments), arguments


def test_npy_of_floats(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("s.npy", np.ones((3, 3)))
    assert "float64" in refused(capsys, "measure", "sequences", "--library", "s.npy")


SMALL = ["measure", "sequences", "--library-size", "4", "--d-model", "4", "--max-epochs", "1", "--restarts", "1"]


def test_store_is_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    assert "is a folder" in refused(capsys, *SMALL, "--store", "folder")


def test_store_folder_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "does not exist" in refused(capsys, *SMALL, "--store", "no/where.db")


def test_store_is_read_only(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("s.db")
    main_ok(*SMALL, "--store", "s.db")
    capsys.readouterr()
    path.chmod(0o444)
    before = path.read_bytes()
    assert "read-only" in refused(capsys, *SMALL, "--store", "s.db", "--seed", "1")
    assert path.read_bytes() == before


def test_store_is_not_a_database(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.db").write_text("dear diary, " * 100)
    refused(capsys, *SMALL, "--store", "s.db")
    assert Path("s.db").read_text() == "dear diary, " * 100


def test_store_is_another_database(capsys: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect("s.db")) as connection, connection:
        connection.execute("CREATE TABLE diary (entry TEXT)")
    assert "not a capax store" in refused(capsys, *SMALL, "--store", "s.db")


def test_store_is_from_a_newer_version(capsys: pytest.CaptureFixture[str]) -> None:
    main_ok(*SMALL, "--store", "s.db")
    capsys.readouterr()
    with closing(sqlite3.connect("s.db")) as connection, connection:
        assert connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        connection.execute("PRAGMA user_version = 99")
    assert "version 99" in refused(capsys, *SMALL, "--store", "s.db")
    assert "version 99" in refused(capsys, "runs", "--store", "s.db")


def test_runs_and_recall_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such file" in refused(capsys, "runs")
    assert "no such file" in refused(capsys, "runs", "recall", "abc", "1 2")
    assert not Path("capax.db").exists()


def test_recall_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    main_ok(*SMALL, "--json")
    key = json.loads(capsys.readouterr().out)["key"]
    assert "kept no weights" in refused(capsys, "runs", "recall", key, "1 2 3 4 5 6 7")
    main_ok(*SMALL, "--keep-weights", "--quiet")
    assert "7 tokens" in refused(capsys, "runs", "recall", key[:8], "1 2 3")
    assert "0..99" in refused(capsys, "runs", "recall", key[:8], "1 2 3 4 5 6 100")
    assert "integers" in refused(capsys, "runs", "recall", key[:8], "one")
    assert "no run" in refused(capsys, "runs", "recall", "zzz", "1 2 3 4 5 6 7")


def test_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, "mesure")
    assert "one of associations" in refused(capsys, "plan", "nosuch", "--items", "3")
    assert "nothing more, got 'b'" in refused(capsys, "plan", "facts", "a", "b")
    assert refused(capsys, "plan", "facts") == "capax: library: is required\n"
    assert refused(capsys, "runs", "merge", "a") == "capax: out: is required\n"


def test_what_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "plan", "--items", "many") == "capax: items: should be an integer, got 'many'\n"
    assert refused(capsys, "plan", "--items", "1e6") == "capax: items: should be an integer, got '1e6'\n"
    assert refused(capsys, "plan", "--budget-hours", "x") == "capax: budget_hours: should be a number, got 'x'\n"


def test_the_store_of_a_verification_is_refused_before_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.db").write_text("dear diary, " * 100)
    for name, said in (("s.db", "cannot open s.db"), ("no/where.db", "folder no does not exist")):
        asked = ("plan", "sequences", "--items", "50", "--seq-len", "8", "--vocab-size", "100")
        assert said in refused(capsys, *asked, "--verify", "--store", name)
        assert not Path("no").exists()
    assert Path("s.db").read_text() == "dear diary, " * 100


def main_ok(*arguments: str) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    assert exit_.value.code == 0


@pytest.mark.slow
def test_a_full_disk_loses_no_finished_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A real limit on file size: the earlier run stays, the new one is printed whole and reported as not saved."""
    small = [*SMALL[:-1], "200", "--store", "s.db", "--json", "--workers", "1", "--readout", "trained"]
    main_ok(*SMALL, "--store", "s.db", "--json")
    with files_of_at_most(45056), pytest.raises(SystemExit) as exit_:  # room to open the store, none for 200 restarts
        main(small)
    out, err = capsys.readouterr()
    first, second = map(json.loads, out.splitlines())
    assert exit_.value.code == 1
    assert "not saved" in err
    assert err.count("\n") == 1
    assert len(second["memorized_per_restart"]) == 200
    with closing(sqlite3.connect("s.db")) as connection, connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert [key for (key,) in connection.execute("SELECT key FROM runs")] == [first["key"]]
