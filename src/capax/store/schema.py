"""A store's tables and versions, and the plain rows that are read from it."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Json

from capax.results import Measurement, StopReason

VERSION = 4
APPLICATION_ID = 0x63617078  # "capx"
KEY = re.compile("[0-9a-f]{64}")
WHOLE = (
    "CASE WHEN json_valid(measurement) THEN json_extract(measurement, '$.key') = key ELSE 0 END "
    "AND julianday(finished) IS NOT NULL"
)
"""Where a run's measurement is that of its key, and its time is one."""
NO_KEY = "NOT (typeof(key) = 'text' AND length(key) = 64 AND key NOT GLOB '*[^0-9a-f]*')"
"""SQL for an invalid key: keys are also names of files."""


def now() -> str:
    """The time as a store writes it: UTC in whole seconds, so that text sorts as time does."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _checked_time(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("has no time zone")
    return text


Time = Annotated[str, AfterValidator(_checked_time)]
"""A time as `now` writes it."""


@dataclass(frozen=True)
class Summary:
    """What a listing shows of a run: columns of their own in the file, so that no measurement is parsed for it.

    `n_layers`, `n_heads` and `d_model` are 0 where they are not known, as of a user's module that does not name them.
    """

    key: str
    finished: Time
    task: str
    protocol: str
    n_layers: int
    n_heads: int
    d_model: int
    items: str
    library_size: int
    memorized: int
    chance: float
    bits_per_parameter: float
    seconds: float
    stop_reason: StopReason
    name: str | None = None
    tags: Json[tuple[str, ...]] = ()

    @classmethod
    def of(cls, run: Measurement) -> Self:
        """The summary of a run that has finished now."""
        task, model = run.spec.task, run.spec.model
        known = model.columns() | ({} if run.n_heads is None else {"n_heads": run.n_heads})
        # Of our models that have heads those without layers are one layer; of a user's module arguments say nothing.
        one_layer = int("n_heads" in type(model).model_fields)
        layers, heads, width = (
            int(known.get(name, one_layer if name == "n_layers" else 0)) for name in ("n_layers", "n_heads", "d_model")
        )
        return cls(
            key=run.key,
            finished=now(),
            task=task.task,
            protocol=run.spec.protocol.protocol,
            n_layers=layers,
            n_heads=heads,
            d_model=width,
            items=task.items,
            library_size=run.library_size,
            memorized=run.memorized,
            chance=run.chance,
            bits_per_parameter=run.bits_per_parameter,
            seconds=run.seconds,
            stop_reason=run.stop_reason,
        )


@dataclass(frozen=True)
class Failure:
    """A run that could not be done.

    Attributes:
        key: that of the run.
        failed: when it failed last.
        error: why, the last time.
        attempts: how many sweeps or calls it failed in, each with its retries.
        spec: of the run (`capax.specs.Run`), as its JSON has it.
    """

    key: str
    failed: Time
    error: str
    attempts: int
    spec: Json[dict[str, Any]]


LABELS = ("name", "tags")
"""What a user calls a run: columns of a table of their own, since they change when the run does not."""
SUMMARY_COLUMNS = tuple(field.name for field in fields(Summary) if field.name not in LABELS)
FAILURE_COLUMNS = tuple(field.name for field in fields(Failure))

# The measurement comes last: its text may spill over many pages, and a listing reads only what lies before it.
RUNS = """
CREATE TABLE runs (
    key TEXT PRIMARY KEY,
    finished TEXT NOT NULL,
    task TEXT NOT NULL,
    protocol TEXT NOT NULL,
    n_layers INTEGER NOT NULL,
    n_heads INTEGER NOT NULL,
    d_model INTEGER NOT NULL,
    items TEXT NOT NULL,
    library_size INTEGER NOT NULL,
    memorized INTEGER NOT NULL,
    chance REAL NOT NULL,
    bits_per_parameter REAL NOT NULL,
    seconds REAL NOT NULL,
    stop_reason TEXT NOT NULL,
    measurement TEXT NOT NULL
)
"""
FAILURES = """
CREATE TABLE failures (
    key TEXT PRIMARY KEY,
    failed TEXT NOT NULL,
    error TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    spec TEXT NOT NULL
)
"""
IMPORTED = "CREATE TABLE imported (source TEXT NOT NULL, row TEXT NOT NULL)"
PACK_SIZES = "CREATE TABLE pack_sizes (shape TEXT PRIMARY KEY, members INTEGER NOT NULL)"
LABELED = "CREATE TABLE labels (key TEXT PRIMARY KEY, name TEXT, tags TEXT NOT NULL)"
LABELED_RUNS = "FROM runs LEFT JOIN labels USING (key)"
"""SQL for all runs with their names and tags, where they have any."""
STAMP = (f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {VERSION}")
CREATION = (RUNS, FAILURES, IMPORTED, PACK_SIZES, LABELED, *STAMP)


_TASK = "$.spec.task."
_OLDER = {
    **{name: f"json_extract(measurement, '$.spec.model.{name}')" for name in ("n_layers", "n_heads", "d_model")},
    **{
        name: f"json_extract(measurement, '$.{name}')"
        for name in ("library_size", "chance", "bits_per_parameter", "stop_reason")
    },
    "task": f"json_extract(measurement, '{_TASK}task')",
    "items": f"json_extract(measurement, '{_TASK}seq_len') || ' tokens of ' || "
    f"json_extract(measurement, '{_TASK}vocab_size')",
}
"""SQL for the summary's columns from a row of an older version, which held sequences alone."""
_FROM_OLDER = ", ".join(
    [*(f"{_OLDER[name]} AS {name}" if name in _OLDER else name for name in SUMMARY_COLUMNS), "measurement"]
)
OLDER = (1, 2, 3)
"""Versions that are brought to this one."""

_NEW = {1: (FAILURES, IMPORTED, PACK_SIZES, LABELED), 2: (LABELED,), 3: (LABELED,)}
"""Tables that a file of an older version lacks."""
_SAME_RUNS = 3
"""The first version whose table of runs is that of this one."""


def migration(version: int) -> tuple[str, ...]:
    """Statements that make a file of an older version one of this; all of them in one transaction."""
    anew = (
        "ALTER TABLE runs RENAME TO older",
        RUNS,
        f"INSERT INTO runs SELECT {_FROM_OLDER} FROM older ORDER BY rowid",
        "DROP TABLE older",
    )
    return (*(anew if version < _SAME_RUNS else ()), *_NEW[version], *STAMP)


def view(version: int) -> tuple[str, ...]:
    """Statements that make a file of an older version, which cannot be changed, look like one of this."""
    new = (table.replace("CREATE TABLE", "CREATE TEMP TABLE") for table in _NEW[version])
    runs = f"CREATE TEMP VIEW runs AS SELECT rowid AS rowid, {_FROM_OLDER} FROM main.runs"
    return (*((runs,) if version < _SAME_RUNS else ()), *new)
