"""The store: finished runs in one SQLite file.

Contract: a run is written once, whole, in one transaction, by the driving process; killing anything at any moment loses
at most the runs in flight. Nothing counts as written before the file that the path names then has it. A key has at most
one run; writing it again replaces it. Readers never wait (WAL); a writer waits up to 30 s for another. A file that is
not a capax store, or is of a newer version, is refused and left as it is; one of an older version is brought to this
one in one transaction, or read as it is where it cannot be written.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from capax.errors import SpecError, StoreError, StoreWriteError, shown
from capax.overview import Displayed, Overview
from capax.results import Measurement, ResultError
from capax.specs import Run
from capax.specs.labels import checked_name, checked_tags
from capax.specs.plugins import UnknownTag
from capax.store import file, labels
from capax.store import lock as sweep_lock
from capax.store.database import Database
from capax.store.overview import of_store
from capax.store.schema import (
    FAILURE_COLUMNS,
    KEY,
    LABELED_RUNS,
    LABELS,
    SUMMARY_COLUMNS,
    WHOLE,
    Failure,
    Summary,
    now,
)

DEFAULT = Path("capax.db")
KEPT = "finished runs are saved"
"""Noted on an interrupt of what writes to a store."""
IMPORTED_ROWS = "SELECT source, row FROM imported ORDER BY rowid"
RUN_COLUMNS = (*SUMMARY_COLUMNS, "measurement")
Record = TypeVar("Record", Summary, Failure)


def check_store(path: Path | str) -> None:
    """Refuse a path that a store will be asked of later, as `Store` would, and make nothing there.

    Raises:
        StoreError: as `Store`.
    """
    file.check_path(Path(path))
    if Path(path).exists():
        Store(path, read_only=True).close()


class Store(Displayed):
    """An open store; a context manager. Every method raises `StoreError` where the file is damaged.

    Args:
        path: the file, or another store of it; made when missing.
        create: whether a missing file may be made (readers refuse it).
        read_only: leave the file as it is: nothing is made, written or brought to this version.

    Raises:
        StoreError: when the path is a folder, cannot be read or written, is not a store, or is from a newer version.
    """

    def __init__(self, path: Store | Path | str = DEFAULT, *, create: bool = True, read_only: bool = False) -> None:
        if not isinstance(path, Store | str | os.PathLike):
            raise StoreError(f"store: a path, got {shown(path)}")
        self.path: Path = path.path if isinstance(path, Store) else Path(path)
        self._keeps = create and not read_only
        self._database = Database(self.path, create=self._keeps, read_only=read_only)

    def _records(self, kind: type[Record], columns: Sequence[str], query: str) -> list[Record]:
        found = self._database.read(f"SELECT {', '.join(columns)} {query}")
        rows = [
            {name: value for name, value in zip(columns, row, strict=True) if value is not None or name not in LABELS}
            for row in found
        ]
        try:
            return TypeAdapter(list[kind]).validate_python(rows)  # type: ignore[valid-type]
        except ValidationError as error:
            first = error.errors()[0]
            raise StoreError(f"store: {self.path} is damaged: {first['loc'][-1]}: {first['msg']}") from None

    def _measurement(self, key: str, text: str, name: str | None, tags: str | None) -> Measurement:
        try:
            run = Measurement.from_json(text)
            return run.model_copy(update={"name": name, "tags": labels.tags_of(tags)})
        except UnknownTag as error:
            raise StoreError(f"store: {self.path}: run {key:.12}: {error}") from None
        except ResultError as error:
            raise StoreError(f"store: {self.path} is damaged: run {key!s:.12}: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt) and self._keeps and KEPT not in getattr(error, "__notes__", ()):
            error.add_note(KEPT)
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def overview(self) -> Overview:
        """What a prompt or a notebook shows of it: what it holds, and the runs that finished last."""
        try:
            runs, failures, sources = self.summaries(), self.failures(), self.sources()
        except StoreError as error:
            return Overview(f"Store {self.path}: {error}")
        return of_store(self.path, runs, len(failures), sources)

    def add(self, run: Measurement) -> None:
        """Write a finished run, in place of one with its key, and of its failure.

        The name and tags that it has are added to those that it had in the store (`label`).

        Raises:
            StoreWriteError: when it cannot be written (a full disk, a lock held for longer than 30 s); what was in the
                store stays.
            StoreError: where it could not be read again.
        """
        summary = Summary.of(run)
        alone = run.model_copy(update={"name": None, "tags": ()})  # a label may change, and is kept in its own table
        text = alone.to_json()
        try:
            Measurement.from_json(text)
        except ResultError as error:
            raise StoreError(f"store: {self.path}: the run was not saved: it is {error}") from None
        row = [*(getattr(summary, name) for name in SUMMARY_COLUMNS), text]
        with self._database.writing("the run was not saved") as connection:
            connection.execute(f"INSERT OR REPLACE INTO runs VALUES ({_marks(RUN_COLUMNS)})", row)
            connection.execute("DELETE FROM failures WHERE key = ?", (run.key,))
            labels.write(connection, run.key, run.name, run.tags)

    def label(self, key: str, *, name: str | None = None, tags: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
        """Name a run and tag it; what is not given stays.

        Args:
            key: of a run that is in the store.
            name: in place of the one that it has; the empty text takes it away.
            tags: to be added.
            remove: tags to be taken away.

        Raises:
            SpecError: for a name or a tag that is none, and a tag to remove that the run does not have.
            StoreError: when there is no such run.
            StoreWriteError: as `add`.
        """
        name, added, gone = name and checked_name(name), checked_tags(tags), checked_tags(remove)
        run = self.get(key)
        if run is None:
            raise StoreError(f"key: no run has the key {key!r:.80} in {self.path}")
        for tag in gone:
            if tag not in run.tags:
                raise SpecError(f"remove: the run has the tags {', '.join(run.tags) or '(none)'}, got {tag!r}")
        with self._database.writing("the run was not labelled") as connection:
            labels.write(connection, key, name, added, gone)

    def fail(self, run: Run, error: str) -> None:
        """Write that a run failed, and why; a failure of the same run counts one more attempt.

        Raises:
            StoreWriteError: as `add`.
        """
        error = error.encode(errors="replace").decode()  # a file's name may hold what no text can
        with self._database.writing("the failure was not saved") as connection:
            connection.execute(
                f"INSERT INTO failures VALUES ({_marks(FAILURE_COLUMNS)}) ON CONFLICT (key) DO UPDATE SET "
                "failed = excluded.failed, error = excluded.error, attempts = attempts + 1",
                (run.key(), now(), error, 1, run.model_dump_json()),
            )

    def delete(self, key: str) -> bool:
        """Remove a run, its failure and its kept weights; returns whether there was any of them.

        Raises:
            StoreWriteError: as `add`.
        """
        with self._database.writing("nothing was deleted") as connection:
            tables = ("runs", "failures", "labels")
            gone = sum(connection.execute(f"DELETE FROM {name} WHERE key = ?", (key,)).rowcount for name in tables)
        return self.delete_weights(key) or gone > 0

    def delete_weights(self, key: str) -> bool:
        """Remove the kept weights of a run; returns whether there were any.

        Raises:
            StoreWriteError: when a file cannot be removed.
        """
        kept = self.kept_weights(key)
        for weights in kept:
            try:
                weights.unlink(missing_ok=True)
            except OSError as error:
                raise StoreWriteError(f"store: cannot delete {weights}: {error.strerror}") from None
        return bool(kept)

    def import_rows(self, table: Any, source: str) -> int:
        """Write somebody else's measurements, in place of those of the same source; returns how many.

        Args:
            table: a data frame of any library, or a mapping of arrays: a row per measurement with seq_len, n_heads,
                d_model and memorized, and what else is known. What is no finite number in a column of floats is kept as
                missing. Rows with the key of a run that is in the store count once, as that run.
            source: where it comes from, such as a file or a paper.

        Raises:
            TableError: for a missing column, or a value that is not a positive finite number.
            StoreWriteError: as `add`.
        """
        from capax.store.importing import importable  # polars: most who open a store import no rows

        rows = [(source, json.dumps(row, default=str)) for row in importable(table).to_dicts()]
        with self._database.writing("the rows were not imported") as connection:
            connection.execute("DELETE FROM imported WHERE source = ?", (source,))
            connection.executemany("INSERT INTO imported VALUES (?, ?)", rows)
        return len(rows)

    def get(self, key: str) -> Measurement | None:
        """The run with a key, or None."""
        rows = self._database.read(f"SELECT measurement, name, tags {LABELED_RUNS} WHERE key = ?", (key,))
        return self._measurement(key, *rows[0]) if rows else None

    def find(self, start: str) -> Measurement:
        """The only run whose key begins so.

        Raises:
            StoreError: when none or several do.
        """
        run = self.get(self._only(start, self.keys()))
        assert run is not None
        return run

    def find_key(self, start: str) -> str:
        """The only key of a run or a failure that begins so.

        Raises:
            StoreError: when none or several do.
        """
        return self._only(start, self.keys() | {key for (key,) in self._database.read("SELECT key FROM failures")})

    def _only(self, start: str, known: set[str]) -> str:
        if not (isinstance(start, str) and start):
            raise StoreError(f"key: a run's key, or how it begins, got {shown(start)}")
        keys = [key for key in known if key.startswith(start)]
        if len(keys) != 1:
            found = f"{len(keys)} runs have" if keys else "no run has"
            raise StoreError(f"key: {found} a key that begins with {start!r} in {self.path}")
        return keys[0]

    def keys(self) -> set[str]:
        """The keys of all runs."""
        return {str(key) for (key,) in self._database.read("SELECT key FROM runs")}

    def summaries(self) -> list[Summary]:
        """All runs as a listing shows them, oldest first."""
        columns = (*SUMMARY_COLUMNS, *LABELS)
        return self._records(Summary, columns, f"{LABELED_RUNS} ORDER BY finished, runs.rowid")

    def runs(self) -> list[Measurement]:
        """All runs, oldest first."""
        return list(self.each())

    def each(self, keys: Collection[str] | None = None) -> Iterator[Measurement]:
        """The runs one by one, oldest first: of a large store only one has to be in memory at a time.

        A run that is deleted before its turn is left out.

        Args:
            keys: only the runs with these keys; all when not given.
        """
        for (key,) in self._database.read("SELECT key FROM runs ORDER BY finished, rowid"):
            run = self.get(key) if keys is None or key in keys else None
            if run is not None:
                yield run

    def _asked(self, keys: Iterable[str]) -> Iterator[tuple[str, str]]:
        """The specs of some runs as JSON; of a damaged measurement nothing. Unknown keys are left out."""
        spec = "CASE WHEN json_valid(measurement) THEN json_extract(measurement, '$.spec') END"
        for key in keys:
            for (text,) in self._database.read(f"SELECT {spec} FROM runs WHERE key = ?", (key,)):
                yield key, text or "{}"

    def specs(self, keys: Iterable[str]) -> dict[str, Run]:
        """The specs of some runs by key, without their results; unknown keys are left out."""
        found = {}
        for key, text in self._asked(keys):
            try:
                found[key] = Run(**json.loads(text))
            except UnknownTag as error:
                raise StoreError(f"store: {self.path}: run {key:.12}: {error}") from None
            except (SpecError, ValueError, TypeError) as error:
                raise StoreError(f"store: {self.path} is damaged: run {key:.12}: {error}") from None
        return found

    def fields(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """What some runs were asked for, by key and name: as JSON, so that no plugin is needed.

        Unknown keys are left out; a damaged run has no fields.
        """
        found = {}
        for key, text in self._asked(keys):
            try:
                parts = json.loads(text).items()
            except (ValueError, AttributeError):
                parts = ()
            found[key] = {
                name: value
                for part, asked in parts
                for name, value in (asked.items() if isinstance(asked, dict) else [(part, asked)])
            }
        return found

    def failures(self) -> list[Failure]:
        """All runs that failed and have not been done since, the oldest failure first."""
        return self._records(Failure, FAILURE_COLUMNS, "FROM failures ORDER BY failed, rowid")

    def sources(self) -> dict[str, int]:
        """Where imported rows come from, and how many of each."""
        rows = self._database.read("SELECT source, count(*) FROM imported GROUP BY source ORDER BY min(rowid)")
        return dict(rows)

    def imported(self) -> dict[str, list[dict[str, Any]]]:
        """The imported rows of each source, in order; of a run those of one source, and none of a run in the store."""
        found: dict[str, list[dict[str, Any]]] = {}
        known, first = self.keys(), dict[str, str]()
        for source, text in self._database.read(IMPORTED_ROWS):
            try:
                row = json.loads(text)
            except (ValueError, TypeError) as error:
                raise StoreError(f"store: {self.path} is damaged: a row of {source}: {error}") from None
            if not isinstance(row, dict):
                raise StoreError(f"store: {self.path} is damaged: a row of {source}: {shown(row)}")
            key = row.get("key")
            if key in known:
                continue
            if not isinstance(key, str) or not KEY.fullmatch(key) or first.setdefault(key, source) == source:
                found.setdefault(source, []).append(row)
        return found

    def pack_sizes(self) -> dict[str, int]:
        """Members that train together best, by shape, as sweeps on this store have measured."""
        return {
            str(shape): int(members) for shape, members in self._database.read("SELECT shape, members FROM pack_sizes")
        }

    def remember_pack_size(self, shape: str, members: int) -> None:
        """Keep a pack size that was measured.

        Raises:
            StoreWriteError: when it cannot be written.
        """
        with self._database.writing("the pack size was not saved") as connection:
            connection.execute("INSERT OR REPLACE INTO pack_sizes VALUES (?, ?)", (shape, members))

    def settle(self) -> None:
        """Bring the log into the file itself, so that the file alone holds all, as far as nobody reads just now.

        Raises:
            StoreWriteError: when there is no room; what the store holds stays in the file and its log.
        """
        self._database.settle()

    def sweeping(self) -> AbstractContextManager[sweep_lock.Watch]:
        """Hold the store's sweep lock; it is free again when this process ends, however it does.

        Entering gives a function that says how far the sweep is, to those who watch (`sweep_lock.look`).

        Raises:
            StoreError: on entering, at once, when another sweep holds it.
        """
        return sweep_lock.hold(self.path)

    def weights_path(self, key: str, restart: int = 0) -> Path:
        """Where the kept weights of a run lie: beside the store.

        Args:
            restart: 0 for the one that counts; the others are numbered from 1.
        """
        if not KEY.fullmatch(key):
            raise StoreError(f"store: {self.path}: a key is 64 hexadecimal digits, got {key!r}")
        number = f".{restart}" if restart else ""
        path = self.path.resolve()
        return path.with_name(path.name + "-weights") / f"{key}{number}.safetensors"

    @property
    def checkpoints(self) -> Path:
        """The folder for the checkpoints of runs that will be written here: beside the store."""
        path = self.path.resolve()
        return path.with_name(path.name + "-checkpoints")

    def kept_weights(self, key: str) -> list[Path]:
        """The kept weights of a run, those of the restart that counts first."""
        first = self.weights_path(key)
        found = first.parent.glob(f"{key}*.safetensors")
        return sorted(found, key=lambda path: (path != first, len(path.name), path.name))

    def take(self, other: Store) -> None:
        """Copy all that another store holds into this one, in one transaction.

        Of one key, the run that finished last counts; failed attempts of a run that is in neither are added up;
        imported rows of both are kept, equal ones of one source once; where they differ, the other store's have a
        number after their source; tags are joined, and of two names that of the other store counts.

        Raises:
            StoreError: for a run of the other store that is damaged, which might take a good one's place.
        """
        with other._database.unchanged():
            for (key,) in other._database.read(f"SELECT key FROM runs WHERE NOT ({WHOLE}) LIMIT 1"):
                raise StoreError(f"store: {other.path} is damaged: run {key}; capax runs delete removes it")
            runs = other._database.read(f"SELECT {', '.join(RUN_COLUMNS)} FROM runs ORDER BY finished, rowid")
            failures = other._database.read(f"SELECT {', '.join(FAILURE_COLUMNS)} FROM failures ORDER BY failed, rowid")
            called = other._database.read("SELECT key, name, tags FROM labels")
            theirs = _by_source(other._database.read(IMPORTED_ROWS))
        with self._database.writing(f"{other.path} was not merged") as connection:
            connection.executemany(_MERGE_RUN, runs)
            connection.executemany(_MERGE_FAILURE, failures)
            for key, name, tags in called:
                labels.write(connection, key, name, labels.tags_of(tags))
            connection.execute("DELETE FROM failures WHERE key IN (SELECT key FROM runs)")
            mine = _by_source(connection.execute(IMPORTED_ROWS))
            for source, rows in theirs.items():
                name = _beside(mine, source, rows)
                if name not in mine:
                    mine[name] = rows
                    connection.executemany("INSERT INTO imported VALUES (?, ?)", [(name, row) for row in rows])


def _by_source(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for source, row in rows:
        found.setdefault(source, []).append(row)
    return found


def _beside(mine: Mapping[str, list[str]], source: str, rows: list[str]) -> str:
    """What rows of a source are called: a number follows where others are called so, for a path names many files."""
    names = itertools.chain([source], (f"{source} ({number})" for number in itertools.count(2)))
    return next(name for name in names if mine.get(name, rows) == rows)


def _marks(columns: Sequence[str]) -> str:
    return ", ".join("?" * len(columns))


_MERGE_RUN = (
    f"INSERT INTO runs VALUES ({_marks(RUN_COLUMNS)}) ON CONFLICT (key) DO UPDATE SET "
    f"{', '.join(f'{name} = excluded.{name}' for name in RUN_COLUMNS)} WHERE excluded.finished > finished"
)
_MERGE_FAILURE = (
    f"INSERT INTO failures VALUES ({_marks(FAILURE_COLUMNS)}) ON CONFLICT (key) DO UPDATE SET "
    "error = iif(excluded.failed > failed, excluded.error, error), failed = max(failed, excluded.failed), "
    "attempts = attempts + excluded.attempts"
)
