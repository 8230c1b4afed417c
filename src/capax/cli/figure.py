"""`capax figure`: one figure of runs as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from capax.cli.runs import Where
from capax.errors import printable
from capax.figures import figure as figures
from capax.figures.looks import Paper
from capax.store import DEFAULT


def figure(
    name: str,
    *stores: Path,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    where: Where = (),
    law: str | None = None,
    x: str | None = None,
    y: str | None = None,
    color: str | None = None,
    panel: str | None = None,
    fit: str | None = None,
    log: str | None = None,
    width: float | None = None,
    height: float | None = None,
    dpi: float = 150,
    kind: Annotated[str | None, Parameter(name="--format")] = None,
) -> None:
    """Draw one figure of the runs of some stores.

    Parameters
    ----------
    name
        Name of the figure, or scatter: any column against any other; an unknown name lists them all.
    stores
        SQLite files of finished runs; capax.db when none is named.
    out
        The file to write (PDF, PNG, SVG); further kinds of runs are drawn beside it, numbered. When not given, the
        figure's name with the ending of --format, in this folder.
    law
        A law to draw beside the data: a file of `capax fit --out`, reference:NAME, or published:harma2024.
    x
        Of scatter: a numeric column, as `capax runs export` names them.
    y
        Of scatter: a numeric column; its intervals are drawn where it has them.
    color
        Of scatter: a column that tells groups apart, by colour and mark.
    panel
        Of scatter: a column that has a panel for each of its values.
    fit
        Of scatter: power, y = a·x^b through each group, with b and its interval in the legend.
    log
        Axes to make logarithmic: x, y or xy.
    width
        Inches, 1 to 40; chosen from the panels when not given.
    height
        Inches, 1 to 40; chosen from the panels when not given.
    dpi
        Dots per inch, 30 to 2400.
    kind
        Format of the file; that of the ending of --out when not given, or pdf.
    """
    path = Path(f"{name}.{kind or 'pdf'}") if out is None else out
    charts = figures.write(
        name,
        stores or (DEFAULT,),
        path,
        paper=Paper(width, height, dpi),
        kind=kind,
        where=where,
        law=law,
        log=log,
        x=x,
        y=y,
        color=color,
        panel=panel,
        fit=fit,
    )
    for place, chart in zip(figures.numbered(path, charts), charts, strict=True):
        print(f"Figure: {printable(place)}: {printable(' '.join(chart.title.split()))}\n{printable(chart.caption)}")
