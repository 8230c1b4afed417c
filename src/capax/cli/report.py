"""`capax report` and `capax figure`: runs as a page, and one figure of them as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Out = Annotated[Path, Parameter(alias="-o")]


def report(*stores: Path, out: Out = Path("report.html"), title: str = "capax report", law: str | None = None) -> None:
    """Write the runs of some stores as one HTML file that opens anywhere, without a network or a server.

    Parameters
    ----------
    stores
        SQLite files of finished runs.
    out
        The file to write.
    title
        Title of the report.
    law
        A law to draw beside the data, and to plan with: a file of `capax fit --out`, reference, or
        published:harma2024. [default: none is drawn, and the page plans with reference]
    """
    from capax import outputs
    from capax.cli import output
    from capax.errors import SpecError, printable
    from capax.figures.words import of_runs
    from capax.laws.files import load_law
    from capax.reports import report as reports

    if not stores:
        raise SpecError("store: at least one file of finished runs")
    outputs.check(out)
    chosen = None if law is None else load_law(law)
    content = reports.content(title, stores, chosen)
    with output.failed_figures():
        reports.write(reports.parts(content), out)
    left_out = f"; imported rows left out: {sum(content.imported.values())}" if content.imported else ""
    print(f"Report: {printable(out)} ({out.stat().st_size / 1e6:.1f} MB, {of_runs(len(content.runs))}{left_out})")


def figure(name: str, *stores: Path, out: Out, law: str | None = None) -> None:
    """Draw one figure of the runs of some stores.

    Parameters
    ----------
    name
        Which one; an unknown name lists them all.
    stores
        SQLite files of finished runs.
    out
        The file to write (PDF, PNG, SVG); further kinds of runs are drawn beside it, numbered.
    law
        A law to draw beside the data: a file of `capax fit --out`, reference, or published:harma2024.
    """
    from capax.errors import ReportError, SpecError, printable
    from capax.figures.drawing import check_writable, draw
    from capax.figures.registry import charts, figures, named
    from capax.laws.files import load_law
    from capax.reports import report as reports

    check_writable(out, "out")
    named(name)
    if not stores:
        raise SpecError("store: at least one file of finished runs")
    there = reports.read(stores)
    if not there.runs:
        raise ReportError(reports.no_runs([path.name for path in stores], there.failures, there.imported))
    drawn = figures(there.kept, there.with_curves)
    found = charts(name, there.runs, None if law is None else load_law(law), drawn)
    paths = [out, *(out.with_stem(f"{out.stem}-{place}") for place in range(2, len(found) + 1))]
    for path in paths:
        check_writable(path, "out")
    for path, chart in zip(paths, found, strict=True):
        draw(chart, path)
        print(f"Figure: {printable(path)}: {printable(' '.join(chart.title.split()))}\n{printable(chart.caption)}")
