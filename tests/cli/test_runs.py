"""What `capax runs` does with a store, and what they refuse."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from commands import narrow, refused, run
from rich.console import Console

import capax
from capax.cli import output
from capax.results import Measurement
from capax.store import Store, table_files


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def measured() -> list[Measurement]:
    """Three runs: two with one head, one with two."""
    task, training = capax.Sequences(seq_len=3, vocab_size=5, library_size=4), capax.Training(max_epochs=1)
    cells = ((1, 0), (2, 0), (1, 1))
    return [
        capax.measure(task, capax.Transformer(n_heads=heads, d_model=4), training, restarts=1, seed=seed)
        for heads, seed in cells
    ]


@pytest.fixture
def stored(measured: list[Measurement]) -> list[Measurement]:
    """Two of them in capax.db, the third as a failure."""
    with Store("capax.db") as store:
        for run in measured[:2]:
            store.add(run)
        for _ in range(2):
            store.fail(measured[2].spec, "out of memory:\n  [1, 2]")
    return measured


THEIRS = pl.DataFrame({"seq_len": [8, 16], "n_heads": [1, 2], "d_model": [32, 64], "memorized": [100, 200]})


def test_the_listing(capsys: pytest.CaptureFixture[str], stored: list[Measurement]) -> None:
    names, *lines = run(capsys, "runs").splitlines()
    assert names.split() == [
        *("key", "protocol", "items", "layers", "heads", "width", "library", "memorized", "chance"),
        *("bits/par.", "seconds", "stopped"),
    ]
    assert [re.split("  +", line)[:7] for line in lines] == [
        [run.key[:12], "mac", "3 tokens of 5", "1", str(run.spec.model.n_heads), "4", "4"] for run in stored[:2]
    ]
    assert {len(line) for line in lines} == {len(names)}


def test_a_narrow_terminal_shows_whole_keys(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stored: list[Measurement]
) -> None:
    narrow(monkeypatch, 80)
    said = run(capsys, "runs")
    assert max(map(len, said.splitlines())) <= 80
    table, _, names = said.partition("Left out, as the terminal is narrow (--json has them): ")
    assert "seconds" in names
    lines = table.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == [run.key[:12] for run in stored[:2]]
    assert [line.split()[-3:] for line in lines[-2:]] == [
        [str(run.library_size), str(run.memorized), f"{run.chance:.4g}"] for run in stored[:2]
    ]


def test_a_narrow_terminal_cuts_what_items_are_and_keeps_chance_and_protocol(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stored: list[Measurement]
) -> None:
    """The store's copy of the words for items is as long as a user's file and its tokens make it."""
    with closing(sqlite3.connect("capax.db")) as database, database:
        database.execute("UPDATE runs SET items = 'countries.tsv, entities as codes of 2 tokens, up to 12 of 99'")
    narrow(monkeypatch, 80)
    said = run(capsys, "runs")
    assert max(map(len, said.splitlines())) <= 80
    head, *lines = [line for line in said.splitlines() if line.strip() and not line.startswith(("Left", "terminal"))]
    assert {"protocol", "items", "memorized", "chance"} <= set(head.split())
    assert all("  countries.t" in line and "…  " in line for line in lines[:2])


def test_a_long_name_is_cut_before_it_pushes_out_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stored: list[Measurement]
) -> None:
    with Store("capax.db") as store:
        store.label(stored[0].key, name="long " * 18)
    narrow(monkeypatch, 80)
    said = run(capsys, "runs")
    assert max(map(len, said.splitlines())) <= 80
    assert "long lon" in said
    assert "…  " in said
    assert {"memorized", "chance"} <= set(said.split())
    assert "long " * 17 in run(capsys, "runs", "--json")


def test_runs_that_look_alike_are_told_apart(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stored: list[Measurement]
) -> None:
    """By the fields in which they differ, and whole where no terminal cuts them; a terminal cuts them first."""
    first = stored[0]
    others = [
        first.spec.replace(model=first.spec.model.replace(d_head=3, ffn="none"), seed=1),
        first.spec.replace(training=first.spec.training.replace(lr=0.01), seed=7),
    ]
    with Store("capax.db") as store:
        for spec in others:
            store.add(capax.measure(spec.task, spec.model, spec.training, protocol=spec.protocol, seed=spec.seed))
    head, *lines = run(capsys, "runs").splitlines()
    assert head.endswith("  apart by")
    said = {line.split()[0]: line[head.index("apart by") :].strip() for line in lines}
    assert [said[key[:12]] for key in (first.key, stored[1].key, *(spec.key() for spec in others))] == [
        "d_head 64, ffn mlp, lr 0.001, seed 0",
        "-",
        "d_head 3, ffn none, lr 0.001, seed 1",
        "d_head 64, ffn mlp, lr 0.01, seed 7",
    ]
    narrow(monkeypatch, 80)
    lines = run(capsys, "runs").splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("d_head" in line and "…" in line for line in lines) == 3
    assert "apart by" not in run(capsys, "runs", "--where", "n_heads=2")


@pytest.mark.parametrize("measurement", ["{", "[]", "3", '{"spec": [1]}', '{"spec": {"task": 3}}'])
def test_a_damaged_run_is_listed(
    capsys: pytest.CaptureFixture[str], stored: list[Measurement], measurement: str
) -> None:
    """Beside one that looks like it, which still says what it was asked for."""
    first = stored[0].spec
    other = first.replace(seed=1)
    with Store("capax.db") as store:
        store.add(capax.measure(other.task, other.model, other.training, protocol=other.protocol, seed=1))
    with closing(sqlite3.connect("capax.db")) as database, database:
        database.execute("UPDATE runs SET measurement = ? WHERE key = ?", (measurement, first.key()))
    lines = {line.split()[0]: line for line in run(capsys, "runs").splitlines()}
    assert first.key()[:12] in lines
    assert "seed 1" in lines[other.key()[:12]]


def test_the_listing_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Store("capax.db").close()
    assert len(run(capsys, "runs").splitlines()) == 1
    assert run(capsys, "runs", "--failed") == "none failed\n"
    assert json.loads(run(capsys, "runs", "--json")) == []
    assert "no column" in refused(capsys, "runs", "--where", "n_heads=1")
    assert "no rows" in refused(capsys, "runs", "export", "r.csv")


@pytest.mark.slow
def test_the_listing_loads_nothing_heavy_and_a_page_no_torch(stored: list[Measurement]) -> None:
    code = """
