"""`capax reproduce`: the papers' figures and tables, one by one, with verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from rich.console import Console

    from capax.papers.reproduce import RecipeList, Reproduction


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
        Print what there is, with its number of runs and expected time at each scale, and stop.
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
    from capax.cli.output import console
    from capax.cli.sweep import _progress

    names = list(catalogue.PAPERS) if of is None else [of]
    for name in names:
        catalogue.recipes(name, figure)
    unfinished = []
    for name in names:
        with _progress(hidden=quiet or as_json) as (show, _):
            found = papers.reproduce(
                name, figure, scale=size, folder=out, workers=workers, device=device, progress=show
            )
        if any(recipe.runs < recipe.of for recipe in found.recipes):
            unfinished.append(found.store)
        if as_json:
            print(found.model_dump_json())
        else:
            _show(found, out, console())
    if unfinished:
        raise SweepFailed(f"runs failed: capax runs --failed --store {out / str(unfinished[0])} says why")


def _show(found: Reproduction, folder: Path, screen: Console) -> None:
    from rich.table import Table

    from capax.cli.output import duration

    screen.print(f"\n{found.source}, scale {found.scale}", style="bold", markup=False)
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
            screen.print(f"{recipe.figure}, on data of your own: {recipe.command}", markup=False)
    standings = {claim.standing for recipe in found.recipes for claim in recipe.claims}
    for standing, words in found.standings.items():
        if standing in standings:
            screen.print(f"({standing}) {words}", style="dim", markup=False)
    screen.print(
        f"{found.count('agrees')} agree, {found.count('differs')} differ, {found.count('cannot be judged')} cannot be "
        f"judged; runs took {duration(found.seconds)} in all"
    )
    for path in (found.report, found.store):
        if path is not None:
            screen.print(str(folder / path), markup=False, soft_wrap=True)


def _show_list(rows: RecipeList) -> None:
    from rich.table import Table

    from capax.cli.output import console, duration

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("paper", "figure"):
        table.add_column(name, no_wrap=True)
    table.add_column("what")
    table.add_column("study", no_wrap=True)
    for name in ("demo", "small", "paper"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows.recipes:
        times = (duration(seconds) if seconds else "at once" for seconds in row.seconds.values())
        table.add_row(row.paper, row.figure, row.title, row.study or "-", *times)
    screen = console()
    screen.print(table)
    total = ", ".join(f"{scale} {duration(seconds)}" for scale, seconds in rows.seconds.items())
    screen.print(f"expected on two cores; figures of one study share its runs. All of these: {total}")
