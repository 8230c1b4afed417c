"""Shares that are recalled, with intervals that know which trials belong to one item."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from jaxtyping import Bool, Int
from pydantic import Field
from scipy.stats import norm, t

from capax.results import Result

LEVEL = 0.95


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
    """The share of trials that recall, with a 95 % interval for items like these under this model.

    With one trial an item (`item` not given) the interval is Wilson's. With more, the variance of the share is that of
    a ratio of sums over items (clusters), which gives an effective number of trials, at least the number of items and
    at most that of trials; Wilson's interval is taken of that, with Student's quantile for items − 1 degrees of freedom
    (as Korn and Graubard 1998 do with Clopper and Pearson's). Of several trials on a single item it is all of [0, 1].

    Args:
        hits: at least one.
        item: which item each trial is on.
    """
    item = np.arange(len(hits)) if item is None else item
    _, place, trials = np.unique(item, return_inverse=True, return_counts=True)
    found = np.bincount(place.ravel(), hits)
    items, total, rate = len(trials), len(hits), float(hits.mean())
    low, high = 0.0, 1.0
    if total == items:
        low, high = _wilson(rate, total, float(norm.ppf((1 + LEVEL) / 2)))
    elif items > 1:
        variance = items / (items - 1) * float(((found - rate * trials) ** 2).sum()) / total**2
        effective = rate * (1 - rate) / variance if variance else 0.0
        quantile = float(t.ppf((1 + LEVEL) / 2, items - 1))
        low, high = _wilson(rate, min(max(effective, items), total), quantile)
    return Share(recalled=int(hits.sum()), trials=total, items=items, rate=rate, low=low, high=high)


def _wilson(rate: float, trials: float, quantile: float) -> tuple[float, float]:
    square = quantile**2 / trials
    half = quantile * math.sqrt(rate * (1 - rate) / trials + square / 4 / trials)
    low, high = (rate + square / 2 - half) / (1 + square), (rate + square / 2 + half) / (1 + square)
    return (0.0 if rate == 0 else max(low, 0.0)), (1.0 if rate == 1 else min(high, 1.0))


def spread(items: int, trials: int, generator: np.random.Generator) -> Int[np.ndarray, " trials"]:
    """Which item each trial is on: items in random order, again and again, so that their numbers differ by one."""
    return np.resize(generator.permutation(items), trials)
