"""What facts RDF holds: IRIs become names.

What is called by an IRI is named by its last part, behind the last `/` or `#` (`http://dbpedia.org/resource/Köln` is
`Köln`), unless another IRI of the file ends in the same: both then keep the whole. Relations are names of their own;
keys and answers share theirs. A literal is its text, without its type; that of a language is the answer to another
relation (`label@de`). Blank nodes have no name by which one could ask: triples with one are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from capax.tasks.facts.fact import Fact
from capax.tasks.facts.files.columns import TRIPLES, facts


class Triple(NamedTuple):
    """A triple of RDF without blank nodes: an object is either what an IRI names or a literal."""

    number: int
    subject: str
    predicate: str
    named: str | None
    literal: str | None
    language: str | None


def facts_of_triples(triples: Callable[[], Iterable[Triple]], source: str, unit: str) -> Iterator[Fact]:
    """The facts of triples, which are gone through twice: names, then facts.

    Args:
        triples: begins anew whenever it is called.
        source: name that messages begin with.
        unit: what the triples' numbers count.

    Raises:
        FactsError: as `facts`.
    """
    yield from facts(_rows(triples), TRIPLES, source, unit)


def _rows(triples: Callable[[], Iterable[Triple]]) -> Iterator[tuple[int, tuple[str, str, str | None]]]:
    entities, relations = Shortened(), Shortened()
    for triple in triples():
        entities.add(triple.subject)
        relations.add(triple.predicate)
        if triple.named is not None:
            entities.add(triple.named)
    entities.settle()
    relations.settle()
    for number, subject, predicate, named, literal, language in triples():
        relation = relations.name(predicate) + (f"@{language.lower()}" if language else "")
        yield number, (entities.name(subject), relation, literal if named is None else entities.name(named))


class Shortened:
    """Names of IRIs: their last parts, as far as no other IRI has the same."""

    def __init__(self) -> None:
        self._beginnings: dict[str, int] = {}
        self._beginning_of: dict[str, int] = {}
        self._shared: set[str] = {""}

    def add(self, iri: str) -> None:
        """Take an IRI in."""
        last = last_part(iri)
        beginning = iri[: len(iri) - len(last)]
        number = self._beginnings.setdefault(beginning, len(self._beginnings))
        if self._beginning_of.setdefault(last, number) != number:
            self._shared.add(last)

    def settle(self) -> None:
        """Forget all but what is shared, once every IRI has been taken in."""
        self._beginnings, self._beginning_of = {}, {}

    def name(self, iri: str) -> str:
        """The last part of an IRI, or all of it."""
        last = last_part(iri)
        return iri if last in self._shared else last


def last_part(iri: str) -> str:
    """What follows the last `/` or `#`."""
    return iri.rpartition("#")[2].rpartition("/")[2]
