"""Facts that a program holds: data frames, triples, graphs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from capax import outputs
from capax.tasks.facts.fact import Fact, FactsError
from capax.tasks.facts.files.columns import TRIPLES, Columns, Names, by_name, facts, find

WIDTHS = {2: Columns(0, None, 1), 3: TRIPLES}


def facts_of(
    source: Any,
    *,
    key: str | None = None,
    answer: str | None = None,
    relation: str | None = None,
    weight: str | None = None,
) -> Iterator[Fact]:
    """The facts of a data frame, of a graph, or of tuples or dictionaries, one at a time.

    A frame (pandas, polars and others that narwhals knows) and dictionaries have columns, which are found as those of
    files are (`columns.find`). Tuples or lists are (key, answer) or (subject, relation, object). Each edge of a
    networkx graph with directions is a fact from its first node to its second; its attribute "relation" names the
    relation, or the key of a multigraph where that is a string, and "weight" its weight.

    Args:
        source: where the facts are; cells are strings or numbers.
        key: name of the column that holds the keys, as `answer`, `relation` and `weight`.

    Raises:
        FactsError: for a source of another kind, at once; while facts are taken, for a row that is broken, with its
            number (from 0).
    """
    import narwhals  # here: it takes a tenth of a second, and files do without

    named = Names(key, answer, relation, weight)
    if hasattr(source, "edges") and hasattr(source, "is_multigraph"):
        if any(named):
            raise FactsError("source: a graph has no columns to name")
        return _of_edges(source)
    frame = narwhals.from_native(source, pass_through=True)
    if isinstance(frame, narwhals.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, narwhals.DataFrame):
        columns = find(frame.columns, named, "source: the frame")
        return facts(enumerate(frame.iter_rows()), columns, "source: the frame", "row")
    if isinstance(source, str | bytes | Mapping) or not isinstance(source, Iterable):
        raise FactsError(
            "source: a data frame, a networkx graph, or (key, answer) or (subject, relation, object) tuples or "
            f"dictionaries, got {type(source).__name__}"
        )
    return _of_rows(source, named)


def _of_rows(source: Iterable[Any], named: Names) -> Iterator[Fact]:
    rows = iter(source)
    first = next(rows, None)
    if first is None:
        return
    every = enumerate(chain([first], rows))
    if isinstance(first, Mapping):
        header = list(map(str, first))
        columns = find(header, named, "source: the first dictionary")
        cells = by_name(_dictionaries(every), header, columns, named, "source: row", "the first dictionary")
        yield from facts(cells, columns, "source: the facts", "row")
        return
    if any(named):
        raise FactsError("source: tuples have no columns to name")
    width = len(first) if isinstance(first, tuple | list) else 0
    if width not in WIDTHS:
        raise FactsError(f"source: (key, answer) or (subject, relation, object), got {first!r:.80}")
    yield from facts(_of_width(every, width), WIDTHS[width], "source: the facts", "row")


def _of_width(rows: Iterable[tuple[int, Any]], width: int) -> Iterator[tuple[int, Sequence[Any]]]:
    for number, row in rows:
        if not isinstance(row, tuple | list) or len(row) != width:
            raise FactsError(f"source: row {number} should have {width} cells, as row 0 has, got {row!r:.80}")
        yield number, row


def _dictionaries(rows: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, row in rows:
        if not isinstance(row, Mapping):
            raise FactsError(f"source: row {number} should be a dictionary, as row 0 is, got {row!r:.80}")
        yield number, {str(name): value for name, value in row.items()}


def _of_edges(graph: Any) -> Iterator[Fact]:
    """An edge without a relation is refused in a graph with relations, as an empty cell of a column is.

    So is a graph without directions: it does not keep which node of an edge was named first.
    """
    if not graph.is_directed():
        raise FactsError(
            "source: the graph is undirected: no edge says which node is the key, as those of a DiGraph do"
        )
    relational = any(relation is not None for _, (_, relation, _, _) in _edges(graph))
    columns = Columns(0, 1 if relational else None, 2, 3)
    yield from facts(_edges(graph), columns, "source: the graph", "edge")


def _edges(graph: Any) -> Iterator[tuple[int, tuple[Any, Any, Any, Any]]]:
    every = graph.edges(keys=True, data=True) if graph.is_multigraph() else graph.edges(data=True)
    for number, (first, second, *keys, attributes) in enumerate(every):
        calls = keys[0] if keys and isinstance(keys[0], str) else None
        yield number, (first, attributes.get("relation", calls), second, attributes.get("weight", 1.0))


def write(source: Any, path: Path, **named: str | None) -> None:
    """Write the facts of `facts_of` as JSON lines, whole or not at all; a relation only where there are some.

    Raises:
        FactsError: as `facts_of`, and for a source without a fact.
        ReportError: when the file cannot be written.
    """
    found = facts_of(source, **named)
    first = next(found, None)
    if first is None:
        raise FactsError("source: holds no facts")
    with outputs.written(path) as part, part.open("w", encoding="utf-8") as file:
        for fact in chain([first], found):
            fields = {name: value for name, value in fact._asdict().items() if value != ""}
            file.write(json.dumps(fields, ensure_ascii=False) + "\n")
