"""`capax reproduce`: the papers' figures and tables, one by one, with verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from capax.cli import streams

if TYPE_CHECKING:
    from rich.console import Console

    from capax.papers.reproduce import RecipeList, Reproduction
    from capax.sweeps.under_way import SweepProgress, Watch

STUDY_WIDTH, TIME_WIDTH = 110, 6
"""Columns of a terminal that has room for the names of studies, and of a time such as 45 min."""


def reproduce(
    paper: str | None = None,
    figure: str | None = None,
    *,
    scale: str = "demo",
    out: Annotated[Path, Parameter(alias="-o")] = Path("reproduction"),
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
    workers: int | None = None,
    device: str = "auto",
    quiet: Annotated[bool, Parameter(negative="")] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Run a paper's figures and tables, and say of every claim whether our measurements agree, differ or cannot tell.

    Start it again after any fault, and only the rest is run.

    Parameters
    ----------
    paper
        harma2024, mahdavi2024, adler2025, or all.
    figure
        One figure, table or theorem of the paper; --list names them. [default: all]
    scale
        demo (minutes on two cores), small (hours) or paper (the published sizes, as far as they are known).
    out
        Folder of runs (.db), verdicts (.json) and pages (.html).
    list_
        Print what there is, with its expected time at each scale, and stop.
    workers
        Local processes, one torch thread each. [default: one per core, at most 8]
    device
        Where to train: auto, cpu or cuda.
    quiet
        No progress.
    as_json
        Print one JSON object (docs/schemas/reproduction.json; with --list docs/schemas/recipes.json).
    """
    from capax.errors import SpecError, SweepFailed
    from capax.papers import catalogue
    from capax.papers import reproduce as papers

    of = None if paper == "all" else paper
    size = catalogue.check_scale(scale)
    if figure is not None and of is None:
        raise SpecError(f"figure: only with one paper, got {figure!r}")
    if list_:
        rows = papers.listed(of, figure)
        if as_json:
            print(rows.model_dump_json())
        else:
            _show_list(rows)
        return
    if paper is None:
        raise SpecError(f"paper: one of {', '.join(catalogue.PAPERS)}, all, is required (or --list)")
    if as_json and of is None:
        raise SpecError("json: prints one paper, got all; each has a .json file in the folder")
    from capax.cli.output import console, failed_figures
    from capax.cli.sweep import _progress

    names = list(catalogue.PAPERS) if of is None else [of]
    chosen = {name: catalogue.recipes(name, figure) for name in names}
    unfinished = []
    for name in names:
        with failed_figures(), _progress(hidden=quiet or as_json) as (show, _):
            told = show if quiet or as_json else _announced(show, name, size, catalogue.seconds(chosen[name], size))
            found = papers.reproduce(
                name, figure, scale=size, folder=out, workers=workers, device=device, progress=told
            )
        if any(recipe.runs < recipe.of for recipe in found.recipes):
            unfinished.append(found.store)
        if as_json:
            print(found.model_dump_json())
        else:
            verdicts = "-".join(filter(None, (name, figure, size))) + ".json"
            _show(found, [out / path for path in (found.report, verdicts, found.store) if path], console())
    if unfinished:
        raise SweepFailed(f"runs failed: capax runs --failed --store {out / str(unfinished[0])} says why")


def _announced(show: Watch, paper: str, scale: str, seconds: float) -> Watch:
    """Says, before the first run, how long all of them are expected to take."""
    from capax.cli.output import duration

    told = False

    def watch(seen: SweepProgress) -> None:
        nonlocal told
        if not told:
            told = True
            streams.tell(
                f"{paper}, scale {scale}: {seen.total} runs, {seen.stored} of them there; all take about "
                f"{duration(seconds)} on two cores"
            )
        show(seen)

    return watch


def _show(found: Reproduction, paths: list[Path], screen: Console) -> None:
    from rich.table import Table

    from capax.cli.output import duration

    screen.print(f"\n{found.source}, scale {found.scale}", style="bold")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("figure", no_wrap=True)
    table.add_column("the paper says", ratio=3)
    table.add_column("verdict", no_wrap=True)
    table.add_column("found", ratio=4)
    styles = {"agrees": "green", "differs": "red", "cannot be judged": "yellow"}
    from rich.text import Text

    for recipe in found.recipes:
        for claim in recipe.claims:
            value = f" [{claim.value}]" if claim.value else ""
            told = f"{claim.measured}; {claim.reason}" if claim.measured else claim.reason
            table.add_row(
                recipe.figure,
                Text(f"{claim.says}{value} ({claim.standing})"),
                Text(claim.answer, style=styles[claim.answer]),
                Text(told),
            )
    screen.print(table)
    for recipe in found.recipes:
        if recipe.command:
            screen.print(f"{recipe.figure}, on data of your own: {recipe.command}")
    standings = {claim.standing for recipe in found.recipes for claim in recipe.claims}
    for standing, words in found.standings.items():
        if standing in standings:
            screen.print(f"({standing}) {words}", style="dim")
    agree, differ = found.count("agrees"), found.count("differs")
    screen.print(
        f"{agree} agree{'s' * (agree == 1)}, {differ} differ{'s' * (differ == 1)}, {found.count('cannot be judged')} "
        "cannot be judged"
    )
    if found.seconds:
        screen.print(f"runs took {duration(found.seconds)}, added up over processes and earlier calls")
    for path in paths:
        screen.print(str(path), soft_wrap=True)


def _show_list(rows: RecipeList) -> None:
    from itertools import groupby

    from rich.table import Table

    from capax.cli.output import console, duration
    from capax.papers.catalogue import NAMES

    screen = console()
    for paper, group in groupby(rows.recipes, key=lambda row: row.paper):
        screen.print(f"{paper}: {NAMES[paper]}", style="bold")
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("figure", no_wrap=True, min_width=max(len(row.figure) for row in rows.recipes))
        table.add_column("what", ratio=1)
        if screen.width >= STUDY_WIDTH:
            table.add_column("study", no_wrap=True, min_width=max(len(row.study or "") for row in rows.recipes))
        for scale in rows.seconds:
            table.add_column(scale, justify="right", no_wrap=True, min_width=TIME_WIDTH)
        for row in group:
            study = [row.study or "–"] if screen.width >= STUDY_WIDTH else []
            times = (duration(seconds) if seconds else "–" for seconds in row.seconds.values())
            table.add_row(row.figure, row.title, *study, *times)
        screen.print(table)
        screen.print()
    total = ", ".join(f"{scale} {duration(seconds)}" for scale, seconds in rows.seconds.items())
    screen.print(
        f"expected on two cores (–: nothing is run); figures of one study share its runs. All of these: {total}"
    )
