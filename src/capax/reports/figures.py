"""How figures are drawn (matplotlib, no screen needed)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, ScalarFormatter

from capax.errors import ReportError
from capax.laws.compare import Comparison
from capax.reports.data import WidthLine

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


def check_path(path: Path) -> None:
    """Refuse a path that no figure can be written to, before what it shows is computed.

    Raises:
        ReportError: for an ending that is no format, or a folder that is not there.
    """
    formats = FigureCanvasAgg(Figure()).get_supported_filetypes()
    if path.suffix[1:].lower() not in formats:
        raise ReportError(f"picture: should end in one of .{', .'.join(sorted(formats))}, got {path}")
    if path.is_dir() or not path.parent.is_dir():
        raise ReportError(f"picture: cannot write {path}: {'a folder' if path.is_dir() else 'no such folder'}")


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's ending.

    Raises:
        ReportError: when it cannot be written.
    """
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise ReportError(f"picture: cannot write {path}: {error}") from None
