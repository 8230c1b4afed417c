"""Ontologies in OBO (the flat file format 1.2 and 1.4): what each term is, and what it is related to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from capax.tasks.facts.fact import Fact, FactsError
from capax.tasks.facts.files.columns import TRIPLES, facts
from capax.tasks.facts.files.lines import lines

TRAILING = re.compile(r"(?<!\\)[!{].*")
"""A comment, or qualifiers: they follow the value."""
ESCAPED = re.compile(r"\\(.)")
Row = tuple[int, tuple[str, str, str]]


def read_obo(path: Path) -> Iterator[Fact]:
    """The facts of an ontology: `is_a: B` of a term A is (A, is_a, B), `relationship: part_of B` is (A, part_of, B).

    Terms are called by their ids. Terms that are obsolete are left out, as are stanzas of other kinds.

    Raises:
        FactsError: as `lines` and `facts`; for a term without an id, a line of these two kinds without a target, and a
            term with two ids.
    """
    yield from facts(_rows(path), TRIPLES, f"library: {path}")


def _rows(path: Path) -> Iterator[Row]:
    begun, found = 0, dict[str, list[tuple[int, str]]]()
    for number, line in enumerate(lines(path), start=1):
        if line.startswith("["):
            yield from _of_term(found, begun, path)
            begun, found = number if line.strip() == "[Term]" else 0, {}
        elif begun:
            tag, _, value = line.partition(":")
            if tag in ("id", "is_a", "relationship", "is_obsolete"):
                found.setdefault(tag, []).append((number, TRAILING.sub("", value).strip()))
    yield from _of_term(found, begun, path)


def _of_term(found: dict[str, list[tuple[int, str]]], begun: int, path: Path) -> Iterator[Row]:
    """The facts of one term, once all its lines are known: that it is obsolete comes last."""
    if not begun or any(value == "true" for _, value in found.get("is_obsolete", ())):
        return
    ids = found.get("id", [])
    if len(ids) != 1:
        raise FactsError(f"library: {path}, line {begun}: a term with {len(ids) or 'no'} id{'s' if ids else ''}")
    term = _plain(ids[0][1])
    for number, target in found.get("is_a", ()):
        yield number, (term, "is_a", _plain(target))
    for number, value in found.get("relationship", ()):
        relation, _, target = value.partition(" ")
        yield number, (term, _plain(relation), _plain(target))


def _plain(text: str) -> str:
    return ESCAPED.sub(r"\1", text)
