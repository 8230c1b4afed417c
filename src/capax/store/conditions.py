"""Conditions on the rows of a table."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from capax.errors import TableError


def where(rows: pl.DataFrame, conditions: Iterable[str]) -> pl.DataFrame:
    """The rows that meet every condition `column=value`; `tags=value` is met by a run that has this tag among others.

    Raises:
        TableError: for a condition of another form, an unknown column, or when no row is left.
    """
    for condition in conditions:
        name, equals, value = (part.strip() for part in condition.partition("="))
        if not equals or not value:
            raise TableError(f"where: column=value, got {condition!r}")
        if name not in rows.columns:
            raise TableError(f"where: no column {name!r}; the table has {', '.join(rows.columns)}")
        column = rows[name]
        if column.dtype.is_numeric():
            try:
                kept = column == float(value)
            except ValueError:
                raise TableError(f"where: {name} holds numbers, got {value!r}") from None
        elif name == "tags":
            kept = column.cast(pl.String).str.split(",").list.contains(value)
        else:
            kept = column.cast(pl.String).str.to_lowercase() == value.lower()
        rows = rows.filter(kept)
        if rows.is_empty():
            raise TableError(f"where: no row has {condition}")
    return rows
