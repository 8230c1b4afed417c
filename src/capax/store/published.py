"""Measurements that others published, as tables, from data files that say of each number how it is known."""

from __future__ import annotations

from typing import Any

import polars as pl

from capax.errors import LawError, TableError
from capax.literature import stated_by

TABLES = ("allenzhu2024", "morris2025", "nguyen2026")
PREFIX = "published:"
LOW, HIGH = "bits_per_parameter_low", "bits_per_parameter_high"
"""Columns of rows that are bounds, not measurements: no law is fitted to them."""


def _numbers(name: str) -> Any:
    """A source's numbers with their standing, by `published:SOURCE`.

    Raises:
        TableError: when there is no such table.
    """
    source = name.removeprefix(PREFIX)
    if source not in TABLES:
        raise TableError(f"data: {', '.join(PREFIX + known for known in TABLES)}, got {name!r:.80}")
    return stated_by(source)


def table(name: str) -> pl.DataFrame:
    """The rows of a source, with what was the same for all of them, and a column `source`.

    Raises:
        TableError: when there is no such table.
    """
    found = _numbers(name)
    same = {column: told["value"] for column, told in found["same"].items()}
    return pl.DataFrame(found["rows"]).with_columns(
        **{name: pl.lit(one) for name, one in same.items()}, source=pl.lit(found["source"])
    )


def usual_fit(name: str) -> dict[str, Any]:
    """The fit that the rows of a source are there for: `law`, `axes`, `target`, and `where` it takes them from.

    Raises:
        TableError: when there is no such table.
        LawError: when its rows are bounds.
    """
    found: dict[str, Any] = _numbers(name)["fit"]
    if "refused" in found:
        raise LawError(f"{name}: {found['refused']}")
    return found


def notes(name: str) -> tuple[str, ...]:
    """Whose numbers they are, and what a reader must know of them.

    Raises:
        TableError: when there is no such table.
    """
    found = _numbers(name)
    return (f"the rows are those of {found['source']}; the fit to them is ours", *found["notes"])
