"""`capax runs export` and `capax runs import`: runs as tables."""

from __future__ import annotations

from pathlib import Path

from capax.cli import output
from capax.cli.runs import Place, Tagged, Where, conditions
from capax.errors import printable
from capax.store import DEFAULT, Store, table_files, tables
from capax.store.importing import importable


def export(path: Path, *, store: Place = DEFAULT, where: Where = (), tags: Tagged = ()) -> None:
    """Write the runs and imported rows of a store as a table.

    Parameters
    ----------
    path
        A .csv or .parquet file.
    """
    table_files.check_export(path)
    found = tables.where(tables.read(store), conditions(where, tags))
    table_files.to_file(found, path)
    print(f"{output.rows(len(found))} written to {printable(path)}")


def take_in(path: Path, *, store: Place = DEFAULT) -> None:
    """Add somebody else's measurements to a store.

    Parameters
    ----------
    path
        A .csv or .parquet table with columns seq_len, n_heads, d_model, memorized, and any others; rows of this file
        that were added before are replaced.
    """
    rows = importable(table_files.from_file(path))  # before the store is made: bad rows leave nothing behind
    source = path.resolve() if path.is_file() else path  # one spelling of a file; a shipped table has its name
    with Store(store) as opened:
        count = opened.import_rows(rows, str(source))
        kept = len(opened.imported().get(str(source), ()))
    twice = f"; {count - kept} of them are runs of {printable(store)}, which count once" if kept < count else ""
    print(f"{output.rows(count)} imported from {printable(path)}{twice}")
