"""What a calibration is: a system whose capacity is known, measured as any other, and how far off it may come out.

A system says before it is measured what is known, and what may part a right measurement from it: the search's own
sampling error, what the finite-size theory neglects, margins too narrow for a training of finite length. The tolerance
is the sum of these, each derived from theory and none from what came out. The measured point is held against it, not
the nearest end of its interval: an interval as wide as one likes would then pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from capax.measures.search import ThresholdFit, search_threshold
from capax.seeds import numpy_generator

Standing = Literal["textbook", "secondary", "derived"]
Reached = Literal["precise", "budget", "all_succeeded", "all_failed"]

STANDARD_ERRORS = 3.0
NORMAL_WIDTH = 3.92
"""Standard errors that a 95 % interval is wide."""
SEEDS_PER_ROUND = 16
MOST_TRIALS = 3000
"""Of a search with cheap trials: far more than the widths asked for here need."""


@dataclass(frozen=True)
class Known:
    """A capacity that is known.

    Attributes:
        value: at the size that is measured.
        formula, source, standing: where the value comes from.
        limit: what the field quotes, for the same size; None where the value is exact.
        limit_formula, limit_source, limit_standing: where the quoted value comes from.
    """

    value: float
    formula: str
    source: str
    standing: Standing
    limit: float | None = None
    limit_formula: str | None = None
    limit_source: str | None = None
    limit_standing: Standing | None = None


@dataclass(frozen=True)
class Part:
    """One reason for which a right measurement may differ from what is known, as a share of that."""

    share: float
    reason: str


@dataclass(frozen=True)
class Found:
    """What a measurement found."""

    value: float
    low: float
    high: float
    trials: int
    reached: Reached


@dataclass(frozen=True)
class System:
    """A system whose capacity is known.

    Attributes:
        name: what `only` calls it.
        about: what it is, and what counts as success.
        protocol: how it is measured.
        unit: of its capacity.
        known: its capacity.
        parts: of the tolerance.
        measure: measures it, from a seed.
    """

    name: str
    about: str
    protocol: str
    unit: str
    known: Known
    parts: tuple[Part, ...]
    measure: Callable[[int], Found]

    @property
    def tolerance(self) -> float:
        """How far a measurement may be from the known value, in its unit."""
        return self.known.value * sum(part.share for part in self.parts)


def judge(known: float, tolerance: float, found: Found) -> str | None:
    """Why a measurement is off; None when it is not."""
    if found.reached != "precise":
        ended = {"budget": "trials ran out", "all_succeeded": "every trial succeeded", "all_failed": "every one failed"}
        return f"the search did not reach its precision: {ended[found.reached]}"
    away = found.value - known
    if not abs(away) <= tolerance:
        return f"{abs(away):.3g} {'above' if away > 0 else 'below'} what is known, {tolerance:.3g} are tolerated"
    return None


def sampling(width: float) -> Part:
    """What a search that ends at an interval of a relative width may be off by chance."""
    return Part(
        STANDARD_ERRORS * width / NORMAL_WIDTH,
        f"search: three standard errors, its 95 % interval being at most {width:.0%} wide",
    )


def found(fit: ThresholdFit) -> Found:
    """A threshold fit as what was found."""
    return Found(fit.threshold, fit.low, fit.high, len(fit.trials), fit.stop_reason)


def search(
    name: str,
    learn: Callable[[list[tuple[int, int]], int], Sequence[bool]],
    seed: int,
    *,
    first_size: int,
    largest_size: int,
    width: float,
    max_trials: int = MOST_TRIALS,
    rising: bool = False,
) -> Found:
    """The threshold search of protocols `mls` and `budget`, on a learner of ours.

    Args:
        name: of the system; names its random streams.
        learn: answers for (size, trial) pairs, given the seed.
        seed: of all draws.
        first_size, largest_size, max_trials, rising: as in `search_threshold`.
        width: relative width of the interval at which the search ends.
    """
    fit = search_threshold(
        lambda pairs: learn(pairs, seed),
        first_size=first_size,
        largest_size=largest_size,
        seeds_per_round=SEEDS_PER_ROUND,
        max_trials=max_trials,
        precision=width,
        seed=int(numpy_generator(seed, f"calibrate {name} search").integers(2**31)),
        rising=rising,
    )
    return found(fit)


def one_by_one(
    name: str, succeeds: Callable[[int, np.random.Generator], bool]
) -> Callable[[list[tuple[int, int]], int], list[bool]]:
    """A learner for `search` of what decides a single trial."""

    def learn(pairs: list[tuple[int, int]], seed: int) -> list[bool]:
        return [succeeds(size, numpy_generator(seed, f"calibrate {name}", trial)) for size, trial in pairs]

    return learn
