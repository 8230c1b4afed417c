"""What trainings would reach in eight times as many steps, by what they knew at the ends of cycles.

Gains of later cycles shrink, but by no one law: some networks gain nothing more; in others the next three cycles add
three times what the last one added, and the less that was, the larger is the multiple. So no curve is extrapolated.
What is added is the last gain once more and a share of what is known: the mean of what was measured, after large last
gains and after small ones. The interval holds nearly all of it (benchmarks/records says of which networks).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capax.protocols.means import half_of_mean
from capax.results import LEVEL, Interval

SHARE = 0.02
"""What three cycles after convergence add to what is known, beside what the last one added."""

OF = "bits known after eight times as many steps, mean of all restarts on this library"


@dataclass(frozen=True)
class Trend:
    """Where restarts are, and what they would reach.

    Attributes:
        reached: mean at the end.
        last_gain: share that the last cycle added; None before the second.
        later: the mean after eight times as many steps; None where gains do not shrink.
        interval: of that.
    """

    reached: float
    last_gain: float | None
    later: float | None
    interval: Interval | None


def trend(restarts: Sequence[Sequence[float]], most: float = math.inf) -> Trend:
    """The trend of restarts, each of which knew so many bits at most by the end of each of its cycles.

    No more than `most` can be known.

    The interval has two parts, put together as independent errors: how much is still to come, of which bounds were
    measured, and how far the mean of so few restarts may be from that of all, by Student's t.
    """
    ends = np.array([bits[-1] for bits in restarts])
    reached = float(ends.mean())
    lasts = [bits[-1] - bits[-2] for bits in restarts if len(bits) > 1]
    last = float(np.mean(lasts)) if lasts else 0.0
    last_gain = last / (reached - last) if lasts and reached > last else None
    befores = [bits[-2] - bits[-3] for bits in restarts if len(bits) > 2]
    if len(befores) < len(restarts) or last >= np.mean(befores):
        return Trend(reached, last_gain, None, None)
    noise = half_of_mean(ends) if len(ends) > 1 else 0.0
    more = last + SHARE * reached
    later, half = reached + more, np.hypot(more, noise)  # nothing more, to twice as much
    low, high = later - half, later + half
    low, later, high = (float(np.clip(bits, 0.0, most)) for bits in (low, later, high))
    return Trend(reached, last_gain, later, Interval(low=low, high=high, level=LEVEL, of=OF))
