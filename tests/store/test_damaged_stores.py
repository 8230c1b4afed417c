"""A damaged file, or row, is named by every method."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stores import THEIRS

from capax.errors import StoreError, StoreWriteError
from capax.results import Measurement
from capax.store import Store
from capax.store.database import Database
from capax.store.merge import merge

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
        ("UPDATE failures SET spec = '{'", "failures"),
        ("UPDATE imported SET row = '{'", "imported"),
        ("UPDATE imported SET row = '[1]'", "imported"),
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


def test_a_store_that_finds_no_room_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Database._connect

    def on_a_full_disk(self: Database) -> sqlite3.Connection:
        connection = connect(self)
        connection.execute("PRAGMA max_page_count = 2")
        return connection

    monkeypatch.setattr(Database, "_connect", on_a_full_disk)
    with pytest.raises(StoreWriteError, match=r"cannot write .*s\.db: database or disk is full"):
        Store(tmp_path / "s.db")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change",
    [
        "measurement = substr(measurement, 1, 500)",
        "finished = 'never'",
        "measurement = json_set(measurement, '$.key', '{other}')",
    ],
)
def test_a_damaged_run_takes_no_good_ones_place(tmp_path: Path, three: list[Measurement], change: str) -> None:
    for name in ("good.db", "bad.db"):
        with Store(tmp_path / name) as store:
            store.add(three[0])
    connection = sqlite3.connect(tmp_path / "bad.db")
    connection.execute("UPDATE runs SET finished = '2999-01-01T00:00:00+00:00'")
    connection.execute(f"UPDATE runs SET {change.format(other=three[1].key)}")
    connection.commit()
    connection.close()
    with Store(tmp_path / "good.db") as good, Store(tmp_path / "bad.db") as bad:
        with pytest.raises(StoreError, match=rf"bad\.db is damaged: run {three[0].key}"):
            good.take(bad)
        assert good.runs() == [three[0]]
