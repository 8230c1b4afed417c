"""Unreachable tokens against one plain linear programme per token, and against read-outs whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from capax.models import reachability
from capax.models.reachability import unreachable_tokens


def plain(readout: np.ndarray) -> list[int]:
    """Tokens for which no vector h has (w_t − w_s)·h ≥ 1 for every rival s, all rivals at once."""
    unreachable = []
    for token, row in enumerate(readout):
        rivals = np.delete(readout, token, axis=0)
        answer = linprog(np.zeros(readout.shape[1]), A_ub=rivals - row, b_ub=-np.ones(len(rivals)), bounds=(None, None))
        assert answer.status in (0, 2), answer.message  # solved, or infeasible
        if answer.status == 2:
            unreachable.append(token)
    return unreachable


def uniform_readout(seed: int, vocab_size: int, d_model: int) -> np.ndarray:
    """As it is initialised: uniform within ±1/√d_model."""
    return np.random.default_rng(seed).uniform(-1, 1, (vocab_size, d_model)) / np.sqrt(d_model)


def every_unreachable(readout: np.ndarray) -> list[int]:
    return unreachable_tokens(readout, list(range(len(readout))))


@pytest.mark.slow
@settings(derandomize=True, max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), vocab_size=st.integers(2, 40), d_model=st.integers(1, 6))
def test_equals_the_plain_programme(seed: int, vocab_size: int, d_model: int) -> None:
    readout = uniform_readout(seed, vocab_size, d_model)
    assert every_unreachable(readout) == plain(readout)


@pytest.mark.very_slow
@pytest.mark.parametrize(("seed", "d_model"), [(0, 4)])
def test_equals_the_plain_programme_when_rivals_come_in_rounds(seed: int, d_model: int) -> None:
    readout = uniform_readout(seed, 150, d_model).astype(np.float32)
    expected = plain(readout.astype(np.float64))
    assert expected
    assert every_unreachable(readout) == expected


def test_one_dimension_reaches_only_its_ends() -> None:
    assert every_unreachable(np.array([[0.3], [-2.0], [0.1], [5.0], [4.9]])) == [0, 2, 4]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_row_among_others_is_unreachable(scale: float) -> None:
    rows = np.random.default_rng(0).normal(size=(5, 6))
    readout = scale * np.vstack([rows, rows.mean(0), 0.9 * rows[0] + 0.1 * rows[1]])
    assert every_unreachable(readout) == [5, 6]


def test_equal_rows_are_unreachable() -> None:
    rows = np.eye(4)
    assert every_unreachable(np.vstack([rows, rows[2]])) == [2, 4]


def test_orthogonal_rows_are_all_reachable() -> None:
    orthogonal = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 20)))[0]
    assert every_unreachable(orthogonal) == []
    assert every_unreachable(orthogonal * np.linspace(0.1, 10, 20)[:, None]) == []


def test_points_of_a_circle_are_all_reachable_and_its_centre_is_not() -> None:
    angles = np.linspace(0, 2 * np.pi, 90, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    assert every_unreachable(np.vstack([circle, [0.0, 0.0]])) == [90]


def test_only_what_is_asked_is_answered_in_its_order() -> None:
    readout = np.array([[0.0], [1.0], [0.5], [0.2], [-1.0]])
    assert unreachable_tokens(readout, [3, 1, 0]) == [3, 0]
    assert unreachable_tokens(readout, []) == []


def test_most_tokens_need_no_programme(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their own row puts them first; of those that are left the same is found as without that shortcut."""
    readout = uniform_readout(0, 3000, 32)
    asked: list[int] = []
    programme = reachability._reachable
    monkeypatch.setattr(reachability, "_reachable", lambda rows, token: asked.append(token) or programme(rows, token))
    monkeypatch.setattr(reachability, "BLOCK", 10_000)
    assert every_unreachable(readout) == []
    assert len(asked) < 30
    small = uniform_readout(1, 60, 3)
    found = every_unreachable(small)
    assert found == [token for token in range(60) if not programme(small / np.abs(small).max(), token)]
    assert found


def test_an_unreachable_token_is_never_the_arg_max() -> None:
    readout = uniform_readout(0, 100, 8)
    unreachable = every_unreachable(readout)
    hidden = np.random.default_rng(1).normal(size=(50_000, 8))
    winners = set(np.unique((hidden @ readout.T).argmax(1)).tolist())
    assert winners.isdisjoint(unreachable)


@pytest.mark.parametrize(
    ("vocab_size", "d_model", "fewest", "most", "readouts"),
    [(100, 8, 1, 5, 4), (100, 16, 0, 0, 2), (16, 4, 0, 2, 10)],
)
def test_how_many_tokens_of_an_initial_readout_are_unreachable(
    vocab_size: int, d_model: int, fewest: int, most: int, readouts: int
) -> None:
    numbers = [len(every_unreachable(uniform_readout(seed, vocab_size, d_model))) for seed in range(readouts)]
    assert fewest <= np.mean(numbers) <= most
    assert (max(numbers) > 0) == (most > 0)
    assert max(numbers) <= 2 * most
