"""Tests behind verdicts: a trend, a slope, a difference, a fit; each answers at 95 %, or that data do not tell."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy import stats

from capax.laws import censored
from capax.papers.recipe import Unjudged, Verdict, agrees, cannot, differs
from capax.protocols.means import half_of_mean
from capax.results import LEVEL, Measurement
from capax.text import counted

SIGNIFICANT = 0.05
SHUFFLES, COUNTED = 9999, 8
"""Orders that a trend is compared with, drawn at random; all of them of up to so many values."""
# an interval of an exponent that agrees is at most this wide (ours): the exponent may differ by about half as much
WIDEST = 0.5
# share of an earlier slope that a later one may still have where a curve is said to rise no further (ours)
FLAT = 0.25
Numbers = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"

    def __neg__(self) -> Estimate:
        return Estimate(-self.value, -self.high, -self.low)

    def holds(self, number: float) -> bool:
        """Whether a number is inside the interval."""
        return self.low <= number <= self.high


@dataclass(frozen=True)
class Density:
    """Bits a parameter that a network holds: extrapolated where it converged, else what it reached, a lower bound."""

    value: float
    low: float
    high: float | None
    converged: bool

    def __str__(self) -> str:
        if not self.converged:
            return f"{self.value:.3g} bits a parameter reached, not converged"
        high = "∞" if self.high is None else f"{self.high:.3g}"
        return f"{self.value:.3g} bits a parameter ({self.low:.3g} to {high}), extrapolated from {self.low:.3g} or more"

    @property
    def most(self) -> float:
        """The upper end; infinite where it did not converge."""
        return math.inf if self.high is None else self.high


def density(run: Measurement, parameters: int) -> Density:
    """Of a run of protocol capacity, over so many of its parameters.

    Raises:
        Unjudged: for a run of another protocol.
    """
    found = run.capacity
    if found is None:
        raise Unjudged(f"run {run.key[:12]} is not of protocol capacity")
    if found.extrapolated is None or found.interval is None:
        reached = found.bits / parameters
        return Density(reached, reached, None, converged=False)
    high = found.interval.high
    return Density(
        found.extrapolated / parameters,
        found.interval.low / parameters,
        None if high is None else high / parameters,
        converged=True,
    )


def field(run: Measurement, name: str) -> Any:
    """A field of a run's task or model, whichever has it."""
    return getattr(run.spec.task if name in type(run.spec.task).model_fields else run.spec.model, name)


def exactly(right: bool, measured: str, reason: str) -> Verdict:
    """The verdict on arithmetic: no noise."""
    return (agrees if right else differs)(reason, measured)


def above(gap: Estimate, measured: str, yes: str, no: str, unclear: str, at: float = 0.0) -> Verdict:
    """Agrees where all of an interval is above a number, differs where all of it is below."""
    if gap.low > at:
        return agrees(yes, measured)
    return differs(no, measured) if gap.high < at else cannot(unclear, measured)


def whatever(choice: str, verdicts: Mapping[str, Verdict]) -> Verdict:
    """One verdict where each reading of something that is not known has the same; else none can be given."""
    answers = {verdict.answer for verdict in verdicts.values()}
    measured = "; ".join(f"{name}: {verdict.measured}" for name, verdict in verdicts.items())
    reasons = {verdict.reason for verdict in verdicts.values()}
    reason = "; ".join(f"{name}: {verdict.reason}" for name, verdict in verdicts.items())
    if len(answers) == 1:
        said = reasons.pop() if len(reasons) == 1 else reason
        return Verdict(answer=answers.pop(), measured=measured, reason=said)
    return cannot(f"depends on {choice}: {reason}", measured)


def alike(gap: Estimate, allowed: float, measured: str, share: str) -> Verdict:
    """Agrees where all of Welch's interval of a difference is within ± `allowed`, differs where all of it is beyond."""
    if max(abs(gap.low), abs(gap.high)) <= allowed:
        return agrees(f"no more apart than a {share} (Welch's interval)", measured)
    if gap.low > allowed or gap.high < -allowed:
        return differs(f"further apart than a {share} (Welch's interval)", measured)
    return cannot(f"Welch's 95 % interval holds both more and less than a {share}", measured)


