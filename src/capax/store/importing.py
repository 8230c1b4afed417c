"""Checks on somebody else's measurements before they are stored."""

from __future__ import annotations

from typing import Any

import polars as pl

from capax.errors import TableError, among, shown
from capax.store.frames import taken

REQUIRED = ("seq_len", "n_heads", "d_model", "memorized")
"""Columns that somebody else's measurements must have."""
WHOLE = ("seq_len", "n_heads", "d_model")
TRUTHS = ("above_chance", "converged")
"""Columns of runs that say yes or no."""


def importable(table: Any) -> pl.DataFrame:
    """A table of measurements that a store can hold.

    Returns:
        The table, its required columns as numbers; what is no finite number in a column of floats is null.

    Raises:
        TableError: for what is no table, and when a required column is missing, or holds something else than positive
            finite numbers (`memorized` may be 0, sizes are whole), for a column of truth values that holds others, and
            for a column `source` that says anything: that is where a store says which file it is.
    """
    table = taken(table)
    if not isinstance(table, pl.DataFrame):
        raise TableError(f"table: a data frame, or a mapping of arrays of one length, got {shown(table)}")
    for name in REQUIRED:
        if name not in table.columns:
            raise TableError(
                f"{name}: no such column to import; the table has {among(name, table.columns)}{_or_merge(table)}"
            )
        for row, value in enumerate(table[name], start=1):
            if not _is_positive(value, or_zero=name == "memorized"):
                least = "a finite number, 0 or more" if name == "memorized" else "a positive finite number"
                raise TableError(f"{name}: row {row} should be {least}, got {value!r}{_or_merge(table)}")
    for name in WHOLE:
        for row, value in enumerate(table[name], start=1):
            if float(value) % 1:
                raise TableError(f"{name}: row {row} should be a whole number, got {value!r}")
    for name in {*TRUTHS} & {*table.columns}:
        if table.schema[name] != pl.Boolean and len(given := table[name].drop_nulls()):
            raise TableError(f"{name}: true or false, got {shown(given[0])}")
    for name in table.columns:
        if (first := name.partition("_duplicated_")[0]) != name:
            raise TableError(f"{first}: two columns are called so")
        if (kind := table.schema[name]).is_nested():
            raise TableError(f"{name}: a column of numbers or text, got {kind}")
    if "library_size" in table.columns:
        for row, (count, size) in enumerate(table.select("memorized", "library_size").iter_rows(), start=1):
            if _is_positive(size) and float(count) > float(size):
                raise TableError(f"memorized: row {row}: {count} of {size} (library_size)")
    if "source" in table.columns and len(own := table["source"].drop_nulls()):
        raise TableError(f"source: in a store this column says where rows come from; rename it, it has {shown(own[0])}")
    floats = [name for name, kind in table.schema.items() if kind.is_float()]
    finite = [pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in floats]
    others = [name for name in REQUIRED if not table.schema[name].is_numeric()]
    # Not by a cast: as was checked, they are what Python takes for numbers, " 32" and "1_000" too.
    numbers = [pl.Series(name, [float(value) for value in table[name]]) for name in others]
    return table.with_columns(finite).with_columns(numbers)


def _or_merge(table: pl.DataFrame) -> str:
    """What to do with runs of capax, as the end of a message; empty of others."""
    return "; runs of capax go from store to store by capax runs merge" if "key" in table.columns else ""


def _is_positive(value: Any, or_zero: bool = False) -> bool:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, bool) and (0 < number < float("inf") or (or_zero and number == 0))
