"""Files of facts: what kind a file is, and the facts that it holds, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from capax.inputs import regular
from capax.tasks.facts.fact import Fact, FactsError
from capax.tasks.facts.files import delimited, jsonl
from capax.tasks.facts.files.columns import Names

TABLES: dict[str, Callable[[Path, Names], Iterator[Fact]]] = {
    ".tsv": delimited.read_tsv,
    ".csv": delimited.read_csv,
    ".jsonl": jsonl.read_jsonl,
    ".ndjson": jsonl.read_jsonl,
}


def read(
    path: Path,
    *,
    key: str | None = None,
    answer: str | None = None,
    relation: str | None = None,
    weight: str | None = None,
) -> Iterator[Fact]:
    """The facts of a file, in its order, one at a time.

    Args:
        path: the kind follows from the suffix.
        key: name of the column that holds the keys, as `answer`, `relation` and `weight`; what is not named is found
            (`columns.find`).

    Raises:
        FactsError: for a file that is missing or of another kind, at once; while facts are taken, for what is broken,
            with its line, and for a file without a fact.
    """
    kind = path.suffix.lower()
    if kind not in TABLES:
        raise FactsError(f"facts: {path}: {', '.join(TABLES)}")
    regular(path, "facts", FactsError)
    return _some(TABLES[kind](path, Names(key, answer, relation, weight)), path)


def _some(found: Iterator[Fact], path: Path) -> Iterator[Fact]:
    empty = True
    for fact in found:
        empty = False
        yield fact
    if empty:
        raise FactsError(f"facts: {path} holds no facts")


def size(path: Path) -> int:
    """Bytes of a file of facts."""
    return path.stat().st_size
