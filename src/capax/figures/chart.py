"""What a figure shows, as plain data that says nothing of how it is drawn.

One chart is drawn by matplotlib (`drawing`), by plotly in the report's page (`page`), and read as data by tests.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from capax.results import Result

Place = float | str


class Axis(Result):
    """What is along an edge of a panel."""

    label: str
    log: Annotated[Literal[2, 10] | None, Field(description="Base of a logarithmic axis.")] = None
    from_zero: bool = False
    names: Annotated[
        tuple[str, ...] | None, Field(description="Of an axis y of names, from top to bottom; series then have these.")
    ] = None
    ticks: Annotated[tuple[float, ...] | None, Field(description="Where the marks are; chosen when not given.")] = None


class Series(Result):
    """Points that belong together; without points, an entry of the legend that says what others look like."""

    name: Annotated[str, Field(description="In the legend; series of one name in several panels share an entry.")]
    kind: Annotated[
        Literal["line", "points", "bars", "band", "reference"],
        Field(
            description="line: measured points joined; points: alone; bars; band: what is expected, a dashed line and "
            "the area from low to high about it where these are given; reference: what is known, not measured."
        ),
    ]
    x: tuple[Place, ...]
    y: tuple[Place | None, ...]
    low: Annotated[
        tuple[float | None, ...] | None, Field(description="Lower ends of intervals: of y, or of x where y are names.")
    ] = None
    high: tuple[float | None, ...] | None = None
    texts: Annotated[tuple[str, ...] | None, Field(description="What is said of each point when it is pointed at.")] = (
        None
    )
    group: Annotated[
        int, Field(description="Series of one number share a colour and a mark, and are hidden together.")
    ] = 0
    width: Annotated[float | None, Field(description="Of each bar, in units of x; none where x are categories.")] = None
    faint: Annotated[bool, Field(description="In the background, and not in the legend.")] = False
    hollow: Annotated[bool, Field(description="Marks without a filling: lower bounds.")] = False


class Heat(Result):
    """A number at every place of a grid; None where there is none."""

    x: tuple[Place, ...]
    y: tuple[Place, ...]
    z: Annotated[tuple[tuple[float | None, ...], ...], Field(description="A row for each y.")]
    texts: Annotated[
        tuple[tuple[str, ...], ...], Field(description="What is written in each cell: no number has its colour alone.")
    ]
    label: str

    @property
    def ends(self) -> tuple[float, float]:
        """Of the scale of colours: the least and the largest number; of one alone it says where that lies."""
        known = [value for row in self.z for value in row if value is not None]
        low, high = min(known, default=0.0), max(known, default=0.0)
        return (min(low, 0.0), max(high, 1.0)) if low == high else (low, high)


class Panel(Result):
    """One pair of axes. Its title and the labels of its axes may have several lines."""

    title: str = ""
    x: Axis
    y: Axis
    series: tuple[Series, ...] = ()
    heat: Heat | None = None


class Chart(Result):
    """A figure: panels side by side that share a legend."""

    name: Annotated[str, Field(description="Of the figure in `registry.FIGURES`.")]
    title: str
    caption: Annotated[str, Field(description="What was measured and how, and what must be known to read it.")]
    panels: Annotated[tuple[Panel, ...], Field(min_length=1)]
    share_x: Annotated[bool, Field(description="Whether axes x have the same ends in all panels.")] = False
    share_y: bool = True
