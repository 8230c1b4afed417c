"""Reproduce a paper: run its recipes' studies, judge its claims, and keep runs, verdicts and a page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from sklearn.base import clone

from capax import devices, machine, outputs, working
from capax.errors import CapaxError, SpecError, StoreError
from capax.figures.chart import Chart
from capax.figures.registry import FIGURES, Drawn, Figure
from capax.figures.runs import read
from capax.laws.law import Law
from capax.papers.recipe import KINDS, SCALES, STANDINGS, Answer, Kind, Recipe, Scale, read_paper, recipes, seconds
from capax.protocols.measure import measure
from capax.reports import report
from capax.results import Measurement, Result, Standing
from capax.specs import Run
from capax.specs.spec import whole
from capax.store import Store, tables
from capax.sweeps.sweep import sweep
from capax.sweeps.under_way import Watch


class JudgedClaim(Result):
    """What a paper says, and what was found of it."""

    says: str
    value: Annotated[
        str | None, Field(description="Its number, if one is known; by its standing the source's or ours.")
    ]
    standing: Annotated[Standing, Field(description="How we know what the paper says.")]
    answer: Answer
    measured: Annotated[str | None, Field(description="Ours, with its interval.")]
    reason: str
    kind: Annotated[Kind, Field(description="Self-checks, and what we expect, are no claims of the paper.")] = (
        "the paper's"
    )
    changes: Annotated[str | None, Field(description="What would change the verdict.")] = None


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

    def claims(self, kind: Kind) -> list[tuple[JudgedRecipe, JudgedClaim]]:
        """Those of one kind, each with its recipe."""
        return [(recipe, claim) for recipe in self.recipes for claim in recipe.claims if claim.kind == kind]

    def count(self, answer: Answer, kind: Kind = "the paper's") -> int:
        """How many claims of a kind have a verdict."""
        return sum(claim.answer == answer for _, claim in self.claims(kind))

    def verdicts(self) -> str:
        """How many of the paper's claims have each verdict, in words."""
        agree, differ = self.count("agrees"), self.count("differs")
        return (
            f"of the paper's claims {agree} agree{'s' * (agree == 1)}, {differ} differ{'s' * (differ == 1)}, "
            f"{self.count('cannot be judged')} cannot be judged"
        )


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
    a figure `PAPER-FIGURE-SCALE.json`) and a page beside it (.html). If a run fails, its claims are judged by the other
    runs, and their reasons say so.

    Args:
        paper: harma2024, mahdavi2024, adler2025, morris2025, allenzhu2024, changalidis2025 or lora2026.
        figure: one of its recipes; all when not given.
        scale: demo (minutes), small (an hour or so on two cores) or paper (a cluster).
        folder: where to write; made where it is not there.
        workers, device, progress: as in `sweep`.

    Raises:
        SpecError: for a paper, figure, scale or device that there is not, and workers below 1.
        ReportError: for a folder that cannot be written to, before anything is run.
        StoreError: for a store that cannot be used.
    """
    if scale not in SCALES:
        raise SpecError(f"scale: one of {', '.join(SCALES)}, got {scale!r}")
    chosen = recipes(paper, figure)
    devices.choose_gpus(device)
    if workers is not None:
        whole("workers", workers)
    outputs.check_folder(folder)
    store = folder / f"{paper}-{scale}.db"
    stem = "-".join(filter(None, (paper, figure, scale)))
    runs = {run.key(): run for recipe in chosen for run in recipe.runs(scale)}
    kept = {
        run.key(): run
        for recipe in chosen
        if recipe.study is not None and recipe.study.keep_weights
        for run in recipe.runs(scale)
    }
    measured = {}
    if runs:
        with Store(store) as opened:
            if len(kept) < len(runs):
                others = [run for key, run in runs.items() if key not in kept]
                finished = sweep(others, opened, workers=workers, device=device, progress=progress)
                measured = {run.key: run for run in finished}
            measured |= {run.key: run for run in _with_weights(kept.values(), opened, device)}
    page = folder / f"{stem}.html" if measured else None
    result = Reproduction(
        paper=paper,
        source=read_paper(paper).source,
        figure=figure,
        scale=scale,
        store=store.name if runs else None,
        report=None if page is None else page.name,
        seconds=sum(run.seconds for run in measured.values()),
        expected_seconds=seconds(chosen, scale),
        standings=dict(STANDINGS.items()),
        recipes=tuple(_judged(recipe, measured, scale, store) for recipe in chosen),
        versions=machine.versions(),
    )
    if page is not None:
        report.write(report.parts(_content(result, chosen, measured, store)), page)
    report.write(result.model_dump_json(indent=2) + "\n", folder / f"{stem}.json")
    return result


def _with_weights(runs: Collection[Run], store: Store, device: str) -> Iterator[Measurement]:
    """Runs whose weights are kept, one by one; one that fails is left out, and the store says why."""
    for run in working.through(runs, "runs whose weights are kept"):
        try:
            found = measure(
                run.task,
                run.model,
                run.training,
                protocol=run.protocol,
                seed=run.seed,
                store=store,
                keep_weights=True,
                device=device,  # type: ignore[arg-type]
            )
        except StoreError:
            raise
        except CapaxError as error:
            store.fail(run, str(error))
        else:
            yield found


def _judged(recipe: Recipe, measured: Mapping[str, Measurement], scale: Scale, store: Path) -> JudgedRecipe:
    verdicts = zip(recipe.claims, recipe.judge(measured, scale, store), strict=True)
    return JudgedRecipe(
        figure=recipe.figure,
        title=recipe.title,
        runs=len(recipe.of(measured, scale)),
        of=len(recipe.runs(scale)),
        command=recipe.command,
        claims=tuple(
            JudgedClaim(
                says=claim.says,
                value=claim.value,
                standing=claim.standing,
                kind=claim.kind,
                changes=claim.changes,
                **dict(verdict),
            )
            for claim, verdict in verdicts
        ),
    )


def _content(
    result: Reproduction, chosen: Sequence[Recipe], measured: Mapping[str, Measurement], store: Path
) -> report.Content:
    stored = read([store])
    keys = {run.key() for recipe in chosen for run in recipe.runs(result.scale)}
    return report.Content(
        title=f"{result.source}, {result.figure or 'all figures'} at scale {result.scale}: {result.verdicts()}",
        sources=(store.name,),
        runs=tuple(measured[run.key] for run in stored.runs if run.key in measured),
        failures=tuple(failure for failure in stored.failures if failure.key in keys),
        law=fitted(chosen, measured, result.scale),
        figures=figures(chosen, measured, result.scale),
        claims=tuple(
            {
                "figure": recipe.figure,
                **{name: value or "" for name, value in claim},
                "standing": STANDINGS[claim.standing],
                "heading": heading,
            }
            for kind, heading in KINDS.items()
            for recipe, claim in result.claims(kind)
        ),
    )


def fitted(some: Sequence[Recipe], measured: Mapping[str, Measurement], scale: Scale) -> Law | None:
    """The law of a paper, fitted to the runs of its study; None where there is no law, or too few runs."""
    recipe = next((recipe for recipe in some if recipe.study is not None and recipe.study.law is not None), None)
    runs = [] if recipe is None else [run for run in recipe.of(measured, scale) if run.above_chance]
    if recipe is None or recipe.study is None or not runs:
        return None
    try:
        return clone(recipe.study.law).fit(tables.table(runs))
    except CapaxError:
        return None


def figures(some: Sequence[Recipe], measured: Mapping[str, Measurement], scale: Scale) -> dict[str, Figure]:
    """The recipes' figures, each of its own runs, by the recipe's name; then those of `FIGURES` that no recipe has."""
    drawn = {recipe.figure: (recipe, FIGURES[recipe.chart]) for recipe in some if recipe.chart is not None}
    own = {
        name: Drawn(f"{name}: {recipe.title}", figure.of, partial(_shown, recipe, figure, recipe.of(measured, scale)))
        for name, (recipe, figure) in drawn.items()
    }
    others = FIGURES.keys() - {recipe.chart for recipe, _ in drawn.values()} - {*report.ON_REQUEST}
    return own | {name: figure for name, figure in FIGURES.items() if name in others}


def _shown(
    recipe: Recipe, figure: Figure, own: Sequence[Measurement], runs: Sequence[Measurement], law: Law | None
) -> list[Chart]:
    """The charts of the recipe's own runs, of all that a page has, titled with its name; with the rival's law again."""
    found = [(recipe.figure, chart) for chart in figure.shown(own, law)]
    if recipe.rival is not None and law is not None:
        rival = recipe.rival(own)
        found += [(f"{recipe.figure}, law {rival.name}", chart) for chart in figure.shown(own, rival)]
    return [chart.model_copy(update={"title": f"{name}: {chart.title}"}) for name, chart in found]
