"""Other memories of the same size: what is known of associative memories, perceptrons and ReLU networks.

None of them is the model: each is a system with as many neurons as the model has channels, or with as many weights.
"""

from __future__ import annotations

from math import exp, log, log2, prod

from scipy.special import lambertw

from capax.errors import SpecError
from capax.theory.bounds.bound import AN_ORDER, Assumption, Bound, Kind, Standing, bound

CUE = "a pattern is recalled from a cue that has most of its bits; how many are left depends on the cue"
NEURONS = "random ±1 patterns, one for each of d_model neurons"
LARGEST_POWER = 300
"""Powers of ten beyond which a number is not given as one."""


def linear_capacity(d_model: int) -> float:
    """Pairs p with p ln p = d²/2: what the best d × d matrix tells apart by arg-max, p = exp(W(d²/2))."""
    _check(d_model, 1)
    return exp(float(lambertw(d_model**2 / 2).real))


def hopfield_capacity(n: int, *, all_exact: bool = False) -> float:
    """Patterns that Hebb's rule makes fixed points: n/(2 ln n) almost all of them, n/(4 ln n) all (McEliece 1987)."""
    _check(n, 2)
    return n / ((4 if all_exact else 2) * log(n))


def dense_capacity(n: int, degree: int) -> float:
    """Fixed points of energies Σ x^q: n^(q − 1) / (2 (2q − 3)!! ln n); q = 2 is Hopfield's (Krotov, Hopfield 2016)."""
    _check(n, 2)
    if degree < 2:
        raise SpecError(f"degree: at least 2, got {degree}")
    return float(n) ** (degree - 1) / (2 * prod(range(1, 2 * degree - 2, 2)) * log(n))


def ramsauer_base(beta: float, radius: float, d: int, failure: float) -> float:
    """The base c of √p c^((d − 1)/4) patterns: c = b / W0(exp(a + ln b)) (Ramsauer et al. 2020, theorem 3).

    a = 2/(d − 1) (1 + ln(2 β K² p (d − 1))), b = 2 K² β / 5.

    Args:
        beta: β, inverse temperature.
        radius: K; patterns lie on a sphere of radius K √(d − 1).
        d: channels.
        failure: p, probability that the random patterns are not stored.
    """
    _check(d, 2)
    a = 2 / (d - 1) * (1 + log(2 * beta * radius**2 * failure * (d - 1)))
    b = 2 * radius**2 * beta / 5
    return b / float(lambertw(exp(a + log(b))).real)


