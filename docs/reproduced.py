"""Draws the runs in docs/reproduced, and writes verdicts and figures into reproduced.md: `python docs/reproduced.py`.

How many there are of each goes into the README.

In the folder lies what `capax reproduce PAPER --scale SCALE` wrote: the store of the runs and the verdicts on them. A
test judges the stores anew and compares the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import night
from parts import filled, head
from PIL import Image

from capax.figures.drawing import draw
from capax.figures.runs import read
from capax.papers.recipe import KINDS, recipes
from capax.papers.reproduce import JudgedClaim, JudgedRecipe, Reproduction, figures, fitted

FOLDER = Path(__file__).with_name("reproduced")
PAGE = Path(__file__).with_name("reproduced.md")
README = Path(__file__).parents[1] / "README.md"
SCALES = ("paper", "small", "demo")
IN_PART = "paper, in part"
COLUMNS = ("paper", IN_PART, "small", "demo")
MARKS = {"agrees": "agrees", "differs": "**differs**", "cannot be judged": "cannot be judged"}


def found() -> list[Reproduction]:
    """The reproductions that are kept: of a paper at a scale, or of one of its figures."""
    every = [Reproduction.model_validate_json(path.read_text("utf-8")) for path in FOLDER.glob("*.json")]
    return sorted(every, key=lambda one: (one.paper, SCALES.index(one.scale), one.figure or ""))


def draw_all() -> None:
    """Every figure of a paper from the runs of its own recipe, as PNG."""
    for path in FOLDER.glob("*.png"):
        path.unlink()
    for one in found():
        if one.store is None:
            continue
        runs = {run.key: run for run in read([FOLDER / one.store]).runs}
        own = [recipe for recipe in recipes(one.paper, one.figure) if recipe.chart is not None]
        law, drawn = fitted(own, runs, one.scale), figures(own, runs, one.scale)
        for recipe in own:
            for number, chart in enumerate(drawn[recipe.figure].shown(tuple(runs.values()), law), start=1):
                draw(chart, _picture(one, recipe.figure, number))


def _picture(one: Reproduction, figure: str, number: int) -> Path:
    """Runs of a further kind have a picture of their own."""
    return FOLDER / f"{one.paper}-{one.scale}-{figure}{f'-{number}' if number > 1 else ''}.png"


def section(one: Reproduction) -> list[str]:
    """A paper at a scale: what it says, how we know, the verdict, what was found; then the pictures of its runs."""
    named = "" if one.figure is None else f" {one.figure}"
    runs = "" if one.store is None else f" The runs: [{one.store}](reproduced/{one.store})."
    lines = [
        f"## {one.source}, scale {one.scale}{named and ',' + named}",
        "",
        f"{one.verdicts().capitalize()}. `capax reproduce {one.paper}{named} --scale {one.scale}`: "
        f"{one.seconds / 60:.0f} min of processes; capax "
        f"{one.versions['capax']}, torch {one.versions['torch']}.{runs}",
    ]
    for kind, words in KINDS.items():
        if claims := one.claims(kind):
            lines += ["", f"### {words}", "", *_rows(claims)]
    pictures = []
    for recipe in one.recipes:
        for number in count(1):
            path = _picture(one, recipe.figure, number)
            if not path.exists():
                break
            with Image.open(path) as image:
                title, caption = image.info["Title"], image.info["Description"]
            pictures += ["", f"![{title}](reproduced/{path.name})", "", f"**{title}.** {caption}"]
    return [*lines, *pictures, ""]


def verdicts(every: Sequence[Reproduction]) -> dict[tuple[str, str, str], dict[str, str]]:
    """Of every claim of the papers its source, figure and words, and its verdict at each scale."""
    answers: dict[tuple[str, str, str], dict[str, str]] = {}
    told = {("harma2024", *claim): answer for claim, answer in night.told().items()}  # without a claim's value
    for one in every:
        for recipe, claim in one.claims("the paper's"):
            row = answers.setdefault((one.paper, recipe.figure, _said(claim)), {})
            row[one.scale] = claim.answer
            if (answer := told.get((one.paper, recipe.figure, f"{claim.says} ({claim.standing})"))) is not None:
                row[IN_PART] = answer
    return answers


def counts(every: Sequence[Reproduction]) -> list[str]:
    """How many claims of each source have which verdict at the largest scale."""
    sources = {one.paper: one.source for one in every if one.claims("the paper's")}
    found = Counter(
        (paper, next(answers[scale] for scale in COLUMNS if scale in answers))
        for (paper, *_), answers in verdicts(every).items()
    )
    rows = (_row((source, *(f"{found[paper, answer]}" for answer in MARKS))) for paper, source in sources.items())
    return [*head("source", *MARKS), *rows]


def summary(every: Sequence[Reproduction]) -> list[str]:
    """Every claim of the papers, and its verdict at each scale."""
    lines = [
        "## Every claim of the papers, at every scale",
        "",
        f"Where scales differ, the larger one counts: it is nearer to the paper's. *{IN_PART.capitalize()}*: the "
        "library and the head counts of the paper's grid, lengths as we reconstruct them, widths up to 256, and one "
        "training of each network ([which](reproduce.md)).",
        "",
        *head("source", "figure", "says (how we know)", *COLUMNS),
    ]
    for (paper, figure, said), answers in verdicts(every).items():
        marks = (MARKS[answers[scale]] if scale in answers else "" for scale in COLUMNS)
        lines.append(_row((paper, f"`{figure}`", said, *marks)))
    return [*lines, ""]


def _rows(claims: Sequence[tuple[JudgedRecipe, JudgedClaim]]) -> Iterator[str]:
    changing = any(claim.changes for _, claim in claims)
    yield from head("figure", "says (how we know)", "verdict", "found", *(["what would change it"] * changing))
    for recipe, claim in claims:
        told = "; ".join(part for part in (claim.measured, claim.reason) if part)
        cells = (f"`{recipe.figure}`", _said(claim), MARKS[claim.answer], told)
        yield _row((*cells, claim.changes or "–") if changing else cells)


def _said(claim: JudgedClaim) -> str:
    value = f": {claim.value}" if claim.value else ""
    return f"{claim.says}{value} ({claim.standing})"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page(text: str) -> str:
    """The page with verdicts and figures as they are now."""
    every = found()
    sections = "\n".join([*summary(every), *(line for one in every for line in section(one))])
    return filled(text, "verdicts", "reproduced.py", sections)


def readme(text: str) -> str:
    """The README with the counts of verdicts as they are now."""
    return filled(text, "verdicts", "reproduced.py", "\n".join(counts(found())))


if __name__ == "__main__":
    draw_all()
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
