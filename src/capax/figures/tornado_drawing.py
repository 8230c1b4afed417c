"""How the figure of a sensitivity study is drawn (matplotlib, no screen needed)."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from capax.figures.drawing import save
from capax.figures.looks import COLORS
from capax.figures.tornado import Tornado, TornadoBar

NUMBERS = {
    "memorized_above_chance": "memorized above chance",
    "total_key_dim": "total key dimension $D_K$* that suffices",
}
"""What is compared, on an axis."""
LETTER = 0.012
"""Width of a letter of a label, as a share of the axis."""


def draw_tornado(shown: Tornado, path: Path, title: str) -> None:
    """A bar per choice, from the base's number to the lowest and to the highest; a dot per alternative; the interval.

    Raises:
        ReportError: when the file cannot be written.
    """
    figure = Figure(figsize=(8, 2.2 + 0.75 * len(shown.bars)), layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    numbers = [number for bar in shown.bars for number in bar.numbers] + [shown.base]
    numbers += [end for end in shown.band or () if end is not None]
    room = 0.08 * (max(numbers) - min(numbers) or 1)
    left, right = min(numbers) - room, max(numbers) + room
    panel.set_xlim(left, right)
    if shown.band is not None and shown.level is not None:
        low, high = shown.band
        of_base = f"{shown.level:.0%} interval of the base"
        panel.axvspan(low, right if high is None else high, color="0.5", alpha=0.2, linewidth=0, label=of_base)
    panel.axvline(shown.base, color="0.3", label=f"base: {shown.base:.4g}")
    for place, bar in enumerate(shown.bars):
        _draw_bar(panel, place, bar, shown.base)
    verdicts = {verdict for bar in shown.bars for verdict in bar.beyond_noise}
    for verdict, words in ((True, "beyond noise"), (False, "within noise"), (None, "noise not known")):
        if verdict in verdicts:
            panel.plot([], [], color="0.2", linestyle="none", label=words, **_dot(verdict))
    if any(bar.intervals for bar in shown.bars):
        panel.plot([], [], color="0.2", linewidth=1, label="its own interval")
    panel.set_yticks(range(len(shown.bars)), [_bar_label(bar) for bar in shown.bars])
    panel.set_ylim(len(shown.bars) - 0.4, -0.75)
    panel.set_xlabel(NUMBERS[shown.compared])
    panel.grid(alpha=0.25, axis="x")
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle("\n".join(textwrap.wrap(title, 90)), fontsize="medium")
    save(figure, path, "figure")


def _draw_bar(panel: Axes, place: int, bar: TornadoBar, base: float) -> None:
    left, right = panel.get_xlim()
    for color, end in ((COLORS[1], min((base, *bar.numbers))), (COLORS[0], max((base, *bar.numbers)))):
        panel.barh(place, end - base, left=base, height=0.4, color=color, alpha=0.6)
    count = len(bar.numbers)
    spread = 0.24 / count if bar.intervals else 0.0  # intervals side by side
    heights = [place + spread * (number - (count - 1) / 2) for number in range(count)]
    for number, verdict, height in zip(bar.numbers, bar.beyond_noise, heights, strict=True):
        panel.plot(number, height, color="0.2", zorder=3, **_dot(verdict))
    for own, height in zip(bar.intervals, heights[: len(bar.intervals)], strict=True):
        if own is not None:
            low, high = max(own[0], left), min(right if own[1] is None else own[1], right)
            panel.plot([low, high], [height, height], color="0.2", linewidth=1)
    for middle, label in _labels(bar, LETTER * (right - left)):
        words = panel.text(middle, place - 0.25, label, ha="center", fontsize="small")
        words.set_path_effects([withStroke(linewidth=3, foreground="white")])


def _labels(bar: TornadoBar, letter: float) -> list[tuple[float, str]]:
    """Where the alternatives' values are written: those that would run into each other as one label."""
    labels: list[tuple[float, float, str]] = []
    for number, value in sorted(zip(bar.numbers, bar.values, strict=True)):
        low, high, label = number, number, value
        while labels and (low + high - labels[-1][0] - labels[-1][1]) < letter * (len(label) + len(labels[-1][2]) + 2):
            low, _, before = labels.pop()
            label = f"{before}, {label}"
        labels.append((low, high, label))
    return [((low + high) / 2, label) for low, high, label in labels]


def _dot(beyond_noise: bool | None) -> dict[str, Any]:
    return {
        True: {"marker": "o"},
        False: {"marker": "o", "markerfacecolor": "white"},
        None: {"marker": "x"},
    }[beyond_noise]


def _bar_label(bar: TornadoBar) -> str:
    none = f"\n({', '.join(bar.without_number)}: none enough)" if bar.without_number else ""
    return f"{bar.choice}\nbase {bar.base_value}{none}"
