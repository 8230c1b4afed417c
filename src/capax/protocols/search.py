"""The noise-aware threshold search: at which size does success turn into failure, and how sure is that?

One search serves the largest library that is memorized whole (MLS) and the smallest total key dimension that suffices
(D_K*). Success is a random event: two seeds at one size may disagree, so a bisection would stop at an accident. Here
the answer is the 50 % point of a logistic curve fitted to trials over many sizes and seeds, with an interval.

Three choices keep the interval honest; without them it held the truth in 80 to 90 % of simulated searches, not 95 %:

- The likelihood carries Jeffreys' penalty, `½ log det I` (Firth 1993; intervals: Heinze and Schemper 2002). Few trials
  are easily separated by accident, and plain likelihood then takes the transition to be infinitely steep.
- A search stops when its interval is narrow enough at two looks in a row, and it looks only when the trials have grown
  by a quarter: a rule that stops at the first narrow interval prefers those that are narrow by luck (92 to 93 %).
- The drop of the profile that bounds the interval is that of the F distribution with 1 and `trials - 2` degrees of
  freedom (chi-square's small-sample form). Where the width of the interval decides when to stop, the drop is 1.15 times
  that, a correction for the rest of that preference, set by simulation; trials that were simply spent need none.

Where the asked precision is coarser than the transition is wide, the interval is that of a nearly deterministic
threshold and holds the truth more often than 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import log_expit

from capax.results import LEVEL
from capax.results.searches import SearchEnd

Floats = NDArray[np.float64]
Learner = Callable[[list[tuple[int, int]]], Sequence[bool]]

SLOPES = (0.5, 1e7)
"""Bounds of the slope: at 0.5 success falls from 90 to 10 % over a factor of 6600 in size, at 1e7 within one item."""

_REACH = 4.0  # how far beyond the tried sizes a threshold is looked for, in log size
_SPREAD = 2.0  # trials lie where success has 12 to 88 %, or all over the interval while that is wider
_GROWTH = 1.25  # trials at one look over those at the look before
_CORRECTION = 1.15  # of the drop, see above
_SURE = 5  # equal outcomes at the last size that may be tried, before a search gives up


@dataclass(frozen=True)
class Trial:
    """One training: the size that was tried, its seed, and whether it succeeded."""

    size: int
    seed: int
    success: bool


@dataclass(frozen=True)
class ThresholdFit:
    """The threshold of a learner, with its interval.

    Attributes:
        threshold: the size at which half of the seeds succeed.
        low, high: the profile-likelihood interval at `level`.
        slope: how steep the transition is, `k` in `sigmoid(-k (log size - log threshold))`; positive also where rising.
        largest_sure: the largest size tried such that all trials up to it succeeded, None when there is none; where
            success rises with size, the smallest one such that all trials from it on succeeded.
        trials: every trial, in order.
        stop_reason: `precise`; `budget`, all trials were spent (or given); `all_succeeded` and `all_failed`: so did
            every trial, and the threshold is only bounded. `threshold` is then the outermost size tried, and `high` is
            infinite (success up to the largest size) or `low` is 0 (failure down to the smallest one).
    """

    threshold: float
    low: float
    high: float
    slope: float
    largest_sure: int | None
    trials: tuple[Trial, ...]
    stop_reason: SearchEnd


def fit_threshold(trials: Iterable[Trial], rising: bool = False) -> ThresholdFit:
    """The logistic curve of success against log size, `P(success) = sigmoid(-k (log size - log threshold))`.

    The likelihood, with Jeffreys' penalty, is evaluated on grids over (log threshold, log k) that close in on where it
    is high. Trials that a threshold separates without error leave a flat maximum of the plain likelihood between the
    last success and the first failure: the point is its middle in log size, and the interval holds all of it.

    Args:
        trials: at least one; sizes of at least 1.
        rising: success rises with size (`+k`), as with the total key dimension, and does not fall.

    Raises:
        ValueError: if there is no trial or a size is below 1.

    Source: the form is capax's own; how noisy seeds decide on the MLS of Härmä et al. 2024 is not known.
    """
    return _fit(tuple(trials), rising, correction=1.0)


def _fit(trials: tuple[Trial, ...], rising: bool, correction: float) -> ThresholdFit:
    if not trials or min(trial.size for trial in trials) < 1:
        raise ValueError(f"trials: needs at least one, of sizes of at least 1, got {len(trials)} trials")
    point, low, high, slope = _Curve(trials, rising).fit(correction)
    threshold, low, high = math.exp(point), math.exp(low), math.exp(high)
    reason: SearchEnd = "budget"
    left = [t.size for t in trials if t.success != rising]
    right = [t.size for t in trials if t.success == rising]
    if not right:
        threshold, low, high = max(left), min(low, max(left)), math.inf
        reason = "all_failed" if rising else "all_succeeded"
    elif not left:
        threshold, low, high = min(right), 0.0, max(high, min(right))
        reason = "all_succeeded" if rising else "all_failed"
    elif max(left) < min(right):
        threshold, low, high = math.sqrt(max(left) * min(right)), min(low, max(left)), max(high, min(right))
    return ThresholdFit(float(threshold), float(low), float(high), slope, _largest_sure(trials, rising), trials, reason)


def search_threshold(
    learner: Learner,
    *,
    first_size: int,
    largest_size: int,
    seeds_per_round: int,
    max_trials: int,
    precision: float,
    seed: int,
    rising: bool = False,
) -> ThresholdFit:
    """Find a learner's threshold with as few trials as its noise and the asked precision allow.

    First the sizes double or halve from `first_size` until the threshold is bracketed, small ones first because large
    ones cost more. Then each round spreads its trials over the interval and the transition of the current fit, until
    `(high - low) / threshold <= precision` at two looks in a row, or two neighbouring sizes separate all successes
    from all failures beyond doubt, or trials run out.

    Args:
        learner: trains a list of (size, seed index) pairs, one round, and says for each whether it succeeded. Trial
            number i of a search has the seed index i.
        first_size: where the search starts; a guess below the threshold is cheapest.
        largest_size: no larger size is ever tried.
        seeds_per_round: trials in a round of the second phase.
        max_trials: trials in all.
        precision: relative width of the interval that is good enough.
        seed: of the placement of trials; rounds depend on the arguments and the outcomes alone.
        rising: success rises with size.

    Raises:
        ValueError: if an argument is out of range, or the learner's answer has the wrong length.
    """
    if not 1 <= first_size <= largest_size:
        raise ValueError(f"first_size: must be in 1 .. largest_size = {largest_size}, got {first_size}")
    for name, value in (("seeds_per_round", seeds_per_round), ("max_trials", max_trials)):
        if value < 1:
            raise ValueError(f"{name}: must be at least 1, got {value}")
    if not precision > 0:
        raise ValueError(f"precision: must be above 0, got {precision}")
    rng = np.random.default_rng(seed)
    trials: list[Trial] = []
    sizes = [first_size, 2 * first_size]
    while sizes and len(trials) < max_trials:
        _run(learner, {min(max(size, 1), largest_size) for size in sizes}, trials, max_trials)
        sizes = _outwards(trials, largest_size, rising)
    narrow_before = False
    while True:
        fit = _fit(tuple(trials), rising, _CORRECTION)
        narrow = fit.stop_reason == "budget" and fit.high - fit.low <= precision * fit.threshold
        if (narrow and narrow_before) or _between_neighbours(fit):
            return replace(fit, stop_reason="precise")
        if len(trials) >= max_trials or _beyond(fit, largest_size):
            return fit_threshold(trials, rising)
        narrow_before = narrow
        look = min(_GROWTH * len(trials), max_trials)
        while len(trials) < look:
            _run(learner, _place(fit, seeds_per_round, largest_size, rng), trials, max_trials)


def _run(learner: Learner, sizes: Iterable[int], trials: list[Trial], max_trials: int) -> None:
    pairs = list(zip(sorted(sizes), range(len(trials), max_trials), strict=False))
    outcomes = list(learner(pairs))
    if len(outcomes) != len(pairs):
        raise ValueError(f"learner: must answer for each of {len(pairs)} trials, got {len(outcomes)} answers")
    trials += [Trial(*pair, bool(success)) for pair, success in zip(pairs, outcomes, strict=True)]


def _outwards(trials: Sequence[Trial], largest_size: int, rising: bool) -> list[int]:
    """The next sizes of the bracketing phase, none when the outermost sizes lie on either side of the threshold."""

    def mostly_left(size: int) -> bool:
        left = [trial.success != rising for trial in trials if trial.size == size]
        return 2 * sum(left) > len(left)

    small, large = min(trial.size for trial in trials), max(trial.size for trial in trials)
    if mostly_left(large) and large < largest_size:
        return [2 * large, 4 * large]
    if not mostly_left(small) and small > 1:
        return [small // 2, small // 4, small // 8]
    return []


def _beyond(fit: ThresholdFit, largest_size: int) -> bool:
    """Whether outcomes at the last size that may be tried, all equal, say that the threshold lies beyond it."""
    last = largest_size if math.isinf(fit.high) else 1
    return fit.stop_reason != "budget" and sum(trial.size == last for trial in fit.trials) >= _SURE


def _between_neighbours(fit: ThresholdFit) -> bool:
    """Whether the interval is the gap between two neighbouring sizes, with no outcome on its wrong side.

    Noisy trials are left to the precision: ending where the interval lies between two whole numbers would prefer
    intervals that miss a threshold which is a whole number (measured: 86 % held it).
    """
    gap = math.floor(fit.threshold)
    whole = math.isclose(fit.low, gap) and math.isclose(fit.high, gap + 1)
    outcomes = {(trial.size > gap, trial.success) for trial in fit.trials}
    return whole and len(outcomes) == 2


def _place(fit: ThresholdFit, count: int, largest_size: int, rng: np.random.Generator) -> list[int]:
    """Sizes for a round: spread in log size over the interval and the transition, distinct where there are enough."""
    small, large = min(trial.size for trial in fit.trials), max(trial.size for trial in fit.trials)
    if fit.stop_reason != "budget":
        return [min(2 * large, largest_size) if math.isinf(fit.high) else max(small // 2, 1)] * count
    reach = math.exp(min(_SPREAD / fit.slope, _REACH))
    limits = max(small / 2, 1.0), min(2.0 * large, float(largest_size))
    first, last = np.log(np.clip([min(fit.low, fit.threshold / reach), max(fit.high, fit.threshold * reach)], *limits))
    places = np.exp(first + (last - first) * (np.arange(count) + rng.random(count)) / count)
    sizes = np.clip(np.floor(places + rng.random(count)), *limits).astype(int)
    lowest, highest = math.floor(math.exp(first)), math.ceil(math.exp(last) - 1e-9)
    if highest - lowest + 1 >= count:
        for at in range(1, count):
            sizes[at] = max(sizes[at], sizes[at - 1] + 1)
        sizes = np.minimum(sizes, highest - np.arange(count)[::-1])
    return [int(size) for size in sizes]


def _largest_sure(trials: Sequence[Trial], rising: bool) -> int | None:
    sure = None
    for size in sorted({trial.size for trial in trials}, reverse=rising):
        if not all(trial.success for trial in trials if trial.size == size):
            break
        sure = size
    return sure


class _Curve:
    """The penalized log-likelihood of the falling curve; a rising one is the same with its outcomes exchanged."""

    def __init__(self, trials: Sequence[Trial], rising: bool) -> None:
        left = np.array([trial.success != rising for trial in trials])
        self.log_size, index = np.unique(np.log([trial.size for trial in trials]), return_inverse=True)
        self.left = np.bincount(index, weights=left)
        self.number = np.bincount(index).astype(np.float64)

    def surface(self, at: Floats, slope: Floats) -> Floats:
        """The log-likelihood plus `½ log det I`; shape `(at, slope)`."""
        offset = self.log_size - at[:, None]
        z = slope[:, None] * offset[:, None, :]
        log_right = log_expit(z)
        value = log_right @ self.number - z @ self.left
        right = np.exp(log_right)
        weight = right * (1 - right) * self.number
        moment = [np.matmul(weight, offset[:, :, None] ** power)[..., 0] for power in range(3)]
        if len(self.log_size) > 1:
            value += 0.5 * np.log(np.maximum(moment[0] * moment[2] - moment[1] ** 2, 1e-290))
        return np.asarray(value, dtype=np.float64)

    def _first_grid(self) -> Floats:
        """Tried sizes and middles between them, thinned, but always the middle of a gap that separates the outcomes."""
        u = self.log_size
        every = np.sort(np.concatenate([u, (u[1:] + u[:-1]) / 2]))
        thinned = every[:: max(len(every) // 50, 1)]
        gap = u[self.left > 0][-1:], u[self.left < self.number][:1]
        middle = (gap[0] + gap[1]) / 2 if len(gap[0]) and len(gap[1]) else u[:0]
        beyond = np.array([0.3, 1.0, _REACH])
        return np.unique(np.concatenate([thinned, middle, u[0] - beyond, u[-1] + beyond]))

    def fit(self, correction: float) -> tuple[float, float, float, float]:
        """Point, low and high in log size (infinite where beyond reach), and the slope."""
        trials = int(self.number.sum())
        drop = correction * float(scipy.stats.f.ppf(LEVEL, 1, max(trials - 2, 1))) / 2
        at = self._first_grid()
        ends = at[0], at[-1]
        slope = np.geomspace(*SLOPES, 25)
        value = self.surface(at, slope)
        for margin in (2.0, 0.3):  # below the drop, since the true maxima lie above those of a coarse grid
            high = value >= value.max() - drop - margin
            at, slope = np.linspace(*_around(at, high.any(1)), 40), np.geomspace(*_around(slope, high.any(0)), 24)
            value = self.surface(at, slope)
        best = np.unravel_index(int(value.argmax()), value.shape)
        profile = _row_maxima(value)
        profile += drop - profile.max()
        inside = np.flatnonzero(profile >= 0)
        low = _crossing(at, profile, int(inside[0]), -1) if at[0] > ends[0] or inside[0] > 0 else -math.inf
        last = len(at) - 1
        high_end = _crossing(at, profile, int(inside[-1]), 1) if at[-1] < ends[1] or inside[-1] < last else math.inf
        return float(at[best[0]]), low, high_end, float(slope[best[1]])


def _around(grid: Floats, inside: NDArray[np.bool_]) -> tuple[float, float]:
    """The ends of the marked part of a grid, one cell wider on either side."""
    marked = np.flatnonzero(inside)
    return float(grid[max(marked[0] - 1, 0)]), float(grid[min(marked[-1] + 1, len(grid) - 1)])


def _row_maxima(value: Floats) -> Floats:
    """The maximum of each row, between grid points too: the vertex of the parabola through the best three."""
    best = np.clip(value.argmax(1), 1, value.shape[1] - 2)
    left, middle, right = (np.take_along_axis(value, best[:, None] + step, 1)[:, 0] for step in (-1, 0, 1))
    bend = np.minimum(left - 2 * middle + right, -1e-12)
    vertex = middle - (left - right) ** 2 / (8 * bend)
    return np.where((middle >= left) & (middle >= right), vertex, value.max(1))


def _crossing(at: Floats, profile: Floats, inside: int, step: int) -> float:
    """Where the profile crosses zero between a grid point inside and its outer neighbour."""
    outside = inside + step
    if not 0 <= outside < len(at):
        return float(at[inside])
    part = profile[inside] / (profile[inside] - profile[outside])
    return float(at[inside] + part * (at[outside] - at[inside]))
