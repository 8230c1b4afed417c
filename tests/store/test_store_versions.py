"""A store of an older version: it is brought to this one whole, or left and read as it is."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from stores import OLDER, older, raw, without_time

from capax.errors import StoreError
from capax.results import Measurement
from capax.store import Store, database
from capax.store import schema as store_schema
from capax.store.merge import merge
from capax.store.schema import Summary


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


def test_merge_reads_older(tmp_path: Path, three: list[Measurement]) -> None:
    old, new = older(tmp_path / "old.db", three[:2]), tmp_path / "new.db"
    old.chmod(0o444)
    with Store(new) as store:
        store.add(three[2])
    assert merge([old, new], tmp_path / "c.db") == 3
    with Store(tmp_path / "c.db") as store:
        assert store.runs() == three
