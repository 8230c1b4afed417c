"""`capax report`: runs as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from capax.errors import printable
from capax.figures.runs import the_law
from capax.figures.words import of_runs
from capax.reports import report as reports


def report(
    *stores: Path,
    out: Annotated[Path, Parameter(alias="-o")] = Path("report.html"),
    title: str | None = None,
    law: str | None = None,
) -> None:
    """Write the runs of some stores as one HTML file that opens anywhere, without a network or a server.

    Parameters
    ----------
    stores
        SQLite files of finished runs.
    out
        The file to write.
    title
        Title of the report. [default: what was found, in numbers]
    law
        A law to draw beside the data, and to plan with: a file of `capax fit --out`, reference, or
        published:harma2024. [default: none is drawn, and the page plans with the law that ships for its task, if any]
    """
    reports.refuse_other(out)
    content = reports.content(stores, title, the_law(law))
    reports.write(reports.parts(content), out)
    left_out = f"; imported rows left out: {sum(content.imported.values())}" if content.imported else ""
    print(f"Report: {printable(out)} ({out.stat().st_size / 1e6:.1f} MB, {of_runs(len(content.runs))}{left_out})")
