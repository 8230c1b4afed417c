"""What a count shows is never more than the odds say, by enumeration and by simulation."""

from collections import Counter
from itertools import combinations, permutations, product
from math import comb, factorial, log, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from capax.tasks.graph_classes import recursive_tree_bits
from capax.theory.bounds.bound import Unknown
from capax.theory.bounds.stored_bits import (
    distinct_information,
    f1_information,
    graph_information,
    recall_information,
    stored_bits,
)


def test_items_and_bits() -> None:
    found = stored_bits(1000, log2(100), 32)
    assert (found.value, found.bits, found.proved_for_recall) == (int(32_000 / log2(100)), 32_000, True)
    real = stored_bits(1000, Unknown("labels are real numbers"), 32)
    assert (real.value, real.bits) == (None, 32_000)
    assert "labels" in str(real.reason)
    one = stored_bits(7, 0.0, 32)
    assert (one.value, one.bits) == (None, 224)
    assert "one answer" in str(one.reason)
    none = stored_bits(Unknown("d_head is not given"), 3.0, 32)
    assert (none.value, none.bits, none.reason, none.bits_reason) == (None, None, *["d_head is not given"] * 2)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(size=st.integers(1, 3000), share=st.floats(0, 1), guess=st.floats(1e-6, 1))
def test_one_way_to_answer_is_no_luckier(size: int, share: float, guess: float) -> None:
    k = round(share * size)
    shown = recall_information(k, size, guess)
    assert 0 <= shown <= -size * log2(guess) + 1e-6
    assert binom.logsf(k - 1, size, guess) / log(2) <= -shown + 1e-6
    if k < size:
        assert recall_information(k + 1, size, guess) >= shown


def test_a_whole_library_shows_all_its_bits() -> None:
    assert recall_information(50, 50, 1 / 64) == pytest.approx(300)
    assert recall_information(0, 50, 0.5) == recall_information(25, 50, 0.5) == 0
    assert recall_information(3, 3, 0.0) > 3000  # a chance too small for a float


@settings(derandomize=True, deadline=None, max_examples=60)
@given(size=st.integers(1, 500), share=st.floats(0, 1), classes=st.integers(2, 300))
def test_it_is_below_the_bits_above_chance(size: int, share: float, classes: int) -> None:
    k, q = round(share * size), 1 / classes
    above = (k - size * q) / (1 - q) * log2(classes)
    assert recall_information(k, size, q) <= max(above, 0) + 1e-9


def test_so_many_ways_are_luckier_by_their_number_at_most() -> None:
    """64 fixed ways (6 bits of weights) to answer 20 items of 3 classes, against 4000 random libraries."""
    generator = np.random.default_rng(0)
    ways, libraries = generator.integers(3, size=(64, 20)), generator.integers(3, size=(4000, 20))
    best = (ways[None] == libraries[:, None]).sum(2).max(1)
    tested = 0
    for k in range(7, 21):
        odds = 2 ** (6 - recall_information(k, 20, 1 / 3))
        if odds < 1:
            tested += 1
            assert (best >= k).mean() <= odds
    assert tested > 4


def test_distinct_prefixes_by_counting() -> None:
    for prefixes, size in ((10, 1), (10, 4), (10, 10), (1000, 30)):
        exact = factorial(prefixes) / factorial(prefixes - size) / prefixes**size
        assert distinct_information(size, log(prefixes)) == pytest.approx(-log2(exact), abs=1e-9)
    assert distinct_information(1000, 5000.0) < 1e-200


def graphs(n: int, edges: int) -> list[frozenset[tuple[int, int]]]:
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    return [frozenset(chosen) for chosen in combinations(pairs, edges)]


@pytest.mark.parametrize("kind", ["random", "permutation"])
def test_graphs_by_enumeration(kind: str) -> None:
    n, edges = 4, (3 if kind == "random" else 4)
    every = graphs(n, edges)
    if kind == "permutation":
        targets = [p for p in permutations(range(n)) if all(i != j for i, j in enumerate(p))]
        every = [frozenset(enumerate(p)) for p in targets]
    bits, generator = log2(len(every)), np.random.default_rng(1)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    for _ in range(60):
        predicted = {pairs[i] for i in generator.permutation(12)[: generator.integers(13)]}
        counts = Counter(len(predicted & graph) for graph in every)
        for k, number in counts.items():
            odds = 2 ** -graph_information(n, edges, bits, k, len(predicted))
            assert number / len(every) <= odds * (1 + 1e-9)
            if kind == "random":
                assert number / len(every) == pytest.approx(odds)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(n=st.integers(3, 7), share=st.floats(0.01, 1), f1=st.floats(0.05, 1))
def test_the_least_that_an_f1_shows(n: int, share: float, f1: float) -> None:
    pairs = n * (n - 1)
    edges = max(1, round(share * pairs))
    bits = log2(comb(pairs, edges))
    least = min(
        graph_information(n, edges, bits, k, p)
        for p, k in product(range(pairs + 1), range(edges + 1))
        if k <= p and edges - k <= pairs - p and 2 * k / (p + edges) >= f1 - 1e-12
    )
    assert f1_information(n, edges, bits, f1) == pytest.approx(least, abs=1e-6)
    assert f1_information(n, edges, bits, 1.0) == pytest.approx(bits, abs=1e-6)


def test_no_tree_is_likelier_than_a_star() -> None:
    for n in (2, 3, 4, 5):
        odds: Counter[frozenset[tuple[int, int]]] = Counter()
        for order in permutations(range(n)):
            for parents in product(*(range(place) for place in range(1, n))):
                odds[frozenset((order[i + 1], order[p]) for i, p in enumerate(parents))] += 1
        total = factorial(n) * factorial(n - 1)
        assert sum(odds.values()) == total
        assert len(odds) == n ** (n - 1)
        assert log2(total / max(odds.values())) == pytest.approx(recursive_tree_bits(n))
