"""What figures look like, whoever draws them: matplotlib a file, plotly the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capax.errors import ReportError, shown

COLORS = ("#005a94", "#b84500", "#008060", "#c9689f", "#c78700", "#2a9cd6", "#4d4d4d")
"""The hues of Okabe and Ito's palette, each with a contrast of 3 or more to white: told apart by colour-blind readers,
too."""
PANELS_IN_A_ROW = 4
SIDES = (1.0, 40.0)
"""Inches of a side: from a thumbnail to a poster."""
DOTS = (30.0, 2400.0)
MOST_DOTS = 20_000
MARKED_POINTS = 32
"""Points of a line that have room for marks."""


def rows_and_columns(number: int, most: int = PANELS_IN_A_ROW) -> tuple[int, int]:
    """How panels are laid out: rows as even as they can be.

    Args:
        most: panels in a row.
    """
    lines = -(-number // most)
    return lines, -(-number // lines)


@dataclass(frozen=True)
class Paper:
    """The size of a printed figure; a side that is None follows from what the figure shows.

    Attributes:
        width: inches.
        height: inches.
        dpi: dots per inch.

    Raises:
        ReportError: for what no page or screen has.
    """

    width: float | None = None
    height: float | None = None
    dpi: float = 150

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn or seen, before anything is read."""
        for name, side in (("width", self.width), ("height", self.height)):
            if side is not None and not _between(side, SIDES):
                raise ReportError(f"{name}: {SIDES[0]:g} to {SIDES[1]:g} inches, got {shown(side)}")
        if not _between(self.dpi, DOTS):
            raise ReportError(f"dpi: {DOTS[0]:g} to {DOTS[1]:g} dots per inch, got {shown(self.dpi)}")
        for name, side in (("width", self.width), ("height", self.height)):
            if side is not None and side * self.dpi > MOST_DOTS:
                dots = f"{side:g} inches at {self.dpi:g} dpi are {side * self.dpi:.0f} dots"
                raise ReportError(f"{name}: at most {MOST_DOTS} dots, {dots}")


def _between(value: object, ends: tuple[float, float]) -> bool:
    return isinstance(value, int | float) and ends[0] <= value <= ends[1]


def plain(value: float) -> str:
    """A number on an axis: 20000 as 20k."""
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size * (10 if letter == "k" else 1):
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def mark_of(group: int, marks: Sequence[str]) -> str:
    """The mark of a group: colours come round first, then with other marks."""
    return marks[(group + group // len(COLORS)) % len(marks)]
