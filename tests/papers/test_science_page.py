"""The verdicts that docs/science.md gives are those of `capax reproduce`, figure by figure."""

from __future__ import annotations

import re
from collections import defaultdict

from doc_scripts import DOCS, script

OPEN = "cannot be judged"
WORDS = ("agrees", "differs", OPEN)
PAPERS = {"Härmä": "harma2024", "Mahdavi": "mahdavi2024", "Adler": "adler2025"}


def told() -> dict[tuple[str, str], list[set[str]]]:
    """Of each paper's figure the verdicts in each row of the table whose command names it."""
    text = (DOCS / "science.md").read_text(encoding="utf-8").split("## What agrees, and what does not")[1]
    found, paper, figures = defaultdict[tuple[str, str], list[set[str]]](list), "", list[str]()
    for line in text.splitlines():
        cells = line.strip("| ").split(" | ")
        if len(cells) != 4:
            continue
        if named := re.match(r"\*\*(\w+)", cells[0]):
            paper = PAPERS.get(named[1], "")
        if cells[2] != "the same":
            figures = re.findall(r"`(?:capax reproduce \w+|…) ([\w.-]+)", cells[2])
        if paper and "no recipe judges it" not in cells[3]:
            for figure in figures:
                found[paper, figure].append({word for word in WORDS if word in cells[3]})
    return found


def test_every_row_gives_the_verdicts_of_its_recipes() -> None:
    made = script("reproduced")
    judged, at_any = defaultdict[tuple[str, str], set[str]](set), defaultdict[tuple[str, str], set[str]](set)
    for (paper, figure, _), answers in made["verdicts"](made["found"]()).items():
        judged[paper, figure].add(next(answers[scale] for scale in made["COLUMNS"] if scale in answers))
        at_any[paper, figure] |= set(answers.values())
    rows = {figure: set.union(*words) for figure, words in told().items() if figure in judged}
    assert len(rows) == 20
    for figure, words in rows.items():
        assert judged[figure] - {OPEN} <= words, f"{figure}: the page leaves a verdict out"
        assert words - {OPEN} <= at_any[figure], f"{figure}: the page has a verdict that none of its claims has"
        assert judged[figure] != {OPEN} or OPEN in words, f"{figure}: it cannot be judged"
    assert {paper for paper, _ in rows} == set(PAPERS.values())
