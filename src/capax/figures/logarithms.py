"""Logarithmic axes for any chart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from capax.errors import ReportError, shown
from capax.figures.chart import Axis, Chart, Panel, Series

AXES = ("x", "y", "xy")
"""Which axes may be made logarithmic."""


def logarithmic(chart: Chart, axes: str) -> Chart:
    """The same chart with logarithmic axes; one that is logarithmic already stays as it is.

    What is known and is zero, such as a level of chance, is not on such an axis; the caption says so.

    Args:
        axes: x, y or xy.

    Raises:
        ReportError: for other axes, one of names, and what was measured and has no logarithm.
    """
    check(axes)
    panels, lost = chart.panels, list[str]()
    for which in ("x", "y"):
        if which in axes:
            panels = tuple(_panel(panel, which, lost, chart.name) for panel in panels)
    without = f" Not on the logarithmic axis: {', '.join(dict.fromkeys(lost))} (0)." if lost else ""
    return chart.model_copy(update={"panels": panels, "caption": chart.caption + without})


def check(axes: str) -> None:
    """Refuse what names no axes.

    Raises:
        ReportError: for anything but x, y and xy.
    """
    if axes not in AXES:
        raise ReportError(f"log: {', '.join(AXES[:-1])} or {AXES[-1]}, got {shown(axes)}")


def _panel(panel: Panel, which: Literal["x", "y"], lost: list[str], name: str) -> Panel:
    axis: Axis = getattr(panel, which)
    named = [place for series in panel.series for place in getattr(series, which) if isinstance(place, str)]
    if panel.heat is not None or axis.names is not None or named:
        raise ReportError(f"log: along {which} of figure {name} are names, not numbers")
    if axis.log is not None:
        return panel
    label = " ".join(axis.label.split())
    measured = [one for series in panel.series if series.kind != "reference" for one in _numbers(series, which)]
    if beyond := sorted(one for one in measured if one <= 0):
        count = f"{len(beyond)} of {len(measured)} values"
        raise ReportError(f"log: {which} ({label}): {count} are 0 or less, such as {beyond[0]:g}: no logarithm")
    kept = []
    for series in panel.series:
        if series.kind == "reference" and any(one <= 0 for one in _numbers(series, which)):
            lost.append(series.name)
        else:
            kept.append(series)
    scaled = axis.model_copy(update={"log": 10, "from_zero": False, "ticks": None})
    return panel.model_copy(update={which: scaled, "series": tuple(kept)})


def _numbers(series: Series, which: str) -> Iterable[float]:
    return (float(place) for place in getattr(series, which) if place is not None)