import sys
from capax.cli import main
for command in (["runs"], ["report", "capax.db"]):
    try:
        main(command)
    except SystemExit as end:
        assert not end.code, end.code
    print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *listed, listing, _, page = done.stdout.splitlines()
    assert len(listed) == 3
    assert not {"torch", "sklearn", "lmfit", "scipy", "matplotlib", "polars", "filelock"} & set(listing.split())
    assert not {"torch", "lmfit", "matplotlib"} & set(page.split())


def test_where(capsys: pytest.CaptureFixture[str], stored: list[Measurement]) -> None:
    assert [line.split()[0] for line in run(capsys, "runs", "--where", "n_heads=2").splitlines()[1:]] == [
        stored[1].key[:12]
    ]
    found = json.loads(run(capsys, "runs", "--where", "n_heads=1", "--where", "protocol=mac", "--json"))
    assert [run["key"] for run in found] == [stored[0].key]
    assert "n_heads=7" in refused(capsys, "runs", "--where", "n_heads=7")
    assert "where: no column 'heads'" in refused(capsys, "runs", "--where", "heads=7")
    assert "where: column=value" in refused(capsys, "runs", "--where", "heads")


def test_failed(capsys: pytest.CaptureFixture[str], stored: list[Measurement]) -> None:
    names, line = run(capsys, "runs", "--failed").splitlines()
    assert names.split() == ["key", "failed", "attempts", "error"]
    key, _, attempts, *error = line.split()
    assert (key, attempts, " ".join(error)) == (stored[2].key[:12], "2", "out of memory: [1, 2]")
    (failure,) = json.loads(run(capsys, "runs", "--failed", "--json"))
    assert set(failure) == {"key", "failed", "error", "attempts", "spec"}
    assert capax.Run.model_validate(failure["spec"]) == stored[2].spec


def test_a_long_error_is_whole_but_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stored: list[Measurement]
) -> None:
    with Store("capax.db") as store:
        store.fail(stored[2].spec, f"{'why ' * 100}at last")
    assert run(capsys, "runs", "--failed").endswith("why at last\n")
    monkeypatch.setattr(output, "console", lambda stderr=False: Console(force_terminal=True))
    assert run(capsys, "runs", "--failed").endswith("...\n")


