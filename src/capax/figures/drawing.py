"""Charts drawn by matplotlib, into a file (no screen needed)."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from capax import outputs
from capax.errors import ReportError
from capax.figures.chart import Axis, Chart, Heat, Panel, Series
from capax.figures.looks import COLORS, MARKED_POINTS, mark_of, plain, rows_and_columns

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINE = 0.22
"""Inches of a line of an axis of names, and of the legend."""
LEGEND_LINES = 4
"""Of the legend, for which there is room below any figure."""
ENTRY, LETTER = 0.7, 0.08
"""Inches that the sample of a line of the legend takes, and a letter of its name."""
DESCRIPTION = {("pdf", "Description"): "Subject"}


def draw(chart: Chart, path: Path, name: str = "out") -> None:
    """Draw a chart into a file in the format of its ending (PDF, PNG, SVG).

    Args:
        name: of the flag that gave the path.

    Raises:
        ReportError: when it cannot be written.
    """
    number = len(chart.panels)
    lines, columns = rows_and_columns(number)
    wide = 3.4 if chart.share_y else 3.8
    named = max(len(panel.y.names or ()) for panel in chart.panels)
    width = 1.4 + wide * columns if number > 1 else 8.0 if named else 6.4
    height = 1 + LINE * named if named else 3.4
    figure = Figure(figsize=(width, 1.1 + height * lines), layout="constrained")
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
        beside = int(figure.get_figwidth() / (ENTRY + LETTER * max(map(len, handles))))
        names = sorted(handles, key=lambda name: name in expected)
        found = [handles[name] for name in names]
        across = max(1, min(len(names), beside))
        figure.set_figheight(figure.get_figheight() + LINE * max(-(-len(names) // across) - LEGEND_LINES, 0))
        figure.legend(found, names, loc="outside lower center", ncols=across, frameon=False)
    figure.suptitle(chart.title, wrap=True, fontsize="large" if len(chart.title) < 60 else "medium")
    save(figure, path, name, about={"Title": chart.title, "Description": chart.caption})


def _draw_panel(figure: Figure, axes: Axes, panel: Panel) -> None:
    if panel.heat is not None:
        _draw_heat(figure, axes, panel.heat)
    if panel.y.names is not None:
        axes.set_yticks(range(len(panel.y.names)), panel.y.names, fontsize="small")
        axes.set_ylim(len(panel.y.names) - 0.5, -0.5)
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
        if axis.log == 10:
            _decades(getattr(axes, f"{which}axis"), getattr(axes, f"get_{which}lim")())
    if axis.ticks is not None:
        ruler = getattr(axes, f"{which}axis")
        ruler.set_major_locator(FixedLocator(axis.ticks))
        ruler.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ruler.set_minor_locator(NullLocator())


def _from_zero(axes: Axes, panel: Panel) -> None:
    if panel.x.from_zero:
        axes.set_xlim(left=0)
    if panel.y.from_zero:
        axes.set_ylim(bottom=0)


def _decades(ruler: Any, ends: tuple[float, float]) -> None:
    """Marks at 1, 2 and 5 of each decade, at 1 alone where decades are many, as plain numbers."""
    digits = (1.0, 2.0, 5.0) if ends[1] < 500 * max(ends[0], 1e-300) else (1.0,)
    ruler.set_major_locator(LogLocator(subs=digits, numticks=20))
    ruler.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))
    ruler.set_minor_locator(NullLocator())


def _draw_series(axes: Axes, series: Series, names: tuple[str, ...] | None = None) -> None:
    color = COLORS[series.group % len(COLORS)]
    label = None if series.faint else series.name
    x, y = list(series.x), np.array(series.y if names is None else [names.index(str(y)) for y in series.y], dtype=float)
    match series.kind:
        case "band":
            low, high = _ends(series)
            if series.low is not None:
                axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
            axes.plot(x, y, color=color, linestyle="--", linewidth=1.2, label=label)
        case "bars":
            width = 0.8 if series.width is None else series.width
            axes.bar(_categories(series), y, width=width, color=color, label=label, alpha=0.7)
        case "reference":
            axes.plot(x, y, color="0.3", linestyle=("--", ":", "-.")[series.group % 3], label=label)
        case _:
            line = "-" if series.kind == "line" else "none"
            dot = series.faint or not (series.x or series.hollow)
            marker: dict[str, Any] = {"marker": "." if dot else mark_of(series.group, MARKERS)}
            if series.kind == "line" and len(x) > MARKED_POINTS:
                marker = {}
            axes.plot(
                x,
                y,
                color=color,
                linestyle=line,
                label=label,
                fillstyle="none" if series.hollow else "full",
                alpha=0.4 if series.faint else 0.8 if series.kind == "points" else 1,
                **marker,
            )
    if series.kind != "band" and series.low is not None:
        low, high = _ends(series)
        shown = np.isfinite(low) & np.isfinite(high) & np.isfinite(y)
        at, lines = (np.array(_categories(series)), axes.vlines) if names is None else (y, axes.hlines)
        lines(at[shown], low[shown], high[shown], color=color if series.kind != "bars" else "0.2", alpha=0.6)


def _categories(series: Series) -> list[Any]:
    """Where bars stand: beside each other, or to scale where they have a width."""
    return [str(place) for place in series.x] if series.kind == "bars" and series.width is None else list(series.x)


def _ends(series: Series) -> tuple[np.ndarray, np.ndarray]:
    nothing = [None] * len(series.x)
    return np.array(series.low or nothing, dtype=float), np.array(series.high or nothing, dtype=float)


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


def check_writable(path: Path, name: str = "picture") -> None:
    """Refuse a figure's path before hours of work are done for it.

    Args:
        name: of the flag that gave the path.

    Raises:
        ReportError: for an ending that is no format, or a path that no file can be written to.
    """
    formats = FigureCanvasAgg(Figure()).get_supported_filetypes().keys() - {"pgf"}  # which asks for LaTeX
    if path.suffix[1:].lower() not in formats:
        raise ReportError(f"{name}: should end in one of .{', .'.join(sorted(formats))}, got {path}")
    outputs.check(path, name)


def save(figure: Figure, path: Path, name: str = "picture", about: Mapping[str, str] | None = None) -> None:
    """Write a figure in the format of the path's ending, whole or not at all; a $ in its texts is a letter.

    Args:
        name: of the flag that gave the path.
        about: Title and Description, which PDF (as Subject), PNG and SVG carry.

    Raises:
        ReportError: when it cannot be written.
    """
    for text in figure.findobj(Text):
        if text.get_wrap():  # its lines are measured as mathematics, whatever it is told
            text.set_text(text.get_text().replace("$", r"\$"))
        else:
            text.set_parse_math(False)
    kind = path.suffix[1:].lower()
    carried = {DESCRIPTION.get((kind, key), key): text for key, text in (about or {}).items()}
    content = BytesIO()  # a disk that is full is not matplotlib's to tell: it says something else
    with rc_context({"text.parse_math": False}):  # marks are made as it is drawn
        try:
            figure.savefig(content, format=kind, dpi=150, metadata=carried if kind in ("pdf", "png", "svg") else None)
        except ValueError as error:  # of a format that there is not
            raise ReportError(f"{name}: cannot write {path}: {error}") from None
    outputs.write(path, content.getvalue(), name)
