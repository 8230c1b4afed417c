"""`capax reproduce`: the papers' figures and tables, one by one, with verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from capax.cli import output, streams
from capax.cli.flags import Flag, Json
from capax.cli.sweep import progress_bar
from capax.errors import SpecError, SweepFailed
from capax.papers import reproduce as papers
from capax.papers.recipe import KINDS, PAPERS, Answer, RecipeList, Scale, listed, read_paper, recipes, seconds
from capax.sweeps.under_way import SweepProgress, Watch
from capax.text import duration

# columns of a terminal that has room for the names of studies, and of a time such as 45 min
STUDY_WIDTH, TIME_WIDTH = 110, 6
STYLES: dict[Answer, str] = {"agrees": "green", "differs": "red", "cannot be judged": "yellow"}


def reproduce(
    paper: str | None = None,
    figure: str | None = None,
    *,
    scale: Scale = "demo",
    out: Annotated[Path, Parameter(alias="-o")] = Path("reproduction"),
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
    workers: int | None = None,
    device: str = "auto",
    quiet: Annotated[bool, Flag] = False,
    as_json: Json = False,
) -> None:
    """Run a paper's figures and tables, and say of every claim whether our measurements agree, differ or cannot tell.

    If it is interrupted, start it again: only the missing runs are done.

    Parameters
    ----------
    paper
        harma2024, mahdavi2024, adler2025, morris2025, allenzhu2024, changalidis2025, lora2026, or all.
    figure
        One figure, table or theorem of the paper; --list names them. [default: all]
    scale
        demo (minutes on two cores), small (hours) or paper (the published sizes, as far as they are known).
    out
        Folder of runs (.db), verdicts (.json) and pages (.html).
    list_
        List what can be run, with its expected time at each scale, and stop.
    workers
        Local processes, one torch thread each. [default: one per core, at most 8]
    device
        Where to train; auto takes a GPU where there is one.
    quiet
        No progress.
    """
    of = None if paper == "all" else paper
    if figure is not None and of is None:
        raise SpecError(f"figure: only with one paper, got {figure!r}")
    if list_:
        output.emit(listed(of, figure), _show_list, as_json=as_json)
        return
    if paper is None:
        raise SpecError(f"paper: one of {', '.join(PAPERS)}, all, is required (or --list)")
    if as_json and of is None:
        raise SpecError("json: prints one paper, got all; each has a .json file in the folder")
    chosen = {name: recipes(name, figure) for name in (PAPERS if of is None else [of])}
    unfinished = []
    for name, some in chosen.items():
        with progress_bar(hidden=quiet or as_json) as (show, _):
            watch = show if quiet or as_json else _announced(show, name, scale, seconds(some, scale))
            result = papers.reproduce(
                name, figure, scale=scale, folder=out, workers=workers, device=device, progress=watch
            )
        if any(recipe.runs < recipe.of for recipe in result.recipes):
            unfinished.append(result.store)
        verdicts = "-".join(filter(None, (name, figure, scale))) + ".json"
        files = [out / path for path in (result.report, verdicts, result.store) if path]
        output.emit(result, partial(_show, files=files), as_json=as_json)
    if unfinished:
        raise SweepFailed(f"runs failed: capax runs --failed --store {out / str(unfinished[0])} says why")


def _announced(show: Watch, paper: str, scale: str, seconds: float) -> Watch:
    """Says, before the first run, how long all of them are expected to take."""
    announced = False

    def watch(seen: SweepProgress) -> None:
        nonlocal announced
        if not announced:
            announced = True
            streams.tell(
                f"{paper}, scale {scale}: {seen.total} runs, {seen.stored} of them there; all take about "
                f"{duration(seconds)} on two cores"
            )
        show(seen)

    return watch


def _table() -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("figure", no_wrap=True)
    return table


def _claims(claims: Sequence[tuple[papers.JudgedRecipe, papers.JudgedClaim]]) -> Table:
    table = _table()
    table.add_column("says", ratio=3)
    table.add_column("verdict", no_wrap=True)
    table.add_column("found", ratio=4)
    for recipe, claim in claims:
        value = f" [{claim.value}]" if claim.value else ""
        changes = f"; would change it: {claim.changes}" if claim.changes else ""
        table.add_row(
            recipe.figure,
            Text(f"{claim.says}{value} ({claim.standing})"),
            Text(claim.answer, style=STYLES[claim.answer]),
            Text("; ".join(filter(None, (claim.measured, claim.reason))) + changes),
        )
    return table


def _show(result: papers.Reproduction, files: list[Path]) -> None:
    screen = output.console()
    screen.print(f"\n{result.source}, scale {result.scale}", style="bold")
    for kind, words in KINDS.items():
        if claims := result.claims(kind):
            screen.print(f"\n{words}", style="bold")
            screen.print(_claims(claims))
    for recipe in result.recipes:
        if recipe.command:
            screen.print(f"{recipe.figure}, on data of your own: {recipe.command}")
    standings = {claim.standing for recipe in result.recipes for claim in recipe.claims}
    for standing, words in result.standings.items():
        if standing in standings:
            screen.print(f"({standing}) {words}", style="dim")
    screen.print(result.verdicts())
    if result.seconds:
        screen.print(f"runs took {duration(result.seconds)}, added up over processes and earlier calls")
    for path in files:
        screen.print(str(path), soft_wrap=True)


def _show_list(rows: RecipeList) -> None:
    screen = output.console()
    for paper, group in groupby(rows.recipes, key=lambda row: row.paper):
        screen.print(f"{paper}: {read_paper(paper).source}", style="bold")
        table = _table()
        table.columns[0].min_width = max(len(row.figure) for row in rows.recipes)
        table.add_column("what", ratio=1)
        if screen.width >= STUDY_WIDTH:
            table.add_column("study", no_wrap=True, min_width=max(len(row.study or "") for row in rows.recipes))
        missing = None
        for scale in rows.seconds:
            table.add_column(scale, justify="right", no_wrap=True, min_width=TIME_WIDTH)
        for row in group:
            study = [row.study or "–"] if screen.width >= STUDY_WIDTH else []
            times = (duration(seconds) if seconds else "–" for seconds in row.seconds.values())
            table.add_row(row.figure, row.title, *study, *times)
            missing = row.missing or missing
        screen.print(table)
        if missing:
            screen.print(f"not run here: {missing}")
        screen.print()
    total = ", ".join(f"{scale} {duration(seconds)}" for scale, seconds in rows.seconds.items())
    screen.print(f"expected on two cores (–: nothing is run); figures of one study share its runs. All runs: {total}")
