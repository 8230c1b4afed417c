"""A figure of runs, as data and as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from capax.figures.chart import Chart
from capax.figures.drawing import check_writable, draw
from capax.figures.registry import figures, named
from capax.figures.runs import Given, of, the_law
from capax.laws.law import Law


def figure(
    runs: Given, name: str, *, law: Law | Path | str | None = None, out: Path | str | None = None
) -> list[Chart]:
    """Show runs in a figure.

    Args:
        runs: a store or several of them, or measurements.
        name: which figure (docs/figures.md); those that have the columns it needs are shown, whatever their task is.
        law: a law to draw beside the data, or the name of one (`load_law`).
        out: a file to draw it into (PDF, PNG, SVG); further kinds of runs are drawn beside it, numbered.

    Returns:
        What it shows as plain data: a chart for each kind of runs, that of most runs first.

    Raises:
        ReportError: for an unknown name (it lists them all), where the runs cannot be shown in it, and for a file that
            cannot be written, before anything is read.
        SpecError: for neither stores nor measurements.
        StoreError: for a store that is missing or none.
        LawError: for a law that there is not.
    """
    named(name)
    if out is not None:
        check_writable(Path(out), "out")
    there = of(runs)
    charts = figures(there.kept, there.with_curves)[name].shown(there.runs, the_law(law))
    if out is not None:
        paths = numbered(Path(out), charts)
        for path in paths:
            check_writable(path, "out")
        for path, chart in zip(paths, charts, strict=True):
            draw(chart, path)
    return charts


def numbered(out: Path, charts: Sequence[Chart]) -> list[Path]:
    """The files of some charts: the first as it is called, the others with a number."""
    return [out, *(out.with_stem(f"{out.stem}-{place}") for place in range(2, len(charts) + 1))]
