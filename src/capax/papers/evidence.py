"""Tests behind verdicts: a trend, a slope, a difference, a fit; each answers at 95 %, or that data do not tell."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, t

from capax.papers.recipe import Unjudged, Verdict, cannot

LEVEL = 0.95
SIGNIFICANT = 0.05
MOST_EXACT = 7
"""Values of which all orders are tried; of more, `SHUFFLES` random ones."""
SHUFFLES = 9999
Numbers = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"

    def holds(self, number: float) -> bool:
        """Whether a number is inside the interval."""
        return self.low <= number <= self.high


def kendall(x: Numbers, y: Numbers) -> float:
    """Kendall's tau-a: concordant minus discordant pairs, of all pairs."""
    a, b = np.asarray(x, float), np.asarray(y, float)
    i, j = np.triu_indices(len(a), 1)
    return float(np.mean(np.sign(a[i] - a[j]) * np.sign(b[i] - b[j])))


def trend_p(x: Numbers, y: Numbers) -> float:
    """The share of orders of y with a tau as high: one-sided; all orders up to 7 values, else random ones (seeded)."""
    a, b = np.asarray(x, float), np.asarray(y, float)
    i, j = np.triu_indices(len(a), 1)
    exact = len(b) <= MOST_EXACT
    orders = np.array(list(itertools.permutations(b))) if exact else _shuffled(b)
    taus = (np.sign(orders[:, i] - orders[:, j]) * np.sign(a[i] - a[j])).mean(1)
    higher = int((taus >= kendall(x, y) - 1e-12).sum())
    return higher / len(orders) if exact else (higher + 1) / (SHUFFLES + 1)


def _shuffled(values: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).permuted(np.tile(values, (SHUFFLES, 1)), axis=1)


def rises(x: Numbers, y: Numbers, what: str, of: str) -> Verdict:
    """Whether y rises with x: Kendall's tau, by permutation, one-sided at 5 %.

    Raises:
        Unjudged: for fewer than 4 values, or values of x that are all the same: no order could be significant.
    """
    if len(x) < 4 or len(set(np.asarray(x, float).tolist())) < 2:
        raise Unjudged(f"{what} at {len(x)} values of {of}: at least 4 are needed")
    tau, up, down = kendall(x, y), trend_p(x, y), trend_p(x, -np.asarray(y, float))
    measured = f"Kendall's tau {tau:.2f}, p {min(up, down):.2g}"
    if up <= SIGNIFICANT:
        return Verdict(answer="agrees", measured=measured, reason=f"{what} rises with {of}")
    if down <= SIGNIFICANT:
        return Verdict(answer="differs", measured=measured, reason=f"{what} falls with {of}")
    return cannot(f"no trend of {what} with {of} at 5 %", measured)


def line_r2(x: Numbers, y: Numbers) -> Estimate:
    """R² about a straight line, with the interval of the correlation by Fisher's z.

    Raises:
        Unjudged: for fewer than 4 points, or none that differ.
    """
    a, b = np.asarray(x, float), np.asarray(y, float)
    if len(a) < 4 or np.ptp(a) == 0 or np.ptp(b) == 0:
        raise Unjudged(f"a line through {len(a)} points that may be all alike: at least 4 different ones are needed")
    r = float(np.clip(np.corrcoef(a, b)[0, 1], -1, 1))
    half = norm.ppf((1 + LEVEL) / 2) / math.sqrt(len(a) - 3)
    z = math.atanh(min(abs(r), 1 - 1e-15))
    return Estimate(r * r, math.tanh(max(z - half, 0.0)) ** 2, math.tanh(z + half) ** 2)


def on_a_line(x: Numbers, y: Numbers, least: float, what: str) -> Verdict:
    """Whether y rises about a straight line with an R² of at least `least`; differs where its interval is below."""
    r2 = line_r2(x, y)
    if np.corrcoef(np.asarray(x, float), np.asarray(y, float))[0, 1] < 0:
        return Verdict(answer="differs", measured=f"R² {r2}", reason=f"{what} falls")
    if r2.value >= least:
        return Verdict(answer="agrees", measured=f"R² {r2}", reason=f"R² of {what} about a line is at least {least:g}")
    if r2.high < least:
        return Verdict(answer="differs", measured=f"R² {r2}", reason=f"all of its 95 % interval is below {least:g}")
    return cannot(f"R² is below {least:g}, but its 95 % interval reaches it", f"R² {r2}")


def slopes(columns: Sequence[Numbers], y: Numbers, groups: Sequence[object] | None = None) -> list[Estimate]:
    """Least-squares slopes of y on each column, with a level of its own for each group, and 95 % t-intervals.

    Raises:
        Unjudged: where there are too few points, or columns that do not vary apart.
    """
    labels = list(groups) if groups is not None else [0] * len(np.asarray(y))
    names = list(dict.fromkeys(labels))
    levels = np.array([[label == name for name in names] for label in labels], float)
    design = np.column_stack([*(np.asarray(column, float) for column in columns), levels])
    free = len(design) - design.shape[1]
    if free < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        raise Unjudged(f"a slope from {len(design)} points in {len(names)} groups: they do not determine it")
    target = np.asarray(y, float)
    best = np.linalg.lstsq(design, target, rcond=None)[0]
    rest = target - design @ best
    covariance = np.linalg.inv(design.T @ design) * (rest @ rest) / free
    half = t.ppf((1 + LEVEL) / 2, free) * np.sqrt(np.maximum(np.diag(covariance), 0))
    return [Estimate(float(best[i]), float(best[i] - half[i]), float(best[i] + half[i])) for i in range(len(columns))]


