"""A figure of runs: as data, as a figure of matplotlib, and as files."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from capax import outputs
from capax.errors import FurtherKinds, ReportError
from capax.figures.chart import Chart
from capax.figures.drawing import check_writable, draw, drawn
from capax.figures.logarithms import check, logarithmic
from capax.figures.looks import Paper
from capax.figures.registry import OF_A_LAW, SCATTER, figures, named
from capax.figures.runs import Given, of, the_law
from capax.figures.scatter import Asked, chosen, rows_of, rows_of_table, scatter
from capax.laws.law import Law
from capax.store import DEFAULT, tables


def figure(
    name: str,
    runs: Given | Any = DEFAULT,
    *,
    x: str | None = None,
    y: str | None = None,
    color: str | None = None,
    panel: str | None = None,
    fit: str | None = None,
    where: Sequence[str] = (),
    law: Law | Path | str | None = None,
    log: str | None = None,
    width: float | None = None,
    height: float | None = None,
    dpi: float = 150,
    out: Path | str | None = None,
    format: str | None = None,
    kind: int | None = None,
) -> Figure:
    """Draw runs in a figure.

    Args:
        name: which figure (docs/figures.md), or `scatter`: any column against any other.
        runs: a store or several of them, or measurements; for `scatter` a data frame, too.
        x: of `scatter`: a numeric column of `capax.read`.
        y: of `scatter`: a numeric column; its interval is drawn where it has one.
        color: of `scatter`: a column that tells groups apart, by colour and mark.
        panel: of `scatter`: a column that has a panel for each of its values.
        fit: of `scatter`: power, y = a·x^b through each group, with b and its interval in the legend.
        where: only runs with `column=value`, of any column.
        law: a law to draw beside the data, or the name of one (`load_law`); not in `scatter`.
        log: axes to make logarithmic: x, y or xy.
        width: inches, 1 to 40; chosen from the panels when not given, as is the height.
        height: inches, 1 to 40.
        dpi: dots per inch, 30 to 2400.
        out: a file to draw it into; further kinds of runs are drawn beside it, numbered.
        format: of the file (pdf, png, svg, ...); that of its ending when not given.
        kind: which kind of runs, where there are several: 1 is that of most runs.

    Returns:
        A figure of matplotlib (none of pyplot's: nothing has to be closed), of one kind of runs.

    Warns:
        FurtherKinds: where runs are of several kinds, which have a figure each, and neither `kind` nor `out` is given.

    Raises:
        ReportError: for an unknown name (it lists them all) or column, a size, a format or axes that there are not,
            where the runs cannot be shown in it, and for a file that cannot be written, before anything is read.
        SpecError: for neither stores nor measurements.
        StoreError: for a store that is missing or none.
        LawError: for a law that there is not.
    """
    paper = Paper(width, height, dpi)
    if format is not None and out is None:
        raise ReportError(f"format: {format} is of a file, and there is no out")
    files = None if out is None else outputs.path_of(out)
    columns = {"x": x, "y": y, "color": color, "panel": panel, "fit": fit}
    found = write(name, runs, files, paper=paper, kind=format, where=where, law=law, log=log, **columns)
    if kind is not None and not 1 <= kind <= len(found):
        raise ReportError(f"kind: 1 to {len(found)}, got {kind}")
    if kind is None and out is None and len(found) > 1:
        others = "; ".join(chart.title for chart in found[1:])
        warnings.warn(f"further kinds of runs are not in this figure (kind=2, ...): {others}", FurtherKinds, 2)
    return drawn(found[(kind or 1) - 1], paper)


def charts(
    name: str,
    runs: Given | Any = DEFAULT,
    *,
    x: str | None = None,
    y: str | None = None,
    color: str | None = None,
    panel: str | None = None,
    fit: str | None = None,
    where: Sequence[str] = (),
    law: Law | Path | str | None = None,
    log: str | None = None,
) -> list[Chart]:
    """What a figure shows, as plain data: a chart for each kind of runs, that of most runs first.

    Arguments and errors are those of `figure`.
    """
    return write(name, runs, None, where=where, law=law, log=log, x=x, y=y, color=color, panel=panel, fit=fit)


def write(
    name: str,
    runs: Given | Any,
    out: Path | None,
    *,
    paper: Paper | None = None,
    kind: str | None = None,
    where: Sequence[str] = (),
    law: Law | Path | str | None = None,
    log: str | None = None,
    **columns: str | None,
) -> list[Chart]:
    """The charts of a figure, drawn into files where there is a path.

    Args:
        kind: the format.
        columns: those of `scatter`.
    """
    paper, kind = paper or Paper(), None if kind is None else kind.lower()
    asked = _asked(name, columns, law)
    if log is not None:
        check(log)
    if out is not None:
        check_writable(out, "out", kind)
    found = _shown(name, runs, asked, where, law)
    if log is not None:
        found = [logarithmic(chart, log) for chart in found]
    if out is not None:
        paths = numbered(out, found)
        for path in paths:
            check_writable(path, "out", kind)
        for path, chart in zip(paths, found, strict=True):
            draw(chart, path, paper=paper, kind=kind)
    return found


def _asked(name: str, columns: dict[str, str | None], law: Law | Path | str | None) -> Asked | None:
    """The columns of a scatter plot; None for another figure, which has its own."""
    given = {field: column for field, column in columns.items() if column is not None}
    if name != SCATTER:
        named(name)
        if law is not None and name not in OF_A_LAW:
            raise ReportError(f"law: not drawn in figure {name}; those that draw one are {', '.join(OF_A_LAW)}")
        if given:
            raise ReportError(f"{next(iter(given))}: of figure {SCATTER} alone, {name} has its own columns")
        return None
    for field in ("x", "y"):
        if field not in given:
            raise ReportError(f"{field}: figure {SCATTER} needs a column, as capax.read names them")
    if law is not None:
        raise ReportError(f"law: not drawn in figure {SCATTER}; fit power draws a power law through each group")
    return Asked(**given)


def _shown(
    name: str, runs: Given | Any, asked: Asked | None, where: Sequence[str], law: Law | Path | str | None
) -> list[Chart]:
    table = asked is not None and tables.is_table(runs)
    there = None if table else of(runs, imported=asked is not None)
    rows = [] if asked is None and not where else rows_of_table(runs) if there is None else rows_of(there)
    rows = chosen(rows, where)
    if asked is not None:
        return [scatter(rows, asked)]
    assert there is not None
    if where:
        kept = {row.get("key") for row in rows}
        there = there._replace(runs=[run for run in there.runs if run.key in kept])
    return figures(there.kept, there.with_curves)[name].shown(there.runs, the_law(law))


def numbered(out: Path, charts: Sequence[Chart]) -> list[Path]:
    """The files of some charts: the first as it is called, the others with a number."""
    return [out, *(out.with_stem(f"{out.stem}-{place}") for place in range(2, len(charts) + 1))]
