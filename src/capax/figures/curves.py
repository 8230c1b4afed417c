"""Training curves, of any task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Literal

import numpy as np

from capax.errors import ReportError
from capax.figures.chart import Axis, Chart, Panel, Series
from capax.figures.columns import SIZES, Column, in_words, sizes
from capax.figures.groups import Group, alike
from capax.figures.lines import each, titled
from capax.laws.law import Law
from capax.results import Measurement

FEWEST = 3
"""Evaluations that a line joins: between two of them nobody knows how it went."""
MOST_CURVES = 7
"""Runs whose curves are told apart in one figure."""
MOST_POINTS = 200
"""Points of a curve that is drawn."""


def training_curves(
    runs: Sequence[Measurement], law: Law | None, whole: Callable[[Measurement], Measurement] = lambda run: run
) -> list[Chart]:
    """Share of the library that is memorized, and loss, against epoch; the best restart of each run.

    Args:
        whole: gives a run with its curves, where those of the runs are cut short (`runs.read`).

    Raises:
        ReportError: without runs by protocol mac or capacity that were evaluated more than once.
    """
    taken = [run for run in runs if run.spec.protocol.one_library]
    varied = list(chain(*(column.varied for column in SIZES)))
    return each(alike(taken, varied), lambda group: _chart(group, whole), "no run by protocol mac or capacity")


def _chart(group: Group, whole: Callable[[Measurement], Measurement]) -> Chart:
    evaluated = [run for run in group.runs if any(len(one.curve.epoch) > 1 for one in run.members)]
    if not evaluated:
        raise ReportError("no run was evaluated more than once")
    columns = sizes(group.runs)
    chosen = sorted(_spread(evaluated), key=lambda run: [column(run) for column in columns])
    memorized: list[Series] = []
    loss: list[Series] = []
    names = _names(chosen, columns)
    for place, (name, run) in enumerate(zip(names, map(whole, chosen), strict=True)):
        best = max(run.members, key=lambda member: member.memorized)
        for member in run.members:
            curve, points = member.curve, _evenly(len(member.curve.epoch), MOST_POINTS)
            shares = tuple(curve.memorized[point] / member.library_size for point in points)
            for panel, heights in ((memorized, shares), (loss, tuple(curve.loss[point] for point in points))):
                epochs = tuple(float(curve.epoch[point]) for point in points)
                faint = member is not best
                kind: Literal["line", "points"] = "line" if len(points) >= FEWEST else "points"
                panel.append(Series(name=name, kind=kind, x=epochs, y=heights, group=place, faint=faint))
    unit = group.runs[0].spec.task.loss_unit
    in_unit = f", in {unit}" if unit else ""
    some = f"{len(chosen)} of {len(group.runs)} runs, evenly from the fewest memorized to the most. "
    epoch, share_axis = Axis(label="epoch"), Axis(label="share of the library memorized", from_zero=True)
    return Chart(
        name="curves",
        title=titled("Training curves", group),
        caption=f"{some if len(chosen) < len(group.runs) else ''}The restart that memorized most; faint: the others of "
        f"its run. Loss: mean training loss since the evaluation before{in_unit}. A run's count "
        "is that of its best evaluation. Fewer than three evaluations are not joined. Ours: no paper has such a "
        "figure.",
        panels=(
            Panel(title="memorized", x=epoch, y=share_axis, series=tuple(memorized)),
            Panel(title="loss", x=epoch, y=Axis(label="loss", from_zero=True), series=tuple(loss)),
        ),
        share_y=False,
    )


def _names(runs: Sequence[Measurement], columns: Sequence[Column]) -> list[str]:
    """What runs are called: by their sizes, with the seed where several have the same, or else by their keys."""
    names = [in_words(columns, [column(run) for column in columns]) for run in runs]
    for told in (lambda run: f"seed {run.spec.seed}", lambda run: run.key[:12]):
        often = Counter(names)
        names = [
            ", ".join(filter(None, [name, told(run)])) if often[name] > 1 or not name else name
            for name, run in zip(names, runs, strict=True)
        ]
    return names


def _spread(runs: list[Measurement]) -> list[Measurement]:
    """At most so many runs, evenly from the fewest memorized to the most."""
    ordered = sorted(runs, key=lambda run: run.memorized / run.library_size)
    return [ordered[place] for place in _evenly(len(ordered), MOST_CURVES)]


def _evenly(number: int, most: int) -> list[int]:
    """At most so many of so many places, the first and the last among them."""
    places: list[int] = np.unique(np.linspace(0, number - 1, min(number, most)).round().astype(int)).tolist()
    return places
