"""Which heads of a trained layer attend to one token alone, on which examples (Mahdavi et al. 2024), as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capax.checks.saturation import Saturation, saturated, saturation
from capax.errors import ReportError
from capax.figures.chart import Axis, Chart, Heat, Panel, Series
from capax.laws.law import Law
from capax.results import Measurement

MOST_PATTERNS = 20
MOST_LAYERS = 4


def of_kept(kept: Mapping[str, Path], runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """A chart for each layer whose weights were kept; of many, of those that recalled most.

    Args:
        kept: stores that have weights, by the key of their run.
    """
    ours = [run for run in runs if run.key in kept and run.spec.model.runs_code is None]  # a page runs nobody's code
    layers = [run for run in ours if run.spec.task.reads == "examples"]
    if not layers:
        raise ReportError("no layer on associations whose weights were kept (measure with --keep-weights)")
    from capax.memory import load  # torch, which a page without them does not need

    charts: list[Chart] = []
    for run in sorted(layers, key=lambda run: -run.memorized)[:MOST_LAYERS]:
        memory: Any = load(run.key, kept[run.key])
        attention = memory.attention()
        charts.append(chart(saturation(attention), saturated(attention), run))
    return charts


def chart(found: Saturation, split: np.ndarray, run: Measurement) -> Chart:
    """Shares of examples by head, examples by how many heads saturate, and the map of both.

    Args:
        split: heads × examples, whether a head saturates.
        run: the run whose weights these are.
    """
    heads = tuple(str(head.head) for head in found.heads)
    patterns = Counter(tuple(column) for column in split.T.tolist()).most_common()
    shown = patterns[:MOST_PATTERNS][::-1]
    rest = sum(count for _, count in patterns[MOST_PATTERNS:])
    counts = range(len(found.examples_by_heads))
    return Chart(
        name="saturation",
        title=f"Saturated heads of {run.key[:12]} ({run.spec.task.items}; {run.memorized} of {run.library_size} "
        "recalled)",
        caption=f"A head saturates on an example where its largest attention weight is above {found.threshold:g} (the "
        "published code's criterion: .99). Left: the share of examples on which each does; middle: examples by how "
        "many do; right: which do so together, the most frequent patterns at the top, with their numbers of examples."
        + (f" {rest} examples have other patterns." if rest else "")
        + " Mahdavi et al. 2024 count saturated heads; their figure is not known to us.",
        panels=(
            Panel(
                title="each head",
                x=Axis(label="head"),
                y=Axis(label="share of examples", from_zero=True),
                series=(Series(name="saturated", kind="bars", x=heads, y=tuple(head.share for head in found.heads)),),
            ),
            Panel(
                title="heads together",
                x=Axis(label="heads that saturate"),
                y=Axis(label="examples", from_zero=True),
                series=(
                    Series(name="examples", kind="bars", x=tuple(map(str, counts)), y=found.examples_by_heads, group=1),
                ),
            ),
            Panel(
                title="patterns (● saturated)",
                x=Axis(label="head"),
                y=Axis(label="pattern: examples"),
                heat=Heat(
                    x=heads,
                    y=tuple(f"{len(shown) - place}: {count}" for place, (_, count) in enumerate(shown)),
                    z=tuple(tuple(map(float, pattern)) for pattern, _ in shown),
                    texts=tuple(tuple("●" if one else "" for one in pattern) for pattern, _ in shown),
                    label="saturated (1) or not (0)",
                ),
            ),
        ),
        share_y=False,
    )
