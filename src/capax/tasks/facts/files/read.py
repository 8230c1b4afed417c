"""Files of facts: what kind a file is, and the facts that it holds, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from capax.inputs import is_folder, regular
from capax.tasks.facts.fact import Fact, FactsError
from capax.tasks.facts.files import delimited
from capax.tasks.facts.files.columns import Names
from capax.tasks.facts.files.delimited import read_csv, read_tsv
from capax.tasks.facts.files.jsonl import read_jsonl
from capax.tasks.facts.files.ntriples import read_ntriples
from capax.tasks.facts.files.obo import read_obo
from capax.tasks.facts.files.wordnet import data_files, read_wordnet


def _read_turtle(path: Path) -> Iterator[Fact]:
    try:
        from capax.tasks.facts.files.turtle import read_turtle
    except ImportError:
        raise FactsError(f"library: {path}: Turtle is read by rdflib: pip install 'capax[facts]'") from None
    return read_turtle(path)


TABLES: dict[str, Callable[[Path, Names], Iterator[Fact]]] = {
    ".tsv": read_tsv,
    ".csv": read_csv,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
}
"""Kinds with columns."""
TRIPLES: dict[str, Callable[[Path], Iterator[Fact]]] = {".obo": read_obo, ".nt": read_ntriples, ".ttl": _read_turtle}
"""Kinds that say themselves what is what."""
XML = (".rdf", ".owl", ".xml")


def read(
    path: Path,
    *,
    key: str | None = None,
    answer: str | None = None,
    relation: str | None = None,
    weight: str | None = None,
) -> Iterator[Fact]:
    """The facts of a file, in its order and as often as it has them, one at a time.

    Args:
        path: a file, whose kind follows from its suffix (`TABLES`, `TRIPLES`), or a folder with WordNet's database.
        key: name of the column that holds the keys, as `answer`, `relation` and `weight`; what is not named is found
            (`columns.find`).

    Raises:
        FactsError: at once for a path that is missing or of another kind, and for names of columns where there are
            none; while facts are taken for what is broken, with its line, and for a file without a fact.
    """
    named = Names(key, answer, relation, weight)
    kind = path.suffix.lower()
    if kind in TABLES:
        return _some(TABLES[kind](regular(path, "library", FactsError), named), path)
    if kind not in TRIPLES and not is_wordnet(path):
        raise FactsError(_unknown(path, kind))
    if any(named):
        raise FactsError(f"library: {path} has no columns to name; {', '.join(TABLES)} have")
    return _some(TRIPLES[kind](regular(path, "library", FactsError)) if kind in TRIPLES else read_wordnet(path), path)


def columns_by_place(path: Path, named: Names) -> str | None:
    """What a table's first line calls its columns, where it may be a fact as well: nothing else says what they hold.

    Args:
        named: the columns that were named.
    """
    if path.suffix.lower() not in (".tsv", ".csv"):
        return None
    return delimited.columns_by_place(path, named)


def is_wordnet(path: Path) -> bool:
    """Whether a path is that of a folder with WordNet's database.

    Raises:
        FactsError: for a path that cannot be looked at.
    """
    return is_folder(path, "library", FactsError) and bool(data_files(path))


def _unknown(path: Path, kind: str) -> str:
    allowed = f"{', '.join([*TABLES, *TRIPLES])}, or a folder with WordNet's data.noun"
    hint = "; RDF/XML is not read: convert it to .nt or .ttl" if kind in XML else ""
    return f"library: {allowed}, got {str(path)!r}{hint}"


def _some(found: Iterator[Fact], path: Path) -> Iterator[Fact]:
    empty = True
    for fact in found:
        empty = False
        yield fact
    if empty:
        raise FactsError(f"library: {path} holds no facts")


def size(path: Path) -> int:
    """Bytes of what `read` reads: of a folder, WordNet's data files."""
    return sum(one.stat().st_size for one in (data_files(path) if path.is_dir() else [path]))
