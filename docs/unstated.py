"""Writes the table of crossed choices into sensitivity.md: `python docs/unstated.py`. A test compares them."""

from __future__ import annotations

from pathlib import Path

from parts import filled

from capax.figures.runs import read
from capax.papers.harma2024.unstated import CLAIMS, table
from capax.papers.recipe import recipes

FOLDER = Path(__file__).parent
PAGE = FOLDER / "sensitivity.md"
MARKS = {"agrees": "yes", "differs": "no", "cannot be judged": "?"}


def crossed() -> str:
    """A row for each combination, a column for each claim."""
    (recipe,) = recipes("harma2024", "unstated")
    keys = {run.key() for run in recipe.runs("small")}
    runs = [run for run in read([FOLDER / "reproduced" / "harma2024-small.db"]).runs if run.key in keys]
    lines = [
        f"| loss | vocabulary | patience | positions | {' | '.join(CLAIMS)} | hold |",
        f"| --- | --- | --- | --- |{' --- |' * len(CLAIMS)} --- |",
    ]
    for one, verdicts in table(runs).items():
        answers = [MARKS[verdict.answer] for verdict in verdicts.values()]
        cells = (one.loss, one.vocab_size, one.patience, one.positions, *answers, answers.count("yes"))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the table as it is now."""
    return filled(text, "crossed", "unstated.py", crossed())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
