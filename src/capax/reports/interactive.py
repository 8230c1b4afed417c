"""Charts as plotly figures, for the report's page."""

from __future__ import annotations

import json
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from capax.reports.chart import Axis, Chart, Heat, Place, Series
from capax.reports.drawing import COLORS, PANELS_IN_A_ROW

SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x")
DASHES = ("dash", "dot", "dashdot")
PANEL_HEIGHT = 380
LINE_HEIGHT = 24
LAST = 1000
"""Behind everything else in the legend."""


def figure(chart: Chart) -> dict[str, Any]:
    """A chart as plotly's JSON: `data` and `layout`, without a theme (the page sets light or dark)."""
    number = len(chart.panels)
    columns = min(number, PANELS_IN_A_ROW)
    lines = -(-number // columns)
    lined = max(len(panel.y.names or ()) for panel in chart.panels)
    drawn = make_subplots(
        rows=lines,
        cols=columns,
        shared_yaxes="all" if chart.share_y else False,
        subplot_titles=[panel.title for panel in chart.panels] if number > 1 else None,
        horizontal_spacing=0.04 if chart.share_y else 0.1,
    )
    named: set[str] = set()
    for place, panel in enumerate(chart.panels):
        at = {"row": place // columns + 1, "col": place % columns + 1}
        if panel.heat is not None:
            drawn.add_trace(_heat(panel.heat), **at)
        for series in panel.series:
            for trace in _traces(series, series.name not in named and not series.faint):
                drawn.add_trace(trace, **at)
            named |= {series.name} if series.x else set()
        drawn.update_xaxes(_axis(panel.x), **at)
        drawn.update_yaxes(_axis(panel.y, labelled=not chart.share_y or at["col"] == 1), **at)
        if panel.heat is not None:
            drawn.update_xaxes(type="category", **at).update_yaxes(type="category", **at)
    drawn.update_layout(
        template="none",
        height=(PANEL_HEIGHT if lined == 0 else 120 + LINE_HEIGHT * lined) * lines + 60,
        margin={"l": 70, "r": 20, "t": 40, "b": 60},
        legend={"orientation": "h", "yanchor": "top", "y": -0.2 / lines},
        hovermode="closest",
        barmode="group",
    )
    found: dict[str, Any] = json.loads(drawn.to_json())
    return {"data": found["data"], "layout": found["layout"]}


def _axis(axis: Axis, labelled: bool = True) -> dict[str, Any]:
    told: dict[str, Any] = {"title": {"text": axis.label if labelled else ""}, "automargin": True}
    if axis.log is not None:
        told["type"] = "log"
    if axis.names is not None:
        told |= {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": list(axis.names),
            "range": [len(axis.names) - 0.5, -0.5],
            "dtick": 1,
        }
    if axis.ticks is not None:
        told |= {"tickvals": list(axis.ticks), "ticktext": [f"{tick:g}" for tick in axis.ticks]}
    if axis.from_zero:
        told["rangemode"] = "tozero"
    return told


def _traces(series: Series, in_legend: bool) -> list[Any]:
    color = COLORS[series.group % len(COLORS)]
    usual: dict[str, Any] = {
        "name": series.name,
        "legendgroup": series.name,
        "legendrank": series.group + LAST * (series.kind == "reference"),
        "showlegend": in_legend,
        "x": list(series.x),
    }
    if series.texts is not None:
        usual |= {"hovertext": list(series.texts), "hoverinfo": "text+name"}
    if series.kind == "band":
        assert series.low is not None
        assert series.high is not None
        ends = {"x": [*series.x, *reversed(series.x)], "y": [*series.high, *reversed(series.low)]}
        looks: dict[str, Any] = {"fill": "toself", "fillcolor": _transparent(color), "line": {"width": 0}}
        return [go.Scatter({**usual, **ends, **looks, "mode": "lines", "hoverinfo": "skip"})]
    usual["y"] = list(series.y)
    if series.low is not None and series.high is not None:
        usual["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [_apart(high, y) for high, y in zip(series.high, series.y, strict=True)],
            "arrayminus": [_apart(y, low) for low, y in zip(series.low, series.y, strict=True)],
            "thickness": 1,
            "color": color,
        }
    if series.kind == "bars":
        return [go.Bar({**usual, "x": [str(place) for place in series.x], "marker": {"color": color}})]
    if series.kind == "reference":
        dash = DASHES[series.group % len(DASHES)]
        return [go.Scatter({**usual, "mode": "lines", "line": {"dash": dash, "color": "#808080"}})]
    mark = {"color": color, "symbol": SYMBOLS[series.group % len(SYMBOLS)], "size": 5 if series.faint else 8}
    looks = {"marker": mark, "opacity": 0.45 if series.faint else 1, "line": {"color": color}}
    return [go.Scatter({**usual, **looks, "mode": "lines+markers" if series.kind == "line" else "markers"})]


def _heat(heat: Heat) -> Any:
    return go.Heatmap(
        x=[str(place) for place in heat.x],
        y=[str(place) for place in heat.y],
        z=[list(row) for row in heat.z],
        text=[[text.replace("\n", "<br>") for text in row] for row in heat.texts],
        texttemplate="%{text}",
        colorscale="Cividis",
        colorbar={"title": {"text": heat.label, "side": "right"}},
        hovertemplate="%{x}, %{y}: %{text}<extra></extra>",
    )


def _apart(high: Place | None, low: Place | None) -> float | None:
    return None if high is None or low is None else max(float(high) - float(low), 0.0)


def _transparent(color: str) -> str:
    red, green, blue = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.15)"
