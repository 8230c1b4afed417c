"""What trained key-query channels show of the paper's claims."""

from __future__ import annotations

import numpy as np
import pytest

import capax
from capax.specs import KeyQueryChannel, Relations


def f1(n_items: int, d_model: int, n_heads: int, d_head: int, seeds: int = 3) -> float:
    model = KeyQueryChannel(n_heads=n_heads, d_model=d_model, d_head=d_head)
    runs = [capax.measure(Relations(n_items=n_items), model, restarts=1, seed=seed) for seed in range(seeds)]
    return float(np.mean([run.metrics["f1"] for run in runs]))


@pytest.mark.very_slow
def test_one_item_a_channel_needs_one_small_head() -> None:
    assert f1(32, 32, n_heads=1, d_head=3) >= 0.99
    assert f1(32, 32, n_heads=1, d_head=1) < 0.9


@pytest.mark.very_slow
def test_one_head_fails_where_the_law_asks_for_more_than_the_width() -> None:
    """32 log2 32 / 8 = 20 channels are more than 8; four heads of six do it."""
    assert f1(32, 8, n_heads=1, d_head=8) < 0.8
    assert f1(32, 8, n_heads=4, d_head=6) > 0.95


@pytest.mark.very_slow
def test_f1_against_heads_at_one_key_dimension_is_an_inverted_u() -> None:
    found = [f1(64, 16, heads, 16 // heads) for heads in (1, 2, 4, 8, 16)]
    assert found.index(max(found)) == 1
    assert (np.diff(found[1:]) < 0).all()
    assert found[0] < 0.8
    assert found[-1] < 0.8
