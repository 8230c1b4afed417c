"""Bad input of every kind ends at once, in one line, and leaves nothing behind."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import FrameType

import numpy as np
import polars as pl
import pytest
from bad_files import STUDY, WRONG_STUDIES, make
from forks import Server
from invocations import BASES, FILES, LEARNED, SLOW, WITHOUT_LAW, draw, table
from versions import pinned

import capax
from capax import machine
from capax.cli import main
from capax.cli.numbers import integers
from capax.errors import CapaxError, SpecError, StoreError, TableError
from capax.inputs import DEEPEST, json_object, lines_of, read_npy, regular
from capax.store.table_files import from_file
from capax.sweeps.grid import StudyError, read_study
from capax.training.room import refuse_too_large

SECONDS = 60
"""Until a test that waits for ever is ended."""


@pytest.fixture(autouse=True)
def _in_a_folder_and_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("it waits for ever")

    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that ends with code 2 and leaves the folder as it was."""
    before = sorted(Path().rglob("*"))
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert (exit_.value.code, out) == (2, ""), err
    assert err.startswith("capax: ")
    assert err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before
    return err


HUGE = "1" + "0" * 30


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            [
                "predict",
                "--n-heads",
                "1",
                "--d-model",
                "32",
                "--seq-len",
                "8",
                "--d-head",
                HUGE,
                "--law",
                "reference:power",
            ],
            ["d_head", "2^63"],
        ),
        (["measure", "sequences", "--restarts", str(2**62)], ["restarts", "at most 1000000"]),
        (["measure", "sequences", "--seed", "9" * 5000], ["seed", "2^63"]),
        (["measure", "sequences", "--max-steps", str(2**62)], ["max_steps", "at most"]),
        (["measure", "sequences", "--lr", "1e400"], ["lr", "finite", "1e400"]),
        (["measure", "sequences", "--threads", "1000000000"], ["threads", "at most 1024"]),
        (["measure", "sequences", "--workers", "1000000000"], ["workers", "at most 1024"]),
        (["measure", "relations", "--n-items", "8", "--n-heads", HUGE], ["n_heads", "2^63"]),
        (
            ["measure", "relations", "--n-items", "8", "--protocol", "budget", "--head-counts", "1," * 2000],
            ["head_counts", "integer"],
        ),
        (["fit", "--data", "reference:grid", "--law", "polynomial", "--degree", "1000000"], ["degree", "at most 20"]),
        (
            ["plan", "--items", "10", "--seq-len", "8", "--law", "reference:power", "--n-heads", HUGE],
            ["n_heads", "at most"],
        ),
        (
            ["plan", "--items", "10", "--seq-len", "8", "--law", "reference:power", "--probability", "nan"],
            ["probability", "finite"],
        ),
    ],
    ids=lambda value: " ".join(value)[:60],
)
def test_numbers_that_are_too_large_or_not_finite(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: list[str]
) -> None:
    line = refused(capsys, *arguments)
    for word in said:
        assert word in line


