"""The Hopfield network of n neurons with Hebb's rule: how many random patterns are fixed points, or nearly.

Weights w_ij = Σ_μ ξ_i^μ ξ_j^μ, w_ii = 0. A neuron keeps its state when its field has that sign, or is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Int
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erf
from scipy.stats import chi2, norm

from capax.calibration.ruler import Known, Part, System, one_by_one, sampling, search

WIDTH = 0.05
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


def share_fixed(size: float, n: int, together: int = 1) -> float:
    """Probability that a pattern is a fixed point: E_V[Φ((n − 1 + V − (m − 1)) / √(n V))^n].

    In units of a bit, its field is n − 1 + V − (m − 1) plus noise of variance n V, where V = Σ_ν M_ν² / n, of the
    pattern's overlaps M_ν / √n with the m − 1 others, is common to its bits and chi-square with m − 1 degrees of
    freedom. Given V, bits fail independently.

    Args:
        size: m.
        n: neurons.
        together: bits that fail at a time; the expected number of those that fail stays.
    """
    others = size - 1

    def given(share: float) -> float:
        v = float(chi2.ppf(share, others))
        return math.exp(n / together * norm.logcdf((n - 1 + v - others) / math.sqrt(n * v)))

    return quad(given, 0, 1, epsabs=1e-7, limit=200)[0]


def _size_where(value: Callable[[float], float], goal: float, n: int) -> float:
    """The number of patterns at which a rising value reaches a goal."""
    return float(brentq(lambda size: value(size) - goal, 2.0, n / 2, xtol=1e-4))


def every_pattern(n: int = 1000) -> System:
    """Every pattern is a fixed point."""

    def failing(size: float) -> float:
        return size * (1 - share_fixed(size, n))

    value = _size_where(failing, math.log(2), n)
    known = Known(
        value,
        "m (1 − E_V[Φ((n − 1 + V − (m − 1)) / √(n V))^n]) = ln 2, V ~ χ²(m − 1)",
        "capax: the bits of a pattern share V, patterns fail independently",
        "derived",
        n / (4 * math.log(n)),
        "n / (4 ln n)",
        "McEliece et al. 1987",
        "secondary",
    )
    paired = _size_where(failing, 2 * math.log(2), n) / value - 1
    reason = "theory: patterns taken to fail independently; were it two at a time, the point would be so far off"
    return _system("hopfield-all", n, "every pattern is a fixed point", known, Part(paired, reason), _all_fixed)


def half_of_patterns(n: int = 1000) -> System:
    """At least half of the patterns are fixed points."""
    value = _size_where(lambda size: -share_fixed(size, n), -0.5, n)
    known = Known(
        value,
        "E_V[Φ((n − 1 + V − (m − 1)) / √(n V))^n] = 1/2, V ~ χ²(m − 1)",
        "capax: the bits of a pattern share V",
        "derived",
        n / (2 * math.log(n)),
        "n / (2 ln n)",
        "McEliece et al. 1987",
        "secondary",
    )
    paired = _size_where(lambda size: -share_fixed(size, n, together=2), -0.5, n) / value - 1
    reason = "theory: bits taken to fail independently given V; were it two at a time, the point would be so far off"
    return _system(
        "hopfield-half", n, "half of the patterns are fixed points", known, Part(paired, reason), _half_fixed
    )


def retrieval(n: int = 1000) -> System:
    """A pattern is kept with few errors: from it, the network settles at an overlap above 0.7."""
    share = retrieval_limit()
    known = Known(
        share * n,
        "n max_y (erf y / (√2 y) − √(2/π) exp(−y²))²",
        "Amit, Gutfreund, Sompolinsky 1987, as Stojnic 2024 (arXiv 2403.01907) restates it: n → ∞",
        "secondary",
        0.138 * n,
        "0.138 n",
        "Amit, Gutfreund, Sompolinsky 1987",
        "secondary",
    )
    beyond = (SIMULATED + SIMULATED_ERROR) / share - 1
    reason = (
        f"finite n: no formula; simulations of finite networks gave {SIMULATED} ± {SIMULATED_ERROR} (Steffan and Kühn "
        "1994), whose upper end is allowed"
    )
    about = f"a pattern is kept: from it, the network settles at an overlap above {KEPT_OVERLAP}"
    return _system("hopfield-retrieval", n, about, known, Part(beyond, reason), kept)


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
    """Whether the network, started in a pattern, settles near it: one unstable neuron, drawn at random, flips at a time.

    The energy falls with each flip, so this ends.
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


def _system(
    name: str,
    n: int,
    success: str,
    known: Known,
    theory: Part,
    succeeds: Callable[[int, int, np.random.Generator], bool],
) -> System:
    return System(
        name=name,
        about=f"Hopfield network of {n} neurons, Hebb's rule: {success}",
        protocol="threshold search",
        unit="patterns",
        known=known,
        parts=(sampling(WIDTH), theory),
        measure=lambda seed: search(
            name,
            one_by_one(name, lambda size, generator: succeeds(size, n, generator)),
            seed,
            first_size=max(n // 50, 1),
            largest_size=n,
            width=WIDTH,
        ),
    )
