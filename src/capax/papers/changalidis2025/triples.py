"""The made triples: so many concepts have two properties that one answer for each is 88.2 % of the facts."""

from __future__ import annotations

import random
from pathlib import Path

from capax.specs import Facts

PLATEAU = 0.882
"""Share of 100,000 facts that the paper's networks recall, which is the ceiling of the made ones (by our choice)."""
PROPERTIES, ANSWERS = 10, 20
"""Properties, and different answers of each (ours)."""


def text(facts: int) -> str:
    """So many facts as TSV, a concept, a property and a related concept on each line, in no order (seeded).

    Answers of two properties are never the same, so that a concept with two properties has two answers.
    """
    drawn = random.Random(0)
    concepts = round(PLATEAU * facts)
    asked = [
        (concept, kind)
        for concept in range(concepts)
        for kind in drawn.sample(range(PROPERTIES), 2 if concept < facts - concepts else 1)
    ]
    lines = [f"c{concept}\tp{kind}\tr{kind}-{drawn.randrange(ANSWERS)}" for concept, kind in asked]
    drawn.shuffle(lines)
    return "\n".join(["concept\tproperty\trelated", *lines, ""])


def path(facts: int) -> Path:
    """Where so many facts are kept."""
    return Path(__file__).parent / "studies" / f"triples-{facts}.tsv"


def task(facts: int) -> Facts:
    """So many facts with their property, an entity or a property a token."""
    named = {"key": "concept", "relation": "property", "answer": "related"}
    return Facts.model_validate({"library": str(path(facts)), **named, "tokenization": "words"})


if __name__ == "__main__":
    for size in (500, 2000):
        path(size).write_text(text(size), encoding="utf-8")
