"""Tables in files: those of users, what ships with capax, and exports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import polars as pl
from polars.exceptions import PolarsError

from capax import outputs
from capax.errors import TableError
from capax.inputs import regular, whole_path
from capax.store import published
from capax.store.conditions import where as where
from capax.store.schema import KEY
from capax.store.tables import GRID

MOST_VALUES = 100_000_000
"""Rows times columns of a table that is read: 800 MB of numbers."""
LONGEST_HEADER = 2**16
"""Bytes of the first line of a .csv."""
RAGGED = "found more fields"
"""What polars says of a row of a .csv with more cells than there are columns, before advice on its own options."""
COMPRESSED = (b"\x1f\x8b", b"\x78\x01", b"\x78\x9c", b"\x78\xda", b"\x28\xb5\x2f\xfd")
"""How gzip, zlib and zstd begin, which polars unpacks whatever a file is called."""
REFERENCE = {
    "reference": "capacity",
    "reference:capacity": "capacity",
    "reference:grid": "capacity",
    "reference:exposures": "exposures",
    "reference:associations": "associations",
    "reference:relations": "relations",
}
"""Tables that ship with capax, by the names that stand for them."""


def to_file(rows: pl.DataFrame, path: Path | str) -> None:
    """Write a table as .csv or .parquet, whole or not at all.

    Raises:
        TableError: for another ending, a table without rows, or what the format cannot hold.
        ReportError: when it cannot be written.
    """
    path = Path(path)
    _check_ending(path)
    outputs.check(path, "export")
    if rows.is_empty():
        raise TableError("export: there are no rows to write")
    content = BytesIO()
    try:
        if path.suffix == ".csv":
            rows.write_csv(content)
        else:
            rows.write_parquet(content)
    except PolarsError as error:
        raise TableError(f"export: cannot write {path}: {error}") from None
    outputs.write(path, content.getvalue(), "export")


def check_export(path: Path) -> None:
    """Refuse a path that `to_file` cannot write to, and one where there is something else than a table of runs.

    Raises:
        TableError: for another ending than .csv and .parquet.
        ReportError: when it cannot be written, or is another file.
    """
    _check_ending(path)
    parquet = path.suffix == ".parquet"
    outputs.check(path, "export", *[(b"PAR1", "Parquet file")] * parquet)
    if path.is_file() and path.stat().st_size:
        if parquet:
            with _one_line(path):
                names = [*pl.read_parquet_schema(path)]
        else:
            with path.open("rb") as file:
                names = file.readline(LONGEST_HEADER).decode(errors="replace").strip().split(",")
        if "key" not in names and not {"source", "memorized"} <= {*names}:  # of imported rows alone it has no keys
            raise TableError(f"export: {path} is there, and no table of runs that capax wrote; name another file")


def _check_ending(path: Path) -> None:
    if path.suffix not in (".csv", ".parquet"):
        raise TableError(f"export: a .csv or .parquet file, got {path}")


def shipped(name: str) -> pl.DataFrame:
    """A study that ships as a commented table, by its file's name."""
    text = (files("capax") / "data" / "reference" / name).read_text(encoding="utf-8")
    return pl.read_csv(text.encode(), comment_prefix="#")


