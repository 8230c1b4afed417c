"""Charts as plotly figures, for the report's page."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go
from plotly.colors import sample_colorscale
from plotly.subplots import make_subplots

from capax.figures.chart import Axis, Chart, Heat, Place, Series
from capax.figures.looks import COLORS, MARKED_POINTS, mark_of, plain, rows_and_columns

GREY = "#707070"
DARK = dict(
    zip(
        (*COLORS, GREY),
        ("#4a90d9", "#dd6f33", "#14d898", "#bf77a0", "#ffbe4d", "#a6d3fe", "#e4e4e4", "#a0a0a0"),
        strict=True,
    )
)
"""What stands on the dark page for each colour: the same hues, with a contrast of 4.5 or more to it."""
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x")
DASHES = ("dash", "dot", "dashdot", "solid")
PANEL_HEIGHT = 380
LINE_HEIGHT = 24
SHADES = "Cividis"
LAST = 1000
"""Behind everything else in the legend."""
LEGEND_LINE = 24
LONG_NAME = 20
"""Letters of a name beyond which only two names go on a line of the legend."""
NARROW_PANEL = 320
NARROW_NAME = 15
"""Letters of a name, on a narrow screen: beyond them it has a line of the legend alone, and goes on two on an axis."""
TWO_LINES = 32
LEGEND_LETTERS = 42
"""Of a line of a name in the legend: what a narrow screen has room for."""
FURTHER_LINE = 16
"""Height of each further line of a name in the legend."""


def figure(chart: Chart) -> dict[str, Any]:
    """A chart as plotly's JSON: `data`, `layout` and, with one panel below the other for a narrow screen, `narrow`.

    `columns` is how many panels stand beside each other in `layout`. They have no theme: the page sets light or dark.
    """
    lines, columns = rows_and_columns(len(chart.panels))
    drawn = _laid_out(chart, lines, columns)
    named: set[str] = set()
    for place, panel in enumerate(chart.panels):
        at = {"row": place // columns + 1, "col": place % columns + 1}
        if panel.heat is not None:
            for trace in _heat(panel.heat):
                drawn.add_trace(trace, **at)
        for series in panel.series:
            for trace in _traces(series, series.name not in named and not series.faint):
                drawn.add_trace(trace, **at)
                named |= set() if series.faint else {series.name}
    found: dict[str, Any] = json.loads(drawn.to_json())
    narrow = json.loads(_laid_out(chart, len(chart.panels), 1, narrow=True).to_json())
    return {"data": found["data"], "layout": found["layout"], "narrow": narrow["layout"], "columns": columns}


def _laid_out(chart: Chart, lines: int, columns: int, narrow: bool = False) -> go.Figure:
    """The panels without what is drawn in them; axes are numbered alike however many columns there are."""
    number = len(chart.panels)
    drawn = make_subplots(
        rows=lines,
        cols=columns,
        shared_yaxes="all" if chart.share_y else False,
        shared_xaxes="all" if chart.share_x else False,
        subplot_titles=[_text(panel.title) for panel in chart.panels] if number > 1 else None,
        vertical_spacing=(0.34 if narrow else 0.25) / lines,
        horizontal_spacing=0.04 if chart.share_y else 0.1,
    )
    for place, panel in enumerate(chart.panels):
        at = {"row": place // columns + 1, "col": place % columns + 1}
        beside = chart.panels if chart.share_y else (panel,)
        along = [place for series in panel.series for place in series.x]
        drawn.update_xaxes(_axis(panel.x, along, narrow=narrow), **at)
        heights = [y for other in beside for series in other.series for y in series.y]
        drawn.update_yaxes(_axis(panel.y, heights, labelled=not chart.share_y or at["col"] == 1), **at)
        if narrow and panel.y.names is not None:
            folded = [_text(_folded(name)) for name in panel.y.names]
            drawn.update_yaxes(tickvals=[*map(_text, panel.y.names)], ticktext=folded, tickfont_size=11, **at)
        if panel.heat is not None:
            drawn.update_xaxes(_cells(panel.heat.x), **at).update_yaxes(_cells(panel.heat.y), **at)
    names = {series.name for panel in chart.panels for series in panel.series if not series.faint}
    longest = max(map(len, names), default=0)
    beside_each_other = (1 if longest > NARROW_NAME else 2) if narrow else 2 if longest > LONG_NAME else 4
    further = sum(_in_legend(name).count("\n") for name in names)
    legend = LEGEND_LINE * -(-len(names) // beside_each_other) + FURTHER_LINE * -(-further // beside_each_other)
    named_lines = max(len(panel.y.names or ()) for panel in chart.panels)
    of_names = 120 + (TWO_LINES if narrow else LINE_HEIGHT) * named_lines
    drawn.update_annotations(font_size=13)
    drawn.update_layout(
        template="none",
        height=(of_names if named_lines else NARROW_PANEL if narrow else PANEL_HEIGHT) * lines + 40 + legend,
        margin={
            "l": 50 if narrow else 70,
            "r": 10 if narrow else 20,
            "t": 40 if all("\n" not in panel.title for panel in chart.panels) else 56,
            "b": 60 + legend,
        },
        legend={"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0},
        hovermode="closest",
        barmode="group",
    )
    return drawn


def _in_legend(name: str) -> str:
    return "\n".join(textwrap.wrap(name, LEGEND_LETTERS))


def _folded(name: str) -> str:
    """A long name on two lines."""
    parts = re.split(r"(?<=[_ ])", name)
    halves = [("".join(parts[:place]), "".join(parts[place:])) for place in range(1, len(parts))]
    if len(name) <= NARROW_NAME or not halves:
        return name
    return "\n".join(min(halves, key=lambda two: max(map(len, two))))


def _text(text: str) -> str:
    """A text, of several lines maybe, for plotly, which would take a tag such as <b> in it for its own."""
    return escape(text, quote=False).replace("\n", "<br>")


def _place(place: Place | None) -> Place | None:
    return _text(place) if isinstance(place, str) else place


def _axis(axis: Axis, places: Sequence[Place | None], labelled: bool = True, narrow: bool = False) -> dict[str, Any]:
    told: dict[str, Any] = {"title": {"text": _text(axis.label) if labelled else ""}, "automargin": True}
    if axis.log is not None:
        told["type"] = "log"
        marks = _decades([place for place in places if isinstance(place, float | int) and place > 0], narrow)
        if axis.log == 10 and axis.ticks is None and marks:
            told |= {"tickvals": marks, "ticktext": [plain(mark) for mark in marks]}
    if axis.names is not None:
        told |= {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [*map(_text, axis.names)],
            "range": [len(axis.names) - 0.5, -0.5],
            "dtick": 1,
        }
    if axis.ticks is not None:
        told |= {"tickvals": list(axis.ticks), "ticktext": [f"{tick:g}" for tick in axis.ticks]}
    if axis.from_zero:
        told["rangemode"] = "tozero"
    return told


def _decades(places: Sequence[float], narrow: bool) -> list[float]:
    """Marks of a logarithmic axis: at 1, 2 and 5 of each decade, at 1 alone where decades are many, at more if few."""
    if not places:
        return []
    low, high = min(places), max(places)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits: tuple[float, ...] = (1.0, 2.0, 5.0) if high < 500 * low else (1.0,)
    if high < 5 * low:
        digits = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0) if narrow else (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    return [float(f"{digit}e{power}") for power in powers for digit in digits]


def _traces(series: Series, in_legend: bool) -> list[Any]:
    color = COLORS[series.group % len(COLORS)]
    usual: dict[str, Any] = {
        "name": _text(_in_legend(series.name)),
        "legendgroup": series.name if series.kind == "reference" else f"group {series.group}",
        "legendrank": series.group + LAST * (series.kind == "reference"),
        "showlegend": in_legend,
        "x": [*map(_place, series.x)] or [None],
        "y": [*map(_place, series.y)] or [None],
    }
    if series.texts is not None:
        usual |= {"hovertext": [*map(_text, series.texts)], "hoverinfo": "text+name"}
    if series.kind == "band":
        return _band(series, usual, color)
    if series.low is not None and series.high is not None:
        named = any(isinstance(y, str) for y in series.y)
        middles = series.x if named else series.y
        usual["error_x" if named else "error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [_apart(high, middle) for high, middle in zip(series.high, middles, strict=True)],
            "arrayminus": [_apart(middle, low) for low, middle in zip(series.low, middles, strict=True)],
            "thickness": 1,
            "color": color if series.kind != "bars" else GREY,
        }
    if series.kind == "bars":
        if series.width is None:
            usual["x"] = [_text(str(place)) for place in series.x]
        return [go.Bar({**usual, "width": series.width, "marker": {"color": color}, "opacity": 0.7})]
    if series.kind == "reference":
        if len(series.x) == 1:  # a line of one point is not seen
            return [go.Scatter({**usual, "mode": "markers", "marker": {"symbol": "line-ew-open", "color": GREY}})]
        dash = DASHES[series.group % len(DASHES)]
        return [go.Scatter({**usual, "mode": "lines", "line": {"dash": dash, "color": GREY}})]
    mark = {"color": color, "symbol": mark_of(series.group, SYMBOLS), "size": 5 if series.faint else 8}
    if series.kind == "points" and (series.faint or not series.x):
        mark |= {"symbol": "circle", "size": 5}
    if series.hollow:
        mark |= {"symbol": f"{mark['symbol']}-open"}
    looks = {"marker": mark, "opacity": 0.45 if series.faint else 1, "line": {"color": color}}
    marked = "lines+markers" if len(series.x) <= MARKED_POINTS else "lines"
    return [go.Scatter({**usual, **looks, "mode": marked if series.kind == "line" else "markers"})]


def _band(series: Series, usual: dict[str, Any], color: str) -> list[Any]:
    """A dashed line, and the area about it where its ends are known, in one piece where they are all."""
    line = go.Scatter({**usual, "mode": "lines", "line": {"color": color, "dash": "dash", "width": 1.5}})
    known = [
        (x, low, high)
        for x, low, high in zip(series.x, series.low or (), series.high or (), strict=bool(series.low))
        if low is not None and high is not None
    ]
    if not known:
        return [line]
    x, low, high = zip(*known, strict=True)
    area = {"x": [*x, *reversed(x)], "y": [*high, *reversed(low)], "showlegend": False, "hoverinfo": "skip"}
    looks: dict[str, Any] = {"mode": "lines", "fill": "toself", "fillcolor": _transparent(color)}
    looks["line"] = {"width": 0.8, "color": color, "dash": "dot"}
    return [go.Scatter({**usual, **area, **looks}), line]


def _heat(heat: Heat) -> list[Any]:
    """Each number as a bar of width and height 1, as the page's build of plotly has no heat maps; what has none."""
    cells = [
        (column, row, value, _text(text))
        for row, (values, texts) in enumerate(zip(heat.z, heat.texts, strict=True))
        for column, (value, text) in enumerate(zip(values, texts, strict=True))
    ]
    known = [(column, row, value) for column, row, value, _ in cells if value is not None]
    columns, rows, numbers = zip(*known, strict=True) if known else ((), (), ())
    low, high = heat.ends
    middle = (low + high) / 2
    shares = [(number - low) / (high - low) for number in numbers]
    texts = [
        f"{_text(f'{heat.x[column]}, {heat.y[row]}')}: {text}"
        for column, row, value, text in cells
        if value is not None
    ]
    bars = go.Bar(
        x=columns,
        y=[1] * len(known),
        base=[row - 0.5 for row in rows],
        width=1,
        marker={"color": sample_colorscale(SHADES, shares) if shares else []},
        hovertext=texts,
        hoverinfo="text",
        textposition="none",
        showlegend=False,
    )
    bar = {"thickness": 14, "title": {"text": _text(heat.label), "side": "right"}}
    scale = {"color": numbers, "colorscale": SHADES, "showscale": True, "colorbar": bar, "opacity": 0}
    scale |= {"cmin": low, "cmax": high}
    key = go.Scatter(x=columns, y=rows, mode="markers", marker=scale, hoverinfo="skip", showlegend=False)
    # White on dark cells, black on bright ones, and on none the ink of the page.
    inks = {
        "white": [cell for cell in cells if cell[2] is not None and cell[2] < middle],
        "black": [cell for cell in cells if cell[2] is not None and cell[2] >= middle],
        None: [cell for cell in cells if cell[2] is None],
    }
    return [bars, key, *(_written(some, ink) for ink, some in inks.items() if any(cell[3] for cell in some))]


def _written(cells: Sequence[tuple[int, int, float | None, str]], ink: str | None) -> Any:
    columns, rows, _, texts = zip(*cells, strict=True)
    font = {"size": 11} | ({} if ink is None else {"color": ink})
    return go.Scatter(x=columns, y=rows, text=texts, mode="text", textfont=font, hoverinfo="skip", showlegend=False)


def _cells(places: Sequence[Place]) -> dict[str, Any]:
    """An axis of the cells of a heat map."""
    return {
        "range": [-0.5, len(places) - 0.5],
        "tickvals": list(range(len(places))),
        "ticktext": [_text(str(place)) for place in places],
        "showgrid": False,
        "zeroline": False,
    }


def _apart(high: Place | None, low: Place | None) -> float | None:
    return None if high is None or low is None else max(float(high) - float(low), 0.0)


def _transparent(color: str) -> str:
    red, green, blue = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.15)"
