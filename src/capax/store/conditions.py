"""Conditions on the rows of a table."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from capax.errors import TableError, among
from capax.text import together

NONE = "none"


def where(rows: pl.DataFrame, conditions: Iterable[str]) -> pl.DataFrame:
    """The rows that meet every condition `column=value`; `none` by rows without a value.

    `tags=value` is met by a run that has this tag among others. Upper and lower case are the same.

    Raises:
        TableError: for a condition of another form, an unknown column, or when no row is left.
    """
    met: list[str] = []
    for condition in conditions:
        name, equals, value = (part.strip() for part in condition.partition("="))
        if not equals or not value:
            raise TableError(f"where: column=value, got {condition!r}")
        if name not in rows.columns:
            raise TableError(f"where: no column {name!r}; the table has {among(name, rows.columns)}")
        column, lower = rows[name], value.lower()
        if column.dtype.is_numeric():
            try:
                kept = column.is_null() if lower == NONE else column == float(value)
            except ValueError:
                raise TableError(f"where: {name} holds numbers, got {value!r}") from None
        elif name == "tags":
            kept = column.cast(pl.String).str.to_lowercase().str.split(",").list.contains(lower)
        else:
            kept = column.cast(pl.String).str.to_lowercase() == lower
        if lower == NONE and not kept.any():  # no value that is called so
            kept = column.is_null()
        rows = rows.filter(kept)
        met.append(condition.strip())
        if rows.is_empty():
            raise TableError(f"where: no row has {together(met)}")
    return rows
