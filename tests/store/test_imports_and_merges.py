"""Rows from elsewhere, and stores in one: what comes in lies below the runs, or nothing comes in."""

from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from stores import THEIRS, set_times

import capax
from capax.errors import ReportError, StoreError, TableError
from capax.results import Measurement
from capax.store import Store, table_files
from capax.store.merge import merge


def test_imports_lie_below_the_runs(tmp_path: Path, three: list[Measurement]) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        store.add(three[0])
        assert "source" not in capax.read(path).columns
        assert store.import_rows(THEIRS, "a paper") == 2
        assert store.import_rows(THEIRS.head(1), "a thesis") == 1
        assert store.import_rows(THEIRS.tail(1), "a paper") == 1
        assert store.sources() == {"a thesis": 1, "a paper": 1}
    rows = capax.read(path)
    assert rows["source"].to_list() == [None, "a thesis", "a paper"]
    assert rows["memorized"].to_list() == [three[0].memorized, 100.5, 200.0]
    assert rows["key"].to_list() == [three[0].key, None, None]
    assert rows["lr"].to_list() == [1e-3, 0.1, None]


def test_imports_alone_are_a_table(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        store.import_rows(THEIRS.with_columns(pl.lit(float("inf")).alias("loss_left")), "a paper")
    rows = capax.read(tmp_path / "s.db")
    assert rows.drop("source", "loss_left").equals(THEIRS)
    assert rows["loss_left"].null_count() == 2


def test_numbers_as_text_are_imported_as_numbers(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        store.import_rows(THEIRS.cast({"memorized": pl.String}), "a paper")
        store.import_rows(THEIRS.with_columns(pl.Series("seq_len", ["1_0", " 8 "])), "a thesis")
    found = capax.read(tmp_path / "s.db")
    assert found["memorized"].to_list()[:2] == [100.5, 200.0]
    assert found["seq_len"].to_list()[2:] == [10, 8]


@pytest.mark.parametrize("name", ["converged", "above_chance"])
def test_truth_values_may_be_missing_from_all_rows(tmp_path: Path, name: str) -> None:
    """A file of values separated by commas does not say of which kind an empty column is."""
    empty = THEIRS.with_columns(pl.Series(name, [None, None], dtype=pl.String))
    with Store(tmp_path / "s.db") as store:
        assert store.import_rows(empty, "a paper") == 2
        with pytest.raises(TableError, match=f"{name}: true or false, got 'yes'"):
            store.import_rows(THEIRS.with_columns(pl.Series(name, [None, "yes"])), "a paper")


BAD = (-1, float("nan"), float("inf"), None, "many", True, [1])


@pytest.mark.parametrize(("column", "value"), [("seq_len", 0), *product(("seq_len", "memorized"), BAD)])
def test_bad_imports_name_column_and_row(tmp_path: Path, column: str, value: Any) -> None:
    first = {"many": "1", True: True}.get(value, 1) if not isinstance(value, list) else [1]
    bad = THEIRS.with_columns(pl.Series(column, [first, value], strict=False))
    row = 1 if isinstance(first, bool | list) else 2
    with Store(tmp_path / "s.db") as store:
        store.import_rows(THEIRS, "a paper")
        with pytest.raises(TableError, match=rf"^{column}: row {row} "):
            store.import_rows(bad, "a paper")
        with pytest.raises(TableError, match=f"^{column}: "):
            store.import_rows(THEIRS.drop(column), "a paper")
        assert store.sources() == {"a paper": 2}


def test_columns_of_lists_are_refused(tmp_path: Path) -> None:
    lists = THEIRS.with_columns(pl.Series("tags", [["a"], ["b", "c"]]))
    with Store(tmp_path / "s.db") as store, pytest.raises(TableError, match=r"^tags: a column of numbers or text"):
        store.import_rows(lists, "a paper")


def test_all_rows_say_what_a_column_holds(tmp_path: Path) -> None:
    """A fraction, or the first number at all, may come after hundreds of rows."""
    rows = [f"8,1,{width + 1},{20 if width < 150 else 20.5},{'' if width < 150 else 3}" for width in range(160)]
    (tmp_path / "late.csv").write_text("seq_len,n_heads,d_model,memorized,more\n" + "\n".join(rows) + "\n")
    table = table_files.from_file(tmp_path / "late.csv")
    assert table["memorized"][-1] == 20.5
    assert table["more"].sum() == 30


def test_imports_that_do_not_fit_each_other(tmp_path: Path) -> None:
    """Lists, which were once let in."""
    with Store(tmp_path / "s.db") as store:
        store.import_rows(THEIRS, "a paper")
        store.import_rows(THEIRS.with_columns(lr=pl.lit("slow")), "lists")
        with store._database.writing("") as connection:
            connection.execute("""UPDATE imported SET row = replace(row, '"slow"', '[1]')""")
    with pytest.raises(TableError, match=r"^store: .*fit"):
        capax.read(tmp_path / "s.db")


def test_merge(tmp_path: Path, three: list[Measurement]) -> None:
    a, b, c = (tmp_path / f"{name}.db" for name in "abc")
    keys = [run.key for run in three]
    newer = three[0].model_copy(update={"seconds": 99.0})
    with Store(a) as store:
        store.add(newer)
        store.add(three[1])
        store.fail(three[2].spec, "older")
        store.import_rows(THEIRS, "a paper")
    with Store(b) as store:
        store.add(three[0])
        store.fail(three[1].spec, "done elsewhere")
        store.fail(three[2].spec, "newer")
        store.import_rows(THEIRS.head(1), "a paper")
    set_times(a, "runs", "finished", {keys[0]: "2026-03-01T00:00:00+00:00", keys[1]: "2026-01-01T00:00:00+00:00"})
    set_times(b, "runs", "finished", {keys[0]: "2026-02-01T00:00:00+00:00"})
    set_times(a, "failures", "failed", {keys[2]: "2026-01-01T00:00:00+00:00"})
    set_times(b, "failures", "failed", {keys[2]: "2026-01-02T00:00:00+00:00"})
    for order in ([a, b], [b, a]):
        assert merge(order, c) == 2
        with Store(c, create=False) as store:
            assert store.runs() == [three[1], newer]
            assert [summary.seconds for summary in store.summaries()] == [three[1].seconds, 99.0]
            (failure,) = store.failures()
            assert (failure.key, failure.error, failure.attempts) == (keys[2], "newer", 2)
            assert failure.failed == "2026-01-02T00:00:00+00:00"
            counts = (2, 1) if order == [a, b] else (1, 2)
            assert store.sources() == dict(zip(("a paper", "a paper (2)"), counts, strict=True))
        with pytest.raises(StoreError, match=r"^out: .*exists"):
            merge([a], c)
        c.unlink()
    merge([a, a.parent / "." / a.name], c)
    with Store(a) as once, Store(c) as twice:
        assert [failure.attempts for failure in twice.failures()] == [failure.attempts for failure in once.failures()]
    loop = tmp_path / "loop.db"
    loop.symlink_to(loop)
    with pytest.raises(StoreError, match=r"^store: cannot read .*loop\.db': Too many levels of symbolic links$"):
        merge([a, loop], tmp_path / "of-a-loop.db")
    assert not (tmp_path / "of-a-loop.db").exists()


def test_a_merge_keeps_all_imported_rows(tmp_path: Path) -> None:
    """A source is a path as it was typed: two folders may each have a `data.csv`."""
    stores = [tmp_path / f"{name}.db" for name in "abcd"]
    for path, rows in zip(stores, (THEIRS, THEIRS.head(1), THEIRS, THEIRS.tail(1)), strict=True):
        with Store(path) as store:
            store.import_rows(rows, "data.csv")
    assert merge(stores, tmp_path / "all.db") == 0
    with Store(tmp_path / "all.db", create=False) as store:
        assert store.sources() == {"data.csv": 2, "data.csv (2)": 1, "data.csv (3)": 1}
    merge([tmp_path / "all.db", *stores[:2]], tmp_path / "again.db")
    assert capax.read(tmp_path / "again.db").equals(capax.read(tmp_path / "all.db"))


def test_a_column_that_would_be_overwritten_is_refused(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        with pytest.raises(TableError, match=r"^source: .*rename it, it has 'a lab'"):
            store.import_rows(THEIRS.with_columns(source=pl.Series([None, "a lab"])), "a paper")
        store.import_rows(THEIRS.with_columns(source=pl.lit(None)), "an export of runs alone")
    assert capax.read(tmp_path / "s.db")["source"].to_list() == ["an export of runs alone"] * 2


def test_a_merge_that_fails_leaves_nothing(tmp_path: Path, three: list[Measurement]) -> None:
    with Store(tmp_path / "a.db") as store:
        store.add(three[0])
    (tmp_path / "b.db").write_text("dear diary, " * 100)
    for bad, said in (("b.db", "not a database"), ("none.db", "no such file")):
        with pytest.raises(StoreError, match=said):
            merge([tmp_path / "a.db", tmp_path / bad], tmp_path / "c.db")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "b.db"]
    (tmp_path / "c.db-wal").write_bytes(b"of a store that was deleted")
    with pytest.raises(StoreError, match=r"c\.db-wal exists"):
        merge([tmp_path / "a.db"], tmp_path / "c.db")
    with pytest.raises(StoreError, match="at least one"):
        merge([], tmp_path / "c.db")
    with pytest.raises(ReportError, match="no such folder"):
        merge([tmp_path / "a.db"], tmp_path / "no" / "c.db")


def test_rows_of_a_run_are_those_of_the_first_source_that_has_them(tmp_path: Path) -> None:
    """All of them: a table may have several of one run, such as the points of its curve."""
    rows = THEIRS.with_columns(key=pl.lit("a" * 64))
    with Store(tmp_path / "s.db") as store:
        for source in ("monday", "tuesday"):
            store.import_rows(rows, source)
        assert {source: len(found) for source, found in store.imported().items()} == {"monday": len(rows)}
