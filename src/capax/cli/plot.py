"""Capacity against width in characters: a plot of a few dozen rows for terminals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from capax.text import counted

if TYPE_CHECKING:
    from capax.reports.watching import Point

MARKS = "o+x#@%&$"
COLOURS = ("cyan", "yellow", "magenta", "green", "red", "blue", "bright_white", "bright_black")
SEVERAL = "*"
X_NAME, Y_NAME = "width", "memorized"
LEAST_COLUMNS, LEAST_ROWS = 8, 3


@dataclass(frozen=True)
class Scatter:
    """A mark per run, another per head count; x is d_model (logarithmic), y the count, from 0. Fills its place."""

    points: Sequence[Point]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Axes, marks and a legend, as wide and high as the place."""
        heads = sorted({point.n_heads for point in self.points})
        legend = _legend(heads, options.max_width)
        rows = (options.height or options.size.height) - 3 - len(legend)
        top, steps = _scale(max((point.memorized for point in self.points), default=1))
        if rows <= 2 * steps:
            steps = 1
        ticks = {_row(step / steps, rows): f"{top * step / steps:g}" for step in range(steps + 1)}
        margin = max(map(len, (*ticks.values(), X_NAME))) + 1
        columns = options.max_width - margin - 1
        if columns < LEAST_COLUMNS or rows < LEAST_ROWS:
            yield Text("no room for a plot", no_wrap=True, overflow="crop")
            return
        widths = [point.d_model for point in self.points]
        low, high = math.log2(min(widths)), math.log2(max(widths))
        cells: dict[tuple[int, int], set[int]] = {}
        for point in self.points:
            place = _row(point.memorized / top, rows), _column(point.d_model, low, high, columns)
            cells.setdefault(place, set()).add(point.n_heads)
        bounds = sum(point.whole_library for point in self.points)
        note = f" ({counted(bounds, 'lower bound')})" if bounds else ""
        yield Text(Y_NAME + note, no_wrap=True, overflow="crop")
        for row in range(rows):
            line = Text(f"{ticks.get(row, ''):>{margin}}|")
            for column in sorted(column for there, column in cells if there == row):
                line.pad_right(margin + 1 + column - len(line))
                line.append_text(_mark(cells[row, column], heads))
            yield line
        yield Text(" " * margin + "+" + "-" * columns)
        yield Text(f"{X_NAME:<{margin + 1}}" + _labels(sorted(set(widths)), low, high, columns))
        yield from legend


def _row(share: float, rows: int) -> int:
    return rows - 1 - round(share * (rows - 1))


def _column(d_model: int, low: float, high: float, columns: int) -> int:
    """Marks keep off the axis and the end by a column; a single width stands in the middle."""
    share = (math.log2(d_model) - low) / (high - low) if high > low else 0.5
    return 1 + round(share * (columns - 3))


def _mark(there: set[int], heads: Sequence[int]) -> Text:
    if len(there) > 1:
        return Text(SEVERAL)
    place = heads.index(next(iter(there)))
    return Text(MARKS[place % len(MARKS)], COLOURS[place % len(COLOURS)])


def _labels(widths: Sequence[int], low: float, high: float, columns: int) -> str:
    """Widths below their marks: the ends, and of the others those that have room."""
    line = [" "] * columns
    ends = [widths[0], widths[-1]]
    for width in dict.fromkeys((*ends, *widths)):
        text = str(width)
        start = min(max(_column(width, low, high, columns) - len(text) // 2, 0), columns - len(text))
        if all(character == " " for character in line[max(start - 1, 0) : start + len(text) + 1]):
            line[start : start + len(text)] = text
    return "".join(line)


def _legend(heads: Sequence[int], width: int) -> list[Text]:
    """What each mark stands for, on as many lines as it takes."""
    parts = [
        Text.assemble(
            (MARKS[place % len(MARKS)], COLOURS[place % len(COLOURS)]),
            f" {counted(count, 'head') if count else 'heads unknown'}",
        )
        for place, count in enumerate(heads)
    ]
    if len(heads) > 1:
        parts.append(Text(f"{SEVERAL} several of them"))
    lines = [Text(no_wrap=True, overflow="crop")]
    for part in parts:
        if len(lines[-1]) and len(lines[-1]) + 2 + len(part) > width:
            lines.append(lines[0].blank_copy())
        lines[-1].append(" " if len(lines[-1]) else "").append_text(part).append("," if part is not parts[-1] else "")
    return lines


STEPS = {1: 5, 2: 4, 3: 3, 4: 4, 5: 5, 6: 3, 8: 4, 10: 5}
"""Round ends of an axis, and into how many round steps each is cut."""


def _scale(largest: int) -> tuple[float, int]:
    """The smallest round end that is at least the largest value, and its number of steps."""
    power = 10.0 ** math.floor(math.log10(max(largest, 1)))
    return next((end * power, steps) for end, steps in STEPS.items() if end * power >= largest)
