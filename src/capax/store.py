"""The store: finished runs in one SQLite file.

Contract: a run is written once, whole, in one transaction, by the driving process; killing anything at any moment loses
at most the runs in flight. A key has at most one run; writing it again replaces it. Readers never wait (WAL); a writer
waits up to 30 s for another. A file that is not a capax store, or is of a newer version, is refused and left as it is.
"""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from capax.errors import StoreError, StoreWriteError
from capax.results import Measurement

DEFAULT = Path("capax.db")
VERSION = 1
APPLICATION_ID = 0x63617078  # "capx"
WAIT_SECONDS = 30
TABLE = """
CREATE TABLE runs (
    key TEXT PRIMARY KEY,
    finished TEXT NOT NULL,
    protocol TEXT NOT NULL,
    memorized INTEGER NOT NULL,
    seconds REAL NOT NULL,
    measurement TEXT NOT NULL
)
"""


class Store:
    """An open store; a context manager.

    Args:
        path: the file; made when missing.
        create: whether a missing file may be made (readers refuse it).

    Raises:
        StoreError: when the path is a folder, cannot be read or written, is not a store, or is from a newer version.
    """

    def __init__(self, path: Path | str = DEFAULT, *, create: bool = True) -> None:
        self.path = Path(path)
        self._check_path(create)
        try:
            self._connection = sqlite3.connect(self.path, timeout=WAIT_SECONDS, isolation_level=None)
            self._open(create)
        except sqlite3.DatabaseError as error:
            raise StoreError(f"store: cannot open {self.path}: {error}") from None

    def _check_path(self, create: bool) -> None:
        path = self.path
        if path.is_dir():
            raise StoreError(f"store: {path} is a folder; name a file")
        if not path.parent.is_dir():
            raise StoreError(f"store: folder {path.parent} does not exist")
        if not path.exists():
            if not create:
                raise StoreError(f"store: no such file: {path}")
            return
        if not path.is_file():
            raise StoreError(f"store: {path} is not a regular file")
        if create and not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
            raise StoreError(f"store: {path} is read-only")

    def _open(self, create: bool) -> None:
        application, version = self._pragma("application_id"), self._pragma("user_version")
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application == 0 and version == 0 and tables == 0 and create:
            self._connection.execute("PRAGMA journal_mode = WAL")
            with self._transaction():
                if self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                    self._connection.execute(TABLE)
                    self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    self._connection.execute(f"PRAGMA user_version = {VERSION}")
        elif application != APPLICATION_ID:
            raise StoreError(f"store: {self.path} is a database, but not a capax store")
        elif version > VERSION:
            raise StoreError(
                f"store: {self.path} has version {version}, this capax reads up to version {VERSION}; use a newer capax"
            )

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def add(self, run: Measurement) -> None:
        """Write a finished run, in place of one with its key.

        Raises:
            StoreWriteError: when it cannot be written (a full disk, a lock held for longer than 30 s); what was in the
                store stays.
        """
        row = (
            run.key,
            datetime.now(UTC).isoformat(timespec="seconds"),
            run.spec.protocol.protocol,
            run.memorized,
            run.seconds,
            run.to_json(),
        )
        try:
            with self._transaction():
                self._connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?)", row)
        except sqlite3.DatabaseError as error:
            raise StoreWriteError(f"store: {self.path}: the run was not saved: {error}") from None

    def get(self, key: str) -> Measurement | None:
        """The run with a key, or None."""
        row = self._connection.execute("SELECT measurement FROM runs WHERE key = ?", (key,)).fetchone()
        return None if row is None else Measurement.from_json(row[0])

    def find(self, start: str) -> Measurement:
        """The only run whose key begins so.

        Raises:
            StoreError: when none or several do.
        """
        keys = [
            key for (key,) in self._connection.execute("SELECT key FROM runs ORDER BY key") if key.startswith(start)
        ]
        if not start or len(keys) != 1:
            found = f"{len(keys)} runs have" if start and keys else "no run has"
            raise StoreError(f"key: {found} a key that begins with {start!r} in {self.path}")
        run = self.get(keys[0])
        assert run is not None
        return run

    def runs(self) -> list[Measurement]:
        """All runs, oldest first."""
        rows = self._connection.execute("SELECT measurement FROM runs ORDER BY finished, rowid")
        return [Measurement.from_json(text) for (text,) in rows]

    def weights_path(self, key: str) -> Path:
        """Where the kept weights of a run lie: beside the store."""
        return self.path.with_name(self.path.name + "-weights") / f"{key}.safetensors"
