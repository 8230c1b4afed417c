"""`capax report`: runs as one HTML file that needs neither a network nor a server."""

from __future__ import annotations

import base64
import gzip
import json
import math
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from importlib.resources import files
from itertools import groupby
from pathlib import Path, PurePosixPath, PureWindowsPath
from textwrap import shorten
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from capax import outputs
from capax.errors import CapaxError, FigureFailed, ReportError
from capax.figures import interactive
from capax.figures.registry import FIGURES, Figure, figures
from capax.figures.runs import Given, none_in, of, the_law
from capax.laws.law import Law
from capax.reports.caveats import caveats
from capax.reports.groups import broken_down
from capax.reports.measured import measured
from capax.reports.planner import planner
from capax.reports.summary import summary
from capax.results import Measurement
from capax.specs import Model, Run, Task
from capax.specs.apart import fields_of
from capax.store import amounts, tables
from capax.store.schema import Failure
from capax.text import counted

VARIED = frozenset(
    (
        "seq_len",
        "n_heads",
        "d_model",
        "d_head",
        "d_value",
        "n_layers",
        "library_size",
        "context_size",
        "n_items",
        "n_edges",
        "degree",
        "head_counts",
    )
)
"""Fields in which the runs of one study differ, so that it is described once."""
SIZES = (
    *("library_size", "seq_len", "context_size", "n_items", "n_heads", "d_model", "d_head", "n_layers"),
    *("vocab_size", "d_value", "lr"),
)
"""Fields that the table shows before others, where they differ among the runs that have them."""
HELD = (
    *("capacity_bits", "capacity_reached", "capacity_low", "capacity_high", "converged", "capacity_last_gain"),
    *("capacity_per_effective_parameter", "capacity_per_parameter", "capacity_per_any_parameter", "stop_reason"),
)
"""What the table shows of runs by protocol capacity."""
FOUND = ("memorized", "memorized_low", "memorized_high", "chance", "bits_per_parameter", "stop_reason")
MOST_COLUMNS = 16
"""Columns of the table, until the page is asked for all."""
MORE_COLUMNS = 4
"""So many more where there are runs by protocol capacity, which differ in much."""
LONGEST_REASON = 500
"""Letters of an error that nobody wrote for a reader."""
ROOM = 1_000_000
"""Characters that all figures of a page may take, as drawn: a page of 1000 runs is to be sent by mail."""
ENDINGS = (".html", ".htm", "")
PLOTLY = files("capax.reports") / "plotly" / "plotly-basic.min.js"
"""The basic build of plotly.js (scatter, bar), of the version in the Python package: a quarter of the whole."""
PIECE = 2**16
"""Characters of plotly that are written at a time."""


ON_REQUEST = ("network-size",)
"""Figures of no measurement, which a page has only where a paper's recipe draws them."""


@dataclass(frozen=True)
class Content:
    """What a report is made of.

    Attributes:
        title: of the page; None for what was found.
        claims: what a paper says beside what was found, a row each: figure, says, value, standing, answer, measured,
            reason and the heading that it comes under. None of them in a report that is about no paper.
        figures: what is drawn, by name.
        imported: by source, how many rows of others its stores hold; they are named, and not shown.
        folders: of the stores; the page does not name them.
    """

    title: str | None
    sources: tuple[str, ...]
    runs: tuple[Measurement, ...]
    failures: tuple[Failure, ...]
    law: Law | None
    claims: tuple[Mapping[str, str], ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=FIGURES.copy)
    imported: Mapping[str, int] = field(default_factory=dict)
    folders: tuple[Path, ...] = ()


def content(runs: Given, title: str | None = None, law: Law | None = None) -> Content:
    """All that stores, or measurements, are, with every figure there is.

    Raises:
        SpecError: for neither stores nor measurements.
        StoreError: when one is missing or no store.
        ReportError: where there is no finished run.
    """
    found = of(runs)
    return Content(
        title,
        tuple(path.name for path in found.sources) or ("measurements at hand",),
        tuple(found.runs),
        tuple(found.failures),
        law,
        figures={
            name: figure for name, figure in figures(found.kept, found.with_curves).items() if name not in ON_REQUEST
        },
        imported=found.imported,
        folders=tuple(path.parent for path in found.sources),
    )


def report(
    runs: Given,
    out: Path | str = "report.html",
    *,
    title: str | None = None,
    law: Law | Path | str | None = None,
) -> None:
    """Write runs as one HTML file that opens anywhere, without a network or a server.

    Args:
        runs: a store or several of them, or measurements.
        out: the file to write.
        title: of the report. [default: what was found, in numbers]
        law: a law to draw beside the data, and to plan with, or the name of one (`load_law`); without it none is drawn,
            and the page plans with the law that ships for its runs' task, if there is one.

    Warns:
        FigureFailed: of each figure that failed for another reason than its runs; the page is written without it.

    Raises:
        ReportError: where there is no finished run, and for a file that cannot be written, before anything is read.
        SpecError: for neither stores nor measurements.
        StoreError: for a store that is missing or none.
        LawError: for a law that there is not.
    """
    file = outputs.path_of(out)
    refuse_other(file)
    write(parts(content(runs, title, the_law(law))), file)


