"""F1 against the total key dimension (Adler 2025, arXiv 2509.22840, Fig. 1), as data."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import t as student

from capax.figures.cells import GRAPH, cell, of_relations, powers
from capax.figures.chart import Axis, Chart, Panel, Series
from capax.figures.groups import Group, alike
from capax.figures.lines import or_error, titled
from capax.figures.words import of_heads
from capax.laws.law import Law
from capax.measures.replay import trainings
from capax.results import HeadCount, Measurement
from capax.specs import Budget, Mac

LEVEL = 0.95
FEWEST = 3
"""Trainings that an interval of their mean is given for."""
MOST_PANELS = 8
TARGET = 0.99


def f1(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 1: F1 against the total key dimension, a line per number of heads, a panel per graph and width."""
    charts = []
    varied = GRAPH | {"degree", "n_heads", "d_head"}
    for group in alike(of_relations(runs, Mac, Budget), varied):
        by_cell: dict[tuple[int, int, int], list[Measurement]] = defaultdict(list)
        for run in group.runs:
            by_cell[cell(run)].append(run)
        filled = {graph: found for graph, found in sorted(by_cell.items(), key=_hardest) if _sizes(found) > 1}
        shown = dict(list(filled.items())[:MOST_PANELS])
        if not shown:
            continue
        curves = {graph: _curves(found) for graph, found in shown.items()}
        heads = sorted({number for found in curves.values() for number in found})
        target = getattr(group.runs[0].spec.protocol, "target_f1", TARGET)
        charts.append(
            Chart(
                name="f1",
                title=titled("F1 against total key dimension", group),
                caption=f"Mean F1 over trainings; bars: 95 % intervals of the mean (Student's t), from {FEWEST} "
                f"trainings on. {_trained(group)} Dashed: the F1 that counts as recognized. Adler 2025 draws this in "
                "Fig. 1, for 10 trainings; its numbers are not known to us." + _left_out(len(filled), "graphs"),
                panels=tuple(
                    Panel(
                        title=_titled(graph),
                        x=powers("total key dimension D_K", [size for line in lines.values() for size in line]),
                        y=Axis(label="F1", from_zero=True),
                        series=(
                            *(_f1_line(lines.get(number, {}), heads.index(number), number) for number in heads),
                            _across([size for line in lines.values() for size in line], target, f"F1 {target:g}"),
                        ),
                    )
                    for graph, lines in curves.items()
                ),
            )
        )
    return or_error(charts, "no graph whose channel was trained at two or more sizes")


def _sizes(runs: list[Measurement]) -> int:
    """Different sizes of the channel; a search has tried several."""
    if any(isinstance(run.spec.protocol, Budget) for run in runs):
        return 2
    return len({run.total_key_dim for run in runs})


def _curves(runs: list[Measurement]) -> dict[int, dict[int, list[float]]]:
    """F1 of every training by number of heads and total key dimension.

    Of searches that this version cannot follow, there are only the sizes that they found.
    """
    found: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if isinstance(run.spec.protocol, Mac):
            assert run.n_heads is not None
            assert run.total_key_dim is not None
            found[run.n_heads][run.total_key_dim] += [member.metrics["f1"] for member in run.members]
            continue
        for count in _counts(run, trainings(run) is None):
            found[count.n_heads][count.total_key_dim or 0].append(count.f1)
        for n_heads, done in (trainings(run) or {}).items():
            for one in done:
                found[n_heads][n_heads * one.d_head].append(one.f1)
    return found


def _counts(run: Measurement, wanted: bool) -> list[HeadCount]:
    return [count for count in run.per_heads or () if wanted and count.total_key_dim is not None]


def _f1_line(line: dict[int, list[float]], place: int, n_heads: int) -> Series:
    sizes = sorted(line)
    each = [np.array(line[size]) for size in sizes]
    half = [_half_width(values) for values in each]
    means = [float(values.mean()) for values in each]
    return Series(
        name=of_heads(n_heads),
        kind="line",
        x=tuple(sizes),
        y=tuple(means),
        low=tuple(None if h is None else max(mean - h, 0.0) for mean, h in zip(means, half, strict=True)),
        high=tuple(None if h is None else min(mean + h, 1.0) for mean, h in zip(means, half, strict=True)),
        texts=tuple(
            f"D_K {size}, {of_heads(n_heads)}: F1 {mean:.3f} over {len(values)} training{'s' * (len(values) != 1)}"
            for size, mean, values in zip(sizes, means, each, strict=True)
        ),
        group=place,
    )


def _half_width(values: np.ndarray) -> float | None:
    if len(values) < FEWEST:
        return None
    return float(values.std(ddof=1) / math.sqrt(len(values)) * student.ppf((1 + LEVEL) / 2, len(values) - 1))


def _trained(group: Group) -> str:
    if isinstance(group.runs[0].spec.protocol, Budget):
        return "Every training of the searches: graph, vectors and weights were drawn anew in each."
    return "Restarts: the graph is the same, the weights are drawn anew; runs of other seeds have other graphs."


def _hardest(item: tuple[tuple[int, int, int], Any]) -> tuple[float, tuple[int, int, int]]:
    (edges, items, width), _ = item
    return -edges / width, (edges, items, width)


def _titled(graph: tuple[int, int, int]) -> str:
    edges, items, width = graph
    return f"{items} items{'' if edges == items else f', {edges} edges'}, d_model {width}"


def _left_out(number: int, what: str) -> str:
    return "" if number <= MOST_PANELS else f" {MOST_PANELS} of {number} {what}, those of most edges a channel."


def _across(x: Sequence[float], y: float, name: str) -> Series:
    return Series(name=name, kind="reference", x=(min(x), max(x)), y=(y, y))
