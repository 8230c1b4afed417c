"""Conditions on the rows of a table."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from capax.errors import TableError, among, shown
from capax.text import together

NONE = "none"


def _number(text: str, of: pl.DataType) -> float:
    """A number as a column has it: a whole one keeps all its digits.

    Raises:
        ValueError: for text that is no number.
    """
    digits = text.removeprefix("-")
    if of.is_integer() and digits.isascii() and digits.isdigit() and abs(int(text)) < 2**63:
        return int(text)
    return float(text)


def where(rows: pl.DataFrame, conditions: Iterable[str] | str) -> pl.DataFrame:
    """The rows that meet every condition `column=value`, or one that is given as text; `none` by rows without a value.

    `tags=value` is met by a run that has this tag among others. Upper and lower case are the same.

    Raises:
        TableError: for a condition of another form, an unknown column, or when no row is left.
    """
    met: list[str] = []
    for condition in (conditions,) if isinstance(conditions, str) else conditions:
        if not isinstance(condition, str):
            raise TableError(f"where: column=value, got {shown(condition)}")
        name, equals, value = (part.strip() for part in condition.partition("="))
        if not equals or not value:
            raise TableError(f"where: column=value, got {condition!r}")
        if name not in rows.columns:
            raise TableError(f"where: no column {name!r}; the table has {among(name, rows.columns)}")
        column, lower = rows[name], value.lower()
        if column.dtype.is_numeric():
            try:
                kept = column.is_null() if lower == NONE else column == _number(value, column.dtype)
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
