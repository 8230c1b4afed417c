"""Writes the table of recipes into reproduce.md: `python docs/recipes.py`. A test compares them."""

from __future__ import annotations

from pathlib import Path

from parts import filled

from capax.papers.recipe import PAPERS, SCALES, read_paper, seconds
from capax.text import duration

PAGE = Path(__file__).with_name("reproduce.md")


def tables() -> str:
    """A table for each paper: what is claimed, how we know, what is run."""
    lines = []
    for paper in map(read_paper, PAPERS):
        expected = {scale: seconds(paper.recipes, scale) for scale in SCALES}
        times = ", ".join(f"{scale} {duration(time) if time else 'left out'}" for scale, time in expected.items())
        lines += [
            f"### {paper.source}: `capax reproduce {paper.name}`",
            "",
            f"Expected on two cores: {times}.",
            "",
            "| figure | what | claim (how we know) | runs: " + " / ".join(SCALES) + " |",
            "| --- | --- | --- | --- |",
        ]
        for recipe in paper.recipes:
            claims = "<br>".join(
                f"{claim.says}{f': {claim.value}' if claim.value else ''} ({claim.standing})" for claim in recipe.claims
            )
            counts = " / ".join(str(recipe.count(scale)) for scale in SCALES)
            runs = "none" if recipe.study is None else f"{recipe.study.name}: {counts}"
            lines.append(f"| `{recipe.figure}` | {recipe.title} | {claims} | {runs} |")
        lines.append("")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the tables as they are now."""
    return filled(text, "recipes", "recipes.py", tables())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
