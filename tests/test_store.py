"""The store's contract: whole or not at all, one run per key, nobody else's files touched."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import capax
from capax.errors import ReportError, StoreError, StoreWriteError, TableError
from capax.results import Measurement
from capax.store import Store, database
from capax.store import schema as store_schema
from capax.store.merge import merge
from capax.store.schema import Summary


def measured(seed: int = 0) -> Measurement:
    task = capax.Sequences(seq_len=3, vocab_size=5, library_size=4)
    return capax.measure(
        task, capax.Transformer(d_model=2, d_head=2), capax.Training(max_epochs=1), restarts=1, seed=seed
    )


def test_runs_come_back_as_they_were(tmp_path: Path) -> None:
    runs = [measured(seed) for seed in range(3)]
    with capax.Store(tmp_path / "s.db") as store:
        for run in runs:
            store.add(run)
    with capax.Store(tmp_path / "s.db", create=False) as store:
        assert store.runs() == runs
        assert store.get(runs[1].key) == runs[1]
        assert store.get("0" * 64) is None
        assert store.find(runs[2].key[:12]) == runs[2]


def test_a_key_has_one_run(tmp_path: Path) -> None:
    run = measured()
    with capax.Store(tmp_path / "s.db") as store:
        store.add(run)
        store.add(run.model_copy(update={"seconds": 99.0}))
        assert [stored.seconds for stored in store.runs()] == [99.0]


def test_an_ambiguous_or_empty_key_is_refused(tmp_path: Path) -> None:
    run = measured()
    with capax.Store(tmp_path / "s.db") as store:
        store.add(run)
        store.add(run.model_copy(update={"key": run.key[:5] + "0" * 59}))
        with pytest.raises(StoreError, match="2 runs have"):
            store.find(run.key[:5])
        with pytest.raises(StoreError, match="no run has"):
            store.find("")


def test_runs_of_a_plugin_that_is_not_loaded_are_listed_and_the_plugin_is_named(tmp_path: Path) -> None:
    path, run = tmp_path / "s.db", measured()
    with capax.Store(path) as store:
        store.add(run)
        with store._database.writing("") as connection:
            connection.execute("""UPDATE runs SET measurement = replace(measurement, '"sequences"', '"pairs"')""")
    with capax.Store(path, create=False) as store:
        assert [summary.key for summary in store.summaries()] == [run.key]
        for read in (lambda: store.get(run.key), store.runs, lambda: store.specs([run.key])):
            with pytest.raises(StoreError, match=f"{run.key[:12]}: task: .*--plugin.*'pairs'") as error:
                read()
            assert "damaged" not in str(error.value)


def test_a_killed_writer_leaves_whole_runs(tmp_path: Path) -> None:
    """A process writes without end and is killed: all that is there is whole and readable."""
    code = """
import sys
from capax.results import Measurement
from capax.store import Store
run = Measurement.from_json(sys.stdin.read())
with Store("s.db") as store:
    for number in range(10**9):
        store.add(run.model_copy(update={"key": f"{number:064}"}))
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, cwd=tmp_path, text=True)
    assert process.stdin is not None
    process.stdin.write(measured().to_json())
    process.stdin.close()
    path = tmp_path / "s.db"
    while not path.exists() or path.stat().st_size < 40_000:
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    with capax.Store(path) as store:
        runs = store.runs()
        store.add(measured())
    assert len(runs) > 3
    assert [run.key for run in runs] == [f"{number:064}" for number in range(len(runs))]


