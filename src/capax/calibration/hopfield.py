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

from capax.calibration.ruler import Found, Known, Part, System, one_by_one, sampling, search

FIXED_WIDTH, RETRIEVAL_WIDTH = 0.05, 0.03
KEPT_OVERLAP = 0.7
"""Between the overlap that is left below the transition (0.97 by the theory) and above it (about 0.35)."""
SIMULATED, SIMULATED_ERROR = 0.145, 0.009
"""What simulations of finite networks gave for the third capacity, as Steffan and Kühn 1994 quote it."""

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

    Its field is n − 1 and the sum of (n − 1)(m − 1) independent signs, in units of the bit; that it is taken for
    Gaussian moves m by less than 1 %.
    """
    return float(norm.cdf(-math.sqrt((n - 1) / (size - 1))))


def _size_where(value: Callable[[float], float], goal: float, n: int) -> float:
    """The number of patterns at which a rising value reaches a goal."""
    return float(brentq(lambda size: value(size) - goal, 2.0, n / 2, xtol=1e-4))


def every_pattern(n: int = 1000) -> System:
    """Every pattern is a fixed point."""

    def failures(size: float) -> float:
        return -n * size * math.log1p(-bit_fails(size, n))

    known = Known(
        _size_where(failures, math.log(2), n),
        "Φ(√((n − 1)/(m − 1)))^(n m) = 1/2",
        "capax: bits fail independently",
        "derived",
        n / (4 * math.log(n)),
        "n / (4 ln n)",
        "McEliece et al. 1987",
        "secondary",
    )
    paired = _size_where(failures, 2 * math.log(2), n) / known.value - 1
    return _fixed_points("hopfield-all", n, "every pattern is a fixed point", known, paired, _all_fixed)


def half_of_patterns(n: int = 1000) -> System:
    """At least half of the patterns are fixed points."""

    def failures(size: float) -> float:
        return -n * math.log1p(-bit_fails(size, n))

    known = Known(
        _size_where(failures, math.log(2), n),
        "Φ(√((n − 1)/(m − 1)))^n = 1/2",
        "capax: the bits of a pattern fail independently",
        "derived",
        n / (2 * math.log(n)),
        "n / (2 ln n)",
        "McEliece et al. 1987",
        "secondary",
    )
    paired = _size_where(failures, 2 * math.log(2), n) / known.value - 1
    return _fixed_points("hopfield-half", n, "half of the patterns are fixed points", known, paired, _half_fixed)


def retrieval(small: int = 400, large: int = 1600) -> System:
    """A pattern is kept with few errors: from it, the network settles at an overlap above 0.7.

    Measured at two sizes and extrapolated: a threshold of a mean-field network with random patterns varies from one set
    of patterns to the next by n^(−1/2), and its 50 % point is taken to approach its limit as fast.
    """
    name = "hopfield-retrieval"
    limit = retrieval_limit()
    share = math.sqrt(large / small)

    def measured(seed: int) -> Found:
        low, high = (_search(f"{name} {n}", n, kept, seed, RETRIEVAL_WIDTH) for n in (small, large))
        near, far = high.value / large, low.value / small
        value = (share * near - far) / (share - 1)
        half = math.hypot(share * (high.high - high.low) / large, (low.high - low.low) / small) / 2 / (share - 1)
        reached = low.reached if high.reached == "precise" else high.reached
        return Found(value, value - half, value + half, low.trials + high.trials, reached)

    return System(
        name=name,
        about=f"Hopfield networks of {small} and {large} neurons, Hebb's rule: started in a pattern, they settle at an "
        f"overlap above {KEPT_OVERLAP} with it; extrapolated to n → ∞ as n^(−1/2)",
        protocol="two threshold searches",
        unit="patterns a neuron",
        known=Known(
            limit,
            "max_y (erf y / (√2 y) − √(2/π) exp(−y²))², n → ∞",
            "Amit, Gutfreund, Sompolinsky 1987, as Stojnic 2024 (arXiv 2403.01907) restates it",
            "secondary",
            0.138,
            "0.138",
            "Amit, Gutfreund, Sompolinsky 1987",
            "secondary",
        ),
        parts=(
            Part(
                sampling(RETRIEVAL_WIDTH).share * math.hypot(share, 1) / (share - 1),
                f"search: three standard errors of two searches of {RETRIEVAL_WIDTH:.0%}, as the extrapolation adds "
                "them",
            ),
            Part(
                (SIMULATED + SIMULATED_ERROR) / limit - 1,
                f"finite n: no formula; published simulations gave {SIMULATED} ± {SIMULATED_ERROR} (as Steffan and "
                "Kühn 1994 quote them), whose upper end is allowed",
            ),
        ),
        measure=measured,
    )


def retrieval_limit() -> float:
    """Patterns a neuron up to which patterns are kept with few errors, for n → ∞ (replica-symmetric): 0.1379."""

    def root(y: float) -> float:
        return float(erf(y) / (math.sqrt(2) * y) - math.sqrt(2 / math.pi) * math.exp(-(y**2)))

    return float(minimize_scalar(lambda y: -(root(y) ** 2), bounds=(1, 3), method="bounded").fun) * -1


def _all_fixed(size: int, n: int, generator: np.random.Generator) -> bool:
    return bool(fixed(draw(size, n, generator)).all())


def _half_fixed(size: int, n: int, generator: np.random.Generator) -> bool:
    return bool(2 * fixed(draw(size, n, generator)).sum() >= size)


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


def _fixed_points(
    name: str,
    n: int,
    success: str,
    known: Known,
    paired: float,
    succeeds: Callable[[int, int, np.random.Generator], bool],
) -> System:
    """The two systems of fixed points; `paired` is how far their point lies off when bits fail two at a time."""
    reason = "theory: bits taken to fail independently; were it two at a time, the point would be so far off"
    return System(
        name=name,
        about=f"Hopfield network of {n} neurons, Hebb's rule: {success}",
        protocol="threshold search",
        unit="patterns",
        known=known,
        parts=(sampling(FIXED_WIDTH), Part(paired, reason)),
        measure=lambda seed: _search(name, n, succeeds, seed, FIXED_WIDTH),
    )


def _search(
    name: str, n: int, succeeds: Callable[[int, int, np.random.Generator], bool], seed: int, width: float
) -> Found:
    learn = one_by_one(name, lambda size, generator: succeeds(size, n, generator))
    return search(name, learn, seed, first_size=max(n // 50, 1), largest_size=n, width=width)
