"""Drawn graphs: exact degrees and sizes, the laws they are drawn from, and the contexts of relations."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from capax.errors import SpecError
from capax.specs.relations import Relations
from capax.tasks import contexts, graphs

seeds = st.integers(0, 2**32 - 1)
drawn = settings(derandomize=True, deadline=None, max_examples=40)


def draw(seed: int, **fields: object) -> np.ndarray:
    spec = Relations(**fields)
    edges = graphs.draw(spec, np.random.default_rng(seed))
    assert edges.dtype == np.int64
    assert len(edges) == spec.library_size == spec.n_edges
    assert edges.tolist() == sorted(edges.tolist())
    assert len(np.unique(edges, axis=0)) == len(edges)
    assert (edges[:, 0] != edges[:, 1]).all()
    assert edges.min() >= 0
    assert edges.max() < spec.n_items
    return edges


def degrees(edges: np.ndarray, n: int) -> tuple[list[int], list[int]]:
    return np.bincount(edges[:, 0], minlength=n).tolist(), np.bincount(edges[:, 1], minlength=n).tolist()


def as_uniform(outcomes: list[object], number: int) -> float:
    """The p-value of outcomes that should be `number` different ones, each as likely."""
    counts = list(Counter(outcomes).values())
    assert len(counts) <= number
    return float(chisquare(counts + [0] * (number - len(counts))).pvalue)


# degrees and sizes


@drawn
@given(n=st.integers(2, 60), seed=seeds)
def test_a_permutation_has_one_edge_from_and_to_each_item(n: int, seed: int) -> None:
    assert degrees(draw(seed, n_items=n), n) == ([1] * n, [1] * n)


@drawn
@given(data=st.data(), n=st.integers(2, 24), seed=seeds)
def test_a_regular_graph_has_exact_degrees_up_to_the_complete_one(data: st.DataObject, n: int, seed: int) -> None:
    k = data.draw(st.integers(1, n - 1))
    assert degrees(draw(seed, graph="regular", n_items=n, degree=k), n) == ([k] * n, [k] * n)


@drawn
@given(data=st.data(), graph=st.sampled_from(["random", "power_law"]), n=st.integers(2, 24), seed=seeds)
def test_as_many_edges_as_asked_for_up_to_all(data: st.DataObject, graph: str, n: int, seed: int) -> None:
    draw(seed, graph=graph, n_items=n, n_edges=data.draw(st.integers(1, n * (n - 1))))


@drawn
@given(n=st.integers(2, 60), seed=seeds)
def test_a_tree_is_one_and_each_item_but_the_root_points_to_its_parent(n: int, seed: int) -> None:
    edges = draw(seed, graph="tree", n_items=n)
    tree = nx.DiGraph(edges[:, ::-1].tolist())
    assert len(tree) == n
    assert nx.is_arborescence(tree)
    assert sorted(degrees(edges, n)[0]) == [0] + [1] * (n - 1)


FIELDS = [
    {"graph": "permutation"},
    {"graph": "random", "n_edges": 100},
    {"graph": "regular", "degree": 3},
    {"graph": "power_law", "n_edges": 100},
    {"graph": "tree"},
]


@pytest.mark.parametrize("fields", FIELDS, ids=[str(fields["graph"]) for fields in FIELDS])
def test_a_seed_gives_one_graph_and_another_seed_another(fields: dict[str, object]) -> None:
    first, again, other = (draw(seed, n_items=40, **fields) for seed in (1, 1, 2))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


@pytest.mark.parametrize("graph", ["random", "regular", "power_law"])
def test_thousands_of_items_and_tens_of_thousands_of_edges(graph: str) -> None:
    many = {"degree": 24} if graph == "regular" else {"n_edges": 49_152}
    assert len(draw(0, graph=graph, n_items=2048, **many)) == 49_152


# what they are drawn from


def test_derangements_are_uniform() -> None:
    generator = np.random.default_rng(0)
    found = [tuple(graphs.derangement(4, generator).tolist()) for _ in range(2000)]
    possible = {p for p in permutations(range(4)) if all(p[i] != i for i in range(4))}
    assert set(found) == possible
    assert as_uniform(found, 9) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("n_edges", [2, 4])
def test_random_graphs_are_uniform_sparse_and_dense(n_edges: int) -> None:
    found = [tuple(draw(seed, graph="random", n_items=3, n_edges=n_edges).ravel().tolist()) for seed in range(1500)]
    assert as_uniform(found, math.comb(6, n_edges)) > 0.01


@pytest.mark.very_slow
def test_regular_graphs_are_near_uniform() -> None:
    # 216: 5x5 matrices of zeros and ones with a zero diagonal and rows and columns that sum to 2
    generator = np.random.default_rng(0)
    found = [tuple(sorted(map(tuple, graphs.regular(5, 2, generator).tolist()))) for _ in range(650)]
    assert as_uniform(found, 216) > 0.01


def test_random_recursive_trees() -> None:
    # the parent of the third item is the root with probability 1/2 (of uniform labelled trees rooted anywhere: 1/3)
    found = Counter(tuple(draw(seed, graph="tree", n_items=3)[:, 1].tolist()) for seed in range(1200))
    stars = sum(count for targets, count in found.items() if len(set(targets)) == 1)
    assert stars / 1200 == pytest.approx(1 / 2, abs=0.05)


def test_in_degrees_of_a_power_law_follow_the_shares_of_their_ranks() -> None:
    n, n_edges = 400, 20_000
    sorted_degrees = np.mean(
        [sorted(degrees(draw(s, graph="power_law", n_items=n, n_edges=n_edges), n)[1])[::-1] for s in range(3)], axis=0
    )
    ranks = np.arange(1, n + 1)
    capped = sorted_degrees >= n - 1.5
    assert capped.sum() in range(1, 40)
    free = ~capped & (ranks <= 200)
    slope = np.polyfit(np.log(ranks[free]), np.log(sorted_degrees[free]), 1)[0]
    assert slope == pytest.approx(-graphs.SKEW, abs=0.05)


# bad input


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"graph": "random", "n_edges": 7}, "n_edges: at most 6 "),
        ({"graph": "random"}, "n_edges: is required"),
        ({"graph": "tree", "n_edges": 3}, "n_edges: a tree graph of 3 items has 2, got 3"),
        ({"graph": "regular"}, "degree: is required"),
        ({"graph": "regular", "degree": 3}, "degree: at most n_items - 1 = 2, got 3"),
        ({"degree": 1}, "degree: only for a regular graph, got 1"),
        ({"n_items": 1}, "n_items: "),
        ({"n_items": None}, "n_items: is required"),
        ({"contexts": "uniform"}, "context_size: is required"),
        ({"context_size": 2}, "context_size: only with contexts"),
        ({"contexts": "targets", "context_size": 4}, "context_size: at most n_items = 3, got 4"),
        ({"library_sha256": "0"}, "library_sha256: only for the user's files"),
        ({"strict": True}, "strict: only with embeddings of a file"),
        ({"n_items": 4000, "embeddings": "low_coherence"}, "n_items: at most 2048 with low_coherence, got 4000"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError) as refused:
        Relations(**{"n_items": 3, **fields})
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


# contexts


def sample(edges: np.ndarray, number: int, seed: int = 0, **fields: object) -> np.ndarray:
    rows = contexts.draw(Relations(**fields), edges, np.random.default_rng(seed), number)
    assert (np.diff(rows, axis=1) > 0).all()
    return rows


def test_the_whole_graph_is_one_context() -> None:
    assert sample(draw(0, n_items=5), 3, n_items=5).tolist() == [[0, 1, 2, 3, 4]]


def test_uniform_contexts_are_uniform() -> None:
    rows = sample(draw(0, n_items=5), 2000, n_items=5, contexts="uniform", context_size=2)
    assert as_uniform([tuple(row) for row in rows.tolist()], 10) > 0.01


@drawn
@given(data=st.data(), n=st.integers(2, 30), graph=st.sampled_from(["permutation", "tree", "power_law"]), seed=seeds)
def test_half_of_a_target_context_has_a_target_in_it(data: st.DataObject, n: int, graph: str, seed: int) -> None:
    fields = {"graph": graph, "n_items": n, **({"n_edges": n} if graph == "power_law" else {})}
    edges = draw(seed, **fields)
    size = data.draw(st.integers(2, n))
    for row in sample(edges, 5, seed, contexts="targets", context_size=size, **fields):
        assert len(row) == size
        inside = edges[np.isin(edges, row).all(axis=1)]
        assert len(np.unique(inside[:, 0])) >= min(size // 2, len(np.unique(edges[:, 0])))
