"""The figure of a memory's probes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from capax.figures.drawing import MARKERS, save
from capax.figures.looks import COLORS
from capax.probes.probe import Probes
from capax.probes.shares import Share
from capax.specs import Sequences

CHANCE: dict[str, Any] = {"color": "0.3", "linestyle": ":", "label": "by luck"}
NAMED_HEADS = 16
"""Heads that have room for their names."""
MARKED_POINTS = 32
"""Points of a curve that have room for markers."""


def draw_probes(found: Probes, path: Path) -> None:
    """Recall against cue, recall against corruption, symmetry of each head, recall without each head or position.

    Raises:
        ReportError: when the file cannot be written.
    """
    task = found.spec.task
    assert isinstance(task, Sequences)
    figure = Figure(figsize=(11, 7.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 12)
    _draw_cue(found, figure.add_subplot(grid[0, :6]))
    _draw_basin(found, figure.add_subplot(grid[0, 6:]))
    _draw_symmetry(found, figure.add_subplot(grid[1, :4]))
    _draw_heads(found, figure.add_subplot(grid[1, 4:8]))
    _draw_positions(found, figure.add_subplot(grid[1, 8:]))
    figure.suptitle(
        f"Run {found.key[:12]}: {found.recalled} of {found.library_size} sequences of {task.seq_len} tokens recalled "
        f"(bars and bands: {found.level:.0%})"
    )
    save(figure, path)


def _draw_cue(found: Probes, panel: Axes) -> None:
    points = found.cue.points
    lengths = [point.length for point in points]
    items = found.cue.items
    _curve(panel, lengths, [point.recalled for point in points], 0, "whole rest right")
    error = [point.error for point in points]
    panel.plot(lengths, error, color=COLORS[1], **_marker(1, error), label="wrong tokens in the rest")
    panel.plot(
        lengths,
        [point.possible / items for point in points],
        color="0.3",
        linestyle="--",
        label="possible for any predictor",
    )
    panel.plot(lengths, [point.chance for point in points], **CHANCE)
    if found.cue.median is not None:
        label = f"median minimum cue: {found.cue.median:g}"
        panel.axvline(found.cue.median, color="0.6", linewidth=1, label=label)
    _shares(panel, "first tokens given", f"share of {items} items, of tokens")
    panel.set_title("Cue")


def _draw_basin(found: Probes, panel: Axes) -> None:
    points = found.basin.points
    corrupted = [point.corrupted for point in points]
    _curve(panel, corrupted, [point.last for point in points], 0, "last token right")
    whole = [point.whole for point in points if point.whole is not None]
    if whole:
        _curve(panel, corrupted, whole, 1, "every token right")
    panel.axhline(found.basin.chance, **CHANCE | {"label": "last token by luck"})
    panel.axhline(0.5, color="0.6", linewidth=1)
    if found.basin.radius is not None:
        panel.axvline(found.basin.radius, color="0.6", linewidth=1, label=f"radius {found.basin.radius}")
    _shares(panel, "corrupted tokens of the prefix", "share of trials")
    panel.set_title("Corruption")


def _draw_symmetry(found: Probes, panel: Axes) -> None:
    symmetry = found.symmetry
    places = np.arange(1, len(symmetry.heads) + 1)
    middle, spread = symmetry.random, 2 * symmetry.random_deviation
    panel.axhspan(max(middle - spread, -1), min(middle + spread, 1), color="0.9", label="random (±2 sd)")
    panel.axhline(0, color="0.6", linewidth=1)
    before = [np.nan if head.initial is None else head.initial for head in symmetry.heads]
    after = [np.nan if head.eta is None else head.eta for head in symmetry.heads]
    style: dict[str, Any] = {"linestyle": "none", "markersize": 6}
    panel.plot(places, before, color="0.4", marker="o", markerfacecolor="none", label="before training", **style)
    panel.plot(places, after, color=COLORS[0], marker="o", label="trained", **style)
    _name_heads(panel, [(head.layer, head.head) for head in symmetry.heads])
    low, high = panel.get_ylim()
    panel.set_ylim(max(low, -1.05), min(high + 0.25 * (high - low), 1.3))
    panel.set_ylabel("η (1: symmetric, −1: antisymmetric)")
    panel.legend(fontsize="small", frameon=False)
    panel.grid(alpha=0.25)
    panel.set_title("Symmetry of W_Q W_Kᵀ")


def _draw_heads(found: Probes, panel: Axes) -> None:
    heads = found.ablation.heads
    _dots(panel, list(range(1, len(heads) + 1)), [head.kept for head in heads], 0)
    panel.axhline(found.ablation.chance, **CHANCE)
    _name_heads(panel, [(head.layer, head.head) for head in heads])
    _shares(panel, panel.get_xlabel(), f"share of {found.ablation.items} items still recalled", whole=False)
    panel.set_title("One head removed")


def _draw_positions(found: Probes, panel: Axes) -> None:
    positions = found.ablation.positions
    _dots(panel, [one.position for one in positions], [one.kept for one in positions], 1)
    panel.axhline(found.ablation.chance, **CHANCE)
    _shares(panel, "position", "share of trials that recall")
    panel.set_title("One token replaced")


def _curve(panel: Axes, x: list[int], shares: list[Share], color: int, label: str) -> None:
    panel.fill_between(
        x, [one.low for one in shares], [one.high for one in shares], color=COLORS[color], alpha=0.2, linewidth=0
    )
    panel.plot(x, [one.rate for one in shares], color=COLORS[color], **_marker(color, shares), label=label)


def _marker(place: int, points: Sequence[object]) -> dict[str, Any]:
    return {"marker": MARKERS[place], "markersize": 4} if len(points) <= MARKED_POINTS else {}


def _dots(panel: Axes, x: list[int], shares: list[Share], color: int) -> None:
    rates = np.array([one.rate for one in shares])
    ends = np.array([[one.rate - one.low for one in shares], [one.high - one.rate for one in shares]]).clip(0)
    panel.errorbar(x, rates, ends, color=COLORS[color], marker=MARKERS[color], markersize=4, linestyle="none")


def _name_heads(panel: Axes, heads: list[tuple[int, int]]) -> None:
    panel.set_xlim(0.4, max(len(heads), 1) + 0.6)
    if len(heads) <= NAMED_HEADS:
        panel.set_xticks(range(1, len(heads) + 1), [f"{layer}.{head}" for layer, head in heads])
        panel.set_xlabel("layer.head")
    else:
        panel.set_xlabel("heads, layer by layer")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))


def _shares(panel: Axes, x: str, y: str, whole: bool = True) -> None:
    panel.set(xlabel=x, ylabel=y, ylim=(-0.03, 1.03))
    panel.yaxis.set_major_formatter(PercentFormatter(1))
    if whole:
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.grid(alpha=0.25)
    panel.legend(fontsize="small", frameon=False)
