"""Shares that are recalled, with intervals that know which trials belong to one item."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
import scipy
from jaxtyping import Bool, Int
from pydantic import Field

from capax.results import LEVEL, Result


class Share(Result):
    """How many trials recalled, of how many, on how many items; with a 95 % interval of the share.

    Trials on one item are not independent: the interval is Wilson's with the effective number of trials, from the
    spread between items (`share`).
    """

    recalled: int
    trials: int
    items: Annotated[int, Field(description="Different items that the trials are on.")]
    rate: float
    low: float
    high: float


def share(hits: Bool[np.ndarray, " trials"], item: Int[np.ndarray, " trials"] | None = None) -> Share:
    """The share of trials that recall, with a 95 % interval for items like these under this model (ours).

    With one trial an item (`item` not given) the interval is Wilson's. With more it is Wilson's of an effective number
    of trials, at least that of items and at most that of trials: rate · (1 − rate) over the variance of a ratio of sums
    over items, with Student's quantile (Korn and Graubard 1998 do so with Clopper and Pearson's). For the variance one
    item that is always recalled and one that never is are added: where all trials agree, their spread says nothing.

    Args:
        hits: at least one.
        item: which item each trial is on.
    """
    rate, total = float(hits.mean()), len(hits)
    _, place, trials = np.unique(np.arange(total) if item is None else item, return_inverse=True, return_counts=True)
    items, quantile, effective = len(trials), float(scipy.stats.norm.ppf((1 + LEVEL) / 2)), float(total)
    if items < total:
        each = total / items
        found = np.append(np.bincount(place.ravel(), hits), [each, 0])
        asked = np.append(trials, [each, each])
        middle = found.sum() / asked.sum()
        variance = (items + 2) / (items + 1) * ((found - middle * asked) ** 2).sum() / asked.sum() ** 2
        effective = min(max(middle * (1 - middle) / variance, items), total)
        quantile = float(scipy.stats.t.ppf((1 + LEVEL) / 2, items + 1))
    low, high = _wilson(rate, effective, quantile)
    return Share(recalled=int(hits.sum()), trials=total, items=items, rate=rate, low=low, high=high)


def _wilson(rate: float, trials: float, quantile: float) -> tuple[float, float]:
    square = quantile**2 / trials
    half = quantile * math.sqrt(rate * (1 - rate) / trials + square / 4 / trials)
    low, high = (rate + square / 2 - half) / (1 + square), (rate + square / 2 + half) / (1 + square)
    return (0.0 if rate == 0 else max(low, 0.0)), (1.0 if rate == 1 else min(high, 1.0))


def spread(items: int, trials: int, generator: np.random.Generator) -> Int[np.ndarray, " trials"]:
    """Which item each trial is on: items in random order, again and again, so that their numbers differ by one."""
    return np.resize(generator.permutation(items), trials)
