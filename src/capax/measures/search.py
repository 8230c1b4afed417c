"""The noise-aware threshold search."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit
from scipy.stats import chi2

Floats = NDArray[np.float64]
StopReason = Literal["precise", "budget", "all_succeeded", "all_failed"]
Learner = Callable[[list[tuple[int, int]]], Sequence[bool]]

SLOPES = (0.5, 1e7)
LEVEL = 0.95
CRIT = float(chi2.ppf(LEVEL, 1))
MARGIN = 4.0


@dataclass(frozen=True)
class Trial:
    size: int
    seed: int
    success: bool


@dataclass(frozen=True)
class ThresholdFit:
    threshold: float
    low: float
    high: float
    slope: float
    largest_sure: int | None
    trials: tuple[Trial, ...]
    stop_reason: StopReason
    level: float = LEVEL


class _Profile:
    def __init__(self, trials, rising):
        sizes = np.array([t.size for t in trials])
        below = np.array([t.success != rising for t in trials])
        self.log_size, index = np.unique(np.log(sizes), return_inverse=True)
        self.n_below = np.bincount(index, weights=below)
        self.n_above = np.bincount(index, weights=~below)

    def surface(self, at, slopes):
        d = self.log_size - at[:, None]
        z = slopes[:, None] * d[:, None, :]
        log_p = log_expit(z)
        n = self.n_below + self.n_above
        ll = log_p @ n - z @ self.n_below
        p = np.exp(log_p)
        w = p * (1 - p) * n
        a = w.sum(-1)
        b = np.matmul(w, d[:, :, None])[..., 0]
        c = np.matmul(w, (d * d)[:, :, None])[..., 0]
        if len(self.log_size) > 1:
            ll = ll + 0.5 * np.log(np.maximum(a * c - b * b, 1e-290))
        return ll


def _box(grid, inside):
    i = np.flatnonzero(inside)
    return grid[max(i[0] - 1, 0)], grid[min(i[-1] + 1, len(grid) - 1)]


def _profile_fit(p, crit=CRIT):
    u = p.log_size
    ends = np.array([u[0] - MARGIN, u[0] - 1, u[0] - 0.3, u[-1] + 0.3, u[-1] + 1, u[-1] + MARGIN])
    at = np.unique(np.concatenate([u, (u[1:] + u[:-1]) / 2, ends]))
    k = np.geomspace(*SLOPES, 25)
    start = at[0], at[-1]
    for _ in range(2):
        ll = p.surface(at, k)
        inside = ll >= ll.max() - crit / 2 - 0.3
        tb, kb = _box(at, inside.any(1)), _box(k, inside.any(0))
        at, k = np.linspace(*tb, 40), np.geomspace(*kb, 20)
    ll = p.surface(at, k)
    prof = ll.max(1)
    best = np.unravel_index(ll.argmax(), ll.shape)
    i = int(best[0])
    inside = np.flatnonzero(prof >= prof.max() - crit / 2)
    lo, hi = inside[0], inside[-1]
    low = -math.inf if lo == 0 and at[0] == start[0] else at[max(lo - 1, 0)]
    high = math.inf if hi == len(at) - 1 and at[-1] == start[1] else at[min(hi + 1, len(at) - 1)]
    return at[i], low, high, k[best[1]]


def fit_threshold(trials, rising=False, stop_reason="budget", crit=CRIT):
    trials = tuple(trials)
    p = _Profile(trials, rising)
    point, low, high, slope = _profile_fit(p, crit)
    t, lo, hi = math.exp(point), math.exp(low), math.exp(high)
    if not p.n_above.sum():
        t, hi = math.exp(p.log_size[-1]), math.inf
        stop_reason = "all_failed" if rising else "all_succeeded"
    elif not p.n_below.sum():
        t, lo = math.exp(p.log_size[0]), 0.0
        stop_reason = "all_succeeded" if rising else "all_failed"
    return ThresholdFit(t, lo * (1 - 1e-9), hi * (1 + 1e-9), slope, None, trials, stop_reason)


SPREAD = 1.5


def search_threshold(
    learner,
    *,
    first_size,
    largest_size,
    seeds_per_round=8,
    max_trials=64,
    precision=0.1,
    seed=0,
    rising=False,
    min_trials=0,
    crit=CRIT,
    spread=SPREAD,
):
    rng = np.random.default_rng(seed)
    trials = []

    def run(sizes):
        sizes = sizes[: max_trials - len(trials)]
        pairs = [(int(s), len(trials) + i) for i, s in enumerate(sizes)]
        trials.extend(Trial(s, i, bool(ok)) for (s, i), ok in zip(pairs, learner(pairs), strict=True))

    def below(size):
        x = [t.success != rising for t in trials if t.size == size]
        return 2 * sum(x) > len(x)

    sizes = [first_size, 2 * first_size, 4 * first_size]
    while len(trials) < max_trials:
        run(sorted({min(max(s, 1), largest_size) for s in sizes}))
        small, large = min(t.size for t in trials), max(t.size for t in trials)
        if below(large) and large < largest_size:
            sizes = [2 * large, 4 * large, 8 * large]
        elif not below(small) and small > 1:
            sizes = [small // 2, small // 4, small // 8]
        else:
            break
    start = len(trials)
    while True:
        fit = fit_threshold(trials, rising, crit=crit)
        width = fit.high - fit.low
        resolved = math.ceil(fit.high - 1e-6) - math.floor(fit.low + 1e-6) <= 1 if math.isfinite(width) else False
        if fit.stop_reason != "budget":
            if len(trials) >= start + min(seeds_per_round, 5):
                return fit
        elif resolved or (len(trials) - start >= min_trials and width <= precision * fit.threshold):
            return replace(fit, stop_reason="precise")
        if len(trials) >= max_trials:
            return fit
        nxt = min(max_trials, growth * len(trials))
        run(place(fit, seeds_per_round, small, large, largest_size, rng, spread))
        while len(trials) < nxt:
            run(place(fit, seeds_per_round, small, large, largest_size, rng, spread))


def place(fit, count, small, large, largest_size, rng, spread):
    reach = spread / fit.slope
    c = math.log(fit.threshold)
    lo = max(fit.low, small / 2)
    hi = min(fit.high, large * 2)
    a = min(math.log(lo), c - reach)
    b = max(math.log(hi), c + reach)
    a, b = max(a, math.log(small / 2)), min(b, math.log(large * 2))
    x = np.exp(a + (b - a) * (np.arange(count) + rng.random(count)) / count)
    x = np.floor(x + rng.random(count)).astype(int)
    return sorted(np.clip(x, 1, largest_size))
