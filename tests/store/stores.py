"""Runs and stores that tests of the store share."""

import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import capax
from capax.results import Measurement
from capax.store import schema as store_schema
from capax.store.schema import Summary


def measured(seed: int = 0) -> Measurement:
    task = capax.Sequences(seq_len=3, vocab_size=5, library_size=4)
    return capax.measure(
        task, capax.Transformer(d_model=2, d_head=2), capax.Training(max_epochs=1), restarts=1, seed=seed
    )


COLUMNS_OF_OLDER = {
    1: ("memorized INTEGER NOT NULL", "seconds REAL NOT NULL"),
    2: (
        *(f"{name} INTEGER NOT NULL" for name in ("n_layers", "n_heads", "d_model", "seq_len", "vocab_size")),
        *(f"{name} INTEGER NOT NULL" for name in ("library_size", "memorized")),
        *(f"{name} REAL NOT NULL" for name in ("chance", "bits_per_parameter", "seconds")),
        "stop_reason TEXT NOT NULL",
    ),
}
OLDER = pytest.mark.parametrize("version", [*COLUMNS_OF_OLDER, 3])


def older(path: Path, runs: list[Measurement], version: int = 1) -> Path:
    """A file as an older version wrote it; all runs finished in one second, so that their order is that of writing."""
    if version == 3:
        return _without_labels(path, runs)
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


def _without_labels(path: Path, runs: list[Measurement]) -> Path:
    """A file of version 3, which differs from one of this in what a user calls runs."""
    with capax.Store(path) as store:
        for run in runs:
            store.add(run)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE runs SET finished = '2026-01-01T00:00:00+00:00'")
    connection.execute("DROP TABLE labels")
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    return path


def raw(path: Path, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    rows = connection.execute(query).fetchall()
    connection.close()
    return rows


def without_time(summaries: list[Summary]) -> list[dict[str, Any]]:
    return [{**vars(summary), "finished": None} for summary in summaries]


THEIRS = pl.DataFrame(
    {"seq_len": [8, 16], "n_heads": [1, 2], "d_model": [32, 64], "memorized": [100.5, 200.0], "lr": [0.1, None]}
)


def set_times(path: Path, table: str, column: str, times: dict[str, str]) -> None:
    connection = sqlite3.connect(path)
    for key, when in times.items():
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE key = ?", (when, key))
    connection.commit()
    connection.close()
