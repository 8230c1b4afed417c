"""Adaptive sweeps: the runs that are most informative about a law's prediction at a target, per second of training.

The criterion is the linearized law's variance at the target, so the choice is as good as the law: where another law
holds, cheap runs far from the target say little about it, and no interval shows that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from scipy.special import ndtr
from sklearn.base import clone

from capax.errors import LawError, SpecError
from capax.laws.domain import Domain
from capax.laws.law import Law
from capax.laws.predictor import LEAST
from capax.laws.rows import LIBRARY, Columns, check_positive
from capax.results import LEVEL
from capax.specs import Run
from capax.specs.spec import proper_share, whole
from capax.store import tables

RIDGE = 1e-6
"""Prior information on each parameter, in measurements: so little that any measurement outweighs it."""
CERTAIN = 0.95
"""A run that memorizes its whole library with this probability is not worth its time: it only gives a bound."""
CHEAPNESS = 0.5
"""Exponent of the seconds by which the spread start divides distances: 0 ignores cost, 1 weighs it fully."""
SMALLEST = 1e-6
"""Configurations closer than this, in spans of the candidates, are one configuration with different seeds."""


def next_runs(
    law: Law, measured: Any, candidates: Sequence[Run], seconds: np.ndarray, target: Any, count: int
) -> list[int]:
    """The candidates to measure next, best first.

    The law is fitted to what was measured, and candidates are taken one after another: each time the one that shrinks
    the variance of the law's prediction at the target most per second, given those taken before (their counts do not
    matter to the linearized law). As long as the target lies beyond the measured range of a column, the choice is among
    candidates that bring it inside, where there are any: a law is not evaluated outside its domain, unless it says what
    distance costs (`Law.travels`). While there are too few measurements for a fit, candidates that are cheap and far
    from all others are taken instead.

    A configuration under another seed is a candidate like any other, where another measurement of it tells of the law
    (`Law.repeats_tell`); a run that was measured already (its `key` is in the table), a repeated one, and one that is
    nearly certain to memorize its whole library, if that bounds what is counted, are not.

    Args:
        law: the law to fit; it is not changed.
        measured: a table with the law's columns and counts, and `library_size`; empty or None before the first run.
        candidates: runs to choose from, of one protocol.
        seconds: `(candidates,)` what each costs.
        target: a table with the law's columns: one architecture, or several whose variances are averaged.
        count: how many; fewer are returned where there are no more.

    Returns:
        Places in `candidates`, each once.

    Raises:
        SpecError: without candidates, or when costs or the count are not positive.
        TableError: when a table lacks a column of the law.
        LawError: when measurements and candidates are of more than one protocol.
    """
    costs = _costs(candidates, seconds)
    whole("count", count)
    goal, offered = columns_of(law, target), candidate_table(candidates)
    free = _not_measured(candidates, measured)
    rows = _above_zero(law, measured)
    _check_protocol(law, rows, offered)
    fitted = fitted_to(law, measured)
    if fitted is None:
        known = None if rows is None else _logs(columns_of(law, rows))
        return _spread(_logs(columns_of(law, offered)), known, costs, free, count)
    return _telling(fitted, offered, costs, goal, free, count)


def half_width(law: Law, target: Any, level: float = LEVEL) -> float:
    """Half the width of the interval of the law's mean at the target: the largest over its rows.

    This is what "the interval at the target" means to adaptive sweeps and their benchmark: on the log scale (0.1 stands
    for 10 %), by the linearized fit, with the t quantile; of the law's value, not of a new count, whose spread no
    further run lowers. Counts that are only bounds tell nothing here, and parameters that the fit held count as known,
    but for those that have a prior. Infinite where the target depends on what neither shows.

    Raises:
        TableError: when the table lacks a column of the law.
        LawError: for a law that was not fitted to rows (a published one), or a level that is none.
    """
    proper_share("level", level, LawError)
    rows = law.measurements()
    known = _pull(law)
    places = [place for place, name in enumerate(law.names) if name in law.solution_.free or known[place]]
    slopes = _slopes(law, rows.take(~rows.complete).columns)[:, places]
    goals = _relative_slopes(law, columns_of(law, target))[:, places]
    size = _size(np.concatenate([slopes, goals]))
    values, axes = np.linalg.eigh((slopes / size).T @ (slopes / size) + np.diag((known[places] / size) ** 2))
    along = (goals / size) @ axes
    seen = values > 1e-13 * max(values.max(initial=0.0), 1.0)
    if (np.abs(along[:, ~seen]) > 1e-6 * np.linalg.norm(along, axis=1, keepdims=True)).any():
        return math.inf
    variances = (along[:, seen] ** 2 / values[seen]).sum(axis=1)
    quantile = float(scipy.stats.t.ppf((1 + level) / 2, max(law.solution_.dof, 1)))
    return quantile * law.sigma_ * float(np.sqrt(variances.max()))


def gains(covariance: np.ndarray, goals: np.ndarray, slopes: np.ndarray, spread: float) -> np.ndarray:
    """By how much one more measurement of each candidate lowers the law's variance at the target, `(candidates,)`.

    Args:
        covariance: of the parameters, `(parameters, parameters)`: A⁻¹ with A = ΣJJᵀ/σ² over what was measured.
        goals: derivatives at the target, `(targets, parameters)`; the mean over its rows is what is lowered.
        slopes: derivatives at the candidates, `(candidates, parameters)`.
        spread: σ of a measurement.
    """
    along = slopes @ covariance
    return ((along @ goals.T) ** 2).mean(axis=1) / (spread**2 + (along * slopes).sum(axis=1))


def _telling(
    fitted: Law, offered: dict[str, Any], costs: np.ndarray, goal: Columns, free: np.ndarray, count: int
) -> list[int]:
    """Greedily by gain per second, in units of σ, which do not change the order."""
    columns = columns_of(fitted, offered)
    slopes, goals = _slopes(fitted, columns), _relative_slopes(fitted, goal)
    seen = _slopes(fitted, fitted.rows_.take(~fitted.rows_.complete).columns)
    size = _size(slopes)  # so that the ridge means the same for all parameters
    slopes, goals, seen = slopes / size, goals / size, seen / size
    information = seen.T @ seen + np.diag(RIDGE + (_pull(fitted) / size) ** 2)
    covariance = _inverse(information)
    open_ = free.copy()
    if fitted.bound is None:  # the library bounds what is counted
        unsure = fitted.sigma_ * np.sqrt(1 + ((slopes @ covariance) * slopes).sum(axis=1))
        with np.errstate(invalid="ignore"):
            beyond = fitted._scale(fitted._predict(columns)) - fitted._scale(offered[LIBRARY])
        open_ &= ndtr(beyond / unsure) < CERTAIN
    if not fitted.repeats_tell:
        open_ &= ~_among(columns, fitted.rows_.columns)
    ranges, chosen = dict(fitted.domain_.ranges), list[int]()
    while open_.any() and len(chosen) < count:
        widening = np.zeros_like(open_) if fitted.travels else open_ & _widening(ranges, goal, columns)
        scores = gains(covariance, goals, slopes, 1.0) / costs
        best = _best(scores, costs, widening if widening.any() else open_)
        chosen.append(best)
        one = {name: values[[best]] for name, values in columns.items()}
        open_ &= np.arange(len(open_)) != best if fitted.repeats_tell else ~_among(columns, one)
        for name in ranges.keys() & one.keys():
            low, high = ranges[name]
            ranges[name] = (min(low, float(one[name][0])), max(high, float(one[name][0])))
        information = information + np.outer(slopes[best], slopes[best])
        covariance = _inverse(information)
    return chosen


def _among(columns: Columns, others: Columns) -> np.ndarray:
    """Which rows are architectures of others."""
    known = set(zip(*(values.tolist() for values in others.values()), strict=True))
    return np.array([row in known for row in zip(*(columns[name].tolist() for name in others), strict=True)])


def _pull(law: Law) -> np.ndarray:
    """What is known of each parameter before rows are seen, in units of the spread: 0 where nothing is."""
    return np.asarray(law.sigma_ / law._prior)


def _widening(ranges: dict[str, tuple[float, float]], goal: Columns, columns: Columns) -> np.ndarray:
    """Which candidates bring the target inside the range of a column that it lies beyond."""
    found = np.zeros(len(next(iter(columns.values()))), dtype=bool)
    for name, wanted in goal.items():
        low, high = ranges[name]
        if wanted.max() > high:
            found |= columns[name] >= wanted.max()
        if wanted.min() < low:
            found |= columns[name] <= wanted.min()
    return found


def _inverse(information: np.ndarray) -> np.ndarray:
    inverse = np.linalg.inv(information)
    return (inverse + inverse.T) / 2


def _best(scores: np.ndarray, costs: np.ndarray, open_: np.ndarray) -> int:
    """The largest score; of equal ones the cheapest, then the first."""
    places = np.flatnonzero(open_)
    return int(places[np.lexsort((costs[places], -scores[places]))[0]])


def _slopes(law: Law, columns: Columns) -> np.ndarray:
    """Derivatives on the scale of the residuals, in units of how many times sigma they spread, `(rows, parameters)`."""
    return np.asarray(law._model(columns)(law._theta())[1] / law._unevenness(columns)[:, None])


def _relative_slopes(law: Law, columns: Columns) -> np.ndarray:
    """Derivatives of the logarithm, the scale of widths at the target."""
    capacity, derivatives = law._capacity(law._theta(), columns)
    return np.asarray(derivatives / np.maximum(capacity, LEAST)[:, None])


def _size(slopes: np.ndarray) -> np.ndarray:
    """Root mean square of each column; 1 for a column of zeros."""
    size = np.sqrt((slopes**2).mean(axis=0))
    return np.where(size > 0, size, 1.0)


def _spread(points: np.ndarray, known: np.ndarray | None, costs: np.ndarray, free: np.ndarray, count: int) -> list[int]:
    """The start, before a law can be fitted: candidates far from those before and from what is measured, and cheap."""
    span = np.ptp(points, axis=0)
    points, span = points / np.where(span > 0, span, 1.0), np.where(span > 0, span, 1.0)
    nearest = np.full(len(points), math.sqrt(len(span)))  # the diagonal: more than any distance
    for point in () if known is None else known / span:
        nearest = np.minimum(nearest, np.linalg.norm(points - point, axis=1))
    chosen: list[int] = []
    open_ = free.copy()
    while open_.any() and len(chosen) < count:
        best = _best(np.where(nearest > SMALLEST, nearest, 0.0) / costs**CHEAPNESS, costs, open_)
        chosen.append(best)
        open_[best] = False
        nearest = np.minimum(nearest, np.linalg.norm(points - points[best], axis=1))
    return chosen


def _logs(columns: Columns) -> np.ndarray:
    return np.log(np.column_stack(list(columns.values())))


def fitted_to(law: Law, measured: Any) -> Law | None:
    """The law fitted to the rows of a table whose count has a logarithm; None where they do not suffice.

    Raises:
        TableError: when the table lacks a column of the law.
    """
    rows = _above_zero(law, measured)
    try:
        return None if rows is None else clone(law).fit(rows)
    except LawError:
        return None


def _check_protocol(law: Law, rows: dict[str, Any] | None, offered: dict[str, Any]) -> None:
    """Refuse candidates and measurements of different protocols: no law fits both."""
    protocol = _domain(law, offered).protocol
    for name, value in ({} if rows is None else _domain(law, rows).protocol).items():
        if protocol.get(name, value) != value:
            raise LawError(f"{name}: the candidates have {protocol[name]}, the measurements {value}; a law is of one")


def _domain(law: Law, table: dict[str, Any]) -> Domain:
    columns = columns_of(law, table)
    unknown = np.full(len(columns[law.columns[0]]), np.inf)
    return law.domain_of(columns, table, unknown)


def _above_zero(law: Law, measured: Any) -> dict[str, Any] | None:
    """The rows whose count has a logarithm; None when there are none."""
    if measured is None or not tables.names(measured):
        return None
    counts = tables.numbers(measured, law.target)
    if law.bound in tables.names(measured):
        counts = np.where(np.isnan(counts), tables.numbers(measured, law.bound), counts)
    kept = counts > 0
    if law.target in tables.ABOVE_LUCK and "above_chance" in tables.names(measured):
        kept &= np.array([value is not False for value in tables.values(measured, "above_chance")])
    if not kept.any():
        return None
    return {name: np.asarray(measured[name])[kept] for name in tables.names(measured)}


def columns_of(law: Law, table: Any) -> Columns:
    """The law's columns of a table, positive numbers all, kinds by their codes."""
    columns = {name: law._column(table, name) for name in law.columns}
    for name, values in columns.items():
        check_positive(name, values)
    if not len(columns[law.columns[0]]):
        raise SpecError("target: should have at least one row, got none")
    return columns


