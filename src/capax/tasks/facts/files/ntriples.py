"""N-Triples: RDF with a triple a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from capax.inputs import regular
from capax.tasks.facts.fact import Fact, FactsError
from capax.tasks.facts.files.lines import lines
from capax.tasks.facts.files.rdf import Triple, facts_of_triples

_IRI = r'<([^<>"{}|^`\x00-\x20]*+)>'
_BLANK = r'_:[^\s<>"]*[^\s<>".]'
_LITERAL = r'"((?:[^"\\]|\\.)*+)"(?:@([A-Za-z]+(?:-[A-Za-z0-9]+)*+)|\^\^<[^<>\s]*+>)?'
LINE = re.compile(rf"\s*+(?:{_IRI}|{_BLANK})\s*+{_IRI}\s*+(?:{_IRI}|{_BLANK}|{_LITERAL})\s*+\.\s*+(?:#.*+\n?)?")
ESCAPED = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.?))", re.DOTALL)
PLAIN = dict(zip("tbnrf\"'\\", "\t\b\n\r\f\"'\\", strict=True))


def read_ntriples(path: Path) -> Iterator[Fact]:
    """The facts of an N-Triples file, which is read twice: names, then facts.

    Only the different names are held in memory, and only until the first fact.

    Raises:
        FactsError: as `lines` and `facts`; for a line that is no triple, with its number.
    """
    regular(path, "library", FactsError)
    yield from facts_of_triples(lambda: _lines(path), f"library: {path}", "line")


def _lines(path: Path) -> Iterator[Triple]:
    for number, line in enumerate(lines(path), start=1):
        found = LINE.fullmatch(line)
        if found is None:
            if line.isspace() or not line or line.lstrip().startswith("#"):
                continue
            raise FactsError(f"library: {path}, line {number}: no triple of RDF: {line.strip()!r:.80}")
        parts = found.groups()
        if "\\" in line:
            try:
                parts = tuple(part and ESCAPED.sub(_character, part) for part in parts)
            except (ValueError, OverflowError) as problem:
                raise FactsError(f"library: {path}, line {number}: {problem}") from None
        subject, predicate, named, literal, language = parts
        if subject is not None and (named is not None or literal is not None):
            yield Triple(number, subject, predicate, named, literal, language)


def _character(escaped: re.Match[str]) -> str:
    short, long, letter = escaped.groups()
    if letter is None:
        return chr(int(short or long, 16))
    if letter not in PLAIN:
        raise ValueError(f"\\{letter} is no escape of RDF")
    return PLAIN[letter]
