"""`capax figure`: one figure of runs as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from capax.errors import printable
from capax.figures import figure as figures


def figure(name: str, *stores: Path, out: Annotated[Path, Parameter(alias="-o")], law: str | None = None) -> None:
    """Draw one figure of the runs of some stores.

    Parameters
    ----------
    name
        Name of the figure; an unknown name lists them all.
    stores
        SQLite files of finished runs.
    out
        The file to write (PDF, PNG, SVG); further kinds of runs are drawn beside it, numbered.
    law
        A law to draw beside the data: a file of `capax fit --out`, reference, or published:harma2024.
    """
    charts = figures.figure(stores, name, law=law, out=out)
    for path, chart in zip(figures.numbered(out, charts), charts, strict=True):
        print(f"Figure: {printable(path)}: {printable(' '.join(chart.title.split()))}\n{printable(chart.caption)}")
