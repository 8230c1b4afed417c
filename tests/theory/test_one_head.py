"""The optimum of one head: against a linear program, against weights of heads, and its own proof."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from capax.errors import LibraryError
from capax.tasks.embeddings import gaussian
from capax.tasks.graphs import derangement
from capax.theory.construct.channel import recognize
from capax.theory.one_head import best_head


def drawn(n_items: int, d_model: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return gaussian(n_items, d_model, generator), np.stack([np.arange(n_items), derangement(n_items, generator)], 1)


def points(items: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of all ordered pairs the products of their vectors, with -1 for the threshold, and which are edges."""
    source, target = np.nonzero(~np.eye(len(items), dtype=bool))
    related = np.isin(source * len(items) + target, edges[:, 0] * len(items) + edges[:, 1])
    rows = np.stack([np.outer(items[a], items[b]).ravel() for a, b in zip(source, target, strict=True)])
    return np.column_stack([rows, -np.ones(len(rows))]), related


def separable(rows: np.ndarray, related: np.ndarray) -> bool:
    """By a linear program: whether some weights have all pairs on their sides by a margin of 1."""
    signs = np.where(related, 1.0, -1.0)
    found = linprog(np.zeros(rows.shape[1]), A_ub=-signs[:, None] * rows, b_ub=-np.ones(len(rows)), bounds=(None, None))
    assert found.status in (0, 2), found.message
    return bool(found.status == 0)


SIZES = [(12, 2), (12, 3), (12, 4), (12, 6), (16, 4), (16, 5), (20, 6), (10, 10)]


@pytest.mark.parametrize(("n_items", "d_model"), SIZES)
def test_it_separates_where_a_linear_program_does(n_items: int, d_model: int) -> None:
    for seed in range(3):
        items, edges = drawn(n_items, d_model, seed)
        found = best_head(items, edges)
        assert found.separates == separable(*points(items, edges))
        assert found.separates == (found.recognition.f1 == 1)
        assert found.recognition == recognize(found.weights.query, found.weights.key, items, edges)


def test_both_answers_are_met() -> None:
    answers = {best_head(*drawn(n_items, d_model, 0)).separates for n_items, d_model in SIZES}
    assert answers == {True, False}


def test_what_cannot_be_separated_is_proved_not_to_be_but_for_rounding() -> None:
    found = best_head(*drawn(16, 3, 0))
    assert not found.separates
    assert found.largest_margin < 1e-8


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 10])
def test_a_search_that_ends_early_proves_no_less_than_the_margin_that_there_is(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a graph that one head recognizes by a small margin, which is found late."""
    items, edges = drawn(14, 6, 14011)
    whole = best_head(items, edges)
    assert whole.separates
    rows, related = points(items, edges)
    scores = rows[:, :-1] @ whole.weights.query.ravel()
    weights = np.append(whole.weights.query.ravel(), (scores[related].min() + scores[~related].max()) / 2)
    margin = (np.where(related, 1.0, -1.0) * (rows @ weights)).min() / np.linalg.norm(weights)
    monkeypatch.setattr("capax.theory.one_head.STEPS", steps)
    early = best_head(items, edges)
    assert early.separates or early.largest_margin >= margin > 0
    assert steps > 3 or not early.separates


def test_no_head_has_a_smaller_loss() -> None:
    """Among them heads of fewer channels, whose products of queries and keys are of a lower rank."""
    items, edges = drawn(16, 3, 1)
    rows, related = points(items, edges)
    signs = np.where(related, 1.0, -1.0)
    worth = np.where(related, np.sqrt((~related).sum() / related.sum()), 1.0)

    def loss(weights: np.ndarray) -> float:
        return float((worth * np.logaddexp(0, -signs * (rows @ weights))).sum())

    head = best_head(items, edges).weights.query[0]
    scores = rows[:, :-1] @ head.ravel()
    least = min(loss(np.append(head.ravel(), threshold)) for threshold in np.linspace(scores.min(), scores.max(), 2001))
    generator = np.random.default_rng(2)
    for rank in (1, 2, 3):
        for _ in range(50):
            product = generator.normal(size=(3, rank)) @ generator.normal(size=(rank, 3))
            near = head + 0.1 * abs(head).mean() * product
            for tried in (product * abs(head).mean(), near):
                assert loss(np.append(tried.ravel(), np.quantile(rows[:, :-1] @ tried.ravel(), 0.9))) > least - 1e-6


def test_edges_that_are_none_are_refused() -> None:
    with pytest.raises(LibraryError):
        best_head(np.eye(3), np.array([[0, 3]]))
    with pytest.raises(LibraryError, match="edges: fewer than all 6 pairs, got 6"):
        best_head(np.eye(3), np.argwhere(~np.eye(3, dtype=bool)))
