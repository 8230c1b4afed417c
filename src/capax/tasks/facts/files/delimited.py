"""Tables of facts, one a row: tab-separated (TSV) and comma-separated (CSV), with a header."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from capax.tasks.facts.fact import Fact, FactsError
from capax.tasks.facts.files.columns import RELATIONS, Names, facts, find, known_by_name
from capax.tasks.facts.files.lines import lines


def read_tsv(path: Path, named: Names) -> Iterator[Fact]:
    """The facts of a tab-separated file.

    A tab always ends a cell and a line end always ends a row; quotes are characters like others, as the format's
    registration (text/tab-separated-values) has it. What was written with quotes around cells belongs in a CSV.

    Raises:
        FactsError: as `lines`, `find` and `facts`; for a row with another number of cells than the header.
    """
    return _table(_tsv_rows(path), path, named)


def read_csv(path: Path, named: Names) -> Iterator[Fact]:
    """The facts of a comma-separated file: cells with commas, line ends or quotes stand in quotes (RFC 4180).

    Raises:
        FactsError: as `lines`, `find` and `facts`; for a row with another number of cells than the header, and for
            quotes that do not end. The number of a row is that of its first line.
    """
    return _table(_csv_rows(path), path, named)


def columns_by_place(path: Path, named: Names) -> str | None:
    """The cells of a first line that nothing but its place makes names of columns, in words; None for another."""
    rows = _csv_rows(path) if path.suffix.lower() == ".csv" else _tsv_rows(path)
    header = _header(_filled(rows), path)
    if known_by_name(header, named):
        return None
    columns = {
        role: place for role, place in find(header, named, f"library: {path}")._asdict().items() if place is not None
    }
    return ", ".join(f"{header[place]} ({role})" for role, place in columns.items())


def _tsv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    return ((number, line.rstrip("\r\n").split("\t")) for number, line in enumerate(lines(path), start=1))


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader(lines(path), strict=True)
    number = 1
    try:
        for cells in rows:
            yield number, cells
            number = rows.line_num + 1
    except csv.Error as problem:
        endless = f"a cell of more than {csv.field_size_limit()} characters; do its quotes end?"
        what = endless if "field limit" in str(problem) else f"broken CSV ({problem})"
        raise FactsError(f"library: {path}, line {number}: {what}") from None


def _table(rows: Iterator[tuple[int, list[str]]], path: Path, named: Names) -> Iterator[Fact]:
    filled = _filled(rows)
    header = _header(filled, path)
    columns = find(header, named, f"library: {path}")
    below = _of_width(filled, len(header), path)
    if named.relation is None and columns.relation is not None:
        below = _below(header[columns.relation], columns.relation, below, path)
    yield from facts(below, columns, f"library: {path}")


def _filled(rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    return (row for row in rows if row[1] not in ([], [""]))


def _header(filled: Iterator[tuple[int, list[str]]], path: Path) -> list[str]:
    _, header = next(filled, (0, []))
    if not header:
        raise FactsError(f"library: {path} is empty")
    return [name.strip() for name in header]


def _below(
    name: str, place: int, rows: Iterator[tuple[int, Sequence[str]]], path: Path
) -> Iterator[tuple[int, Sequence[str]]]:
    """Rows below a header: a first line whose relation comes again is a fact, which would be lost."""
    known = name.casefold() in RELATIONS
    for number, cells in rows:
        if not known and cells[place].strip() == name:
            raise FactsError(
                f"library: {path}, line {number}: {name!r:.80} is in the first line, too, which names the columns; put "
                "a line such as key, relation, answer before it"
            )
        yield number, cells


def _of_width(rows: Iterator[tuple[int, list[str]]], width: int, path: Path) -> Iterator[tuple[int, Sequence[str]]]:
    for number, cells in rows:
        if len(cells) != width:
            raise FactsError(
                f"library: {path}, line {number}: {len(cells)} cell{'s' * (len(cells) > 1)}, but the header has {width}"
            )
        yield number, cells
