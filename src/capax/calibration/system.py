"""Systems of known capacity: what is known, how it is measured, and how far off a right measurement may be.

A system states before it is measured what is known, and what may part a right measurement from it: the search's own
sampling error, what the finite-size theory neglects, margins too narrow for a training of finite length. The tolerance
is the sum of these, each derived from theory and none from what came out. The measured point is compared, not the
nearest end of its interval: a wide interval excuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from capax.protocols.search import ThresholdFit, search_threshold
from capax.results import Result
from capax.results.searches import SearchEnd
from capax.seeds import numpy_generator

Origin = Literal["textbook", "secondary", "derived"]
ENDED: dict[SearchEnd, str] = {
    "budget": "trials ran out",
    "all_succeeded": "every trial succeeded",
    "all_failed": "every one failed",
}

STANDARD_ERRORS = 3.0
# standard errors that a 95 % interval is wide
NORMAL_WIDTH = 3.92
SEEDS_PER_ROUND = 16
# of a search with cheap trials: far more than the widths asked for here need
MOST_TRIALS = 3000
Succeeds = Callable[[int, np.random.Generator], bool]
Learner = Callable[[list[tuple[int, int]], int], Sequence[bool]]


class KnownCapacity(Result):
    """A capacity that is known before anything is measured."""

    value: Annotated[float, Field(description="At the size that is measured; what the measurement is held against.")]
    formula: str
    source: str
    standing: Annotated[
        Origin,
        Field(
            description="textbook: exact and standard; secondary: read where others restate it; derived: ours, and "
            "checked."
        ),
    ]
    limit: Annotated[
        float | None, Field(description="What the field quotes, of n → ∞, at this size; None where the value is exact.")
    ] = None
    limit_formula: str | None = None
    limit_source: str | None = None
    limit_standing: Origin | None = None


@dataclass(frozen=True)
class Slack:
    """One reason why a right measurement may differ from what is known, as a share of that."""

    share: float
    reason: str


@dataclass(frozen=True)
class Measured:
    """What a measurement of a system gave: its capacity with an interval, and how the search ended."""

    value: float
    low: float
    high: float
    trials: int
    search_ended: SearchEnd


@dataclass(frozen=True)
class System:
    """A system of known capacity.

    Attributes:
        name: what `only` calls it.
        about: what it is, and what counts as success.
        protocol: how it is measured.
        unit: of its capacity.
        known: its capacity.
        slack: the parts of the tolerance.
        measure: measures it, from a seed.
    """

    name: str
    about: str
    protocol: str
    unit: str
    known: KnownCapacity
    slack: tuple[Slack, ...]
    measure: Callable[[int], Measured]

    @property
    def tolerance(self) -> float:
        """How far a measurement may be from the known value, in its unit."""
        return self.known.value * sum(part.share for part in self.slack)

    def fault(self, measured: Measured) -> str | None:
        """Why a measurement is off; None when it is not."""
        if measured.search_ended != "precise":
            return f"the search did not reach its precision: {ENDED[measured.search_ended]}"
        away = measured.value - self.known.value
        if not abs(away) <= self.tolerance:
            side = "above" if away > 0 else "below"
            return f"{abs(away):.3g} {side} what is known, {self.tolerance:.3g} are tolerated"
        return None


def sampling(width: float) -> Slack:
    """How far off a search may be by chance that ends at an interval of a relative width."""
    return Slack(
        STANDARD_ERRORS * width / NORMAL_WIDTH,
        f"search: three standard errors, its 95 % interval being at most {width:.0%} wide",
    )


def measured(fit: ThresholdFit) -> Measured:
    """What a threshold search measured."""
    return Measured(fit.threshold, fit.low, fit.high, len(fit.trials), fit.stop_reason)


def search(
    name: str,
    learn: Learner,
    *,
    first_size: int,
    largest_size: int,
    width: float,
    max_trials: int = MOST_TRIALS,
    rising: bool = False,
) -> Callable[[int], Measured]:
    """A measurement by the threshold search of protocols `mls` and `budget`, from a seed.

    Args:
        name: of the system; names its random streams.
        learn: answers for (size, trial) pairs, given the seed of all draws.
        first_size, largest_size, max_trials, rising: as in `search_threshold`.
        width: relative width of the interval at which the search ends.
    """

    def measure(seed: int) -> Measured:
        return measured(
            search_threshold(
                lambda pairs: learn(pairs, seed),
                first_size=first_size,
                largest_size=largest_size,
                seeds_per_round=SEEDS_PER_ROUND,
                max_trials=max_trials,
                precision=width,
                seed=int(numpy_generator(seed, f"calibrate {name} search").integers(2**31)),
                rising=rising,
            )
        )

    return measure


def one_by_one(name: str, succeeds: Succeeds) -> Learner:
    """A learner for `search` that decides trial by trial, each with random numbers of its own."""

    def learn(pairs: list[tuple[int, int]], seed: int) -> list[bool]:
        return [succeeds(size, numpy_generator(seed, f"calibrate {name}", trial)) for size, trial in pairs]

    return learn
