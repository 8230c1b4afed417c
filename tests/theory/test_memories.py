"""Memories of known capacity: formulas against published constants, and against memories that were simulated."""

from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from capax.errors import SpecError
from capax.theory.bounds import memories
from capax.theory.bounds.bound import TABLE
from capax.theory.bounds.memories import (
    dense_associative_memory,
    hopfield,
    hopfield_all,
    linear_associative_memory,
    ramsauer2020,
    ramsauer_base,
)


def row(name: str, d_model: int = 64, n_hidden: int | None = 256, trainable: int | None = 1000):
    return TABLE[name](d_model=d_model, n_hidden=n_hidden, trainable=trainable)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(d=st.integers(2, 100_000))
def test_the_linear_memory_solves_its_equation(d: int) -> None:
    pairs = linear_associative_memory(d).value
    assert pairs * log(pairs) == pytest.approx(d**2 / 2, rel=1e-9)
    assert linear_associative_memory(d + 1).value > pairs
    if d < 2000:
        assert pairs == pytest.approx(brentq(lambda p: p * log(p) - d**2 / 2, 1, d**2 + 4), rel=1e-9)


def test_the_linear_memory_as_published() -> None:
    assert [round(linear_associative_memory(d).value) for d in (32, 64, 128, 256)] == [109, 350, 1161, 3956]
    found = row("linear_associative_memory", 256)
    assert found.bits / 256**2 == pytest.approx(1 / (2 * log(2)))  # 0.72 bits a parameter


def test_hopfield_as_published() -> None:
    assert hopfield(175_000_000_000).value == pytest.approx(3.38e9, rel=1e-3)
    assert hopfield_all(800).value == pytest.approx(29.9, abs=0.05)
    assert hopfield(800).value == pytest.approx(59.8, abs=0.05)
    assert row("hopfield_retrieval", 1000).value == pytest.approx(138)


def test_hopfield_patterns_are_fixed_points_up_to_its_capacity() -> None:
    n, generator = 400, np.random.default_rng(0)
    fixed = {}
    for share in (0.7, 3.0):
        patterns = generator.choice([-1.0, 1.0], size=(round(share * hopfield(n).value), n))
        fields = (patterns @ patterns.T) @ patterns - len(patterns) * patterns
        fixed[share] = np.all(np.sign(fields) == patterns, axis=1).mean()
    assert fixed[0.7] > 0.9
    assert fixed[3.0] < 0.3


@settings(derandomize=True, deadline=None, max_examples=60)
@given(n=st.integers(3, 10**6), q=st.integers(2, 6))
def test_dense_memories_are_hopfields_and_more(n: int, q: int) -> None:
    assert dense_associative_memory(n, 2).value == pytest.approx(hopfield(n).value)
    more, fewer = (dense_associative_memory(n + 1, degree).value for degree in (q + 1, q))
    assert more / fewer == pytest.approx((n + 1) / (2 * q - 1))


def test_dense_by_hand() -> None:
    assert dense_associative_memory(64, 3).value == pytest.approx(64**2 / (2 * 3 * log(64)))  # 164
    assert row("dense_associative_memory").value == pytest.approx(164.1, abs=0.1)


@pytest.mark.parametrize(
    ("beta", "radius", "d", "base", "least"), [(1.0, 3.0, 20, 3.1546, 7.4), (1.0, 1.0, 75, 1.3718, 11)], ids=str
)
def test_ramsauer_as_published(beta: float, radius: float, d: int, base: float, least: float) -> None:
    assert ramsauer_base(beta, radius, d, 0.001) == pytest.approx(base, abs=1e-4)  # the paper cuts digits off
    found = ramsauer2020(d, beta=beta, radius=radius, failure=0.001)
    assert found.value == pytest.approx(least, rel=0.02)
    assert found.assumptions[0].met


def test_ramsauer_solves_its_equation() -> None:
    """The base c solves W e^W = e^(a + ln b) with W = b/c."""
    for d in (5, 64, 300):
        c = ramsauer_base(1.0, 3.0, d, 0.001)
        a, b = 2 / (d - 1) * (1 + log(2 * 9 * 0.001 * (d - 1))), 18 / 5
        assert (b / c) * exp(b / c) == pytest.approx(b * exp(a))
    assert row("ramsauer2020").value == pytest.approx(1.66e6, rel=5e-3)


def test_ramsauer_where_it_has_no_value() -> None:
    assert "10^" in str(row("ramsauer2020", 12_288).reason)
    assert "channel" in row("ramsauer2020", 1).reason
    assert "not met: c ≥" in str(ramsauer2020(3, beta=1.0, radius=1.0, failure=0.001).reason)


def test_threshold_units() -> None:
    assert (row("baum1988").value, row("baum1988").bits) == (256 * 64, 256 * 64)
    assert "hidden" in row("baum1988", n_hidden=None).reason
    assert (row("perceptron").value, row("perceptron").bits) == (2000, 2000)
    assert row("binary_perceptron").value == pytest.approx(830)
    assert "parameters" in str(row("perceptron", trainable=None).reason)


def test_two_patterns_a_weight_is_where_half_of_all_labelings_are_linear() -> None:
    """Cover's count, 2 Σ_{k < P} C(N − 1, k) of 2^N labelings, with its known width around N = 2P."""
    from scipy.stats import binom

    weights = 200
    points = int(row("perceptron", trainable=weights).value)
    assert binom.cdf(weights - 1, points - 1, 0.5) == pytest.approx(0.5)
    spread = sqrt(points)
    assert (
        binom.cdf(weights - 1, points + 3 * spread, 0.5)
        < 0.01
        < 0.99
        < binom.cdf(weights - 1, points - 3 * spread, 0.5)
    )


def test_one_neuron_is_no_memory() -> None:
    found = {one.name: row(one.name, 1, 4, 3) for one in TABLE.values() if one.compute.__module__ == memories.__name__}
    for name in ("hopfield", "hopfield_all", "dense_associative_memory"):
        assert found[name].value is None
        assert "single" in found[name].reason
    with pytest.raises(SpecError, match="degree"):
        dense_associative_memory(9, 1)
    assert all(one.scope == "reference" for one in found.values())