def candidate_table(runs: Sequence[Run]) -> dict[str, Any]:
    """Runs as the columns that a law may want, and those of their protocol; of parameters where they can be counted."""
    found = []
    for run in runs:
        counts = dict[str, int]()
        if run.model.uncounted is None:
            counts = run.model.built_counts(**run.task.sizes())
            counts["effective"] = run.model.effective_parameters(**run.task.sizes())
        parameters = {f"{kind}_parameters": count for kind, count in counts.items()}
        found.append(tables.spec_columns(run) | parameters)
    names = dict.fromkeys(name for row in found for name in row)
    return {name: np.array([row.get(name) for row in found]) for name in names}


def _not_measured(candidates: Sequence[Run], measured: Any) -> np.ndarray:
    """Which candidates are not in the table, and not there before in the list."""
    known = set(tables.values(measured, "key")) if measured is not None and "key" in tables.names(measured) else set()
    free = np.zeros(len(candidates), dtype=bool)
    for place, run in enumerate(candidates):
        key = run.key()
        free[place] = key not in known
        known.add(key)
    return free


def _costs(candidates: Sequence[Run], seconds: np.ndarray) -> np.ndarray:
    if not len(candidates):
        raise SpecError("candidates: should be at least one run, got none")
    costs = np.asarray(seconds, dtype=np.float64)
    if costs.shape != (len(candidates),):
        raise SpecError(f"seconds: should be one per candidate ({len(candidates)}), got shape {costs.shape}")
    wrong = costs[~((costs > 0) & np.isfinite(costs))]
    if wrong.size:
        raise SpecError(f"seconds: should be above 0, got {wrong[0]:g}")
    return costs