def from_file(path: Path | str) -> pl.DataFrame:
    """A table of somebody's measurements: a .csv or .parquet file with named columns, `reference`, or a published one.

    `reference` (`reference:capacity`) is what networks hold at convergence (examples/capacity.toml and
    capacity-varied, -grid, -depth and -ladder.toml), `reference:grid` those that differ in width, heads and length
    alone, as the paper's do (capacity-grid.toml), `reference:exposures` what networks knew after so many exposures
    (capacity.toml and exposures.toml), `reference:associations` what attention layers recall (associations.toml),
    `reference:relations` what key-query channels need (docs/relations.md). `published:morris2025`,
    `published:nguyen2026` and `published:allenzhu2024` are what others measured, with their `source`
    (`capax.store.published`).

    Raises:
        TableError: when it cannot be read, has another ending, holds no rows, or no table has this name.
    """
    name = str(path)
    if name.startswith(published.PREFIX):
        return published.table(name)
    if name.startswith("reference:") and name not in REFERENCE:
        raise TableError(f"data: {', '.join(REFERENCE)}, got {name!r:.80}")
    if name == "reference:grid":
        return where(from_file("reference"), GRID)
    path = (
        Path(str(files("capax") / "data" / "reference" / f"{REFERENCE[name]}.csv")) if name in REFERENCE else Path(path)
    )
    readers: dict[str, Callable[[Path], pl.DataFrame]] = {
        ".csv": partial(pl.read_csv, infer_schema_length=None),  # all rows say what a column holds
        ".parquet": pl.read_parquet,
    }
    if path.suffix not in readers:
        raise TableError(f"data: a .csv or .parquet file, got {path}")
    whole_path(path, "data", TableError)
    _refuse_bombs(path)
    if path.suffix == ".csv":
        _refuse_repeats(path)
    with _one_line(path):
        found = readers[path.suffix](path)
    if path.suffix == ".csv" and found.width:
        found = found.filter(~pl.all_horizontal(pl.all().is_null()))  # empty lines
    if found.is_empty():
        raise TableError(f"data: {path} holds no rows")
    for name, kind in found.schema.items():
        if kind in (pl.Int128, pl.UInt128):
            raise TableError(f"data: {path}: column {name!r:.80} has integers that do not fit in 64 bits")
    return found


def _refuse_repeats(path: Path) -> None:
    """Raise TableError for a .csv in which two columns have one name: polars would rename the second."""
    with _one_line(path):
        head = pl.read_csv(path, has_header=False, n_rows=1, infer_schema=False).row(0)
    if repeated := [name for name, count in Counter(head).items() if count > 1]:
        raise TableError(f"data: {path}: column {repeated[0] or ''!r:.80} is there twice; names should be distinct")


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """What polars raises of a file, in a line; a panic of its Rust is no Exception.

    Raises:
        TableError: in its place.
    """
    try:
        yield
    except (PolarsError, OSError, UnicodeDecodeError) as error:
        why = "a row has more cells than the header" if RAGGED in str(error) else error
        raise TableError(f"data: cannot read {path}: {why}") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise TableError(f"data: cannot read {path}: it is damaged") from None


def _refuse_bombs(path: Path) -> None:
    """Refuse a table that is small on disk and huge in memory.

    Raises:
        TableError: for what is no regular file, a compressed .csv, one without an end to its first line, and more
            values than `MOST_VALUES`.
    """
    regular(path, "data", TableError)
    with _one_line(path):
        if path.suffix == ".parquet":
            rows = int(pl.scan_parquet(path).select(pl.len()).collect().item())
            values = rows * len(pl.read_parquet_schema(path))
            if values > MOST_VALUES:
                raise TableError(f"data: {path} has {values} values; at most {MOST_VALUES} are read")
            return
        with path.open("rb") as file:
            start = file.read(LONGEST_HEADER)
    if start.startswith(COMPRESSED):
        raise TableError(f"data: {path} is compressed; unpack it first")
    if len(start) == LONGEST_HEADER and b"\n" not in start:
        raise TableError(f"data: {path} has a first line of more than {LONGEST_HEADER} bytes")


def from_files(paths: Iterable[Path | str]) -> pl.DataFrame:
    """Several tables (`from_file`) one below the other; a column that one of them lacks is null there.

    Rows of a run, known by its key, are those of the first table that has it: a copy of a file adds nothing.

    Raises:
        TableError: as `from_file`, and when a column holds numbers in one and text in another.
    """
    every, known = [], set[str]()
    for path in paths:
        table = from_file(path)
        if table.schema.get("key") == pl.String:
            keys = {key for key in table["key"].drop_nulls() if KEY.fullmatch(key)}
            table = table.filter(~pl.col("key").is_in(known).fill_null(value=False))
            known |= keys
        every.append(table)
    try:
        return pl.concat(every, how="diagonal_relaxed")
    except PolarsError as error:
        raise TableError(f"data: the tables do not fit each other: {error}") from None