def memory_bounds(d_model: int, *, n_hidden: int | None, trainable: int | None) -> tuple[Bound, ...]:
    """All reference systems for one model.

    Args:
        d_model: channels of the model: neurons, or the side of a matrix.
        n_hidden: hidden units of an FFN; None where there is none.
        trainable: parameters; None where they are not known.
    """
    pairs = linear_capacity(d_model)
    few = None if d_model >= 2 else "a single neuron"
    return (
        _reference(
            "linear_associative_memory",
            pairs,
            "associations",
            "p ln p = d²/2",
            "the right one of p outputs is the arg-max, the best d × d matrix, random unit vectors",
            "2026 preprints (arXiv 2605.10795, 2605.05189)",
            kind="upper",
            bits=pairs * log2(pairs),
            assumptions=("d_model is large (asymptotic)",),
        ),
        _reference(
            "hopfield",
            None if few else hopfield_capacity(d_model),
            "patterns",
            "n / (2 ln n)",
            f"almost all patterns are fixed points; {NEURONS}, Hebb's rule",
            "McEliece et al. 1987",
            missing=few,
            bits_reason=CUE,
            assumptions=("d_model is large (asymptotic)",),
        ),
        _reference(
            "hopfield_all",
            None if few else hopfield_capacity(d_model, all_exact=True),
            "patterns",
            "n / (4 ln n)",
            f"all patterns are fixed points; {NEURONS}, Hebb's rule",
            "McEliece et al. 1987",
            missing=few,
            bits_reason=CUE,
            assumptions=("d_model is large (asymptotic)",),
        ),
        _reference(
            "hopfield_retrieval",
            0.138 * d_model,
            "patterns",
            "0.138 n",
            f"fixed points near the patterns, with small errors; {NEURONS}, Hebb's rule",
            "Amit, Gutfreund, Sompolinsky 1985; named from memory, unverified",
            bits_reason=CUE,
            assumptions=("d_model is large (asymptotic)",),
        ),
        _reference(
            "dense_associative_memory",
            None if few else dense_capacity(d_model, 3),
            "patterns",
            "n^(q − 1) / (2 (2q − 3)!! ln n), q = 3",
            f"almost all patterns are fixed points; {NEURONS}, energy of degree 3",
            "Krotov, Hopfield 2016 (arXiv 1606.01164); in part from memory, unverified",
            missing=few,
            bits_reason=CUE,
            assumptions=("d_model is large (asymptotic)",),
        ),
        ramsauer2020(d_model, beta=1.0, radius=3.0, failure=0.001),
        _reference(
            "vardi2022",
            None,
            "points",
            "Õ(√N) parameters are enough for N points of a ReLU network of width 12",
            "the right class at separated points, weights of about √N bits, chosen for them",
            "Vardi, Yehudai, Shamir 2022 (arXiv 2110.03187)",
            kind="order",
            missing=AN_ORDER,
            bits_reason=AN_ORDER,
            assumptions=("points are bounded and separated",),
        ),
        _reference(
            "baum1988",
            None if n_hidden is None else n_hidden * d_model,
            "points",
            "m d: ⌈N/d⌉ threshold units for N points",
            "any two classes of points in general position, one hidden layer of m threshold units",
            "Baum 1988",
            missing="no hidden units",
            bits=None if n_hidden is None else float(n_hidden * d_model),
            assumptions=("points are in general position",),
        ),
        _reference(
            "perceptron",
            None if trainable is None else 2 * trainable,
            "points",
            "2 P for P weights",
            "half of all two-class labelings of random points, one threshold unit",
            "Cover 1965, Gardner 1988",
            kind="upper",
            missing="the parameters are not known",
            bits=None if trainable is None else 2.0 * trainable,
            assumptions=("points are in general position",),
        ),
        _reference(
            "binary_perceptron",
            None if trainable is None else 0.83 * trainable,
            "points",
            "0.83 P for P weights of ±1",
            "random two-class labelings of random points, one threshold unit",
            "Krauth, Mézard 1989; named from memory, unverified",
            kind="upper",
            missing="the parameters are not known",
            bits=None if trainable is None else 0.83 * trainable,
            assumptions=("points are random", "P is large (asymptotic)"),
        ),
    )


def ramsauer2020(d_model: int, *, beta: float, radius: float, failure: float) -> Bound:
    """At least √p c^((d − 1)/4) random patterns on a sphere with probability 1 − p, where c ≥ (2/√p)^(4/(d − 1)).

    Args:
        d_model: d.
        beta: β.
        radius: K.
        failure: p.
    """
    value, met, missing = None, None, "a single channel"
    if d_model >= 2:
        base = ramsauer_base(beta, radius, d_model, failure)
        met = base >= (2 / failure**0.5) ** (4 / (d_model - 1))
        power = log(failure) / 2 / log(10) + (d_model - 1) / 4 * log(base) / log(10)
        missing = f"about 10^{power:.0f}, too large for a number"
        value = 10**power if power < LARGEST_POWER else None
    return bound(
        "ramsauer2020",
        kind="lower",
        value=value,
        missing=missing,
        unit="patterns",
        bits_reason=CUE,
        formula=f"√p c^((d − 1)/4), β = {beta:g}, K = {radius:g}, p = {failure:g}",
        criterion="random patterns on a sphere of radius K √(d − 1), each a fixed point of softmax attention",
        assumptions=(Assumption(text="c ≥ (2/√p)^(4/(d − 1))", met=met),),
        scope="reference",
        source="Ramsauer et al. 2020 (arXiv 2008.02217), theorem 3",
        standing="read",
    )


def _reference(
    name: str,
    value: int | float | None,
    unit: str,
    formula: str,
    criterion: str,
    source: str,
    *,
    kind: Kind = "constructive",
    standing: Standing = "secondary",
    missing: str | None = None,
    bits: int | float | None = None,
    bits_reason: str | None = None,
    assumptions: tuple[str, ...] = (),
) -> Bound:
    return bound(
        name,
        kind=kind,
        value=value,
        missing=missing,
        unit=unit,
        bits=bits,
        bits_reason=bits_reason,
        formula=formula,
        criterion=criterion,
        assumptions=tuple(Assumption(text=text, met=None) for text in assumptions),
        scope="reference",
        source=source,
        standing=standing,
    )


def _check(size: int, least: int) -> None:
    if size < least:
        raise SpecError(f"d_model: at least {least}, got {size}")