@pytest.mark.parametrize("name", ["r.csv", "r.parquet"])
def test_export(capsys: pytest.CaptureFixture[str], stored: list[Measurement], name: str) -> None:
    Path(name).write_text("my notes")
    assert f"export: {name} is there, and no " in refused(capsys, "runs", "export", name)
    assert Path(name).read_text() == "my notes"
    csv, foreign, ours = name.endswith("csv"), pl.DataFrame({"seq_len": [4]}), pl.DataFrame({"key": ["before"]})
    for there in (foreign, ours):
        there.write_csv(name) if csv else there.write_parquet(name)
        if there is foreign:
            assert f"export: {name} is there, and no table of runs" in refused(capsys, "runs", "export", name)
            assert (pl.read_csv(name) if csv else pl.read_parquet(name)).equals(foreign)
    assert run(capsys, "runs", "export", name) == f"2 rows written to {name}\n"
    back = pl.read_csv(name) if name.endswith("csv") else pl.read_parquet(name)
    assert back["key"].to_list() == [run.key for run in stored[:2]]
    assert back.columns == capax.read().columns
    run(capsys, "runs", "export", name, "--where", "n_heads=2")
    back = pl.read_csv(name) if name.endswith("csv") else pl.read_parquet(name)
    assert back["key"].to_list() == [stored[1].key]


def test_export_refuses(capsys: pytest.CaptureFixture[str], stored: list[Measurement]) -> None:
    before = sorted(Path.cwd().iterdir())
    assert "got r.xlsx" in refused(capsys, "runs", "export", "r.xlsx")
    assert "cannot write" in refused(capsys, "runs", "export", "no/where.csv")
    assert sorted(Path.cwd().iterdir()) == before
    Path("folder.csv").mkdir()
    assert "folder.csv is a folder" in refused(capsys, "runs", "export", "folder.csv")
    assert sorted(Path.cwd().iterdir()) == sorted([*before, Path.cwd() / "folder.csv"])


def test_export_is_whole_or_not_at_all(capsys: pytest.CaptureFixture[str], stored: list[Measurement]) -> None:
    """A list, as stores once let in, cannot be a cell of a .csv: the file of before stays."""
    with Store("capax.db") as store:
        store.import_rows(THEIRS.with_columns(layers=pl.lit("two")), "a paper")
        with store._database.writing("") as connection:
            connection.execute("""UPDATE imported SET row = replace(row, '"two"', '[1, 2]')""")
    Path("r.csv").write_text("key,before")
    assert "cannot write r.csv" in refused(capsys, "runs", "export", "r.csv")
    assert Path("r.csv").read_text() == "key,before"
    assert not list(Path.cwd().glob("*.part"))


def test_delete(capsys: pytest.CaptureFixture[str], stored: list[Measurement]) -> None:
    first, second, failed = (run.key for run in stored)
    with Store("capax.db") as store:
        weights = store.weights_path(first)
    weights.parent.mkdir()
    weights.write_bytes(b"weights")
    assert "'zz'" in refused(capsys, "runs", "delete", "zz")
    assert "key: a run's key, or how it begins" in refused(capsys, "runs", "delete", "")
    assert "key: at least 6 characters, as a deletion is final, got" in refused(capsys, "runs", "delete", first[:5])
    assert run(capsys, "runs", "delete", first[:12]).startswith(f"deleted {first[:12]}: ")
    assert not weights.exists()
    assert run(capsys, "runs", "delete", failed) == f"deleted {failed[:12]}: its failure\n"
    with Store("capax.db") as store:
        assert store.keys() == {second}
        assert store.failures() == []
    Path("capax.db").chmod(0o444)
    assert "read-only" in refused(capsys, "runs", "delete", second)


def test_an_ambiguous_key_deletes_nothing(capsys: pytest.CaptureFixture[str], stored: list[Measurement]) -> None:
    with Store("capax.db") as store:
        store.add(stored[0].model_copy(update={"key": stored[0].key[:20] + "0" * 44}))
    assert "2 runs have a key" in refused(capsys, "runs", "delete", stored[0].key[:20])
    with Store("capax.db") as store:
        assert len(store.keys()) == 3


