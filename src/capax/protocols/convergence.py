"""What a training tends to, by what it knew at the ends of cycles that double in length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capax.results import LEVEL, Interval


def converged_at(ends: Sequence[float], tolerance: float) -> int | None:
    """The number of the cycle, from 1, that first changed the most known before by less than a share; None if none."""
    most = ends[0] if ends else 0.0
    for number, bits in enumerate(ends[1:], 2):
        if abs(bits - most) < tolerance * most:
            return number
        most = max(most, bits)
    return None


@dataclass(frozen=True)
class Trend:
    """Where restarts are, and where they tend to.

    Attributes:
        reached: mean at the end.
        last_gain: share that the last cycle added; None before the second.
        limit: what the mean tends to; None where gains do not shrink.
        interval: of the limit.
    """

    reached: float
    last_gain: float | None
    limit: float | None
    interval: Interval | None


def trend(restarts: Sequence[Sequence[float]]) -> Trend:
    """The trend of restarts, each of which knew so many bits at the end of each of its cycles."""
    reached = float(np.mean([ends[-1] for ends in restarts]))
    gains = [np.diff(ends)[-2:] for ends in restarts if len(ends) > 2]
    lasts = [ends[-1] - ends[-2] for ends in restarts if len(ends) > 1]
    last_gain = float(np.mean(lasts)) / (reached - float(np.mean(lasts))) if lasts else None
    if len(gains) < len(restarts):
        return Trend(reached, last_gain, None, None)
    before, last = np.mean(gains, 0)
    ratio = last / before if before > 0 else 1.0
    if ratio >= 1:
        return Trend(reached, last_gain, None, None)
    limit = reached + last * ratio / (1 - ratio)
    return Trend(reached, last_gain, float(limit), Interval(low=reached, high=limit, level=LEVEL, of="provisional"))
