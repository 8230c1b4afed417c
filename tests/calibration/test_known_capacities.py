"""What is known, against independent computations."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import linprog, minimize
from scipy.stats import binom, norm

from capax.calibration import explicit, hopfield, linear_memory, perceptron
from capax.calibration.system import one_by_one, search


@pytest.mark.parametrize("d", [1, 2, 7, 16])
def test_covers_count_is_half_at_twice_the_dimension(d: int) -> None:
    p = int(perceptron.known(d).value)
    assert Fraction(2 * sum(math.comb(p - 1, k) for k in range(d)), 2**p) == Fraction(1, 2)


@pytest.mark.parametrize("margin", [0.0, 0.03, 0.5])
def test_narrow_margins_are_gardners_integral(margin: float) -> None:
    needed = quad(lambda t: norm.pdf(t) * (t + margin) ** 2, -margin, 40)[0]
    assert perceptron.narrow_margins(margin) == pytest.approx(1 - 1 / needed / 2, abs=1e-7)


@pytest.mark.parametrize(("n", "size"), [(1000, 57), (1000, 99), (300, 20)])
def test_a_bit_fails_as_often_as_so_many_signs_say(n: int, size: int) -> None:
    """Exactly: more than half of N signs, by more than (n − 1) / 2, are against the bit."""
    signs = (n - 1) * (size - 1)
    exact = binom.sf((signs + n - 1) // 2, signs, 0.5)
    assert hopfield.bit_fails(size, n) == pytest.approx(exact, rel=0.07)


def test_fixed_points_are_those_of_the_weights_written_out() -> None:
    patterns = hopfield.draw(9, 40, np.random.default_rng(0))
    weights = sum(np.outer(one, one) for one in patterns) * (1 - np.eye(40))
    kept = [bool(np.all((weights @ one) * one >= 0)) for one in patterns]
    assert 0 < sum(kept) < 9
    assert hopfield.fixed(patterns).tolist() == kept


def test_quoted_values() -> None:
    assert hopfield.retrieval_limit() == pytest.approx(0.137906, abs=1e-6)
    assert hopfield.every_pattern(800).known.limit == pytest.approx(29.9, abs=0.05)
    assert hopfield.half_of_patterns(800).known.limit == pytest.approx(59.8, abs=0.05)
    assert linear_memory.limit(32) == pytest.approx(109.1, abs=0.05)
    assert linear_memory.limit(64) == pytest.approx(350, abs=0.5)
    assert explicit.associations(8, 32, 64, 32).known.value == 249


def test_few_patterns_are_kept_and_many_are_not() -> None:
    assert all(hopfield.kept(10, 200, np.random.default_rng(seed)) for seed in range(5))
    assert not any(hopfield.kept(100, 200, np.random.default_rng(seed)) for seed in range(5))


def test_share_recalled_is_that_of_simulated_memories() -> None:
    d, p = 32, 120
    generator = np.random.default_rng(0)
    shares = []
    for _ in range(60):
        inputs, outputs = linear_memory.unit(generator, p, d), linear_memory.unit(generator, p, d)
        leverages = inputs @ np.linalg.inv(inputs.T @ inputs) @ inputs.T
        shares.append(((leverages @ outputs @ outputs.T).argmax(1) == np.arange(p)).mean())
    assert linear_memory.share_recalled(p, d) == pytest.approx(np.mean(shares), abs=2 / d)


@pytest.mark.parametrize("value", [-0.9, -0.2, 0.0, 0.4])
def test_cosines_of_random_directions(value: float) -> None:
    density = quad(lambda c: (1 - c**2) ** 2.5, -1, value)[0] / quad(lambda c: (1 - c**2) ** 2.5, -1, 1)[0]
    assert linear_memory._cosine_below(np.array(value), 8) == pytest.approx(density)


def test_the_cost_of_one_inequality_is_covers_half() -> None:
    """E max(0, margin − t)² of a Gaussian t: with two pairs, one inequality of a random direction."""
    assert linear_memory.cost(2, 5, draws=4000) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("seed", range(4))
def test_squared_distance_is_the_least(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows, g = generator.standard_normal((6, 5)), generator.standard_normal(5)
    rows[:, 0] = np.abs(rows[:, 0]) + 1  # so that there are points to find
    found = minimize(
        lambda v: (v - g) @ (v - g),
        np.eye(5)[0] * 9,
        jac=lambda v: 2 * (v - g),
        constraints={"type": "ineq", "fun": lambda v: rows @ v - 0.1, "jac": lambda v: rows},
        method="SLSQP",
    )
    assert linear_memory._squared_distance(rows, 0.1, g) == pytest.approx(found.fun, rel=1e-5, abs=1e-7)


def recallable(size: int, generator: np.random.Generator) -> bool:
    """Whether any matrix of 4 × 4 recalls all pairs: linear programming over its entries."""
    d = 4
    inputs, outputs = linear_memory.unit(generator, size, d), linear_memory.unit(generator, size, d)
    rows = [np.outer(outputs[y] - outputs[x], inputs[x]).ravel() for x in range(size) for y in range(size) if x != y]
    found = linprog(np.zeros(d * d), A_ub=rows, b_ub=-np.ones(len(rows)), bounds=(None, None), method="highs")
    return bool(found.status == 0)


@pytest.mark.slow
def test_capacity_is_where_linear_programming_finds_it() -> None:
    found = search("lp", one_by_one("lp", recallable), first_size=4, largest_size=16, width=0.05, max_trials=120)(0)
    assert linear_memory.capacity(4, draws=1000) == pytest.approx(found.value, rel=0.05)


@pytest.mark.slow
def test_margins_cost_capacity() -> None:
    capacities = [linear_memory.capacity(4, margin, draws=500) for margin in (0.0, 0.03, 0.3)]
    assert all(more > less for more, less in pairwise(capacities))


def test_signatures_are_distinct_as_often_as_birthdays() -> None:
    exact = Fraction(1)
    for item in range(10):
        exact *= Fraction(2**6 - item, 2**6)
    assert explicit.probability_distinct(6, 10) == pytest.approx(float(exact))
    assert explicit.probability_distinct(3, 9) == 0