@pytest.mark.parametrize("name", ["theirs.csv", "theirs.parquet"])
def test_import(capsys: pytest.CaptureFixture[str], stored: list[Measurement], name: str) -> None:
    THEIRS.write_csv(name) if name.endswith("csv") else THEIRS.write_parquet(name)
    for _ in range(2):
        assert run(capsys, "runs", "import", name) == f"2 rows imported from {name}\n"
    *_, last = run(capsys, "runs").splitlines()
    assert last.split()[1] == "2"
    assert last.endswith(name)
    *runs, last = run(capsys, "runs", "--where", "n_heads=2").splitlines()
    assert [line.split()[0] for line in runs[1:]] == [stored[1].key[:12]]
    assert last.split()[1] == "1"
    assert last.endswith(name)
    assert "r.csv" in run(capsys, "runs", "export", "r.csv")
    assert pl.read_csv("r.csv")["source"].to_list() == [None, None, *[str(Path(name).resolve())] * 2]


def test_a_file_is_the_same_by_any_spelling(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    THEIRS.write_csv("theirs.csv")
    Path("linked.csv").symlink_to("theirs.csv")
    for spelling in ("theirs.csv", f"../{tmp_path.name}/theirs.csv", tmp_path / "theirs.csv", "linked.csv"):
        assert run(capsys, "runs", "import", spelling) == f"2 rows imported from {spelling}\n"
    assert capax.read("capax.db")["memorized"].to_list() == [100, 200]


def test_an_export_of_the_store_counts_once(capsys: pytest.CaptureFixture[str], stored: list[Measurement]) -> None:
    run(capsys, "runs", "export", "own.csv")
    said = run(capsys, "runs", "import", "own.csv")
    assert said == "2 rows imported from own.csv; 2 of them are runs of capax.db, which count once\n"
    assert capax.read("capax.db")["key"].to_list() == [one.key for one in stored[:2]]
    run(capsys, "runs", "delete", stored[0].key)  # then the row is all that is left of it
    assert set(capax.read("capax.db")["key"]) == {one.key for one in stored[:2]}


def test_a_copy_of_an_export_counts_once(capsys: pytest.CaptureFixture[str], stored: list[Measurement]) -> None:
    run(capsys, "runs", "export", "monday.csv")
    shutil.copy("monday.csv", "tuesday.csv")
    for name in ("monday.csv", "tuesday.csv"):
        run(capsys, "runs", "import", name, "--store", "new.db")
    assert capax.read("new.db")["key"].to_list() == [one.key for one in stored[:2]]
    assert table_files.from_files(["monday.csv", "tuesday.csv"])["key"].to_list() == [one.key for one in stored[:2]]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("8,1.5,32,3,true", "n_heads: row 1 should be a whole number, got 1.5"),
        ("8,1,32,3,maybe", "above_chance: true or false, got 'maybe'"),
    ],
)
def test_impossible_values_are_not_imported(capsys: pytest.CaptureFixture[str], row: str, said: str) -> None:
    Path("bad.csv").write_text(f"seq_len,n_heads,d_model,memorized,above_chance\n{row}\n")
    assert said in refused(capsys, "runs", "import", "bad.csv", "--store", "new.db")
    assert not Path("new.db").exists()


def test_a_shipped_table_is_imported_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "runs", "import", "reference:grid")
    with Store("capax.db") as store:
        assert list(store.sources()) == ["reference:grid"]


def test_import_makes_a_store(capsys: pytest.CaptureFixture[str]) -> None:
    THEIRS.write_csv("theirs.csv")
    run(capsys, "runs", "import", "theirs.csv", "--store", "new.db")
    assert capax.read("new.db")["memorized"].to_list() == [100, 200]
    assert run(capsys, "runs", "--store", "new.db", "--where", "n_heads=2").splitlines()[1:] == [
        f"and 1 row imported from {Path('theirs.csv').resolve()}"
    ]


