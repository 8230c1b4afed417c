"""Any column of runs against any other: a mark per run, groups in colours and panels, a power law through each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
import polars as pl

from capax.errors import ReportError, TableError, shown
from capax.figures import captions
from capax.figures.chart import Chart, Series
from capax.figures.columns import SIZES, Column, by, free, from_zero
from capax.figures.groups import Group
from capax.figures.law_lines import LAW_POINTS
from capax.figures.lines import FEWEST_RESTARTS, Ends, Lines, Measure, Shown
from capax.figures.power_fit import FEWEST, HOW, power_fit
from capax.figures.registry import SCATTER
from capax.figures.runs import Runs
from capax.figures.words import of_runs
from capax.laws.law import Law
from capax.results import Interval, Measurement
from capax.store import Store, amounts, frames, record, tables

FITS = ("power",)
MOST_GROUPS, MOST_PANELS = 14, 12
MOST_TOLD = 6
"""Columns that a caption says runs differ in, and kinds of one of them."""
RUN = "run"
"""Where a row holds the run that it is of; there is no column of this name."""
PER = {
    "_per_any_parameter": "total_parameters",
    "_per_effective_parameter": "effective_parameters",
    "_per_parameter": "trainable_parameters",
}
"""Ends of the names of amounts per parameter, and of which parameters."""
COUNTED = ("memorized", "items", "tokens", "bits", "morris_bits", "allen_zhu_bits", "capacity")
"""What columns of amounts begin with: of a library that was memorized whole they are lower bounds."""
LABELS = {column.name: column.label for column in SIZES} | {
    "flops": "FLOPs of one training",
    "total_key_dim": "total key dimension",
}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Asked:
    """What a scatter plot shows, by names of columns.

    Attributes:
        color: what tells groups apart, by colour and mark.
        panel: what has a panel for each of its values.
        fit: what is drawn through each group: power.
    """

    x: str
    y: str
    color: str | None = None
    panel: str | None = None
    fit: str | None = None

    def __post_init__(self) -> None:
        """Refuse a fit that there is not, and names that are none, before anything is read."""
        for field in ("x", "y", "color", "panel"):
            if not isinstance(name := getattr(self, field), str | None):
                raise ReportError(f"{field}: a name of a column, got {shown(name)}")
        if self.fit is not None and self.fit not in FITS:
            raise ReportError(f"fit: {' or '.join(FITS)}, got {shown(self.fit)}")


def rows_of(runs: Runs) -> list[Row]:
    """A row for each run and for each imported row of its stores: the columns of `tables.read`, and all amounts."""
    rows: list[Row] = []
    if runs.runs:
        table = tables.table(runs.runs, lambda run: record.columns(run, None)).to_dict(as_series=False)
        rows += _rows(amounts.beside(table, amounts.columns(runs.runs)), runs.runs)
    for path in runs.sources if runs.imported else ():
        with Store(path, create=False) as opened:
            rows += [{**row, "source": source} for source, found in opened.imported().items() for row in found]
    return rows


def rows_of_table(table: Any) -> list[Row]:
    """The rows of a data frame, or of a mapping of arrays."""
    table = frames.taken(table)
    columns = {name: tables.values(table, name) for name in tables.names(table)}
    if len({len(values) for values in columns.values()}) > 1:
        lengths = ", ".join(f"{name} {len(values)}" for name, values in columns.items())
        raise TableError(f"table: columns should be of one length, got {lengths}")
    return [*_rows(columns, ())]


def chosen(rows: Sequence[Row], where: Sequence[str]) -> list[Row]:
    """The rows that meet every condition `column=value`.

    Raises:
        TableError: for a condition of another form, an unknown column, or when no row is left.
    """
    if not where:
        return list(rows)
    table = pl.DataFrame([{name: row[name] for name in row if name != RUN} for row in rows], infer_schema_length=None)
    return [rows[place] for place in tables.where(table.with_row_index("row"), where)["row"]]


def _rows(columns: Mapping[str, Sequence[Any]], runs: Sequence[Measurement]) -> Iterable[Row]:
    for place, values in enumerate(zip(*columns.values(), strict=True)):
        yield dict(zip(columns, values, strict=True)) | ({RUN: runs[place]} if runs else {})


def scatter(rows: Sequence[Row], asked: Asked) -> Chart:
    """A mark for each row that has both columns.

    Raises:
        ReportError: for a column that there is not, or that is not numeric; for more groups or panels than there is
            room for; for points that a power law cannot be fitted to.
    """
    known = list(dict.fromkeys(name for row in rows for name in row if name != RUN))
    for field in ("x", "y", "color", "panel"):
        name = getattr(asked, field)
        if name is not None and name not in known:
            near = get_close_matches(name, known, MOST_TOLD, 0.4)
            hint = f"the nearest are {', '.join(near)}" if near else f"there are {', '.join(known)}"
            raise ReportError(f"{field}: no column {shown(name)}; {hint}")
    x, y = (_numeric(rows, field, getattr(asked, field)) for field in ("x", "y"))
    kept = [row for row in rows if x(row) is not None and y(row) is not None]
    if not kept:
        raise ReportError(f"{SCATTER}: no run has both {asked.x} and {asked.y}")
    color, panel = _grouping(kept, asked.color), _grouping(kept, asked.panel)
    for field, column, most, what in (("color", color, MOST_GROUPS, "groups"), ("panel", panel, MOST_PANELS, "panels")):
        if column is not None and (count := len(by(kept, column))) > most:
            raise ReportError(f"{field}: at most {most} {what}, {column.name} has {count} values")
    heights = [height for row in kept if (height := y(row)) is not None]
    few: list[str] = []
    title = f"{_label(asked.y)} against {_label(asked.x)}"
    figure = Lines(
        name=SCATTER,
        title=title,
        heading=title[0].upper() + title[1:],
        x=Column(asked.x, _label(asked.x), scale=free, of=x),
        y=(
            Measure(
                _label(asked.y),
                y,
                lambda row: _ends(row, asked.y),
                scale=from_zero if min(heights) >= 0 else free,
                each=True,
                kind="points",
                said=lambda members, value: _said(members[0], asked, value),
                lower=lambda row: _lower(row, asked.y),
            ),
        ),
        line=color or Column("run", of=lambda _: None, unknown=of_runs(len(kept))),
        panel=() if panel is None else (panel,),
        several=None,
        rows=lambda _: kept,
        law=None if asked.fit is None else _fitted(asked, y, panel, few),
        caption=(
            f"Each mark is a run: {asked.y} against {asked.x}.",
            _imported(kept),
            _bars,
            _hollow,
            "" if asked.fit is None else f"{HOW} Lower bounds are left out of it.",
            lambda _: f"No line through what has fewer than {FEWEST} points: {', '.join(few)}." if few else "",
            _differ(kept, asked),
            _left_out(rows, kept, asked),
        ),
    )
    chart = figure.chart(Group((), ""))
    assert chart is not None  # a chart needs no more than a row
    if asked.fit is not None and not any(one.kind == "band" for panel in chart.panels for one in panel.series):
        raise ReportError(
            f"fit: a power law needs {FEWEST} points at several x, lower bounds left out; no group has so many"
        )
    return chart.model_copy(update={"share_x": True})


def _label(name: str) -> str:
    return LABELS.get(name, name.replace("_", " "))


def _numeric(rows: Sequence[Row], field: str, name: str) -> Callable[[Row], float | None]:
    """How a column of numbers is read; what is not finite is none."""
    values = [value for row in rows if (value := row.get(name)) is not None]
    other = next((value for value in values if isinstance(value, bool) or not isinstance(value, int | float)), None)
    if other is not None:
        kind = "truth values" if isinstance(other, bool) else "words" if isinstance(other, str) else "values"
        raise ReportError(f"{field}: column {name} holds {kind} such as {shown(other)}, not numbers")
    if not values:
        raise ReportError(f"{field}: no run has a value of {name}")

    def number(row: Row) -> float | None:
        value = row.get(name)
        return None if value is None or not math.isfinite(value) else float(value)

    return number


def _grouping(rows: Sequence[Row], name: str | None) -> Column | None:
    if name is None:
        return None
    size = next((column for column in SIZES if column.name == name), Column(name))
    mixed = len({isinstance(row.get(name), str) for row in rows if row.get(name) is not None}) > 1
    read = (lambda row: str(row.get(name))) if mixed else (lambda row: row.get(name))
    return replace(size, of=read, unknown=f"no {name}")


def _ends(row: Row, name: str) -> Ends | None:
    """The interval of an amount: its own columns, or those of what it is a part of, to scale."""
    run = row.get(RUN)
    own = _own_interval(run, name)
    per = next((per for per in PER if name.endswith(per)), "")
    whole = name.removesuffix(per)
    low, high = f"{whole}_low", f"{whole}_high"
    if name in ("capacity_last_gain", "capacity_low", "capacity_high", "capacity_reached"):
        return None
    if name.startswith("capacity_"):
        whole, low, high = "capacity_bits", "capacity_low", "capacity_high"
    elif run is not None and run.spec.protocol.one_library and len(run.memorized_per_restart) < FEWEST_RESTARTS:
        return None
    if own is not None:
        return own.low, own.high
    amount, ends = row.get(whole), (row.get(low), row.get(high))
    parts: Any = row.get(PER[per]) if per else 1
    if not (amount or (amount == 0 and parts)) or ends[0] is None or ends[1] is None:
        return None
    scale = row[name] / amount if amount else 1 / parts
    return ends[0] * scale, ends[1] * scale


def _own_interval(run: Measurement | None, name: str) -> Interval | None:
    """The interval that a run itself has, which runs of earlier versions have without one of a unit."""
    if run is None or name not in ("memorized", "total_key_dim"):
        return None
    found = run.interval if name == "memorized" else run.key_search.interval if run.key_search else None
    return None if found is None or found.high is None else found


def _lower(row: Row, name: str) -> bool:
    """Whether more may have been held: the library was memorized whole, or training had not converged."""
    run = row.get(RUN)
    if run is None or not name.startswith(COUNTED):
        return False
    if run.capacity is not None:
        return not run.capacity.converged
    return bool(run.spec.protocol.one_library and run.whole)


def _said(row: Row, asked: Asked, value: float) -> str:
    told = f"{asked.y} {value:.4g}, {asked.x} {row[asked.x]:.4g}"
    return f"{told} ({row['key'][:12]})" if row.get("key") else told


def _fitted(
    asked: Asked, y: Callable[[Row], float | None], panel: Column | None, few: list[str]
) -> Callable[[Law | None, Sequence[Row], Column, str, int], list[Series]]:
    """A power law through the rows of one group; the names of groups that are too small for one are added to `few`."""

    def line(law: Law | None, rows: Sequence[Row], x: Column, name: str, group: int) -> list[Series]:
        value = None if panel is None else panel(rows[0])
        of = name if panel is None else f"{name}, {panel.unknown if value is None else panel.words(value)}"
        points = [(x(row), y(row)) for row in rows if not _lower(row, asked.y)]
        across, heights = zip(*points, strict=True) if points else ((), ())
        found = power_fit(across, heights, of, (asked.x, asked.y))
        if found is None:
            few.append(of)
            return []
        places = np.geomspace(min(across), max(across), LAW_POINTS)
        return [
            Series(
                name=f"{of}: {found}",
                kind="band",
                x=tuple(places.tolist()),
                y=tuple(found(places).tolist()),
                group=group,
            )
        ]

    return line


# What its caption says


def _bars(shown: Shown) -> str:
    drawn = any(series.low for panel in shown.panels for series in panel.series)
    best = any(RUN in row and row[RUN].spec.protocol.one_library and row[RUN].capacity is None for row in shown.rows)
    few = f", of the best of restarts from {FEWEST_RESTARTS} on" if best else ""
    return f"Bars: 95 % intervals{few}." if drawn else ""


def _imported(rows: Sequence[Row]) -> str:
    """How many of the marks are rows that were imported, of which there is no run."""
    number = sum(RUN not in row and row.get("source") is not None for row in rows)
    if not number:
        return ""
    return f"{number} of the marks {'is an imported row' if number == 1 else 'are imported rows'}."


def _hollow(shown: Shown) -> str:
    hollow = any(series.hollow for panel in shown.panels for series in panel.series)
    runs = [row[RUN] for row in shown.rows if RUN in row]
    of_capacity = any(run.capacity is not None for run in runs)
    why = "the library was memorized whole" + (", or protocol capacity did not converge" if of_capacity else "")
    return f"{f'Hollow: lower bounds ({why}).' if hollow else ''}{captions.at_their_budget(runs)}".strip()


def _differ(rows: Sequence[Row], asked: Asked) -> str:
    """What else these runs differ in, that is asked of them: a reader would take them for alike."""
    runs = [row[RUN].spec for row in rows if RUN in row]
    first = ("task", "model", "protocol")
    names = dict.fromkeys((*first, *(name for run in runs for name in (*tables.spec_columns(run), "seed"))))
    told = []
    for name in names:
        values = list(dict.fromkeys(row.get(name) for row in rows if RUN in row))
        if len(values) > 1 and name not in (asked.x, asked.y, asked.color, asked.panel):
            told.append(f"{name} ({_values(values)})")
    more = f" and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
    return f"The runs also differ in {', '.join(told[:MOST_TOLD])}{more}." if told else ""


def _values(values: Sequence[Any]) -> str:
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return f"{min(values):g} to {max(values):g}"
    return f"{len(values)} kinds" if len(values) > MOST_TOLD else " / ".join(str(value).lower() for value in values)


def _left_out(rows: Sequence[Row], kept: Sequence[Row], asked: Asked) -> str:
    left = len(rows) - len(kept)
    return f"Left out: {of_runs(left)} without {asked.x} or {asked.y}." if left else ""
