"""How figures are drawn (matplotlib, no screen needed)."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, ScalarFormatter

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
    figure.savefig(path, dpi=150)
