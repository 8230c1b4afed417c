"""The SQLite file of a store: opened, brought to this version, read and written in transactions."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from capax.errors import StoreError, StoreWriteError
from capax.store.file import check_names, check_path, has_other_names, identity, is_writable
from capax.store.schema import APPLICATION_ID, CREATION, NO_KEY, OLDER, VERSION, migration, view

WAIT_SECONDS = 30


class Database:
    """An open file, which is refused, and left as it is, unless it is a store of this version or an older one.

    Args:
        path: the file; made when missing.
        create: whether a missing file may be made.
        read_only: leave the file as it is.

    Raises:
        StoreError: as `Store`; `StoreWriteError` where there is no room for it.
    """

    def __init__(self, path: Path, *, create: bool, read_only: bool) -> None:
        self.path = path
        check_path(self.path, create)
        made = not path.exists()
        check_names(self.path, self._log)
        fixed = self.path.exists() and (not is_writable(self.path) or has_other_names(self.path))
        self._read_only = read_only or fixed
        try:
            self._connection = self._connect()
        except sqlite3.Error as error:
            raise StoreError(f"store: cannot open {self.path}: {error}") from None
        try:
            self._open(create)
        except sqlite3.Error as error:
            self._connection.close()
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                if made:
                    self.path.unlink(missing_ok=True)  # nothing is in it: its tables found no room
                raise StoreWriteError(f"store: cannot write {self.path}: {error}") from None
            raise StoreError(f"store: cannot open {self.path}: {error}") from None
        except BaseException:
            self._connection.close()
            raise
        self._files = {path: file for path in (self.path, self._log) if (file := identity(path)) is not None}

    @property
    def _log(self) -> Path:
        """Where SQLite writes first, until it brings all into the file itself."""
        path = self.path.resolve()
        return path.with_name(path.name + "-wal")

    def _connect(self) -> sqlite3.Connection:
        if not self._read_only:
            return sqlite3.connect(self.path, timeout=WAIT_SECONDS, isolation_level=None)
        # Where no log has anything, and nobody is about to write one, the file is all there is: reading need not.
        index = self._log.with_name(self._log.name.removesuffix("wal") + "shm")
        try:
            quiet = self._log.stat().st_size == 0 and not index.exists()
        except FileNotFoundError:
            quiet = True
        uri = f"{self.path.resolve().as_uri()}?mode=ro{'&immutable=1' if quiet else ''}"
        return sqlite3.connect(uri, uri=True, timeout=WAIT_SECONDS, isolation_level=None)

    def _open(self, create: bool) -> None:
        application, version, empty = self._at_once()
        if application == 0 and version == 0 and empty and create:
            self._log_ahead()
            with self._transaction():
                if self._is_empty():
                    self._execute_all(CREATION)
        elif application != APPLICATION_ID:
            what = "empty, not a capax store" if application == 0 and empty else "a database, but not a capax store"
            raise StoreError(f"store: {self.path} is {what}")
        elif version > VERSION:
            raise StoreError(
                f"store: {self.path} has version {version}, this capax reads up to version {VERSION}; use a newer capax"
            )
        elif version in OLDER:
            self._update()
        elif version != VERSION:
            raise StoreError(f"store: {self.path} is damaged: it has version {version}, which no capax wrote")
        with suppress(sqlite3.Error):  # each method says itself that the file is damaged
            for table in ("runs", "failures"):
                for (key,) in self._connection.execute(f"SELECT key FROM {table} WHERE {NO_KEY} LIMIT 1"):
                    raise StoreError(f"store: {self.path} is damaged: a key is 64 hexadecimal digits, got {key!r}")

    def _is_empty(self) -> bool:
        return self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0

    def _at_once(self) -> tuple[int, int, bool]:
        """Whose file it is, its version, and whether it is empty, as of one moment: others may be making it."""
        self._connection.execute("BEGIN")
        try:
            return self._pragma("application_id"), self._pragma("user_version"), self._is_empty()
        finally:
            self._connection.execute("COMMIT")

    def _log_ahead(self) -> None:
        """Set how the file is written, for which SQLite does not wait until others have ended."""
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def _update(self) -> None:
        if self._read_only:
            self._execute_all(view(self._pragma("user_version")))
            return
        with self._transaction():
            version = self._pragma("user_version")
            if version < VERSION:  # another process may have been quicker
                self._execute_all(migration(version))

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _execute_all(self, statements: Iterable[str]) -> None:
        for statement in statements:
            self._connection.execute(statement)

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

    @contextmanager
    def writing(self, what: str) -> Iterator[sqlite3.Connection]:
        """A transaction that is done whole or not at all.

        Args:
            what: what to say where it fails, such as "the run was not saved".

        Raises:
            StoreWriteError: when it fails, or the file was removed or replaced meanwhile.
        """
        if self._read_only:
            if self.path.exists():
                check_path(self.path, True)
            raise StoreError(f"store: {self.path} is open for reading only")
        try:
            with self._transaction():
                yield self._connection
        except sqlite3.Error as error:
            raise StoreWriteError(f"store: {self.path}: {what}: {error}") from None
        self._bring_in()
        for path, file in self._files.items():  # SQLite writes to a file that has no name any more, and is content
            if identity(path) != file:
                raise StoreWriteError(f"store: {self.path}: {what}: {path} was removed or replaced meanwhile")

    def _bring_in(self) -> None:
        """Bring the log into the file unless others read it now.

        So a copy of the file alone, during a sweep or after a kill, lacks nothing, and no log is left to be applied to
        another file that is put in its place.
        """
        with suppress(sqlite3.Error):  # of a full disk, which `settle` tells
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._connection.execute(f"PRAGMA busy_timeout = {1000 * WAIT_SECONDS:.0f}")

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Several reads see the file as it is at the first of them, whatever others write meanwhile."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            with suppress(sqlite3.Error):  # of a damaged file, which the read has named
                self._connection.execute("ROLLBACK")

    def read(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query.

        Raises:
            StoreError: when the file is damaged.
        """
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"store: cannot read {self.path}: {error}") from None

    def settle(self) -> None:
        """As `Store.settle`."""
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            raise StoreWriteError(
                f"store: {self.path}: {error}: the runs lie in {self._log.name} beside it; make room before it is moved"
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
