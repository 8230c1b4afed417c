"""Adaptive sweeps in rounds: the most informative runs are measured, and the law fitted to them says which are next."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from capax.laws.law import Law
from capax.results import Measurement
from capax.specs import Run
from capax.specs.spec import positive, whole
from capax.store import tables
from capax.sweeps.informative import _costs, _widening, candidate_table, columns_of, fitted_to, half_width, next_runs


def adaptive(
    law: Law,
    candidates: Sequence[Run],
    target: Any,
    run_batch: Callable[[list[Run]], Iterable[Measurement]],
    estimate: Callable[[Run], float],
    *,
    budget: float,
    count: int = 8,
    until: float | None = None,
    measured: Iterable[Measurement] = (),
) -> Iterator[Measurement]:
    """Measure the candidates that are most informative about the law at the target, in rounds; yield each measurement.

    It ends when the measurements' seconds reach the budget, when no candidate is left that is worth a run, or when the
    interval is narrow enough and no candidate would bring the target inside the law's domain. A run that would exceed
    what is left of the budget, as far as is known, is not begun. Costs are estimates at first; then they are scaled by
    the median of measured over estimated seconds. A candidate is tried once: one that `run_batch` returns no
    measurement of is not tried again.

    Args:
        law: the law to be; it is not changed.
        candidates: runs to choose from, of one protocol.
        target: a table with the law's columns: the architectures whose prediction is wanted.
        run_batch: measures runs; it yields each measurement when it is done.
        estimate: seconds that a run will take.
        budget: seconds of measurements, those of `measured` not among them.
        count: runs in a round.
        until: the `half_width` at the target that is enough.
        measured: what is known before.

    Raises:
        SpecError: without candidates, or when budget, count or an estimate is not positive.
        TableError: when the target lacks a column of the law.
    """
    check(budget, until)
    whole("count", count)
    estimates = _costs(candidates, np.array([estimate(run) for run in candidates]))
    columns_of(law, target)
    return _rounds(law, list(candidates), target, run_batch, estimates, budget, count, until, list(measured))


def check(budget: float, until: float | None) -> None:
    """Refuse budgets and widths that are not positive.

    Raises:
        SpecError: for those that are not above 0.
    """
    if budget != math.inf:
        positive("budget", budget)
    if until is not None:
        positive("until", until)


def _rounds(
    law: Law,
    candidates: list[Run],
    target: Any,
    run_batch: Callable[[list[Run]], Iterable[Measurement]],
    estimates: np.ndarray,
    budget: float,
    count: int,
    until: float | None,
    known: list[Measurement],
) -> Iterator[Measurement]:
    estimated = {run.key(): float(value) for run, value in zip(candidates, estimates, strict=True)}
    left, ratios, spent = list(range(len(candidates))), list[float](), 0.0
    while left and spent < budget and not _narrow(law, known, [candidates[place] for place in left], target, until):
        seconds = estimates * (statistics.median(ratios) if ratios else 1.0)
        left = [place for place in left if seconds[place] <= budget - spent]
        if not left:
            return
        rows = tables.table(known) if known else None
        chosen = next_runs(law, rows, [candidates[place] for place in left], seconds[left], target, count)
        batch = _affordable([left[place] for place in chosen], seconds, budget - spent)
        if not batch:
            return
        left = [place for place in left if place not in batch]
        for measurement in run_batch([candidates[place] for place in batch]):
            spent += measurement.seconds
            known.append(measurement)
            if measurement.key in estimated and measurement.seconds > 0:
                ratios.append(measurement.seconds / estimated[measurement.key])
            yield measurement


def _narrow(law: Law, known: list[Measurement], left: list[Run], target: Any, until: float | None) -> bool:
    """Whether the interval suffices, and no run that is left would bring the target inside the law's domain."""
    fitted = fitted_to(law, tables.table(known)) if until is not None and known else None
    if fitted is None or until is None or half_width(fitted, target) > until:
        return False
    if law.travels:
        return True
    ranges = {name: fitted.domain_.ranges[name] for name in law.columns}
    return not _widening(ranges, columns_of(law, target), columns_of(law, candidate_table(left))).any()


def _affordable(places: list[int], seconds: np.ndarray, left: float) -> list[int]:
    """In order, each whose cost still fits what is left after those before it."""
    kept = []
    for place in places:
        if seconds[place] <= left:
            kept.append(place)
            left -= float(seconds[place])
    return kept
