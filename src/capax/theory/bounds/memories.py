"""Other memories of the same size: what is known of associative memories, perceptrons and ReLU networks.

None of them is the model: each is a system with as many neurons as the model has channels, or with as many weights.
"""

from __future__ import annotations

from functools import partial
from math import exp, log, log2, prod

from scipy.special import lambertw

from capax.specs.spec import whole
from capax.theory.bounds.bound import Declarer, bound, needs, order

CUE = "a pattern is recalled from a cue that has most of its bits; how many are left depends on the cue"
NEURONS = "random ±1 patterns, one for each of d_model neurons"
ONE_NEURON = "a single neuron"
LARGEST_POWER = 300
"""Powers of ten beyond which a number is not given as one."""


def ramsauer_base(beta: float, radius: float, d: int, failure: float) -> float:
    """The base c of √p c^((d − 1)/4) patterns: c = b / W0(exp(a + ln b)) (Ramsauer et al. 2020, theorem 3).

    a = 2/(d − 1) (1 + ln(2 β K² p (d − 1))), b = 2 K² β / 5.

    Args:
        beta: β, inverse temperature.
        radius: K; patterns lie on a sphere of radius K √(d − 1).
        d: channels.
        failure: p, probability that the random patterns are not stored.
    """
    whole("d_model", d, 2)
    a = 2 / (d - 1) * (1 + log(2 * beta * radius**2 * failure * (d - 1)))
    b = 2 * radius**2 * beta / 5
    return b / float(lambertw(exp(a + log(b))).real)


neurons: Declarer = partial(
    bound,
    kind="constructive",
    unit="patterns",
    scope="reference",
    standing="secondary",
    assumptions=("d_model is large (asymptotic)",),
    bits_reason=CUE,
)
"""Declare a memory of d_model neurons."""
points: Declarer = partial(bound, unit="points", scope="reference", standing="secondary", bits=lambda value: value)
"""Declare units that tell points apart, one bit each."""


@neurons(
    kind="upper",
    unit="associations",
    assumptions=("d_model is large (asymptotic): of 16 channels up to 1.8 times as many are recalled",),
    formula="p ln p = d²/2",
    criterion="the right one of p outputs is the arg-max, the best d × d matrix, random unit vectors",
    source="2026 preprints (arXiv 2605.10795, 2605.05189)",
    bits=lambda value: value * log2(value),
    bits_reason=None,
)
def linear_associative_memory(d_model: int) -> float:
    """Pairs p with p ln p = d²/2: what the best d × d matrix tells apart by arg-max, p = exp(W(d²/2))."""
    return exp(float(lambertw(d_model**2 / 2).real))


@neurons(
    formula="n / (2 ln n)",
    criterion=f"almost all patterns are fixed points; {NEURONS}, Hebb's rule",
    source="McEliece et al. 1987",
)
def hopfield(d_model: int) -> float | str:
    """Patterns that Hebb's rule makes fixed points, almost all of them."""
    return d_model / (2 * log(d_model)) if d_model >= 2 else ONE_NEURON


@neurons(
    formula="n / (4 ln n)",
    criterion=f"all patterns are fixed points; {NEURONS}, Hebb's rule",
    source="McEliece et al. 1987",
)
def hopfield_all(d_model: int) -> float | str:
    """Patterns that Hebb's rule makes fixed points, every one."""
    return d_model / (4 * log(d_model)) if d_model >= 2 else ONE_NEURON


@neurons(
    formula="0.138 n",
    criterion=f"fixed points near the patterns, with small errors; {NEURONS}, Hebb's rule",
    source="Amit, Gutfreund, Sompolinsky 1985; named from memory, unverified",
)
def hopfield_retrieval(d_model: int) -> float:
    """Patterns with small errors."""
    return 0.138 * d_model


@neurons(
    formula=lambda degree=3: f"n^(q − 1) / (2 (2q − 3)!! ln n), q = {degree}",
    criterion=f"almost all patterns are fixed points; {NEURONS}, energy of degree 3",
    source="Krotov, Hopfield 2016 (arXiv 1606.01164); in part from memory, unverified",
)
def dense_associative_memory(d_model: int, degree: int = 3) -> float | str:
    """Fixed points of energies Σ x^q; q = 2 is Hopfield's."""
    whole("degree", degree, 2)
    odds = prod(range(1, 2 * degree - 2, 2))
    return float(d_model) ** (degree - 1) / (2 * odds * log(d_model)) if d_model >= 2 else ONE_NEURON


def _sphere(d_model: int, beta: float = 1.0, radius: float = 3.0, failure: float = 0.001) -> bool | None:
    if d_model < 2:
        return None
    return ramsauer_base(beta, radius, d_model, failure) >= (2 / failure**0.5) ** (4 / (d_model - 1))


@bound(
    kind="lower",
    unit="patterns",
    formula=lambda beta=1.0, radius=3.0, failure=0.001: (
        f"√p c^((d − 1)/4), β = {beta:g}, K = {radius:g}, p = {failure:g}"
    ),
    criterion="random patterns on a sphere of radius K √(d − 1), each a fixed point of softmax attention",
    scope="reference",
    source="Ramsauer et al. 2020 (arXiv 2008.02217), theorem 3",
    standing="read",
    assumptions=(needs("c ≥ (2/√p)^(4/(d − 1))", _sphere),),
    bits_reason=CUE,
)
def ramsauer2020(d_model: int, beta: float = 1.0, radius: float = 3.0, failure: float = 0.001) -> float | str:
    """At least √p c^((d − 1)/4) random patterns on a sphere with probability 1 − p, where c ≥ (2/√p)^(4/(d − 1)).

    Args:
        d_model: d.
        beta: β.
        radius: K.
        failure: p.
    """
    if d_model < 2:
        return "a single channel"
    base = ramsauer_base(beta, radius, d_model, failure)
    power = log(failure) / 2 / log(10) + (d_model - 1) / 4 * log(base) / log(10)
    return 10**power if power < LARGEST_POWER else f"about 10^{power:.0f}, too large for a number"


@order(
    formula="Õ(√N) parameters are enough for N points of a ReLU network of width 12",
    unit="points",
    criterion="the right class at separated points, weights of about √N bits, chosen for them",
    source="Vardi, Yehudai, Shamir 2022 (arXiv 2110.03187)",
    standing="secondary",
    assumptions=("points are bounded and separated",),
)
def vardi2022() -> None:
    """Points that a narrow deep ReLU network tells apart."""


@points(
    kind="constructive",
    formula="m d: ⌈N/d⌉ threshold units for N points",
    criterion="any two classes of points in general position, one hidden layer of m threshold units",
    source="Baum 1988",
    assumptions=("points are in general position",),
)
def baum1988(n_hidden: int, d_model: int) -> int:
    """One hidden layer."""
    return n_hidden * d_model


@points(
    kind="upper",
    formula="2 P for P weights",
    criterion="half of all two-class labelings of random points, one threshold unit",
    source="Cover 1965, Gardner 1988",
    assumptions=("points are in general position",),
)
def perceptron(trainable: int) -> int:
    """One threshold unit with real weights."""
    return 2 * trainable


@points(
    kind="upper",
    formula="0.83 P for P weights of ±1",
    criterion="random two-class labelings of random points, one threshold unit",
    source="Krauth, Mézard 1989; named from memory, unverified",
    assumptions=(
        "points are random",
        "P is large (asymptotic)",
    ),
)
def binary_perceptron(trainable: int) -> float:
    """One threshold unit with binary weights."""
    return 0.83 * trainable