def refuse_other(out: Path) -> None:
    """Refuse a file that a report cannot be written to, or whose ending is of another kind.

    Raises:
        ReportError: for such a file.
    """
    outputs.check(out, ours=outputs.PAGE)
    if out.suffix.lower() not in ENDINGS:
        raise ReportError(f"out: should end in .html, got {out}")


def build(content: Content) -> str:
    """The report as HTML (`parts`, joined)."""
    return "".join(parts(content))


def parts(content: Content) -> Iterator[str]:
    """The report as HTML, part by part: the whole of it need not be in memory to be written.

    Raises:
        ReportError: when there are no runs.
    """
    if not content.runs:
        raise ReportError(none_in(content.sources, content.failures, dict(content.imported)))
    content = without_folders(content)
    shown, missing = figures_of(content)
    rows = tables.table(content.runs).to_dict(as_series=False)
    table = amounts.beside(rows, amounts.columns(content.runs))
    plans = planner(content.law, content.runs)
    leads = summary(content.runs, VARIED)
    environment = Environment(
        loader=PackageLoader("capax.reports"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["general"] = lambda value: "–" if value is None else f"{value:.4g}"
    return environment.get_template("report.html.j2").generate(
        title=content.title or leads.sentences[0],
        leads=leads,
        more=leads.sentences[content.title is None :],
        sources=content.sources,
        version=version("capax"),
        measured=measured(content.runs, VARIED),
        figures=shown,
        by_name=[(title, list(some)) for title, some in groupby(shown, key=lambda figure: figure["title"])],
        missing=missing,
        failures=content.failures,
        groups=broken_down(content.runs),
        n_runs=len(content.runs),
        imported=content.imported,
        caveats=caveats(content.runs),
        planner=plans,
        claims=content.claims,
        style=_asset("report.css"),
        scripts=[_asset(name) for name in ("report.js", "planner.js")],
        plotly=_plotly,
        data=_pieces(
            {
                "figures": {figure["id"]: figure["plot"] for figure in shown},
                "dark": interactive.DARK,
                "n_runs": len(content.runs),
                "runs": {name: _column(values) for name, values in table.items()},
                "brief": brief(table, {name for run in content.runs for name in fields_of(run.spec, ())}),
                "results": [name for name in (*HELD, *FOUND) if name in table],
            }
        ),
        packed=_packed(
            {
                "charts": {figure["id"]: figure["chart"] for figure in shown},
                "planner": None if plans is None else plans.carried,
            }
        ),
    )


def without_folders(content: Content) -> Content:
    """The same, with the names of the user's files instead of their paths: a page is sent to others."""
    runs = tuple(
        run.model_copy(update={"spec": run.spec.model_copy(update={"task": task, "model": model})})
        for run in content.runs
        for task, model in (_without_folders(run.spec),)
    )
    failures = []
    for failure in content.failures:
        error = failure.error
        for value in _texts(failure.spec):
            if value != _file_name(value):
                error = error.replace(_parts(value)[1], _file_name(_parts(value)[1]))
        failures.append(replace(failure, error=error))
    imported = Counter[str]()
    for source, number in content.imported.items():
        imported[_file_name(source)] += number
    return replace(content, runs=runs, failures=tuple(failures), imported=imported)


def _texts(spec: Any) -> Iterator[str]:
    """All texts of a spec, files among them."""
    if isinstance(spec, dict):
        for value in spec.values():
            yield from _texts(value)
    elif isinstance(spec, str):
        yield spec


def _without_folders(spec: Run) -> tuple[Task, Model]:
    task = spec.task.model_copy(update={name: _file_name(getattr(spec.task, name)) for name in spec.task.files})
    return task, spec.model.without_folders(_file_name)


def _file_name(path: str) -> str:
    """The last part of a path, of whatever system it is, and what it may begin with to say what it is (hf:)."""
    start, rest = _parts(path)
    kind = PureWindowsPath if PureWindowsPath(rest).drive else PurePosixPath
    return start + (kind(rest).name or rest)


def _parts(path: str) -> tuple[str, str]:
    start, colon, rest = path.partition(":")
    return (start + colon, rest) if rest and len(start) > 1 and start.isalpha() else ("", path)  # one letter: a drive


def brief(table: Mapping[str, Sequence[Any]], asked: Iterable[str]) -> list[str]:
    """The columns of the table that tell its runs apart, and what they found.

    Args:
        asked: fields of the specs; of those that are no sizes, too, the ones that differ are there if there is room.
    """
    several = {name for name in table if _differs(table, name)}
    others = [name for name in table if name in asked and name not in ("key", "task", "protocol")]
    varied = [name for name in dict.fromkeys((*SIZES, *others, "seed")) if name in several]
    first = [name for name in ("key", "task", "protocol") if name == "key" or name in several]
    held = HELD if "capacity_bits" in table else ()
    counted = () if held and set(table["protocol"]) == {"capacity"} else FOUND
    last = [name for name in dict.fromkeys((*held[:-1], *counted, *held[-1:])) if name in table]
    room = MOST_COLUMNS + (MORE_COLUMNS if held else 0) - len(first) - len(last)
    return [*first, *varied[: max(room, 0)], *last]


def _differs(table: Mapping[str, Sequence[Any]], name: str) -> bool:
    """Whether runs differ in a column. Having none is a value, but where all of the task and model have none."""
    values = table[name]
    kinds = list(zip(*(table.get(kind) or [""] * len(values) for kind in ("task", "model")), strict=True))
    have = {kind for kind, value in zip(kinds, values, strict=True) if value is not None}
    return len({repr(value) for kind, value in zip(kinds, values, strict=True) if kind in have}) > 1


def figures_of(content: Content) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The figures that the runs fill, as far as a page can hold them, and why the others are not there.

    The first chart of every figure comes before the second of any. Warns (`FigureFailed`) of each that failed, whatever
    its error was: the others, and the page, stand.
    """
    charts: dict[str, list[Any]] = {}
    missing: list[dict[str, Any]] = []
    for name, figure in content.figures.items():
        about = {"title": figure.title, "of": figure.of, "failed": False, "large": False}
        try:
            charts[name] = list(figure.shown(content.runs, content.law))
        except CapaxError as error:  # one that is of a file that cannot be read, too
            missing.append(about | {"reason": _nameless(str(error), content.folders)})
        except Exception as error:  # of memory, too: what a figure took is free again
            reason = shorten(f"{type(error).__name__}: {error}", LONGEST_REASON, placeholder=" ...")
            warnings.warn(f"figure {name} failed: {reason}", FigureFailed, stacklevel=2)
            missing.append(about | {"reason": _nameless(reason, content.folders), "failed": True})
    kept, room = set[tuple[str, int]](), ROOM
    for place, name in sorted((place, name) for name, found in charts.items() for place in range(len(found))):
        if (size := len(charts[name][place].model_dump_json())) <= room:
            kept.add((name, place))
            room -= size
    shown: list[dict[str, Any]] = []
    for name, found in charts.items():
        figure = content.figures[name]
        about = {"title": figure.title, "of": figure.of}
        for place, chart in enumerate(found):
            if (name, place) in kept:
                drawn = {"chart": chart.model_dump(), "plot": interactive.figure(chart)}
                shown.append({"id": f"{name}-{place}", **about, **drawn})
        if out := sum((name, place) not in kept for place in range(len(found))):
            reason = f"{out} of {counted(len(found), 'chart')}; capax figure {name} draws them"
            missing.append(about | {"reason": reason, "failed": False, "large": True})
    return shown, missing


def _nameless(reason: str, folders: Iterable[Path]) -> str:
    """A reason without the names of the user's folders."""
    for folder in folders:
        reason = reason.replace(f"{folder}{os.sep}", "")
    return reason


def _finite(data: Any) -> Any:
    """Data without numbers that JSON has not: None stands for them."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    return [_finite(value) for value in data] if isinstance(data, list | tuple) else data


def _column(values: list[Any]) -> list[Any] | dict[str, Any]:
    """A column as it travels: where it says the same of every run, once."""
    return {"all": values[0]} if len(values) > 1 and len(set(map(repr, values))) == 1 else values


def _asset(name: str) -> Markup:
    return Markup((files("capax.reports") / "templates" / name).read_text(encoding="utf-8"))


def _plotly() -> Iterator[Markup]:
    with PLOTLY.open(encoding="utf-8") as text:
        while piece := text.read(PIECE):
            yield Markup(piece)


def _pieces(data: Mapping[str, Any]) -> Iterator[Markup]:
    """`_embedded`, of an object, piece by piece."""
    yield Markup("{")
    for place, (name, value) in enumerate(data.items()):
        yield Markup(f"{',' if place else ''}{_embedded(name)}:")
        if isinstance(value, dict):
            yield from _pieces(value)
        else:
            yield _embedded(value)
    yield Markup("}")


def _packed(data: Mapping[str, Any]) -> Markup:
    """JSON that the page opens when it needs it: compressed, and as text."""
    text = json.dumps(_finite(data), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), mtime=0)).decode("ascii"))


def _embedded(data: Any) -> Markup:
    """JSON that is safe inside a script element, whatever its texts are."""
    text = json.dumps(_finite(data), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
    for letter, escape in escapes.items():
        text = text.replace(letter, escape)
    return Markup(text)


def write(text: Iterable[str], path: Path) -> None:
    """Write a report, given at once or in parts, whole or not at all.

    Raises:
        ReportError: when it cannot be written.
    """
    with (
        outputs.written(path) as part,
        part.open("w", encoding="utf-8", errors="replace", newline="") as file,  # no text holds all names of files
    ):
        file.writelines([text] if isinstance(text, str) else text)
