"""Runs of a study in groups, and what they count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from capax.papers.evidence import field
from capax.papers.recipe import Evidence, Unjudged
from capax.protocols import units
from capax.results import Measurement

SATURATED = 0.9
"""Share of a library from which on its size, and not the model, sets the count (ours)."""


def grouped(runs: Iterable[Measurement], key: Callable[[Measurement], Any]) -> dict[Any, list[Measurement]]:
    """Runs of each value, rising."""
    groups = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return dict(sorted(groups.items()))


def by_width(runs: Iterable[Measurement]) -> dict[int, list[Measurement]]:
    """Runs of each width, rising."""
    return grouped(runs, lambda run: field(run, "d_model"))


def counts(runs: Iterable[Measurement]) -> np.ndarray:
    """What each restart recalled, above chance."""
    each = [
        units.above_chance(memorized, run.chance, run.library_size)
        for run in runs
        for memorized in run.memorized_per_restart
    ]
    return np.array(each, float)


def full(run: Measurement) -> bool:
    """Whether the library's size sets the count, which then is a lower bound of what the network holds."""
    return run.memorized >= SATURATED * run.library_size


def above_chance(of: Evidence) -> list[Measurement]:
    """Those that recalled more than chance does.

    Raises:
        Unjudged: where there is none.
    """
    runs = [run for run in of.runs if run.above_chance]
    if not runs:
        raise Unjudged("nothing was recalled above chance")
    return runs


def spans_saturation(runs: Iterable[Measurement]) -> None:
    """That some count is set by the library: before that nobody sees where a line ends.

    Raises:
        Unjudged: where none is.
    """
    most = max(run.memorized / run.library_size for run in runs)
    if most < SATURATED:
        raise Unjudged(f"no width of the grid saturates: at most {most:.0%} of a library is recalled")


def not_full(runs: Iterable[Measurement]) -> None:
    """That no library's size sets a count.

    Raises:
        Unjudged: where one does.
    """
    for run in filter(full, runs):
        count = f"{run.memorized} of {run.library_size}"
        raise Unjudged(f"a library was as good as full ({count}): its size is then what is compared")


def on_plateaus(runs: Sequence[Measurement]) -> None:
    """That no training was cut off: the paper's end where nothing improves any more.

    Raises:
        Unjudged: where a budget ended one.
    """
    if cut := sum(run.stop_reason == "budget" for run in runs):
        raise Unjudged(f"{cut} of {len(runs)} trainings that should end on a plateau ended at a budget")