def test_the_largest_seed_is_a_seed() -> None:
    assert integers("n_heads", "1,2") == [1, 2]
    spec = capax.Run(task=capax.Sequences(), model=capax.Transformer(), seed=2**63 - 1)
    assert spec.seed == 2**63 - 1
    with pytest.raises(SpecError, match="seed"):
        spec.replace(seed=2**63)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["measure", "sequences", "--d-model", "1000000"],
        ["measure", "sequences", "--n-layers", "1000000000"],
        ["measure", "sequences", "--d-value", "2147483647"],
        ["measure", "sequences", "--seq-len", "100000", "--library-size", "10000000"],
        ["measure", "associations", "--d-head", "2147483647"],
        ["measure", "relations", "--n-items", "10000000", "--d-head", "4"],
        ["measure", "relations", "--n-items", "10000000", "--protocol", "budget"],
        ["check", "model", "--n-layers", "1000000000"],
        ["construct", "relations", "--n-items", "10000000"],
        ["construct", "relations", "--n-items", "8", "--n-heads", "2147483647", "--d-head", "2147483647"],
    ],
    ids=" ".join,
)
def test_sizes_that_cannot_fit_into_memory(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    line = refused(capsys, *arguments)
    assert "memory: this" in line
    assert line.count("GiB") == 2


def test_a_construction_with_more_channels_than_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert "at most" in refused(capsys, "construct", "associations", "--d-model", "10000000", "--n-heads", "1000")


def test_what_fits_is_judged_by_the_memory_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    run = capax.Run(task=capax.Sequences(library_size=1000), model=capax.Transformer(d_model=64))
    refuse_too_large(run)
    monkeypatch.setattr(machine, "memory", lambda: 100_000)
    with pytest.raises(SpecError, match=r"0\.\d+ GiB, .* 9\.31e-05 GiB"):
        refuse_too_large(run)


def opened(path: Path) -> None:
    """Read a study, and open its store."""
    capax.Store(read_study(path).store or "folder/s.db").close()


def study(text: str) -> Path:
    """A study file."""
    path = Path("s.toml")
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", sorted(set(WRONG_STUDIES) - {"list", "product", "module", "task"}))
def test_studies_that_cannot_be_are_refused_in_one_line(name: str) -> None:
    Path("folder").mkdir()
    with pytest.raises(CapaxError) as error:
        opened(study(WRONG_STUDIES[name]))
    assert "\n" not in str(error.value)


def test_a_change_that_no_run_of_the_study_meets_is_refused() -> None:
    changes = "[[change]]\nif = { seed = [1, 2] }\nset = { max_epochs = 2 }\n"
    changes += "[[change]]\nif = { d_model = [5, 6], seed = 1 }\nset = { max_epochs = 3 }\n"
    said = r"change\[1\]\.if: matches no run of the study, got d_model = \[5, 6\], seed = 1$"
    with pytest.raises(StudyError, match=said):
        read_study(study(STUDY + changes))
    assert len(read_study(study(STUDY + changes.replace("[5, 6]", "[4, 5]"))).runs) == 2


@pytest.mark.slow
def test_axes_are_refused_by_their_count_before_they_are_made() -> None:
    for text in (WRONG_STUDIES["list"], WRONG_STUDIES["range"], WRONG_STUDIES["range2"]):
        with pytest.raises(StudyError, match="50000"):
            read_study(study(text), allow_many=True)


def test_a_dry_run_has_at_least_one_worker(capsys: pytest.CaptureFixture[str]) -> None:
    study(STUDY)
    assert "workers" in refused(capsys, "sweep", "s.toml", "--dry-run", "--workers", "0")


def pipes(*names: str) -> None:
    """Named pipes, which nobody writes to."""
    for name in names:
        os.mkfifo(name)


@pytest.mark.parametrize(
    "arguments",
    [
        ["sweep", "pipe.toml"],
        ["measure", "sequences", "--library", "pipe.txt"],
        ["measure", "sequences", "--library", "pipe.npy"],
        ["measure", "associations", "--library", "pipe.safetensors"],
        ["measure", "associations", "--library", "pipes"],
        ["measure", "relations", "--d-head", "4", "--graph", "pipe.csv"],
        ["measure", "relations", "--d-head", "4", "--graph", "pipe.graphml"],
        ["measure", "relations", "--d-head", "4", "--n-items", "4", "--embeddings", "pipe.npy"],
        ["fit", "--data", "pipe.csv"],
        ["fit", "--data", "pipe.parquet"],
        ["fit", "--store", "pipe.db"],
        ["runs", "import", "pipe.csv"],
        ["check", "assumptions", "pipe.npy", "pipe.npy"],
        ["predict", "--n-heads", "1", "--d-model", "32", "--seq-len", "8", "--law", "pipe.json"],
        ["runs", "merge", "pipe.db", "--out", "o.db"],
        ["measure", "sequences", "--library", "/dev/zero"],
        ["measure", "sequences", "--library", "zero.txt"],
        ["fit", "--data", "zero.csv"],
    ],
    ids=" ".join,
)
def test_pipes_and_devices_are_no_inputs(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    pipes(*(f"pipe.{end}" for end in ["toml", "txt", "npy", "safetensors", "csv", "graphml", "parquet", "db", "json"]))
    Path("pipes").mkdir()
    pipes("pipes/queries.npy")
    Path("zero.txt").symlink_to("/dev/zero")
    Path("zero.csv").symlink_to("/dev/zero")
    refused(capsys, *arguments)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "no/such", "folder", "pipe", "loop", "/dev/zero"])
def test_what_is_no_regular_file_is_named(name: str) -> None:
    Path("folder").mkdir()
    pipes("pipe")
    Path("loop").symlink_to("loop")
    with pytest.raises(TableError, match="data: "):
        regular(Path(name), "data", TableError)


