"""The Hopfield network of n neurons with Hebb's rule: how many random patterns are fixed points, or nearly.

Weights w_ij = Σ_μ ξ_i^μ ξ_j^μ, w_ii = 0. A neuron keeps its state when its field has that sign, or is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Int
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erf
from scipy.stats import norm

from capax.calibration.system import KnownCapacity, Measured, Slack, System, one_by_one, sampling, search

FIXED_WIDTH, RETRIEVAL_WIDTH = 0.05, 0.03
# between the overlap that is left below the transition (0.97 by the theory) and above it (about 0.35)
KEPT_OVERLAP = 0.7
# what simulations of finite networks gave for the third capacity, as Steffan and Kühn 1994 quote it
SIMULATED, SIMULATED_ERROR = 0.145, 0.009

Patterns = Int[np.ndarray, "patterns neurons"]


def draw(size: int, n: int, generator: np.random.Generator) -> Patterns:
    """Random patterns of ±1."""
    return generator.integers(2, size=(size, n)) * 2 - 1


def fixed(patterns: Patterns) -> Bool[np.ndarray, " patterns"]:
    """Which patterns are fixed points."""
    states = patterns.astype(np.float64)
    fields = (states @ states.T) @ states - len(states) * states
    return np.asarray((fields * states >= 0).all(1))


def bit_fails(size: float, n: int) -> float:
    """Probability that a bit of a pattern is not kept, Φ(−√((n − 1)/(m − 1))).

    Its field is n − 1 and the sum of (n − 1)(m − 1) independent signs, in units of the bit. Taking it for Gaussian
    moves m by less than 1 %.
    """
    return float(norm.cdf(-math.sqrt((n - 1) / (size - 1))))


def every_pattern(n: int = 1000) -> System:
    """Every pattern is a fixed point."""
    return _fixed_points(
        "hopfield-all",
        "every pattern is a fixed point",
        n,
        bits=lambda size: n * size,
        formula="Φ(√((n − 1)/(m − 1)))^(n m) = 1/2",
        source="capax: bits fail independently",
        limit=4,
        succeeds=lambda size, generator: bool(fixed(draw(size, n, generator)).all()),
    )


def half_of_patterns(n: int = 1000) -> System:
    """At least half of the patterns are fixed points."""
    return _fixed_points(
        "hopfield-half",
        "half of the patterns are fixed points",
        n,
        bits=lambda size: n,
        formula="Φ(√((n − 1)/(m − 1)))^n = 1/2",
        source="capax: the bits of a pattern fail independently",
        limit=2,
        succeeds=lambda size, generator: bool(2 * fixed(draw(size, n, generator)).sum() >= size),
    )


def _fixed_points(
    name: str,
    success: str,
    n: int,
    *,
    bits: Callable[[float], float],
    formula: str,
    source: str,
    limit: int,
    succeeds: Callable[[int, np.random.Generator], bool],
) -> System:
    """A system that succeeds with probability 1/2 when so many bits all keep their state."""

    def size_where(failures: float) -> float:
        """The number of patterns at which so many bits fail, −log P(none fails)."""

        def excess(size: float) -> float:
            return -bits(size) * math.log1p(-bit_fails(size, n)) - failures

        return float(brentq(excess, 2.0, n / 2, xtol=1e-4))

    value = size_where(math.log(2))
    paired = size_where(2 * math.log(2)) / value - 1
    return System(
        name=name,
        about=f"Hopfield network of {n} neurons, Hebb's rule: {success}",
        protocol="threshold search",
        unit="patterns",
        known=KnownCapacity(
            value=value,
            formula=formula,
            source=source,
            standing="derived",
            limit=n / (limit * math.log(n)),
            limit_formula=f"n / ({limit} ln n)",
            limit_source="McEliece et al. 1987",
            limit_standing="secondary",
        ),
        slack=(
            sampling(FIXED_WIDTH),
            Slack(
                paired, "theory: bits taken to fail independently; were it two at a time, the point would be so far off"
            ),
        ),
        measure=search(name, one_by_one(name, succeeds), first_size=max(n // 50, 1), largest_size=n, width=FIXED_WIDTH),
    )


def retrieval(small: int = 400, large: int = 1600) -> System:
    """A pattern is kept with few errors: from it, the network settles at an overlap above 0.7.

    Measured at two sizes and extrapolated: a threshold of a mean-field network with random patterns varies from one set
    of patterns to the next by n^(−1/2), and its 50 % point is taken to approach its limit as fast.
    """
    name = "hopfield-retrieval"
    limit = retrieval_limit()
    ratio = math.sqrt(large / small)

    def settled(n: int) -> Callable[[int], Measured]:
        learn = one_by_one(f"{name} {n}", lambda size, generator: kept(size, n, generator))
        return search(f"{name} {n}", learn, first_size=max(n // 50, 1), largest_size=n, width=RETRIEVAL_WIDTH)

    def measured(seed: int) -> Measured:
        low, high = settled(small)(seed), settled(large)(seed)
        value = (ratio * high.value / large - low.value / small) / (ratio - 1)
        half = math.hypot(ratio * (high.high - high.low) / large, (low.high - low.low) / small) / 2 / (ratio - 1)
        ended = low.search_ended if high.search_ended == "precise" else high.search_ended
        return Measured(value, value - half, value + half, low.trials + high.trials, ended)

    return System(
        name=name,
        about=f"Hopfield networks of {small} and {large} neurons, Hebb's rule: started in a pattern, they settle at an "
        f"overlap above {KEPT_OVERLAP} with it; extrapolated to n → ∞ as n^(−1/2)",
        protocol="two threshold searches",
        unit="patterns per neuron",
        known=KnownCapacity(
            value=limit,
            formula="max_y (erf y / (√2 y) − √(2/π) exp(−y²))², n → ∞",
            source="Amit, Gutfreund, Sompolinsky 1987, as Stojnic 2024 (arXiv 2403.01907) restates it",
            standing="secondary",
            limit=0.138,
            limit_formula="0.138",
            limit_source="Amit, Gutfreund, Sompolinsky 1987",
            limit_standing="secondary",
        ),
        slack=(
            Slack(
                sampling(RETRIEVAL_WIDTH).share * math.hypot(ratio, 1) / (ratio - 1),
                f"search: three standard errors of two searches of {RETRIEVAL_WIDTH:.0%}, as the extrapolation adds "
                "them",
            ),
            Slack(
                (SIMULATED + SIMULATED_ERROR) / limit - 1,
                f"finite n: no formula; published simulations gave {SIMULATED} ± {SIMULATED_ERROR} (as Steffan and "
                "Kühn 1994 quote them), whose upper end is allowed",
            ),
        ),
        measure=measured,
    )


def retrieval_limit() -> float:
    """Patterns per neuron up to which patterns are kept with few errors, for n → ∞ (replica-symmetric): 0.1379."""

    def root(y: float) -> float:
        return float(erf(y) / (math.sqrt(2) * y) - math.sqrt(2 / math.pi) * math.exp(-(y**2)))

    return float(minimize_scalar(lambda y: -(root(y) ** 2), bounds=(1, 3), method="bounded").fun) * -1


def kept(size: int, n: int, generator: np.random.Generator) -> bool:
    """Whether the network, started in a pattern, settles near it.

    One unstable neuron, drawn at random, flips at a time; the energy falls with each flip, so this ends.
    """
    patterns = draw(size, n, generator).astype(np.float32)
    weights = patterns.T @ patterns
    np.fill_diagonal(weights, 0)
    state = patterns[0].copy()
    fields = weights @ state
    while len(unstable := np.flatnonzero(fields * state < 0)):
        flipped = unstable[generator.integers(len(unstable))]
        fields -= 2 * state[flipped] * weights[flipped]
        state[flipped] *= -1
    return bool(patterns[0] @ state / n > KEPT_OVERLAP)