def test_a_writer_waits_for_another(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    run = measured()
    with capax.Store(path) as store:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(1.0, lambda: other.execute("COMMIT"))
        release.start()
        store.add(run)  # would fail at once without the wait
        assert release.finished.is_set()
        assert store.get(run.key) == run
        release.join()
        other.close()


def test_reading_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        capax.Store(tmp_path / "s.db", create=False)
    assert list(tmp_path.iterdir()) == []


COLUMNS_OF_OLDER = {
    1: ("memorized INTEGER NOT NULL", "seconds REAL NOT NULL"),
    2: (
        *(f"{name} INTEGER NOT NULL" for name in ("n_layers", "n_heads", "d_model", "seq_len", "vocab_size")),
        *(f"{name} INTEGER NOT NULL" for name in ("library_size", "memorized")),
        *(f"{name} REAL NOT NULL" for name in ("chance", "bits_per_parameter", "seconds")),
        "stop_reason TEXT NOT NULL",
    ),
}
OLDER = pytest.mark.parametrize("version", COLUMNS_OF_OLDER)


@pytest.fixture(scope="module")
def three() -> list[Measurement]:
    return [measured(seed) for seed in range(3)]


def older(path: Path, runs: list[Measurement], version: int = 1) -> Path:
    """A file as an older version wrote it; all runs finished in one second, so that their order is that of writing."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN")
    names = ["key TEXT PRIMARY KEY", "finished TEXT NOT NULL", "protocol TEXT NOT NULL", *COLUMNS_OF_OLDER[version]]
    connection.execute(f"CREATE TABLE runs ({', '.join([*names, 'measurement TEXT NOT NULL'])})")
    if version == 2:
        for table in (store_schema.FAILURES, store_schema.IMPORTED, store_schema.PACK_SIZES):
            connection.execute(table)
    connection.execute(f"PRAGMA application_id = {store_schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}")
    for run in runs:
        fields = {**run.model_dump(), **run.spec.model.model_dump(), **run.spec.task.model_dump()}
        told = [fields[column.split()[0]] for column in COLUMNS_OF_OLDER[version]]
        row = (run.key, "2026-01-01T00:00:00+00:00", "mac", *told, run.to_json())
        connection.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(row))})", row)
    connection.execute("COMMIT")
    connection.close()
    return path


def raw(path: Path, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    rows = connection.execute(query).fetchall()
    connection.close()
    return rows


def without_time(summaries: list[Summary]) -> list[dict[str, Any]]:
    return [{**vars(summary), "finished": None} for summary in summaries]


def test_summaries_say_what_the_runs_say(tmp_path: Path, three: list[Measurement]) -> None:
    with Store(tmp_path / "s.db") as store:
        for run in three:
            store.add(run)
        found = store.summaries()
        assert store.keys() == {run.key for run in three}
    assert without_time(found) == without_time([Summary.of(run) for run in three])
    assert (found[1].d_model, found[1].items, found[1].library_size) == (2, "3 tokens of 5", 4)
    assert all(datetime.fromisoformat(summary.finished).tzinfo is not None for summary in found)


@OLDER
@pytest.mark.parametrize("create", [True, False])
def test_an_older_version_is_brought_to_this_version(
    tmp_path: Path, three: list[Measurement], create: bool, version: int
) -> None:
    path = older(tmp_path / "s.db", three, version)
    with Store(path, create=create) as store:
        assert store.runs() == three
        assert without_time(store.summaries()) == without_time([Summary.of(run) for run in three])
        assert {summary.finished for summary in store.summaries()} == {"2026-01-01T00:00:00+00:00"}
        assert store.failures() == []
        store.add(three[0])
    assert raw(path, "PRAGMA user_version") == [(store_schema.VERSION,)]
    assert raw(path, "SELECT name FROM sqlite_master WHERE name LIKE 'runs%'") == [("runs",)]
    assert raw(path, "PRAGMA integrity_check") == [("ok",)]


@OLDER
def test_an_older_version_without_runs(tmp_path: Path, version: int) -> None:
    with Store(older(tmp_path / "s.db", [], version)) as store:
        assert store.summaries() == store.runs() == []


@OLDER
def test_a_migration_that_fails_leaves_the_older_version(
    tmp_path: Path, three: list[Measurement], monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    path = older(tmp_path / "s.db", three, version)
    before = path.read_bytes()
    statements = store_schema.migration(version)
    for done in range(1, len(statements) + 1):
        broken = (*statements[:done], "SELECT * FROM nowhere")
        monkeypatch.setattr(database, "migration", lambda _, broken=broken: broken)
        with pytest.raises(StoreError, match=r"cannot open .*nowhere"):
            Store(path)
        assert path.read_bytes() == before
    monkeypatch.undo()
    with Store(path) as store:
        assert store.runs() == three


def test_a_killed_migration_leaves_the_older_version(tmp_path: Path, three: list[Measurement]) -> None:
    path = older(tmp_path / "s.db", three)
    code = """
import os, signal
from capax.store import Store, database
class Killing(tuple):
    def __iter__(self):
        yield from tuple.__iter__(self)
        os.kill(os.getpid(), signal.SIGKILL)
migration = database.migration
database.migration = lambda version: Killing(migration(version))
Store("s.db")
"""
    killed = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert killed.returncode == -9
    assert raw(path, "PRAGMA user_version") == [(1,)]
    assert raw(path, "SELECT key FROM runs ORDER BY rowid") == [(run.key,) for run in three]
    with Store(path) as store:
        assert store.runs() == three


@OLDER
def test_an_older_version_that_cannot_be_written_is_read(
    tmp_path: Path, three: list[Measurement], version: int
) -> None:
    path = older(tmp_path / "s.db", three, version)
    path.chmod(0o444)
    before = path.read_bytes()
    with Store(path, create=False) as store:
        assert store.runs() == three
        assert store.get(three[1].key) == three[1]
        assert without_time(store.summaries()) == without_time([Summary.of(run) for run in three])
        assert (store.failures(), store.imported()) == ([], {})
        with pytest.raises(StoreError, match="read-only"):
            store.add(three[0])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_older_version_with_a_damaged_run_is_left_as_it_is(tmp_path: Path, three: list[Measurement]) -> None:
    path = older(tmp_path / "s.db", three)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE runs SET measurement = 'no json' WHERE key = ?", (three[0].key,))
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="malformed JSON"):
        Store(path)
    assert raw(path, "PRAGMA user_version") == [(1,)]


def test_failures_count_attempts_until_the_run_is_done(tmp_path: Path, three: list[Measurement]) -> None:
    with Store(tmp_path / "s.db") as store:
        store.fail(three[0].spec, "out of memory")
        store.fail(three[1].spec, "no disk")
        store.fail(three[0].spec, "out of luck")
        first, second = sorted(store.failures(), key=lambda failure: -failure.attempts)
        assert (first.key, first.error, first.attempts) == (three[0].key, "out of luck", 2)
        assert (second.key, second.error, second.attempts) == (three[1].key, "no disk", 1)
        assert capax.Run.model_validate_json(first.spec) == three[0].spec
        store.add(three[0])
        assert store.failures() == [second]
        assert store.keys() == {three[0].key}


def test_any_error_can_be_kept(tmp_path: Path, three: list[Measurement]) -> None:
    with Store(tmp_path / "s.db") as store:
        store.fail(three[0].spec, "no such file: \udcff")
        assert store.failures()[0].error == "no such file: ?"


def test_delete(tmp_path: Path, three: list[Measurement]) -> None:
    with Store(tmp_path / "s.db") as store:
        store.add(three[0])
        store.add(three[1])
        store.fail(three[0].spec, "once more")
        weights = store.weights_path(three[0].key)
        weights.parent.mkdir()
        weights.write_bytes(b"weights")
        assert store.delete(three[0].key)
        assert not weights.exists()
        assert (store.runs(), store.failures()) == ([three[1]], [])
        assert not store.delete(three[0].key)
        with pytest.raises(StoreError, match="no run has"):
            store.find_key(three[0].key)


THEIRS = pl.DataFrame(
    {"seq_len": [8, 16], "n_heads": [1, 2], "d_model": [32, 64], "memorized": [100.5, 200.0], "lr": [0.1, None]}
)


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
    assert capax.read(tmp_path / "s.db")["memorized"].to_list() == [100.5, 200.0]


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), None, "many", True, [1]])
@pytest.mark.parametrize("column", ["seq_len", "memorized"])
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


def test_imports_that_do_not_fit_each_other(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        store.import_rows(THEIRS, "a paper")
        store.import_rows(THEIRS.with_columns(lr=pl.lit([1])), "lists")
    with pytest.raises(TableError, match=r"^store: .*fit"):
        capax.read(tmp_path / "s.db")


def test_one_sweep_at_a_time(tmp_path: Path, three: list[Measurement]) -> None:
    """Another process sweeps: a second sweep is refused, a single run is not; it is killed: the way is free."""
    code = """
from capax.store import Store
with Store("s.db") as store, store.sweeping():
    print("sweeping", flush=True)
    input()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process, Store(tmp_path / "s.db") as store:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "sweeping\n"
            told = json.loads((tmp_path / "s.db.sweep-lock.json").read_text())
            said = rf"process {process.pid} on {told['host']} since \d{{4}}-.*\+00:00$"
            with pytest.raises(StoreError, match=said), store.sweeping():
                pytest.fail("two sweeps at once")
            store.add(three[0])
        finally:
            process.kill()
            process.wait()
        with store.sweeping():
            assert json.loads((tmp_path / "s.db.sweep-lock.json").read_text())["pid"] == os.getpid()
            with (
                Store(tmp_path / "s.db") as second,
                pytest.raises(StoreError, match=f"process {os.getpid()} "),
                second.sweeping(),
            ):
                pytest.fail("two sweeps at once")
        assert not (tmp_path / "s.db.sweep-lock.json").exists()
        with store.sweeping():
            pass


def test_a_sweep_that_fails_frees_the_lock(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError), store.sweeping():
                raise ZeroDivisionError


def set_times(path: Path, table: str, column: str, times: dict[str, str]) -> None:
    connection = sqlite3.connect(path)
    for key, when in times.items():
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE key = ?", (when, key))
    connection.commit()
    connection.close()


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
            assert store.sources() == {"a paper": 1 if order == [a, b] else 2}
        with pytest.raises(StoreError, match=r"^out: .*exists"):
            merge([a], c)
        c.unlink()


def test_merge_reads_older(tmp_path: Path, three: list[Measurement]) -> None:
    old, new = older(tmp_path / "old.db", three[:2]), tmp_path / "new.db"
    old.chmod(0o444)
    with Store(new) as store:
        store.add(three[2])
    assert merge([old, new], tmp_path / "c.db") == 3
    with Store(tmp_path / "c.db") as store:
        assert store.runs() == three


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


METHODS: dict[str, Callable[[Store, Measurement], Any]] = {
    "add": lambda store, run: store.add(run),
    "fail": lambda store, run: store.fail(run.spec, "why"),
    "delete": lambda store, run: store.delete(run.key),
    "import_rows": lambda store, run: store.import_rows(THEIRS, "a paper"),
    "get": lambda store, run: store.get(run.key),
    "find": lambda store, run: store.find(run.key[:8]),
    "find_key": lambda store, run: store.find_key(run.key[:8]),
    "keys": lambda store, run: store.keys(),
    "summaries": lambda store, run: store.summaries(),
    "runs": lambda store, run: store.runs(),
    "failures": lambda store, run: store.failures(),
    "sources": lambda store, run: store.sources(),
    "imported": lambda store, run: store.imported(),
    "merge": lambda store, run: merge([store.path], store.path.with_name("merged.db")),
}


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory, three: list[Measurement]) -> Path:
    """A real store whose pages after the first, which names the tables, are garbage."""
    path = tmp_path_factory.mktemp("damaged") / "s.db"
    with Store(path) as store:
        for number in range(50):
            store.add(three[0].model_copy(update={"key": f"{number:064}"}))
        store.fail(three[1].spec, "why")
        store.import_rows(THEIRS, "a paper")
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(bytes((number * 97 + 13) % 251 for number in range(size - 4096)))
    return path


