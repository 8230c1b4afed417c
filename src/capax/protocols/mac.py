"""Maximum attainable capacity: the best of several restarts on one library, and how it would vary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from capax.protocols.count import Count, Train
from capax.results import LEVEL, Interval
from capax.specs import Mac, Run

if TYPE_CHECKING:  # reports read this file, and need no torch
    from capax.training.pack import Outcome

DRAWS, FEWEST, MOST_DRAWN = 200_000, 2000, 400_000_000
"""Studies that are drawn: fewer where each has thousands of restarts."""
AT_ONCE = 10_000_000
"""Counts that are drawn at once (80 MB)."""
ROUNDING = 12**-0.5
"""The standard deviation of what is rounded to a whole number."""


def mac(run: Run, protocol: Mac, train: Train) -> Count:
    """The best count of several restarts."""
    return best_of_restarts([run], protocol, train)[0]


def best_of_restarts(runs: Sequence[Run], protocol: Mac, train: Train) -> list[Count]:
    """The counts of runs that differ in their seeds alone."""
    restarts, size, counts = protocol.restarts, runs[0].task.library_size, []
    trained = train(range(restarts), [size] * restarts, True)
    for place in range(len(runs)):
        outcomes = trained[place * restarts : (place + 1) * restarts]
        best = max(outcomes, key=lambda outcome: outcome.memorized)
        counts.append(Count(best.memorized, best, outcomes, size, size))
    return counts


def interval_of(outcomes: Sequence[Outcome], most: int, by_bits: bool = False) -> Interval | None:
    """`best_of_restarts_interval` of trainings; None where all begin alike, whose spread is not that of restarts.

    Args:
        most: items that can be recalled at all.
        by_bits: as there.
    """
    if any(outcome.one_start for outcome in outcomes):
        return None
    return interval_of_counts([outcome.memorized for outcome in outcomes], most, by_bits)


def interval_of_counts(counts: Sequence[int], most: int, by_bits: bool = False) -> Interval | None:
    """`best_of_restarts_interval` of whole numbers, which may be equal and vary all the same.

    To a deviation below 1 that of rounding is added; counts that are all that can be recalled are what they are,
    since the best of as many new ones can be no more. Counts that are all 0 are not: a new one may be 1.
    """
    sure = set(counts) == {most} and not by_bits
    return best_of_restarts_interval(counts, most, rounding=0.0 if sure else ROUNDING, by_bits=by_bits)


@cache
def _best_of_quantiles(restarts: int, best_of: int) -> tuple[float, float]:
    """Range of (best of some new counts − mean of `restarts` old ones) / deviation of the old ones, for normal counts.

    The ratio does not depend on the counts' mean and spread, so it is drawn once (fixed seed; error below 1 %).
    """
    generator = np.random.default_rng(0)
    draws, at_once = max(min(DRAWS, MOST_DRAWN // restarts), FEWEST), max(AT_ONCE // restarts, 1)
    sizes = [min(at_once, draws - first) for first in range(0, draws, at_once)]

    def studies() -> Iterator[np.ndarray]:
        return (generator.standard_normal((size, restarts)) for size in sizes)

    old = np.concatenate([[counts.mean(1), counts.std(1, ddof=1)] for counts in studies()], axis=1)
    best = np.concatenate([counts[:, :best_of].max(1) for counts in studies()])
    ratio = (best - old[0]) / old[1]
    low, high = np.quantile(ratio, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def best_of_restarts_interval(
    counts: Sequence[float], most: float, least: float = 0.0, rounding: float = 0.0, by_bits: bool = False
) -> Interval | None:
    """Where the best count of as many new restarts on this library would fall; None for one restart.

    The counts of restarts are taken to be normal; the range is then exact for their number (a prediction interval, not
    a bootstrap: resampling the restarts at hand can never give more than their maximum). Ours: the paper's is unknown.

    Args:
        most, least: no count can be beyond them.
        rounding: the deviation of their rounding, which is added to one below 1.
        by_bits: whether not the best count counts, but that of the restart which knows most bits (protocol `capacity`).
            How far both go together is not known, so the range is that of any one new count and of the best of all.
    """
    if len(counts) < 2:
        return None
    mean, deviation = float(np.mean(counts)), float(np.std(counts, ddof=1))
    deviation = max(deviation, float(np.hypot(min(deviation, 1.0), rounding)))
    ranges = [_best_of_quantiles(len(counts), best_of) for best_of in {len(counts), *((1,) if by_bits else ())}]
    lows, highs = zip(*ranges, strict=True)
    low, high = (min(max(mean + quantile * deviation, least), float(most)) for quantile in (min(lows), max(highs)))
    which = f"the one of {len(counts)} restarts that knows most bits" if by_bits else f"best of {len(counts)} restarts"
    return Interval(low=low, high=high, level=LEVEL, of=f"{which}, in a repeated study of this library")