def test_nesting_has_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    for depth in (DEEPEST, 5000, 100_000):
        deep = "[" * depth + "]" * depth
        with pytest.raises(SpecError, match=r"^arguments: nested"):
            json_object(f'{{"a": {deep}}}', "arguments", SpecError)
        if depth < 100_000:
            with pytest.raises(StudyError, match="nested too deeply"):
                read_study(study(f"[model]\narguments = {deep}"))
    assert json_object('{"a": [[1]]}', "arguments", SpecError) == {"a": [[1]]}
    assert "arguments" in refused(capsys, "measure", "sequences", "--module", "os:abort", "--arguments", "[" * 10_000)


def test_a_line_without_an_end_is_not_read_to_its_end() -> None:
    Path("line.txt").write_text("1 2\n" + "1 " * 3000)
    with pytest.raises(TableError, match=r"line 2: .*1000"):
        list(lines_of(Path("line.txt"), "data", TableError, 1000))
    Path("ok.txt").write_text("1 2\r\n\n3 4\n5\n6")
    assert list(lines_of(Path("ok.txt"), "data", TableError, 10)) == ["1 2", "", "3 4", "5", "6"]


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_lines_end_where_editors_end_them(separator: str) -> None:
    Path("ok.txt").write_bytes(f"1 2{separator}3\r\n4 5{separator}\n{separator}6".encode())
    lines = list(lines_of(Path("ok.txt"), "data", TableError, 10))
    assert lines == [f"1 2{separator}3", f"4 5{separator}", f"{separator}6"]


def test_compressed_and_endless_tables_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with gzip.open("t.csv", "wb") as file:
        file.write(b"seq_len\n8\n")
    with pytest.raises(TableError, match="is compressed"):
        from_file("t.csv")
    Path("l.csv").write_text("a" * 100_000)
    with pytest.raises(TableError, match="first line"):
        from_file("l.csv")
    pl.DataFrame({"a": range(10), "b": range(10)}).write_parquet("p.parquet")
    assert len(from_file("p.parquet")) == 10
    monkeypatch.setattr("capax.store.table_files.MOST_VALUES", 19)
    with pytest.raises(TableError, match=r"20 .*19"):
        from_file("p.parquet")


def test_two_columns_of_a_table_have_two_names() -> None:
    Path("t.csv").write_text("seq_len,memorized,seq_len\n8,3,16\n")
    with pytest.raises(TableError, match=r"t\.csv: column 'seq_len' is there twice"):
        from_file("t.csv")


def test_empty_lines_of_a_table_are_no_rows() -> None:
    Path("t.csv").write_text("seq_len,memorized\n8,3\n\n16,4\n\n")
    assert from_file("t.csv").rows() == [(8, 3), (16, 4)]
    Path("t.csv").write_text("seq_len,memorized\n\n")
    with pytest.raises(TableError, match="holds no rows"):
        from_file("t.csv")


def test_integers_of_a_table_have_64_bits() -> None:
    Path("t.csv").write_text(f"seq_len,memorized\n8,{HUGE}\n")
    with pytest.raises(TableError, match=r"'memorized' .*64 bits" if pinned("polars") else "column 'memorized'"):
        from_file("t.csv")


