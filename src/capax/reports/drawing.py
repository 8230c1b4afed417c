"""Charts drawn by matplotlib, into a file (no screen needed)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from capax.reports.chart import Axis, Chart, Heat, Panel, Series
from capax.reports.figures import save

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#595959")
"""Okabe and Ito's palette: told apart by colour-blind readers, too."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
PANELS_IN_A_ROW = 4
LINE = 0.22
"""Inches of a line of an axis of names."""
ENTRY, LETTER = 0.6, 0.085
"""Inches that an entry of the legend takes beside its letters, and a letter."""


def draw(chart: Chart, path: Path) -> None:
    """Draw a chart into a file in the format of its ending (PDF, PNG, SVG).

    Raises:
        ReportError: when it cannot be written.
    """
    number = len(chart.panels)
    columns = min(number, PANELS_IN_A_ROW)
    lines = -(-number // columns)
    named = max(len(panel.y.names or ()) for panel in chart.panels)
    height = 1 + LINE * named if named else 3.4
    width = 1.4 + 3.4 * columns if number > 1 else 8.0 if named else 6.4
    figure = Figure(figsize=(width, 0.9 + height * lines), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(lines, columns, sharey=chart.share_y, squeeze=False).ravel()
    handles: dict[str, Any] = {}
    expected = {series.name for panel in chart.panels for series in panel.series if series.kind == "reference"}
    for place, (axes, panel) in enumerate(zip(grid, chart.panels, strict=False)):
        _draw_panel(figure, axes, panel)
        if not chart.share_y or place % columns == 0:
            axes.set_ylabel(panel.y.label)
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    for axes in grid[number:]:
        axes.set_visible(False)
    for axes, panel in zip(grid, chart.panels, strict=False):  # when all is drawn: axes that are shared have one end
        _from_zero(axes, panel)
    if handles:
        entry = ENTRY + LETTER * max(map(len, handles))
        most = max(int(figure.get_figwidth() / entry), 1)
        names = sorted(handles, key=lambda name: name in expected)
        figure.legend(
            [handles[name] for name in names],
            names,
            loc="outside lower center",
            ncols=min(len(handles), most),
            frameon=False,
        )
    figure.suptitle(chart.title, wrap=True)
    save(figure, path, "out")


def _draw_panel(figure: Figure, axes: Axes, panel: Panel) -> None:
    if panel.heat is not None:
        _draw_heat(figure, axes, panel.heat)
    if panel.y.names is not None:
        axes.set_yticks(range(len(panel.y.names)), panel.y.names, fontsize="small")
        axes.invert_yaxis()
    for series in panel.series:
        _draw_series(axes, series, panel.y.names)
    if panel.title:
        axes.set_title(panel.title, fontsize="medium")
    axes.set_xlabel(panel.x.label)
    if panel.heat is None:
        _scale(axes, "x", panel.x)
        _scale(axes, "y", panel.y)
        axes.grid(alpha=0.25)


def _scale(axes: Axes, which: str, axis: Axis) -> None:
    if axis.log is not None:
        getattr(axes, f"set_{which}scale")("log", base=axis.log)
    if axis.ticks is not None:
        ruler = getattr(axes, f"{which}axis")
        ruler.set_major_locator(FixedLocator(axis.ticks))
        ruler.set_major_formatter(ScalarFormatter())
        ruler.set_minor_locator(NullLocator())


def _from_zero(axes: Axes, panel: Panel) -> None:
    if panel.x.from_zero:
        axes.set_xlim(left=0)
    if panel.y.from_zero:
        axes.set_ylim(bottom=0)


def _draw_series(axes: Axes, series: Series, names: tuple[str, ...] | None = None) -> None:
    color, marker = COLORS[series.group % len(COLORS)], MARKERS[series.group % len(MARKERS)]
    label = None if series.faint else series.name
    x, y = list(series.x), np.array(series.y if names is None else [names.index(str(y)) for y in series.y], dtype=float)
    match series.kind:
        case "band":
            low, high = _ends(series)
            axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0, label=label)
        case "bars":
            axes.bar([str(place) for place in x], y, color=color, label=label, alpha=0.7)
        case "reference":
            axes.plot(x, y, color="0.3", linestyle=("--", ":", "-.")[series.group % 3], label=label)
        case _:
            line = "-" if series.kind == "line" else "none"
            axes.plot(x, y, color=color, marker=marker, linestyle=line, label=label, alpha=0.4 if series.faint else 1)
    if series.kind != "band" and series.low is not None:
        low, high = _ends(series)
        shown = np.isfinite(low) & np.isfinite(high) & np.isfinite(y)
        at = np.array(x)[shown]
        axes.vlines(at if series.kind != "bars" else at.astype(str), low[shown], high[shown], color=color, alpha=0.6)


def _ends(series: Series) -> tuple[np.ndarray, np.ndarray]:
    assert series.low is not None
    assert series.high is not None
    return np.array(series.low, dtype=float), np.array(series.high, dtype=float)


def _draw_heat(figure: Figure, axes: Axes, heat: Heat) -> None:
    numbers = np.array(heat.z, dtype=float)
    image = axes.imshow(numbers, origin="lower", aspect="auto", cmap="cividis")
    axes.set_xticks(range(len(heat.x)), [_short(place) for place in heat.x])
    axes.set_yticks(range(len(heat.y)), [_short(place) for place in heat.y])
    middle = (np.nanmin(numbers) + np.nanmax(numbers)) / 2
    for row, texts in enumerate(heat.texts):
        for column, text in enumerate(texts):
            dark = np.isfinite(numbers[row, column]) and numbers[row, column] < middle
            color = "white" if dark else "black"
            axes.text(column, row, text, ha="center", va="center", color=color, fontsize="x-small")
    figure.colorbar(image, ax=axes, label=heat.label)


def _short(place: float | str) -> str:
    return place if isinstance(place, str) else f"{place:g}"
