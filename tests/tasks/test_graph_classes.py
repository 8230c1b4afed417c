"""Sizes of classes of graphs, by enumeration."""

from itertools import combinations, permutations, product
from math import log, log2

import numpy as np
import pytest

import capax
from capax.errors import CapaxError
from capax.tasks import graph_classes
from capax.theory.bounds.stored_bits import graph_information


def all_digraphs(m: int) -> list[np.ndarray]:
    pairs = [(i, j) for i in range(m) for j in range(m) if i != j]
    graphs = []
    for chosen in product([0, 1], repeat=len(pairs)):
        graph = np.zeros((m, m), int)
        for (i, j), edge in zip(pairs, chosen, strict=True):
            graph[i, j] = edge
        graphs.append(graph)
    return graphs


@pytest.mark.parametrize(
    ("m", "permutations_bits"), [(32, 117.7), (64, 296), (128, 716.2), (256, 1684), (512, 3875.2), (1024, 8769)]
)
def test_derangements_in_bits(m: int, permutations_bits: float) -> None:
    every = sum(log2(i) for i in range(2, m + 1))
    assert every == pytest.approx(permutations_bits, abs=0.06)
    assert graph_classes.derangements(m).bits == pytest.approx(every - 1.4427, abs=1e-3)


def test_classes_by_enumeration() -> None:
    for m in range(2, 8):
        number = sum(all(i != j for i, j in enumerate(order)) for order in permutations(range(m)))
        assert graph_classes.derangements(m).bits == pytest.approx(log2(number), abs=1e-9)
    assert graph_classes.derangements(20).bits == pytest.approx(sum(log2(i) for i in range(2, 21)) - 1 / log(2))
    graphs = all_digraphs(4)
    for n_edges in range(13):
        number = sum(graph.sum() == n_edges for graph in graphs)
        assert graph_classes.digraphs(4, n_edges).bits == pytest.approx(log2(number), abs=1e-9)
    trees = sum(
        all(np.linalg.matrix_power(graph, length).trace() == 0 for length in range(1, 5))
        and sorted(graph.sum(1)) == [0, 1, 1, 1]
        for graph in graphs
    )
    assert graph_classes.rooted_trees(4).bits == pytest.approx(log2(trees))


@pytest.mark.parametrize(("m", "degree"), [(4, 2), (4, 3), (5, 2), (5, 3), (6, 2)])
def test_regular_graphs_are_no_fewer(m: int, degree: int) -> None:
    """Every row chosen in every way: those with all column sums equal to the degree."""
    sums = {tuple([0] * m): 1}
    for row in range(m):
        after: dict[tuple[int, ...], int] = {}
        for chosen in combinations([j for j in range(m) if j != row], degree):
            for columns, number in sums.items():
                more = tuple(value + (j in chosen) for j, value in enumerate(columns))
                after[more] = after.get(more, 0) + number
        sums = after
    found = graph_classes.regular_digraphs(m, degree)
    assert 0 <= found.bits <= log2(sums[tuple([degree] * m)]) + 1e-9
    assert not found.exact


def test_regular_graphs_of_many_items() -> None:
    """Close to m' log2 m, so that the bound says something."""
    assert graph_classes.regular_digraphs(256, 1).bits == graph_classes.derangements(256).bits
    for degree in (2, 4, 8):
        bits = graph_classes.regular_digraphs(256, degree).bits
        assert 0.5 * degree * 256 * log2(256 / degree) < bits < graph_classes.digraphs(256, 256 * degree).bits


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: graph_classes.digraphs(4, 13), "n_edges: 0 to 12"),
        (lambda: graph_classes.regular_digraphs(4, 4), "degree: 1 to 3"),
        (lambda: graph_classes.derangements(1), "n_items: at least 2, got 1"),
    ],
)
def test_refuses(call, said: str) -> None:
    with pytest.raises(CapaxError, match=said):
        call()


@pytest.mark.parametrize(("recalled", "wrong"), [(12, 0), (7, 0), (7, 5), (12, 40), (2, 1)])
def test_what_pairs_tell_of_a_graph_is_the_bits_that_its_answers_leave(recalled: int, wrong: int) -> None:
    """Against the bound of stored bits, which counts the graphs that would give as many; wrong pairs cost bits."""
    bits = graph_classes.digraphs(12, 12).bits
    told = bits * graph_classes.narrowed(12, recalled, 12 - recalled, wrong)
    assert told == pytest.approx(max(graph_information(12, 12, bits, recalled, recalled + wrong), 0.0))
    assert not told or bits * graph_classes.narrowed(12, recalled, 12 - recalled, wrong + 1) < told


def test_all_pairs_tell_nothing_of_a_graph_and_its_edges_tell_all() -> None:
    assert graph_classes.narrowed(12, 12, 0, 12 * 11 - 12) == 0
    assert graph_classes.narrowed(12, 3, 9, 100) == graph_classes.narrowed(12, 0, 12, 0) == 0
    assert graph_classes.narrowed(12, 12, 0, 0) == 1


@pytest.mark.slow
@pytest.mark.parametrize("contexts", ["whole", "uniform", "targets"])
def test_bits_of_a_run_are_by_its_edges_and_its_wrong_pairs(contexts: str) -> None:
    """A channel that takes the edges and no other pair for edges has all bits, whatever pairs it was shown."""
    task, channel = (
        capax.Relations(n_items=16, contexts=contexts, context_size=None if contexts == "whole" else 8),
        {"channel": "softmax", "aggregate": "sum"},
    )
    model = capax.KeyQueryChannel(n_heads=4, d_head=4, d_model=8, **({} if contexts == "whole" else channel))
    for steps in (60, 500):
        run = capax.measure(task, model, capax.Training(max_steps=steps), restarts=1)
        wrong = run.metrics["predicted_pairs"] - run.memorized
        told = graph_classes.narrowed(16, run.memorized, 16 - run.memorized, wrong)
        assert run.unit("bits").amount == run.bits == pytest.approx(task.graph_bits() * told)
    assert (run.memorized, wrong) == (16, 0)
    assert run.bits == task.graph_bits()