def test_an_array_that_is_longer_than_its_file_is_not_made() -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000, 100000), }\n"
    Path("huge.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    with pytest.raises(TableError, match=r"^data: huge\.npy "):
        read_npy(Path("huge.npy"), "data", TableError)
    np.save("empty.npy", np.empty((0, 3)))
    assert read_npy(Path("empty.npy"), "data", TableError).shape == (0, 3)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store of one run."""
    path = tmp_path_factory.mktemp("store") / "s.db"
    task = capax.Sequences(seq_len=3, vocab_size=9, library_size=6)
    capax.measure(task, capax.Transformer(d_model=4), capax.Training(max_epochs=1), restarts=1, store=path)
    return path.read_bytes()


def everything(path: str) -> list[object]:
    """All that a store holds."""
    with capax.Store(path, create=False) as store:
        return [store.summaries(), store.failures(), list(store.runs())]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("PRAGMA user_version = -5", "has version -5, which no capax wrote"),
        ("PRAGMA user_version = 99", "has version 99"),
        ("PRAGMA application_id = 1", "not a capax store"),
        ("UPDATE runs SET finished = 'tomorrow'", "damaged: finished"),
        ("UPDATE runs SET finished = '2026-01-01T00:00:00'", "damaged: finished: .* no time zone"),
        ("UPDATE runs SET seconds = 'soon'", "damaged: seconds"),
        ("INSERT INTO failures VALUES (lower(hex(zeroblob(32))), 'never', 'why', 1, '{}')", "damaged: failed"),
        (
            "UPDATE runs SET measurement = json_set(measurement, '$.spec.model.d_model', 1e300)",
            "damaged: run .*d_model",
        ),
        ("UPDATE runs SET measurement = '[[['", "damaged: run"),
        ("UPDATE runs SET measurement = '{\"a\":' || replace(hex(zeroblob(5000)), '00', '[')", "damaged: run"),
    ],
)
def test_a_store_that_cannot_be_is_damaged(stored: bytes, statement: str, said: str) -> None:
    Path("s.db").write_bytes(stored)
    with closing(sqlite3.connect("s.db")) as connection, connection:
        connection.execute(statement)
    with pytest.raises(StoreError, match=said):
        everything("s.db")


@pytest.mark.slow
@pytest.mark.usefixtures("only_our_own")
def test_every_command_has_a_base_that_the_generator_changes() -> None:
    assert set(BASES) | WITHOUT_LAW == set(table())
    assert len(list(draw(0, 50, {"sequences": "a", "associations": "b", "relations": "c", "text": "d"}))) == 50


# ---------------------------------------------------------------------------------------------------------------------
# the generator


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Good and bad inputs of every kind, and the keys of the stored runs."""
    folder = tmp_path_factory.mktemp("inputs")
    return folder, make(folder)


@pytest.fixture
def _time_enough() -> None:
    """The invocations have limits of their own."""
    signal.alarm(0)


@pytest.mark.very_slow
@pytest.mark.usefixtures("_time_enough")
def test_the_bases_of_the_generator_are_accepted(inputs: tuple[Path, dict[str, str]]) -> None:
    """A base that is refused by itself would hide what its flags do."""
    folder, keys = inputs
    with Server(folder) as server:
        for command, base in BASES.items():
            key = keys[LEARNED.get(command, "sequences")]
            if command not in SLOW:
                ended = server.run([*command.split(), *(key if word == "KEY" else word for word in base)])
                assert ended.code == 0, (command, ended.err)


@pytest.mark.very_slow
@pytest.mark.usefixtures("_time_enough")
@pytest.mark.parametrize("seed", range(4))
def test_bad_invocations_of_every_command(inputs: tuple[Path, dict[str, str]], seed: int) -> None:
    """Exit codes of a command's own, one line, no traceback, little memory, and nothing left behind."""
    folder, keys = inputs
    with Server(folder) as server:
        ended = [server.run(arguments) for arguments in draw(seed, 250, keys) if arguments[0] not in SLOW]
    faults = [(one.arguments, one.faults(), one.err) for one in ended if one.faults()]
    assert not faults, json.dumps(faults, indent=1)[:20_000]


@pytest.mark.very_slow
@pytest.mark.usefixtures("_time_enough")
def test_every_store_and_study_with_every_command_that_reads_one(inputs: tuple[Path, dict[str, str]]) -> None:
    folder, keys = inputs
    stores = [name for name in FILES if name.endswith(".db")]
    invocations = [["sweep", f"study-{name}.toml", "--workers", "1"] for name in WRONG_STUDIES]
    for store in stores:
        invocations += [
            ["runs", "--store", store],
            ["runs", "--store", store, "--json"],
            ["runs", "--store", store, "--failed"],
            ["watch", store, "--once"],
            ["fit", "--store", store],
            ["report", store],
            ["runs", "merge", store, "s.db", "--out", "o.db"],
            ["runs", "recall", keys["sequences"], "--store", store, "1 2"],
            ["runs", "probe", keys["sequences"], "--store", store, "--trials", "5"],
            ["quantize", keys["sequences"], "--store", store, "--bits", "4"],
            ["check", "saturation", keys["associations"], "--store", store],
            ["measure", "sequences", *BASES["measure sequences"], "--store", store],
        ]
    with Server(folder) as server:
        ended = [server.run(arguments) for arguments in invocations]
    faults = [(one.arguments, one.faults(), one.err) for one in ended if one.faults()]
    assert not faults, json.dumps(faults, indent=1)[:20_000]
