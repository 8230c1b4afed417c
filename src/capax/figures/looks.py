"""What figures look like, whoever draws them: matplotlib a file, plotly the page."""

from __future__ import annotations

from collections.abc import Sequence

COLORS = ("#005a94", "#b84500", "#008060", "#c9689f", "#c78700", "#2a9cd6", "#4d4d4d")
"""The hues of Okabe and Ito's palette, each with a contrast of 3 or more to white: told apart by colour-blind readers,
too."""
PANELS_IN_A_ROW = 4
MARKED_POINTS = 32
"""Points of a line that have room for marks."""


def rows_and_columns(number: int) -> tuple[int, int]:
    """How panels are laid out: rows as even as they can be."""
    lines = -(-number // PANELS_IN_A_ROW)
    return lines, -(-number // lines)


def plain(value: float) -> str:
    """A number on an axis: 20000 as 20k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size * (10 if letter == "k" else 1):
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def mark_of(group: int, marks: Sequence[str]) -> str:
    """The mark of a group: colours come round first, then with other marks."""
    return marks[(group + group // len(COLORS)) % len(marks)]
