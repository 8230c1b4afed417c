"""`capax report`: runs as one HTML file that needs neither a network nor a server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from capax import tables
from capax.errors import ReportError
from capax.laws.law import Law
from capax.reports import interactive, words
from capax.reports.groups import alike
from capax.reports.registry import FIGURES
from capax.results import Measurement
from capax.store_schema import Failure

VARIED = frozenset({"seq_len", "n_heads", "d_model", "d_head", "d_value", "n_layers", "library_size", "context_size"})
"""Fields in which the runs of one study differ, so that it is described once."""


@dataclass(frozen=True)
class Content:
    """What a report is made of.

    Attributes:
        claims: what a paper says beside what was found, a row each: figure, says, value, standing, answer, measured and
            reason. None of them in a report that is about no paper.
    """

    title: str
    sources: tuple[str, ...]
    runs: tuple[Measurement, ...]
    failures: tuple[Failure, ...]
    law: Law | None
    claims: tuple[Mapping[str, str], ...] = ()


def build(content: Content) -> str:
    """The report as HTML.

    Raises:
        ReportError: when there are no runs.
    """
    if not content.runs:
        failed = f" ({len(content.failures)} failed)" if content.failures else ""
        raise ReportError(f"store: no finished runs in {', '.join(content.sources)}{failed}")
    shown, missing = [], []
    for name, figure in FIGURES.items():
        try:
            charts = figure.shown(content.runs, content.law)
        except ReportError as error:
            missing.append({"title": figure.title, "of": figure.of, "reason": str(error)})
            continue
        shown += [
            {"id": f"{name}-{place}", "of": figure.of, "chart": chart.model_dump(), "plot": interactive.figure(chart)}
            for place, chart in enumerate(charts)
        ]
    table = tables.table(content.runs)
    environment = Environment(
        loader=PackageLoader("capax.reports"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("report.html.j2").render(
        title=content.title,
        sources=content.sources,
        version=version("capax"),
        kinds=[(words.kind(group), len(group.runs)) for group in alike(content.runs, VARIED)],
        figures=shown,
        missing=missing,
        failures=content.failures,
        n_runs=len(content.runs),
        claims=content.claims,
        style=_asset("report.css"),
        script=_asset("report.js"),
        plotly=Markup(get_plotlyjs()),
        data=_embedded(
            {
                "figures": {figure["id"]: figure["plot"] for figure in shown},
                "charts": {figure["id"]: figure["chart"] for figure in shown},
                "runs": {name: table[name].to_list() for name in table.columns},
            }
        ),
    )


def _asset(name: str) -> Markup:
    return Markup((files("capax.reports") / "templates" / name).read_text(encoding="utf-8"))


def _embedded(data: Any) -> Markup:
    """JSON that is safe inside a script element, whatever its texts are."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
    for letter, escape in escapes.items():
        text = text.replace(letter, escape)
    return Markup(text)


def write(html: str, path: Path) -> None:
    """Write a report, whole or not at all.

    Raises:
        ReportError: when it cannot be written.
    """
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(html, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ReportError(f"out: cannot write {path}: {error.strerror}") from None


def read(stores: Sequence[Path]) -> tuple[list[Measurement], list[Failure]]:
    """The runs and failures of some stores; a run that several hold counts once.

    Raises:
        StoreError: when one is missing or no store.
    """
    from capax.store import Store

    runs: dict[str, Measurement] = {}
    failures: dict[str, Failure] = {}
    for path in stores:
        with Store(path, create=False) as opened:
            runs |= {run.key: run for run in opened.runs()}
            failures |= {failure.key: failure for failure in opened.failures()}
    return list(runs.values()), [failure for key, failure in failures.items() if key not in runs]
