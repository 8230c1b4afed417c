"""Charts drawn by matplotlib, into a file (no screen needed)."""

from __future__ import annotations

import math
import re
import textwrap
import warnings
from collections import Counter
from collections.abc import Mapping
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from capax import outputs
from capax.errors import LettersMissing, ReportError, shown
from capax.figures.chart import Axis, Chart, Heat, Panel, Series
from capax.figures.looks import COLORS, MARKED_POINTS, PANELS_IN_A_ROW, Paper, mark_of, plain, rows_and_columns

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINE = 0.22
"""Inches of a line of an axis of names, and of the legend."""
LEGEND_LINES = 4
"""Of the legend, for which there is room below any figure."""
ENTRY, LETTER = 0.7, 0.08
"""Inches that the sample of a line of the legend takes, and a letter of its name."""
COLUMN = 5.0
"""Inches below which a figure is for one column of a page, whose type is smaller."""
TYPE, SMALL_TYPE = 10.0, 8.0
"""Points."""
NARROWEST = 1.6
"""Inches of a panel."""
BESIDE, MOST_BESIDE = 2.5, 12.0
"""Points between the bars of series that have one x, and of all of them together at most."""
MARGIN = 0.4
"""Inches beside an axis x, in its panel."""
LEAST_ROOM, ROOM = 1.02, 1.05
"""Of an axis from 0, in what is highest on it: with less a mark is cut off, and it gets the latter."""
LINES_OF_A_PANEL = 3
"""Its title, and below its axis x the marks and the label."""
DIGITS = ((1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
"""Where marks of a logarithmic axis may be, from many to few."""
MORE = 4
SAME_FORMAT = {"jpeg": "jpg", "tiff": "tif"}
USUAL = Paper()
MISSING = re.compile(r"Glyph (\d+) .*missing from font")
DESCRIPTION = {("pdf", "Description"): "Subject"}


class Drawn(Figure):
    """A figure that a notebook shows, without pyplot."""

    def _repr_png_(self) -> bytes:
        content = BytesIO()
        self.savefig(content, format="png")
        return content.getvalue()


def draw(chart: Chart, path: Path, name: str = "out", paper: Paper = USUAL, kind: str | None = None) -> None:
    """Draw a chart into a file.

    Args:
        name: of the flag that gave the path.
        kind: the format (pdf, png, svg); that of the path's ending when not given.

    Raises:
        ReportError: when it cannot be written, or has no room for what it shows.
    """
    about = {"Title": chart.title, "Description": chart.caption}
    save(drawn(chart, paper), path, name, about=about, kind=kind)


def drawn(chart: Chart, paper: Paper = USUAL) -> Figure:
    """A chart as a figure of matplotlib, which is none of pyplot's."""
    size = SMALL_TYPE if paper.width is not None and paper.width < COLUMN else TYPE
    with rc_context({"font.size": size, "lines.markersize": 0.6 * size, "lines.linewidth": 0.15 * size}):
        figure = _drawn(chart, paper, size / TYPE)
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    return figure


def _drawn(chart: Chart, paper: Paper, scale: float) -> Figure:
    lines, columns, width, height = _layout(chart, paper)
    letter, line = LETTER * scale, LINE * scale
    figure = Drawn(figsize=(width, height * lines), dpi=paper.dpi, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(lines, columns, sharex=chart.share_x, sharey=chart.share_y, squeeze=False).ravel()
    handles: dict[str, Any] = {}
    filled: set[str] = set()
    expected = {series.name for panel in chart.panels for series in panel.series if series.kind == "reference"}
    for place, (axes, panel) in enumerate(zip(grid, chart.panels, strict=False)):
        _draw_panel(figure, axes, panel, int(width / columns / letter))
        axes.tick_params(labelbottom=True)
        if not chart.share_y or place % columns == 0:
            axes.set_ylabel(panel.y.label)
        points = {series.name for series in panel.series if series.x and not series.hollow}
        marks = [*zip(*axes.get_legend_handles_labels(), strict=True)]
        first = {label: handle for handle, label in reversed(marks)}  # hollow marks come after the others of their name
        for _, label in marks:
            if label not in handles or label in points - filled:  # a line without points has another mark
                handles[label] = first[label]
        filled |= points
    for axes in grid[len(chart.panels) :]:
        axes.set_visible(False)
    title = textwrap.wrap(chart.title, int(width / letter))
    figure.suptitle("\n".join(title), fontsize="large" if width >= COLUMN and len(chart.title) < 60 else "medium")
    names = sorted(handles, key=lambda name: name in expected)
    below = _legend(figure, {name: handles[name] for name in names}, width / scale) if names else 0
    outside = 1.1 + line * max(below - LEGEND_LINES, 0) if paper.width is None else line * (len(title) + below + 1)
    figure.set_figheight(paper.height or height * lines + outside)
    names_beside = max((len(name) for panel in chart.panels for name in panel.y.names or ()), default=0)
    room = (
        (width / columns - MARGIN) / letter - names_beside,
        ((figure.get_figheight() / line - len(title) - below) / lines) - LINES_OF_A_PANEL,
    )
    for axes, panel in zip(grid, chart.panels, strict=False):  # when all is drawn: axes that are shared have one end
        _from_zero(axes, panel)
        for which, axis, free in (("x", panel.x, room[0]), ("y", panel.y, room[1])):
            if axis.log == 10 and axis.ticks is None and panel.heat is None:
                _decades(axes, which, free)
    return figure


def _layout(chart: Chart, paper: Paper) -> tuple[int, int, float, float]:
    """Rows and columns of panels, the width of the figure and the height of a row, in inches."""
    number = len(chart.panels)
    named = max(len(panel.y.names or ()) for panel in chart.panels)
    height = 1 + LINE * named if named else 3.4
    if paper.width is None:
        lines, columns = rows_and_columns(number)
        wide = 3.4 if chart.share_y else 3.8
        return lines, columns, 1.4 + wide * columns if number > 1 else 8.0 if named else 6.4, height
    lines, columns = rows_and_columns(number, int(min(max(paper.width // NARROWEST, 1), PANELS_IN_A_ROW)))
    return lines, columns, paper.width, height if named else min(height, 0.4 + 0.75 * paper.width / columns)


def _legend(figure: Figure, handles: Mapping[str, Any], width: float) -> int:
    """The legend below a figure; how many lines it has.

    Args:
        width: of the figure, in inches of usual type.
    """
    told = ["\n".join(textwrap.wrap(name, int((width - ENTRY) / LETTER))) for name in handles]
    across = max(1, min(len(told), int(width / (ENTRY + LETTER * max(map(len, told))))))
    figure.legend(handles.values(), told, loc="outside lower center", ncols=across, frameon=False)
    return max(
        sum(name.count("\n") + 1 for name in told[start : start + -(-len(told) // across)])
        for start in range(0, len(told), -(-len(told) // across))
    )


def _draw_panel(figure: Figure, axes: Axes, panel: Panel, letters: int) -> None:
    if panel.heat is not None:
        _draw_heat(figure, axes, panel.heat)
    if panel.y.names is not None:
        axes.set_yticks(range(len(panel.y.names)), panel.y.names, fontsize="small")
        axes.set_ylim(len(panel.y.names) - 0.5, -0.5)
    shifts = _shifts(panel)
    for place, series in enumerate(panel.series):
        _draw_series(axes, series, panel.y.names, shifts.get(place, 0.0))
    if panel.title:
        told = [line for part in panel.title.split("\n") for line in textwrap.wrap(part, letters)]
        axes.set_title("\n".join(told), fontsize="medium")
    axes.set_xlabel(panel.x.label)
    if panel.heat is None:
        _scale(axes, "x", panel.x)
        _scale(axes, "y", panel.y)
        if panel.x.log is None and panel.x.ticks is None and _counted(panel):
            axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        axes.grid(alpha=0.25)


def _counted(panel: Panel) -> bool:
    """Whether all places along x are whole numbers, and stand to scale."""
    places = [x for series in panel.series for x in series.x if series.kind != "reference"]
    to_scale = all(series.kind != "bars" for series in panel.series)
    return to_scale and all(not isinstance(x, str) and float(x).is_integer() for x in places)


def _scale(axes: Axes, which: str, axis: Axis) -> None:
    if axis.log is not None:
        getattr(axes, f"set_{which}scale")("log", base=axis.log)
    if axis.ticks is not None:
        ruler = getattr(axes, f"{which}axis")
        ruler.set_major_locator(FixedLocator(axis.ticks))
        ruler.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ruler.set_minor_locator(NullLocator())


def _from_zero(axes: Axes, panel: Panel) -> None:
    """Axes from 0. A margin is part of what the data span: far from 0 it is too small for a mark."""
    for which, axis, highest in zip("xy", (panel.x, panel.y), axes.dataLim.max, strict=True):
        if axis.from_zero:
            _, end = getattr(axes, f"get_{which}lim")()
            short = end <= LEAST_ROOM * highest < math.inf  # no number where nothing is drawn
            getattr(axes, f"set_{which}lim")(0, ROOM * highest if short else end)


def _decades(axes: Axes, which: str, room: float) -> None:
    """Marks at the same digits of each decade, as many as there is room for, as plain numbers.

    Args:
        room: of the axis: letters along x, lines along y.
    """
    low, high = getattr(axes, f"get_{which}lim")()
    ruler, span = getattr(axes, f"{which}axis"), math.log10(high / low)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in DIGITS:
        marks = [mark for power in powers for digit in digits if low <= (mark := digit * 10.0**power) <= high]
        places = [room * math.log10(mark) / span for mark in marks]
        wide = max((len(plain(mark)) for mark in marks), default=0) + 1 if which == "x" else 1
        if len(marks) > 1 and all(second - first > wide for first, second in pairwise(places)):
            ruler.set_major_locator(FixedLocator(marks))
            break
    else:
        few = len(marks) < MORE  # a part of a decade; or so many decades that some have no mark
        ruler.set_major_locator(MaxNLocator(MORE) if few else LogLocator(numticks=MORE))
    ruler.set_major_formatter(FuncFormatter(lambda value, _: plain(float(f"{value:.6g}"))))
    ruler.set_minor_locator(NullLocator())


def _shifts(panel: Panel) -> dict[int, float]:
    """Points by which bars stand beside their marks, by their series' place: those of several at one x would be one."""
    barred = [
        place
        for place, series in enumerate(panel.series)
        if series.kind in ("line", "points") and series.low is not None and not series.faint
    ]
    places = Counter(x for place in barred for x in set(panel.series[place].x))
    barred = [place for place in barred if any(places[x] > 1 for x in panel.series[place].x)]
    if panel.y.names is not None or not barred:
        return {}
    step = min(BESIDE, MOST_BESIDE / len(barred))
    return {place: step * (number - (len(barred) - 1) / 2) for number, place in enumerate(barred)}


def _draw_series(axes: Axes, series: Series, names: tuple[str, ...] | None = None, shift: float = 0.0) -> None:
    """Draw a series.

    Args:
        names: of the axis y, where it has names.
        shift: points by which its bars move to the right; marks stay where they were measured.
    """
    aside = axes.transData + ScaledTranslation(shift / 72, 0, axes.figure.dpi_scale_trans)
    color = COLORS[series.group % len(COLORS)]
    label = None if series.faint else series.name
    x, y = list(series.x), np.array(series.y if names is None else [names.index(str(y)) for y in series.y], dtype=float)
    match series.kind:
        case "band":
            low, high = _ends(series)
            if series.low is not None:
                axes.fill_between(x, low, high, color=color, alpha=0.08, linewidth=0)
                for end in (low, high):  # areas over each other are one grey: their ends tell them apart
                    axes.plot(x, end, color=color, linestyle=":", linewidth=0.8)
            axes.plot(x, y, color=color, linestyle="--", linewidth=1.2, label=label)
        case "bars":
            width = 0.8 if series.width is None else series.width
            axes.bar(_categories(series), y, width=width, color=color, label=label, alpha=0.7)
        case "reference":
            alone: dict[str, Any] = {"marker": "_"} if len(x) == 1 else {}  # a line of one point is not seen
            axes.plot(x, y, color="0.3", linestyle=("--", ":", "-.", "-")[series.group % 4], label=label, **alone)
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
        known = np.isfinite(low) & np.isfinite(high) & np.isfinite(y)
        at, lines = (np.array(_categories(series)), axes.vlines) if names is None else (y, axes.hlines)
        bars = lines(at[known], low[known], high[known], color=color if series.kind != "bars" else "0.2", alpha=0.6)
        bars.set_transform(aside)


def _categories(series: Series) -> list[Any]:
    """Where bars stand: beside each other, or to scale where they have a width."""
    return [str(place) for place in series.x] if series.kind == "bars" and series.width is None else list(series.x)


def _ends(series: Series) -> tuple[np.ndarray, np.ndarray]:
    nothing = [None] * len(series.x)
    return np.array(series.low or nothing, dtype=float), np.array(series.high or nothing, dtype=float)


def _draw_heat(figure: Figure, axes: Axes, heat: Heat) -> None:
    numbers = np.array(heat.z, dtype=float)
    low, high = heat.ends
    image = axes.imshow(numbers, origin="lower", aspect="auto", cmap="cividis", vmin=low, vmax=high)
    axes.set_xticks(range(len(heat.x)), [_short(place) for place in heat.x])
    axes.set_yticks(range(len(heat.y)), [_short(place) for place in heat.y])
    middle = (low + high) / 2
    for row, texts in enumerate(heat.texts):
        for column, text in enumerate(texts):
            dark = np.isfinite(numbers[row, column]) and numbers[row, column] < middle
            color = "white" if dark else "black"
            axes.text(column, row, text, ha="center", va="center", color=color, fontsize="x-small")
    figure.colorbar(image, ax=axes, label=heat.label)


def _short(place: float | str) -> str:
    return place if isinstance(place, str) else f"{place:g}"


def check_writable(path: Path, name: str = "figure", kind: str | None = None) -> None:
    """Refuse a figure's path before hours of work are done for it.

    Args:
        name: of the flag that gave the path.
        kind: the format; that of the path's ending when not given.

    Raises:
        ReportError: for a format that there is not, one that contradicts the path's ending, or a path that no file can
            be written to.
    """
    formats = FigureCanvasAgg(Figure()).get_supported_filetypes().keys() - {"pgf"}  # which asks for LaTeX
    ending = path.suffix[1:].lower()
    if kind is not None and kind not in formats:
        raise ReportError(f"format: one of {', '.join(sorted(formats))}, got {shown(kind)}")
    if kind is None and ending not in formats:
        raise ReportError(f"{name}: should end in one of .{', .'.join(sorted(formats))}, got {path}")
    if kind is not None and ending in formats and SAME_FORMAT.get(ending, ending) != SAME_FORMAT.get(kind, kind):
        raise ReportError(f"format: {kind}, but {name} ends in .{ending}: {path}")
    outputs.check(path, name, BEGINS.get(kind or ending))


BEGINS = {
    ending: (begins, f"{ending.upper()} file")
    for ending, begins in {
        **{"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml", "svgz": b"\x1f\x8b", "eps": b"%!PS", "ps": b"%!PS"},
        **{"jpg": b"\xff\xd8", "jpeg": b"\xff\xd8", "gif": b"GIF8", "webp": b"RIFF", "tif": b"II*", "tiff": b"II*"},
    }.items()
}
"""How files of the usual formats begin: only such a file is overwritten."""


def save(
    figure: Figure,
    path: Path,
    name: str = "figure",
    about: Mapping[str, str] | None = None,
    kind: str | None = None,
) -> None:
    """Write a figure, whole or not at all; a $ in its texts is a letter.

    Args:
        name: of the flag that gave the path.
        about: Title and Description, which PDF (as Subject), PNG and SVG carry.
        kind: the format; that of the path's ending when not given.

    Raises:
        ReportError: when it cannot be written.

    Warns (`LettersMissing`) of letters that its font lacks.
    """
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    kind = kind or path.suffix[1:].lower()
    carried = {DESCRIPTION.get((kind, key), key): text for key, text in (about or {}).items()}
    content = BytesIO()  # a disk that is full is not matplotlib's to tell: it says something else
    # marks are made as it is drawn
    with rc_context({"text.parse_math": False}), warnings.catch_warnings(record=True) as said:
        warnings.filterwarnings("error", message="constrained_layout not applied")
        warnings.filterwarnings("always", message=MISSING.pattern)
        try:
            figure.savefig(content, format=kind, metadata=carried if kind in ("pdf", "png", "svg") else None)
        except UserWarning:
            sides = " by ".join(f"{side:g}" for side in figure.get_size_inches())
            raise ReportError(f"{name}: {sides} inches have no room for this figure; give it more") from None
        except ValueError as error:  # of a format that there is not
            raise ReportError(f"{name}: cannot write {path}: {error}") from None
    outputs.write(path, content.getvalue(), name)
    missing = [found[1] for one in said if (found := MISSING.match(str(one.message)))]
    if letters := " ".join(sorted({chr(int(code)) for code in missing})):
        warnings.warn(f"{name}: its font has no {letters}: boxes stand for them", LettersMissing, stacklevel=2)
    for one in said:
        if not MISSING.match(str(one.message)):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