def test_nothing_memorized_is_a_measurement_too(capsys: pytest.CaptureFixture[str]) -> None:
    Path("zero.csv").write_text("seq_len,n_heads,d_model,memorized\n8,1,32,0\n")
    run(capsys, "runs", "import", "zero.csv", "--store", "new.db")
    assert capax.read("new.db")["memorized"].to_list() == [0]
    Path("less.csv").write_text("seq_len,n_heads,d_model,memorized\n8,1,32,-1\n")
    assert "memorized: row 1 should be a finite number, 0 or more, got -1" in refused(
        capsys, "runs", "import", "less.csv", "--store", "new.db"
    )


def test_bad_imports_make_no_store(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.csv").write_text("seq_len,n_heads,d_model,memorized\n8,1,32,100\n8,1,32,many\n")
    assert "memorized: row 2 should be a finite number, 0 or more, got 'many'" in refused(
        capsys, "runs", "import", "bad.csv"
    )
    Path("less.csv").write_text("seq_len,n_heads,memorized\n8,1,100\n")
    assert "d_model: no such column" in refused(capsys, "runs", "import", "less.csv")
    assert "merge" not in refused(capsys, "runs", "import", "less.csv")
    Path("own.csv").write_text("key,memorized\n0a,100\n")
    assert refused(capsys, "runs", "import", "own.csv").endswith(
        "; runs of capax go from store to store by capax runs merge\n"
    )
    Path("own.csv").unlink()
    assert "no such file" in refused(capsys, "runs", "import", "none.csv")
    assert ".csv or .parquet" in refused(capsys, "runs", "import", "bad.txt")
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["bad.csv", "less.csv"]


def test_failures_are_not_chosen_by_columns(capsys: pytest.CaptureFixture[str], stored: list[Measurement]) -> None:
    said = refused(capsys, "runs", "--failed", "--where", "n_heads=1")
    assert "where" in said
    assert "--failed" in said


def test_show(capsys: pytest.CaptureFixture[str], stored: list[Measurement]) -> None:
    """As `capax measure` shows it."""
    key = stored[0].key
    assert Measurement.from_json(run(capsys, "runs", "show", key[:12], "--json")) == stored[0]
    assert key[:12] in run(capsys, "runs", "show", key[:12])
    assert "zz" in refused(capsys, "runs", "show", "zz")


def test_the_list_is_what_runs_says_without_a_command(
    capsys: pytest.CaptureFixture[str], stored: list[Measurement]
) -> None:
    assert run(capsys, "runs", "list") == run(capsys, "runs")


@pytest.mark.parametrize(
    "flags", [["--failed"], ["export", "r.csv"], ["delete", "a"], ["show", "a"], ["--where", "n_heads=1"]]
)
def test_a_missing_store_is_not_made(capsys: pytest.CaptureFixture[str], flags: list[str]) -> None:
    assert "no such file: capax.db" in refused(capsys, "runs", *flags)
    assert list(Path.cwd().iterdir()) == []


def test_merge(capsys: pytest.CaptureFixture[str], stored: list[Measurement]) -> None:
    with Store("b.db") as store:
        store.add(stored[2])
        store.add(stored[1])
    assert run(capsys, "runs", "merge", "capax.db", "b.db", "-o", "c.db") == "3 runs in c.db\n"
    assert len(run(capsys, "runs", "--store", "c.db").splitlines()) == 4
    assert len(run(capsys, "runs", "--store", "c.db", "--failed").splitlines()) == 1
    assert "c.db exists" in refused(capsys, "runs", "merge", "capax.db", "--out", "c.db")
    assert "at least one" in refused(capsys, "runs", "merge", "-o", "d.db")
    assert "no such file" in refused(capsys, "runs", "merge", "capax.db", "none.db", "-o", "d.db")
    refused(capsys, "runs", "merge", "capax.db")
    assert not list(Path.cwd().glob("d.db*"))


def test_a_merge_says_what_was_imported(capsys: pytest.CaptureFixture[str]) -> None:
    for name, counts in (("one", (40, 50)), ("other", (60,))):
        Path("data.csv").write_text(
            "\n".join(["seq_len,n_heads,d_model,memorized", *(f"8,1,16,{count}" for count in counts)])
        )
        run(capsys, "runs", "import", "data.csv", "--store", f"{name}.db")
    source = Path("data.csv").resolve()
    assert run(capsys, "runs", "merge", "one.db", "other.db", "-o", "both.db") == (
        f"0 runs in both.db\nand 2 rows imported from {source}\nand 1 row imported from {source} (2)\n"
    )
