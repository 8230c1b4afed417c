"""How figures are drawn (matplotlib, no screen needed)."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import NullLocator, ScalarFormatter

from capax.errors import ReportError
from capax.laws.compare import Comparison
from capax.reports.data import Tornado, TornadoBar, WidthLine

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
"""Okabe and Ito's palette: told apart by colour-blind readers, too."""
MARKERS = ("o", "s", "^", "D", "v")


def draw_memorized_against_width(lines: list[WidthLine], path: Path, title: str) -> None:
    """A panel per length, a line per number of heads, a dot per restart, chance and library size dashed."""
    lengths = sorted({line.seq_len for line in lines})
    heads = sorted({line.n_heads for line in lines})
    figure = Figure(figsize=(1.2 + 3.6 * len(lengths), 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(lengths), sharey=True, squeeze=False)[0]
    for panel, length in zip(panels, lengths, strict=True):
        here = [line for line in lines if line.seq_len == length]
        for line in here:
            place = heads.index(line.n_heads) % len(COLORS)
            color, marker = COLORS[place], MARKERS[place]
            label = f"{line.n_heads} head{'s' * (line.n_heads > 1)}"
            panel.plot(line.widths, line.memorized, color=color, marker=marker, label=label)
            for width, counts in zip(line.widths, line.restarts, strict=True):
                panel.plot([width] * len(counts), counts, color=color, marker=".", linestyle="none", alpha=0.5)
        panel.plot([], [], color="0.5", marker=".", linestyle="none", label="each restart")
        panel.plot(here[0].widths, here[0].library_size, color="0.3", linestyle="--", label="library size")
        panel.plot(here[0].widths, here[0].chance, color="0.3", linestyle=":", label="by luck")
        panel.set_title(f"{length} tokens")
        panel.set_xscale("log", base=2)
        panel.set_xticks(here[0].widths)
        panel.xaxis.set_major_formatter(ScalarFormatter())
        panel.xaxis.set_minor_locator(NullLocator())
        panel.set_xlabel("width d_model")
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("memorized sequences")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(title)
    save(figure, path)


def draw_comparison(comparison: Comparison, path: Path) -> None:
    """A panel per law: what it says of configurations that were left out, against what was measured.

    Raises:
        ReportError: when no law could be fitted, or the file cannot be written.
    """
    shown = [score for score in comparison.scores if score.predicted_left_out is not None]
    if not shown:
        raise ReportError("picture: no law could be fitted with configurations left out")
    figure = Figure(figsize=(0.8 + 2.9 * len(shown), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(shown), sharex=True, sharey=True, squeeze=False)[0]
    counts, heads = np.array(comparison.counts), np.array(comparison.n_heads)
    ends = np.array([0.7 * counts.min(), 1.4 * counts.max()])
    for panel, score in zip(panels, shown, strict=True):
        predicted = np.clip(np.array(score.predicted_left_out), *ends)
        panel.plot(ends, ends, color="0.3", linewidth=1)
        for place, number in enumerate(np.unique(heads).tolist()):
            here = heads == number
            label = f"{number:g} head{'s' * (number > 1)}"
            style = {"color": COLORS[place % len(COLORS)], "marker": MARKERS[place % len(MARKERS)]}
            panel.plot(counts[here], predicted[here], linestyle="none", label=label, alpha=0.8, **style)
        panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="measured")
        panel.set_title(f"{score.law}: mean error {score.mape_left_out:.0%}")
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("predicted from the others")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle("Sequences memorized: each law against configurations left out of its fit")
    save(figure, path)


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


def check_writable(path: Path, name: str = "picture") -> None:
    """Refuse a figure's path before hours of work are done for it.

    Args:
        name: of the flag that gave the path.

    Raises:
        ReportError: for an ending that is no format, a folder that is not there, or a path that is not writable.
    """
    formats = FigureCanvasAgg(Figure()).get_supported_filetypes()
    if path.suffix[1:].lower() not in formats:
        raise ReportError(f"{name}: should end in one of .{', .'.join(sorted(formats))}, got {path}")
    if not path.parent.is_dir():
        raise ReportError(f"{name}: no such folder {path.parent}")
    new = not path.exists()
    try:
        with path.open("ab"):
            pass
        if new:
            path.unlink()
    except OSError as error:
        raise ReportError(f"{name}: cannot write {path}: {error.strerror}") from None


def save(figure: Figure, path: Path, name: str = "picture") -> None:
    """Write a figure in the format of the path's ending.

    Args:
        name: of the flag that gave the path.

    Raises:
        ReportError: when it cannot be written.
    """
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise ReportError(f"{name}: cannot write {path}: {error}") from None
