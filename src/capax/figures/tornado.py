"""The figure of a sensitivity study: how far a number moves with each choice, the widest first."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from capax.errors import ReportError
from capax.figures.drawing import USUAL, save
from capax.figures.looks import COLORS
from capax.probes.choices import text
from capax.probes.sensitivity import Alternative, Choice, Sensitivity

NUMBERS = {
    "memorized_above_chance": "memorized above chance",
    "total_key_dim": "total key dimension D_K* that suffices",
}
"""What is compared, on an axis."""
LETTER = 0.012
"""Width of a letter of a label, as a share of the axis."""
DOTS: dict[bool | None, tuple[str, dict[str, Any]]] = {
    True: ("beyond noise", {"marker": "o"}),
    False: ("within noise", {"marker": "o", "markerfacecolor": "white"}),
    None: ("noise not known", {"marker": "x"}),
}


def draw_tornado(found: Sensitivity, path: Path, title: str) -> None:
    """A bar per choice, from the base's number to the lowest and to the highest; a dot per alternative; the interval.

    Alternatives have intervals of their own where verdicts rest on them (searches).

    Raises:
        ReportError: when the base has no number, or the file cannot be written.
    """
    base = found.number
    if base is None:
        raise ReportError("figure: nothing to draw, no head size is enough for the base")
    figure = Figure(figsize=(8, 2.2 + 0.75 * len(found.choices)), dpi=USUAL.dpi, layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    every = [one for choice in found.choices for one in _shown(choice)]
    band = (found.interval.low, found.interval.high) if found.interval else ()
    numbers = [
        base,
        *(one.number for one in every if one.number is not None),
        *(end for end in band if end is not None),
    ]
    room = 0.08 * (max(numbers) - min(numbers) or 1)
    left, right = min(numbers) - room, max(numbers) + room
    panel.set_xlim(left, right)
    if found.interval is not None:
        high = right if found.interval.high is None else found.interval.high
        of_base = f"{found.interval.level:.0%} interval of the base"
        panel.axvspan(found.interval.low, high, color="0.5", alpha=0.2, linewidth=0, label=of_base)
    panel.axvline(base, color="0.3", label=f"base: {base:.4g}")
    own = not found.spec.protocol.one_library
    for place, choice in enumerate(found.choices):
        _draw_bar(panel, place, _shown(choice), base, own)
    for verdict, (words, looks) in DOTS.items():
        if any(one.beyond_noise is verdict for one in every):
            panel.plot([], [], color="0.2", linestyle="none", label=words, **looks)
    if own and every:
        panel.plot([], [], color="0.2", linewidth=1, label="its own interval")
    panel.set_yticks(range(len(found.choices)), list(map(_bar_label, found.choices)))
    panel.set_ylim(len(found.choices) - 0.4, -0.75)
    panel.set_xlabel(NUMBERS[found.compared])
    panel.grid(alpha=0.25, axis="x")
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 3), frameon=False)
    figure.suptitle("\n".join(textwrap.wrap(title, 90)), fontsize="medium")
    save(figure, path, "figure")


def _shown(choice: Choice) -> list[Alternative]:
    return [one for one in choice.alternatives if one.number is not None]


def _draw_bar(panel: Axes, place: int, shown: Sequence[Alternative], base: float, own: bool) -> None:
    left, right = panel.get_xlim()
    numbers = [one.number for one in shown if one.number is not None]
    for color, end in ((COLORS[1], min((base, *numbers))), (COLORS[0], max((base, *numbers)))):
        panel.barh(place, end - base, left=base, height=0.4, color=color, alpha=0.6)
    spread = 0.24 / len(shown) if own and shown else 0.0  # intervals side by side
    for order, (one, number) in enumerate(zip(shown, numbers, strict=True)):
        height = place + spread * (order - (len(shown) - 1) / 2)
        panel.plot(number, height, color="0.2", zorder=3, **DOTS[one.beyond_noise][1])
        if own and one.interval is not None:
            high = right if one.interval.high is None else one.interval.high
            panel.plot([max(one.interval.low, left), min(high, right)], [height, height], color="0.2", linewidth=1)
    labelled = [(number, text(one.value)) for one, number in zip(shown, numbers, strict=True)]
    for middle, label in labels(labelled, LETTER * (right - left)):
        words = panel.text(middle, place - 0.25, label, ha="center", fontsize="small")
        words.set_path_effects([withStroke(linewidth=3, foreground="white")])


def labels(values: Sequence[tuple[float, str]], letter: float) -> list[tuple[float, str]]:
    """Where labels are written: those that would run into each other as one label.

    Args:
        values: places, and what is written there.
        letter: width of a letter.
    """
    found: list[tuple[float, float, str]] = []
    for number, value in sorted(values):
        low, high, label = number, number, value
        while found and (low + high - found[-1][0] - found[-1][1]) < letter * (len(label) + len(found[-1][2]) + 2):
            low, _, before = found.pop()
            label = f"{before}, {label}"
        found.append((low, high, label))
    return [((low + high) / 2, label) for low, high, label in found]


def _bar_label(choice: Choice) -> str:
    without = [text(one.value) for one in choice.alternatives if one.number is None]
    none = f"\n({', '.join(without)}: none enough)" if without else ""
    return f"{choice.choice}\nbase {text(choice.base_value)}{none}"