def kendall(x: Numbers, y: Numbers) -> float:
    """Kendall's tau-a: concordant minus discordant pairs, of all pairs."""
    return float(_taus(np.asarray(x, float), np.asarray(y, float)))


def _taus(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of each row of y."""
    i, j = np.triu_indices(len(x), 1)
    return (np.sign(y[..., i] - y[..., j]) * np.sign(x[i] - x[j])).mean(-1)


def trend_p(x: Numbers, y: Numbers) -> float:
    """The share of orders of y with a tau as high: one-sided; all orders up to 8 values, else random ones (seeded)."""
    a = np.asarray(x, float)
    return float(
        stats.permutation_test(
            (np.asarray(y, float),),
            lambda orders, axis: _taus(a, orders),
            permutation_type="pairings",
            alternative="greater",
            n_resamples=math.factorial(COUNTED) if len(a) <= COUNTED else SHUFFLES,
            vectorized=True,
            rng=0,
        ).pvalue
    )


def rises(x: Numbers, y: Numbers, what: str, of: str) -> Verdict:
    """Whether y rises with x: Kendall's tau, by permutation, two-sided at 5 % as every interval here is.

    Raises:
        Unjudged: for fewer than 5 values, or values of x that are all the same: no order could be significant; and for
            a y that is no number.
    """
    if len(x) < 5 or np.ptp(np.asarray(x, float)) == 0:
        raise Unjudged(f"{len(x)} of {what} at {len(set(x))} values of {of}: at least 5 are needed, and several values")
    if not np.isfinite(np.asarray(y, float)).all():
        raise Unjudged(f"{what}: not all values are finite")
    up, down = (min(2 * trend_p(x, values), 1.0) for values in (y, -np.asarray(y, float)))
    measured = f"Kendall's tau {kendall(x, y):.2f}, p {min(up, down):.2g}"
    if up <= SIGNIFICANT:
        return agrees(f"{what} rises with {of}", measured)
    if down <= SIGNIFICANT:
        return differs(f"{what} falls with {of}", measured)
    return cannot(f"no trend of {what} with {of} at 5 %", measured)


def line_r2(x: Numbers, y: Numbers) -> Estimate:
    """R² about a straight line, with the interval of the correlation by Fisher's z.

    Raises:
        Unjudged: for fewer than 4 points, or none that differ.
    """
    a, b = np.asarray(x, float), np.asarray(y, float)
    if len(a) < 4 or np.ptp(a) == 0 or np.ptp(b) == 0:
        raise Unjudged(f"a line through {len(a)} points that may be all alike: at least 4 different ones are needed")
    found = stats.pearsonr(a, b)
    low, high = sorted(math.copysign(1, found.statistic) * float(end) for end in found.confidence_interval(LEVEL))
    return Estimate(float(found.statistic) ** 2, max(low, 0.0) ** 2, high**2)


FEWEST_CURVES = 3
"""Seeds from which on R² of their mean is judged: the interval of two is as wide as it can be."""


def r2_of_mean(x: Numbers, curves: Sequence[Numbers]) -> Estimate:
    """R² about a straight line of the mean of several curves, one of each seed, with its interval over seeds.

    The places x are those asked about, so that only seeds are a sample: the interval is Student's of the jackknife's
    pseudo-values, one of each seed left out. (The interval of `line_r2` is of places drawn at random.)

    Raises:
        Unjudged: for fewer than 4 places, or none that differ.
    """
    values = np.asarray(curves, float)
    seeds = len(values)
    whole = line_r2(x, values.mean(0)).value
    rest = [line_r2(x, np.delete(values, seed, 0).mean(0)).value for seed in range(seeds)]
    ends = mean(seeds * whole - (seeds - 1) * np.array(rest))
    return Estimate(whole, max(min(ends.low, whole), 0.0), min(max(ends.high, whole), 1.0))


def on_a_line(x: Numbers, curves: Sequence[Numbers], least: float, what: str) -> Verdict:
    """Whether the mean of several curves rises about a straight line with an R² of at least `least`, by its interval.

    Args:
        curves: one of each seed.
    """
    means = np.mean(np.asarray(curves, float), axis=0)
    if len(curves) < FEWEST_CURVES:
        seeds = counted(len(curves), "seed")
        return cannot(f"of {seeds} R² has no interval: {FEWEST_CURVES} are needed", f"R² {line_r2(x, means).value:.3g}")
    r2 = r2_of_mean(x, curves)
    measured = f"R² {r2} over {len(curves)} seeds"
    if slopes([x], means)[0].high < 0:
        return differs(f"{what} falls", measured)
    return above(
        r2,
        measured,
        f"R² of {what} about a line is above {least:g}",
        f"all of its 95 % interval is below {least:g}",
        f"its 95 % interval holds {least:g}",
        at=least,
    )


def slopes(
    columns: Sequence[Numbers],
    y: Numbers,
    groups: Sequence[object] | None = None,
    bounds: Sequence[bool] | None = None,
) -> list[Estimate]:
    """Least-squares slopes of y on each column, with a level of its own for each group, and 95 % t-intervals.

    Args:
        bounds: which values of y are lower bounds alone: then a Tobit regression, with profile intervals. A group that
            has no other value tells nothing, and is left out.

    Raises:
        Unjudged: where there are too few values, or columns that do not vary apart.
    """
    labels = list(groups) if groups is not None else [0] * len(y)
    bounded = np.zeros(len(y), bool) if bounds is None else np.asarray(bounds, bool)
    names = list(dict.fromkeys(label for label, bound in zip(labels, bounded, strict=True) if not bound))
    kept = np.array([label in names for label in labels], bool)
    target, bounded = np.asarray(y, float)[kept], bounded[kept]
    levels = np.array([[label == name for name in names] for label in labels], float).reshape(len(labels), -1)
    design = np.column_stack([*(np.asarray(column, float) for column in columns), levels])[kept]
    values = design[~bounded]
    free = len(values) - design.shape[1]
    if free < 1 or np.linalg.matrix_rank(values) < design.shape[1]:
        raise Unjudged(f"a slope from {len(values)} points in {len(names)} groups: they do not determine it")
    if bounded.any():
        return _censored_slopes(design, target, bounded, len(columns))
    best = np.linalg.lstsq(design, target, rcond=None)[0]
    rest = target - design @ best
    variance = np.diag(np.linalg.inv(design.T @ design)) * (rest @ rest) / free
    half = stats.t.ppf((1 + LEVEL) / 2, free) * np.sqrt(np.maximum(variance, 0))
    return [Estimate(float(best[i]), float(best[i] - half[i]), float(best[i] + half[i])) for i in range(len(columns))]


def _censored_slopes(
    design: Float[np.ndarray, "r k"], y: Float[np.ndarray, " r"], bounded: Bool[np.ndarray, " r"], first: int
) -> list[Estimate]:
    """The slope on each of the first columns of a Tobit regression, with its profile interval."""
    start = np.linalg.lstsq(design[~bounded], y[~bounded], rcond=None)[0]
    names = tuple(map(str, range(len(start))))

    def model(tried: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return design @ tried, design

    observed = censored.Observed(y, bounded)
    found = censored.solve(model, dict(zip(names, start.tolist(), strict=True)), names, observed)
    ends = (censored.profile(model, found, observed, name, LEVEL) for name in names[:first])
    return [
        Estimate(found.values[name], -math.inf if low is None else low, math.inf if high is None else high)
        for name, (low, high) in zip(names[:first], ends, strict=True)
    ]


def exponent(
    x: Numbers, y: Numbers, groups: Sequence[object] | None = None, bounds: Sequence[bool] | None = None
) -> Estimate:
    """The power of x that y grows by: the slope of log y on log x.

    Args:
        groups, bounds: as in `slopes`.

    Raises:
        Unjudged: as `slopes`, and where a value is not above 0.
    """
    if (np.asarray(x, float) <= 0).any() or (np.asarray(y, float) <= 0).any():
        raise Unjudged("a power law needs values above 0")
    return slopes([np.log(np.asarray(x, float))], np.log(np.asarray(y, float)), groups, bounds)[0]


def has_exponent(power: Estimate, expected: float, what: str) -> Verdict:
    """Whether the interval of an exponent holds the expected one, and is narrow enough to say so."""
    if not power.holds(expected):
        return differs(f"the exponent of {what} is not {expected:g}", str(power))
    if power.high - power.low > WIDEST:
        return cannot(f"the 95 % interval of the exponent of {what} is wider than {WIDEST:g}", str(power))
    return agrees(f"the interval of the exponent of {what} holds it", str(power))


def difference(a: Numbers, b: Numbers, *, tried: int = 1, unit: float = 0.0) -> Estimate:
    """Mean of a minus mean of b, with Welch's 95 % interval, wider where a is the best of several (Bonferroni).

    Args:
        tried: of how many a is the best.
        unit: what values are whole numbers of, such as 1 of counts: those that are alike on both sides tell their
            difference to one.

    Raises:
        Unjudged: for fewer than 2 values on a side, or 2 that are alike on both: counts often are, by luck.
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    if min(len(first), len(second)) < 2:
        raise Unjudged(f"a difference of {len(first)} and {len(second)} values: at least 2 on each side are needed")
    gap = float(first.mean() - second.mean())
    if np.ptp(first) == np.ptp(second) == 0 and min(len(first), len(second)) < 3:
        raise Unjudged("2 values that are alike on both sides have no spread to judge their difference by")
    if np.ptp(first) == np.ptp(second) == 0:  # which Welch's degrees of freedom do not allow
        return Estimate(gap, gap - unit, gap + unit)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of a side that is all alike: it may be
        interval = stats.ttest_ind(first, second, equal_var=False).confidence_interval(1 - (1 - LEVEL) / tried)
    return Estimate(gap, float(interval.low), float(interval.high))


def larger(a: Numbers, b: Numbers, what: str, than: str, *, tried: int = 1, unit: float = 0.0) -> Verdict:
    """Whether a, the best of so many that were tried, is larger than b on the mean."""
    gap = difference(a, b, tried=tried, unit=unit)
    measured = f"{np.mean(a):.4g} against {np.mean(b):.4g}; difference {gap}"
    return above(
        gap,
        measured,
        f"{what} is above {than} (Welch's interval)",
        f"{what} is below {than} (Welch's interval)",
        f"Welch's 95 % interval of {what} minus {than} holds 0",
    )


def mean(values: Numbers) -> Estimate:
    """A mean with its 95 % t-interval.

    Raises:
        Unjudged: for fewer than 2 values, or 2 that are alike.
    """
    data = np.asarray(values, float)
    if len(data) < 2:
        raise Unjudged(f"a mean of {len(data)} values has no interval: at least 2 are needed")
    if len(data) == 2 and np.ptp(data) == 0:
        raise Unjudged("2 values that are alike have no spread to tell the interval of their mean by")
    middle, half = float(data.mean()), half_of_mean(data)
    return Estimate(middle, middle - half, middle + half)


def bends(x: Numbers, y: Numbers, at: float, what: str, of: str) -> Verdict:
    """Whether y rises with log2 x up to `at` and no further: both slopes by least squares, `at` in both.

    Agrees where the first slope is above 0 and all of the second's interval is below a quarter of it (ours); differs
    where the second is above 0, and above a tenth of the first.
    """
    a, b = np.log2(np.asarray(x, float)), np.asarray(y, float)
    sides = (a <= math.log2(at) + 1e-9, a >= math.log2(at) - 1e-9)
    if any(side.sum() < 3 or np.ptp(a[side]) == 0 for side in sides):
        raise Unjudged(f"too few {of} on either side of {at:g}: 3 values on each are needed")
    before, after = (slopes([a[side]], b[side])[0] for side in sides)
    measured = f"per doubling {before} up to {at:g}, {after} beyond"
    if after.low > 0 and after.value > before.value / 10:
        return differs(f"{what} still rises with {of} beyond {at:g}", measured)
    if before.low > 0 and after.high < FLAT * before.low:
        return agrees(f"{what} rises with {of} up to {at:g} alone", measured)
    return cannot(f"the slopes of {what} on either side of {at:g} are not told apart", measured)
