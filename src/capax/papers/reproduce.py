"""Reproduce a paper: run its recipes' studies, judge its claims, and keep runs, verdicts and a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from capax import machine, outputs
from capax.papers.catalogue import NAMES, PAPERS, recipes, seconds
from capax.papers.recipe import STANDINGS, Answer, Recipe, Scale, Standing
from capax.results import Measurement, Result
from capax.store import Store
from capax.sweeps.sweep import sweep
from capax.sweeps.under_way import Watch

if TYPE_CHECKING:
    from capax.reports.report import Content


class JudgedClaim(Result):
    """What a paper says, and what was found of it."""

    says: str
    value: Annotated[str | None, Field(description="The paper's; None where it has none, or none is known.")]
    standing: Annotated[Standing, Field(description="How we know what the paper says.")]
    answer: Answer
    measured: Annotated[str | None, Field(description="Ours, with its interval.")]
    reason: str


class JudgedRecipe(Result):
    """One figure, table or theorem."""

    figure: str
    title: str
    runs: Annotated[int, Field(description="Finished, of those that it is made of.")]
    of: int
    command: Annotated[str | None, Field(description="What judges it on data of your own, where ours cannot.")]
    claims: tuple[JudgedClaim, ...]


class Reproduction(Result):
    """A paper, or one figure of it, reproduced at a scale."""

    paper: str
    source: str
    figure: Annotated[str | None, Field(description="None for all of them.")]
    scale: Scale
    store: Annotated[str | None, Field(description="Of the runs, in the same folder; None where nothing is to be run.")]
    report: Annotated[str | None, Field(description="The page, in the same folder; None where no run was finished.")]
    seconds: Annotated[float, Field(description="Of all runs, added up over processes and earlier calls.")]
    expected_seconds: Annotated[float, Field(description="On two cores, runs of earlier calls included.")]
    standings: dict[str, str]
    recipes: tuple[JudgedRecipe, ...]
    versions: dict[str, str]
    schema_version: Literal[1] = 1

    def count(self, answer: Answer) -> int:
        """How many claims have a verdict."""
        return sum(claim.answer == answer for recipe in self.recipes for claim in recipe.claims)


class RecipeRow(Result):
    """A recipe before it is run."""

    paper: str
    figure: str
    title: str
    study: Annotated[str | None, Field(description="Runs that it shares with recipes of the same study, if any.")]
    claims: tuple[str, ...]
    runs: dict[Scale, int]
    seconds: Annotated[dict[Scale, float], Field(description="Expected on two cores, of its study alone.")]
    command: str


class RecipeList(Result):
    """Every recipe there is."""

    recipes: tuple[RecipeRow, ...]
    seconds: Annotated[dict[Scale, float], Field(description="Of all of them together, each study once.")]
    schema_version: Literal[1] = 1


def listed(paper: str | None = None, figure: str | None = None) -> RecipeList:
    """The recipes of a paper, or of all.

    Raises:
        SpecError: for a paper or a figure that there is not.
    """
    chosen = [recipe for name in ([paper] if paper else PAPERS) for recipe in recipes(name, figure)]
    scales: tuple[Scale, ...] = ("demo", "small", "paper")
    rows = tuple(
        RecipeRow(
            paper=recipe.paper,
            figure=recipe.figure,
            title=recipe.title,
            study=None if recipe.study is None else recipe.study.name,
            claims=tuple(claim.says for claim in recipe.claims),
            runs={scale: len(recipe.runs(scale)) for scale in scales},
            seconds={scale: recipe.seconds(scale) for scale in scales},
            command=f"capax reproduce {recipe.paper} {recipe.figure}",
        )
        for recipe in chosen
    )
    return RecipeList(recipes=rows, seconds={scale: seconds(chosen, scale) for scale in scales})


def reproduce(
    paper: str,
    figure: str | None = None,
    *,
    scale: Scale = "demo",
    folder: Path = Path("reproduction"),
    workers: int | None = None,
    device: str = "auto",
    progress: Watch | None = None,
) -> Reproduction:
    """Run what a paper's recipes need and is not there yet, judge its claims, and write what was found.

    In the folder: `PAPER-SCALE.db` (runs; a second call measures nothing anew), `PAPER-SCALE.json` (this result; with
    a figure `PAPER-FIGURE-SCALE.json`) and a page beside it (.html). A run that fails leaves its claims to be judged by
    the others, which their reasons say.

    Args:
        paper: harma2024, mahdavi2024 or adler2025.
        figure: one of its recipes; all when not given.
        scale: demo (minutes), small (an hour or so on two cores) or paper (a cluster).
        folder: where to write; made where it is not there.
        workers, device, progress: as in `sweep`.

    Raises:
        SpecError: for a paper or figure that there is not.
        ReportError: for a folder that cannot be written to, before anything is run.
        StoreError: for a store that cannot be used.
    """
    chosen = recipes(paper, figure)
    outputs.check_folder(folder)
    store = folder / f"{paper}-{scale}.db"
    name = f"{paper}-{scale}" if figure is None else f"{paper}-{figure}-{scale}"
    runs = {run.key(): run for recipe in chosen for run in recipe.runs(scale)}
    found = {}
    if runs:
        with Store(store) as opened:
            measured = sweep(runs.values(), opened, workers=workers, device=device, progress=progress)
            found = {run.key: run for run in measured}
    page = folder / f"{name}.html" if found else None
    result = Reproduction(
        paper=paper,
        source=NAMES[paper],
        figure=figure,
        scale=scale,
        store=store.name if runs else None,
        report=None if page is None else page.name,
        seconds=sum(run.seconds for run in found.values()),
        expected_seconds=seconds(chosen, scale),
        standings={name: words for name, words in STANDINGS.items()},
        recipes=tuple(_judged(recipe, found, scale) for recipe in chosen),
        versions=machine.versions(),
    )
    from capax.reports import report  # draws: not needed to list what there is

    if page is not None:
        report.write(report.parts(_content(result, chosen, found, store)), page)
    report.write(result.model_dump_json(indent=2) + "\n", folder / f"{name}.json")
    return result


def _judged(recipe: Recipe, found: Mapping[str, Measurement], scale: Scale) -> JudgedRecipe:
    wanted = recipe.runs(scale)
    return JudgedRecipe(
        figure=recipe.figure,
        title=recipe.title,
        runs=sum(run.key() in found for run in wanted),
        of=len(wanted),
        command=recipe.command,
        claims=tuple(
            JudgedClaim(
                says=claim.says,
                value=claim.value,
                standing=claim.standing,
                answer=verdict.answer,
                measured=verdict.measured,
                reason=verdict.reason,
            )
            for claim, verdict in zip(recipe.claims, recipe.judge(found, scale), strict=True)
        ),
    )


def _content(result: Reproduction, chosen: Sequence[Recipe], found: Mapping[str, Measurement], store: Path) -> Content:
    from capax.figures import runs
    from capax.papers.figures import figures, fitted
    from capax.reports import report

    measured = runs.read([store])
    keys = {run.key() for recipe in chosen for run in recipe.runs(result.scale)}
    return report.Content(
        title=f"{result.source}: {result.figure or 'all figures'} at scale {result.scale}",
        sources=(store.name,),
        runs=tuple(found[run.key] for run in measured.runs if run.key in found),
        failures=tuple(failure for failure in measured.failures if failure.key in keys),
        law=fitted(chosen, found, result.scale),
        figures=figures(chosen, found, result.scale),
        claims=tuple(
            {
                "figure": recipe.figure,
                "says": claim.says,
                "value": claim.value or "",
                "standing": STANDINGS[claim.standing],
                "answer": claim.answer,
                "measured": claim.measured or "",
                "reason": claim.reason,
            }
            for recipe in result.recipes
            for claim in recipe.claims
        ),
    )
