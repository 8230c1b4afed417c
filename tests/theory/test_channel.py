"""Scores in blocks are the plain ones, and the threshold is the best there is."""

from collections.abc import Iterator

import numpy as np
import pytest
from channels import built, by_loops, counts, f1_of
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.errors import CapaxError
from capax.specs.relations import Relations
from capax.tasks import contexts
from capax.theory.construct import channel
from capax.theory.construct.channel import ChannelWeights, pair_scores, recognize, recognizes, score_blocks, square_norm


def random_channel(m: int, h: int, d: int, d_head: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    query, key = generator.standard_normal((2, h, d, d_head))
    return query, key, generator.standard_normal((m, d))


@pytest.mark.parametrize("block", [1, 100, 10**6])
def test_blocks_are_the_plain_scores(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "BLOCK", block)
    query, key, items = random_channel(23, 3, 7, 4, 0)
    plain = by_loops(query, key, items)
    blocks = [(first, rows.copy()) for first, rows in score_blocks(query, key, items)]
    assert [first for first, _ in blocks][:2] == ([0, max(1, block // 23)] if block < 1000 else [0])
    assert np.concatenate([rows for _, rows in blocks]) == pytest.approx(plain, abs=1e-12)
    pairs = np.argwhere(plain > 0)
    assert pair_scores(query, key, items, pairs) == pytest.approx(plain[tuple(pairs.T)], abs=1e-12)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.data())
def test_the_threshold_is_the_best_there_is(data: st.DataObject) -> None:
    """Against every threshold that makes a difference; scores are small integers, so that ties are many."""
    m, seed = data.draw(st.integers(2, 8)), data.draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    shape = (data.draw(st.integers(1, 3)), 3, 2)
    query, key = (generator.integers(-2, 3, shape).astype(float) for _ in range(2))
    items = generator.integers(-1, 2, (m, 3)).astype(float)
    pairs = np.argwhere(~np.eye(m, dtype=bool))
    edges = generator.permutation(pairs)[: data.draw(st.integers(1, len(pairs)))]
    scores = by_loops(query, key, items)
    found = recognize(query, key, items, edges)
    everywhere = np.concatenate([[scores.min() - 1], np.unique(scores)])
    assert found.f1 == max(f1_of(*counts(scores, edges, threshold)) for threshold in everywhere)
    hits, false, missed = counts(scores, edges, found.threshold)
    assert (found.true_positives, found.false_positives) == (hits, false)
    assert found.f1 == f1_of(hits, false, missed)
    assert found.recall == hits / (hits + missed)
    assert found.precision == hits / (hits + false)
    is_edge = np.zeros((m, m), bool)
    is_edge[tuple(edges.T)] = True
    others = scores[~is_edge & ~np.eye(m, dtype=bool)]
    if not len(others):
        assert found.margin is None
        return
    assert found.margin == scores[is_edge].min() - others.max()
    assert (found.f1 == 1) == (found.margin > 0)
    if found.margin > 0:
        assert found.threshold == pytest.approx((scores[is_edge].min() + others.max()) / 2)


def test_what_misses_a_target_is_told_without_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answer as all rows give, at every target, also one that is F1 itself; rows of a hopeless one are few."""
    monkeypatch.setattr(channel, "BLOCK", 60)
    made: list[int] = []

    def counted(*arguments: object) -> Iterator[tuple[int, np.ndarray]]:
        for first, block in score_blocks(*arguments):
            made.append(len(block))
            yield first, block

    monkeypatch.setattr(channel, "score_blocks", counted)
    for seed in range(20):
        query, key, items = random_channel(30, 2, 6, 3, seed)
        edges = np.stack([np.arange(30), np.roll(np.arange(30), 1)], 1)
        found = recognize(query, key, items, edges)
        assert recognizes(query, key, items, edges, 0.01) == recognizes(query, key, items, edges, found.f1) == found
        assert recognizes(query, key, items, edges, float(np.nextafter(found.f1, 2))) is None
        made.clear()
        assert recognizes(query, key, items, edges, 0.99) is None
        assert sum(made) < 20


def test_a_given_threshold() -> None:
    query, key, items = random_channel(30, 2, 6, 3, 1)
    edges = np.stack([np.arange(30), np.roll(np.arange(30), 1)], 1)
    scores = by_loops(query, key, items)
    for threshold in (-5.0, 0.0, 3.0, 1e9):
        found = recognize(query, key, items, edges, threshold=threshold)
        hits, false, missed = counts(scores, edges, threshold)
        assert (found.true_positives, found.false_positives, found.threshold) == (hits, false, threshold)
        assert (found.f1, found.recall) == (f1_of(hits, false, missed), hits / 30)
    assert found.precision == 0


def test_scores_that_differ_by_rounding_are_one() -> None:
    """Equal signatures give equal scores, whichever way their products were added up."""
    generator = np.random.default_rng(0)
    signature = generator.standard_normal(11)
    query = np.tile(signature, (1, 4, 1))
    found = recognize(query, query, np.eye(4), np.array([[0, 1], [1, 2]]))
    assert (found.margin, found.true_positives, found.false_positives) == (0, 2, 10)


def test_float32_weights_and_items() -> None:
    query, key, items = (array.astype(np.float32) for array in random_channel(20, 2, 6, 3, 1))
    edges = np.array([[0, 1], [3, 2]])
    double = recognize(*(array.astype(np.float64) for array in (query, key, items)), edges)
    assert recognize(query, key, items, edges) == double


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["uniform", "targets"])
@pytest.mark.parametrize("d_head", [13, 6])
def test_scores_do_not_depend_on_the_context(d_head: int, sampler: str) -> None:
    """Lemma 4.1: what is right on the whole graph is right in every context, and what is wrong is wrong there."""
    edges, items, made = built(96, 48, d_head=d_head)
    query, key, threshold = made.weights.query, made.weights.key, made.recognition.threshold
    fires = by_loops(query, key, items) > threshold
    spec = Relations(n_items=96, contexts=sampler, context_size=20)
    for context in contexts.draw(spec, edges, np.random.default_rng(3), 20):
        place = {int(item): number for number, item in enumerate(context)}
        inside = np.array([[place[i], place[j]] for i, j in edges.tolist() if i in place and j in place])
        if not len(inside):
            continue
        found = recognize(query, key, items[context], inside, threshold=threshold)
        whole = fires[np.ix_(context, context)]
        assert found.true_positives == whole[tuple(inside.T)].sum()
        np.fill_diagonal(whole, False)
        assert found.true_positives + found.false_positives == whole.sum()
        assert made.recognition.recall < 1 or found.recall == 1


def test_norms() -> None:
    query, key, items = random_channel(9, 3, 5, 2, 4)
    largest = 0.0
    for ask, answer in zip(query, key, strict=True):
        norms = [(np.linalg.norm(x @ ask), np.linalg.norm(x @ answer)) for x in items]
        largest = max(largest, max(q for q, _ in norms) * max(k for _, k in norms))
    assert square_norm(query, key, items) == pytest.approx(largest)


def test_the_total_key_dimension_is_that_of_all_heads() -> None:
    query, key, _ = random_channel(2, 3, 5, 2, 4)
    assert ChannelWeights(query, key).total_key_dim == 6


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        (np.zeros((0, 2), int), "edges"),
        (np.array([[0, 1], [2, 2]]), r"edges.*self-loop.*item 2.*edge 2"),
        (np.array([[0, 1], [0, 9]]), r"edges.*0 to 8.*0 -> 9.*edge 2"),
        (np.array([[-1, 1]]), r"edges.*-1 -> 1.*edge 1"),
        (np.array([[0, 1], [1, 0], [0, 1]]), r"edges.*0 -> 1.*edge 3"),
    ],
)
def test_refuses_edges(edges: np.ndarray, said: str) -> None:
    with pytest.raises(CapaxError, match=said):
        recognize(*random_channel(9, 1, 3, 2, 0), edges)
