"""Turtle, by rdflib, which is not there with every capax: this module is imported where it is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rdflib import BNode, Graph, Literal, URIRef
from rdflib.plugins.parsers.notation3 import RDFSink, SinkParser

from capax.inputs import regular
from capax.tasks.facts.fact import Fact, FactsError
from capax.tasks.facts.files.columns import LONGEST_CELL
from capax.tasks.facts.files.lines import lines
from capax.tasks.facts.files.rdf import Triple, facts_of_triples

LARGEST = 256 * 2**20
"""Bytes of a Turtle file."""
MOST_TEXT = 4 * LARGEST
"""Characters of all different terms together."""
FORBIDDEN = re.compile(r'[<>" {}|\\^`\x00-\x20]')
BASE = "file:///"
"""What relative IRIs are relative to: not where the file lies, which is none of its facts."""


def read_turtle(path: Path) -> Iterator[Fact]:
    """The facts of a Turtle file, all of which are in memory at once: N-Triples are for large ones.

    Raises:
        FactsError: as `lines` and `facts`; for a file of more than `LARGEST` bytes, for what is no Turtle, with its
            line, for a term of more than `LONGEST_CELL` characters, and for terms of more than `MOST_TEXT` in all.
    """
    regular(path, "library", FactsError, largest=LARGEST)
    for _ in lines(path):  # what is no text is told with its line
        pass
    taken = Taken()
    try:
        with path.open("rb") as file:
            SinkParser(taken, baseURI=BASE, turtle=True).loadStream(file)
    except RecursionError:
        raise FactsError(f"library: {path}: nested too deeply") from None
    except Exception as problem:  # rdflib has an error of its own for what is no Turtle, and Python's for the rest
        line, why = getattr(problem, "lines", None), getattr(problem, "_why", problem)
        where = "" if line is None else f", line {line + 1}"
        raise FactsError(f"library: {path}{where}: no Turtle: {' '.join(str(why).split())!s:.200}") from None
    yield from facts_of_triples(lambda: taken.triples, f"library: {path}", "triple")


class Taken(RDFSink):
    """Takes triples as they are written, in their order and as often as they occur: a graph would do neither.

    Literals stay text: rdflib would make values of them, and so expand the entities of one that says it is XML. A
    prefix is short and what it stands for may be long, so long terms end all at once.
    """

    def __init__(self) -> None:
        super().__init__(Graph())
        self.triples: list[Triple] = []
        self._once: dict[str, str] = {}
        self._text = 0

    def newSymbol(self, *args: str) -> URIRef:
        """An IRI: rdflib would only log that it is none."""
        if not_in_iri := FORBIDDEN.search(args[0]):
            raise ValueError(f"{not_in_iri[0]!r} in the IRI {args[0]!r:.80}")
        return super().newSymbol(*args)

    def newLiteral(self, s: str, dt: Any = None, lang: str | None = None) -> Literal:
        """The text, with its language."""
        return Literal(s, lang=lang)

    def makeStatement(self, quadruple: tuple[Any, Any, Any, Any], why: object = None) -> None:
        """Take a triple in."""
        graph, *terms = quadruple
        predicate, subject, named = (self.normalise(graph, term) for term in terms)
        number = len(self.triples) + 1
        for term in (subject, predicate, named):
            if len(term) > LONGEST_CELL:
                raise ValueError(
                    f"triple {number} has a term of {len(term)} characters; at most {LONGEST_CELL} are read"
                )
        if isinstance(subject, BNode) or isinstance(named, BNode):
            return
        first, relation, last = (self._held(str(term)) for term in (subject, predicate, named))
        if isinstance(named, Literal):
            self.triples.append(Triple(number, first, relation, None, last, named.language))
        else:
            self.triples.append(Triple(number, first, relation, last, None, None))

    def _held(self, text: str) -> str:
        """The one copy of a text that is kept."""
        if text not in self._once:
            self._text += len(text)
            if self._text > MOST_TEXT:
                raise ValueError(f"its terms have more than {MOST_TEXT} characters; prefixes stand for very long texts")
            self._once[text] = text
        return self._once[text]