def exponent(x: Numbers, y: Numbers, groups: Sequence[object] | None = None) -> Estimate:
    """The power of x that y grows by: the slope of log y on log x.

    Raises:
        Unjudged: as `slopes`, and where a value is not above 0.
    """
    if (np.asarray(x, float) <= 0).any() or (np.asarray(y, float) <= 0).any():
        raise Unjudged("a power law needs values above 0")
    return slopes([np.log(np.asarray(x, float))], np.log(np.asarray(y, float)), groups)[0]


WIDEST = 1.0
"""An interval wider than this about an exponent holds almost any, zero beside one: it agrees with nothing."""


def has_exponent(found: Estimate, expected: float, what: str) -> Verdict:
    """Whether the interval of an exponent holds the expected one, and is narrow enough to say so."""
    if not found.holds(expected):
        return Verdict(answer="differs", measured=str(found), reason=f"the exponent of {what} is not {expected:g}")
    if found.high - found.low > WIDEST:
        return cannot(f"the 95 % interval of the exponent of {what} is wider than {WIDEST:g}", str(found))
    return Verdict(answer="agrees", measured=str(found), reason=f"the interval of the exponent of {what} holds it")


def difference(a: Numbers, b: Numbers) -> Estimate:
    """Mean of a minus mean of b, with Welch's 95 % interval.

    Raises:
        Unjudged: for fewer than 2 values on a side.
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    if min(len(first), len(second)) < 2:
        raise Unjudged(f"a difference of {len(first)} and {len(second)} values: at least 2 on each side are needed")
    parts = np.array([first.var(ddof=1) / len(first), second.var(ddof=1) / len(second)])
    gap, error = float(first.mean() - second.mean()), math.sqrt(float(parts.sum()))
    if error == 0:
        return Estimate(gap, gap, gap)
    free = parts.sum() ** 2 / (parts[0] ** 2 / (len(first) - 1) + parts[1] ** 2 / (len(second) - 1))
    half = float(t.ppf((1 + LEVEL) / 2, free)) * error
    return Estimate(gap, gap - half, gap + half)


def larger(a: Numbers, b: Numbers, what: str, than: str) -> Verdict:
    """Whether a is larger than b on the mean."""
    gap = difference(a, b)
    measured = f"{np.mean(a):.4g} against {np.mean(b):.4g}; difference {gap}"
    if gap.low > 0:
        return Verdict(answer="agrees", measured=measured, reason=f"{what} is above {than} (Welch's interval)")
    if gap.high < 0:
        return Verdict(answer="differs", measured=measured, reason=f"{what} is below {than} (Welch's interval)")
    return cannot(f"Welch's 95 % interval of {what} minus {than} holds 0", measured)


def mean(values: Numbers) -> Estimate:
    """A mean with its 95 % t-interval.

    Raises:
        Unjudged: for fewer than 2 values.
    """
    data = np.asarray(values, float)
    if len(data) < 2:
        raise Unjudged(f"a mean of {len(data)} values has no interval: at least 2 are needed")
    half = float(t.ppf((1 + LEVEL) / 2, len(data) - 1)) * float(data.std(ddof=1)) / math.sqrt(len(data))
    return Estimate(float(data.mean()), float(data.mean()) - half, float(data.mean()) + half)


def paired_smaller(a: Numbers, b: Numbers, what: str, than: str) -> Verdict:
    """Whether errors a are smaller than errors b of the same points, on the mean (paired t-interval)."""
    gap = mean(np.asarray(a, float) - np.asarray(b, float))
    measured = f"{np.mean(a):.3g} against {np.mean(b):.3g}; difference {gap}"
    if gap.high < 0:
        return Verdict(answer="agrees", measured=measured, reason=f"{what} is smaller than {than} (paired interval)")
    if gap.low > 0:
        return Verdict(answer="differs", measured=measured, reason=f"{what} is larger than {than} (paired interval)")
    return cannot(f"the 95 % interval of {what} minus {than}, paired, holds 0", measured)


def bends(x: Numbers, y: Numbers, at: float, what: str, of: str) -> Verdict:
    """Whether y rises with log2 x up to `at` and no further: both slopes by least squares, `at` in both.

    Agrees where the first slope is above 0 and wholly above a second one that is not; differs where the second is.
    """
    a, b = np.log2(np.asarray(x, float)), np.asarray(y, float)
    low, high = a <= math.log2(at) + 1e-9, a >= math.log2(at) - 1e-9
    if min(len(set(a[low].tolist())), len(set(a[high].tolist()))) < 2 or min(low.sum(), high.sum()) < 3:
        raise Unjudged(f"too few {of} on either side of {at:g}: 3 values on each are needed")
    before, after = slopes([a[low]], b[low])[0], slopes([a[high]], b[high])[0]
    measured = f"per doubling {before} up to {at:g}, {after} beyond"
    if after.low > 0 and after.value > before.value / 10:
        return Verdict(answer="differs", measured=measured, reason=f"{what} still rises with {of} beyond {at:g}")
    if before.low > 0 and after.high < before.low:
        return Verdict(answer="agrees", measured=measured, reason=f"{what} rises with {of} up to {at:g} alone")
    return cannot(f"the slopes of {what} on either side of {at:g} are not told apart", measured)


def exactly(right: bool, measured: str, reason: str) -> Verdict:
    """The verdict on arithmetic: no noise."""
    return Verdict(answer="agrees" if right else "differs", measured=measured, reason=reason)