@pytest.mark.parametrize("method", METHODS)
def test_every_method_says_that_a_file_is_damaged(damaged: Path, three: list[Measurement], method: str) -> None:
    with Store(damaged) as store, pytest.raises(StoreError, match=f"{damaged.name}.* malformed"):
        METHODS[method](store, three[0])


def test_writing_to_a_damaged_file_is_a_write_error(damaged: Path, three: list[Measurement]) -> None:
    with Store(damaged) as store, pytest.raises(StoreWriteError, match="not saved"):
        store.add(three[0])


@pytest.mark.parametrize(
    ("change", "method"),
    [
        ("UPDATE runs SET measurement = 'no json'", "runs"),
        ("UPDATE runs SET measurement = 'no json'", "get"),
        ("UPDATE runs SET measurement = CAST(x'ff00' AS TEXT)", "runs"),
        ("UPDATE runs SET chance = 'much'", "summaries"),
        ("UPDATE runs SET stop_reason = 'lunch'", "summaries"),
        ("UPDATE failures SET attempts = 'many'", "failures"),
        ("UPDATE imported SET row = '{'", "imported"),
        ("DROP TABLE runs", "keys"),
    ],
)
def test_damaged_rows_are_named(tmp_path: Path, three: list[Measurement], change: str, method: str) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        store.add(three[0])
        store.fail(three[1].spec, "why")
        store.import_rows(THEIRS, "a paper")
    connection = sqlite3.connect(path)
    connection.execute(change)
    connection.commit()
    connection.close()
    with Store(path) as store, pytest.raises(StoreError, match=r"s\.db"):
        METHODS[method](store, three[0])
