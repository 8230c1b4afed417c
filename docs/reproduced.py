"""Writes the verdicts in docs/reproduced into reproduced.md: `python docs/reproduced.py`. A test compares them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from capax.papers.catalogue import NAMES
from capax.papers.reproduce import Reproduction

FOLDER = Path(__file__).with_name("reproduced")
PAGE = Path(__file__).with_name("reproduced.md")
BEGIN, END = "<!-- verdicts: python docs/reproduced.py -->\n", "<!-- end of verdicts -->\n"
MARKS = {"agrees": "agrees", "differs": "**differs**", "cannot be judged": "cannot be judged"}


def found() -> list[Reproduction]:
    """The reproductions that are kept, one a paper and scale."""
    return [Reproduction.model_validate_json(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))]


def tables() -> str:
    """A table for each: what the paper says, how we know, the verdict, what was found."""
    lines = []
    for one in found():
        counts = Counter(claim.answer for recipe in one.recipes for claim in recipe.claims)
        runs = sum({recipe.figure: recipe.runs for recipe in one.recipes}.values())
        lines += [
            f"## {NAMES[one.paper]}, scale {one.scale}",
            "",
            f"{', '.join(f'{counts[answer]} {answer}' for answer in MARKS)}. Runs: {one.seconds / 60:.0f} min of "
            f"processes, {runs} in figures (a run may be in several); capax {one.versions['capax']}, torch "
            f"{one.versions['torch']}. `capax reproduce {one.paper} --scale {one.scale}`",
            "",
            "| figure | the paper says (how we know) | verdict | found |",
            "| --- | --- | --- | --- |",
        ]
        for recipe in one.recipes:
            for claim in recipe.claims:
                value = f": {claim.value}" if claim.value else ""
                said = f"{claim.says}{value} ({claim.standing})"
                told = "; ".join(part for part in (claim.measured, claim.reason) if part)
                cells = (f"`{recipe.figure}`", said, MARKS[claim.answer], told)
                lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the tables as they are now."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n" + tables() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
