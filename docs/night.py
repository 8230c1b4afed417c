"""Writes what reproduce.md says of the grid of Härmä et al. at their library's size: `python docs/night.py`.

The runs are those of examples/harma2024-night.toml, as far as it has been swept.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import get_args

from parts import filled, head

from capax.figures.runs import read
from capax.papers.evidence import field
from capax.papers.recipe import Answer, Evidence, recipes
from capax.results import Measurement
from capax.sweeps.grid import read_study
from capax.text import counted, duration

PAGE = Path(__file__).with_name("reproduce.md")
STORE = Path(__file__).parent / "reproduced" / "harma2024-night.db"
STUDY = Path(__file__).parents[1] / "examples" / "harma2024-night.toml"
JUDGED = ("figure-7", "figure-8", "figure-9", "figure-10", "equation-12")
HEADS = (1, 2, 3, 4, 5)


def shape(run: Measurement) -> tuple[int, int, int]:
    """Length, width and heads."""
    return field(run, "seq_len"), field(run, "d_model"), field(run, "n_heads")


def counts(runs: list[Measurement]) -> list[str]:
    """What each network recalls, a row for each length and width."""
    lines = head("tokens", "width", *(counted(heads, "head") for heads in HEADS))
    for (tokens, width), some in groupby(runs, lambda run: shape(run)[:2]):
        found = {shape(run)[2]: str(run.memorized) for run in some}
        lines.append(f"| {tokens} | {width} | {' | '.join(found.get(heads, '–') for heads in HEADS)} |")
    return lines


def verdicts(runs: list[Measurement]) -> list[str]:
    """What the claims on the grid are judged to be by these runs, once all are there."""
    lines = head("figure", "claim", "verdict", "measured, and why")
    for figure in JUDGED:
        (recipe,) = recipes("harma2024", figure)
        for claim in recipe.claims:
            found = claim.verdict(Evidence(tuple(runs), "paper"), missing=0)
            why = "; ".join(filter(None, (found.measured, found.reason)))
            lines.append(f"| `{figure}` | {claim.says} ({claim.standing}) | {found.answer} | {why} |")
    return lines


def told() -> dict[tuple[str, str], str]:
    """Of each figure and claim, as the page has them, the verdict."""
    rows = (line.split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `"))
    return {(row[0].strip("| `"), row[1]): row[2] for row in rows if len(row) > 3 and row[2] in get_args(Answer)}


def page(text: str) -> str:
    """The page with what has been run."""
    runs, of = sorted(read([STORE]).runs, key=shape), len(read_study(STUDY).runs)
    took = duration(sum(run.seconds for run in runs))
    processors = ", ".join(sorted({run.processor or "unknown" for run in runs}))
    part = [
        f"{len(runs)} of {of} networks, {took} of a processor that other work shared ({processors}). Sequences "
        f"recalled of {runs[0].library_size:,}, of which guesses get {runs[0].chance_uniform:.0f} right; trainings end "
        "on a plateau or with the library whole, so no count is a capacity:",
        "",
        *counts(runs),
    ]
    if len(runs) == of:
        part += ["", "What these say of the claims on the grid:", "", *verdicts(runs)]
    return filled(text, "night", "night.py", "\n".join(part))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
