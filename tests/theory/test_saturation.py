"""Which heads saturate on which examples is read from attention weights alone."""

from typing import Any

import numpy as np
import pytest
import torch
from layers import built, library

from capax.checks.saturation import saturated, saturation
from capax.errors import CapaxError, SpecError
from capax.theory.construct.associations import largest_library


def test_by_hand() -> None:
    sharp, soft = [1.0, 0.0, 0.0], [0.99, 0.01, 0.0]
    attention = np.array([[sharp, sharp, soft, soft], [soft, sharp, sharp, soft]])
    assert saturated(attention).tolist() == [[True, True, False, False], [False, True, True, False]]
    found = saturation(attention, np.array([0, 0, 0, 1]))
    assert found.examples_by_heads == (1, 2, 1)
    first, second = found.heads
    assert (first.saturated, first.share, first.alone, first.own) == (2, 0.5, 1, 3)
    assert first.own_share == pytest.approx(2 / 3)
    assert first.others_share == 0
    assert (second.alone, second.own, second.own_share) == (1, 1, 0)
    assert second.others_share == pytest.approx(2 / 3)


def test_a_trained_layer_has_no_owners() -> None:
    found = saturation(np.full((2, 3, 4), 0.25))
    assert {head.own for head in found.heads} == {head.own_share for head in found.heads} == {None}
    assert found.examples_by_heads == (3, 0, 0)


def test_the_threshold_counts() -> None:
    attention = np.array([[[0.6, 0.4]]])
    assert saturation(attention, threshold=0.5).heads[0].saturated == 1
    assert saturation(attention, threshold=0.6).heads[0].saturated == 0
    with pytest.raises(CapaxError, match=r"threshold.*0.*1.*1.0"):
        saturation(attention, threshold=1.0)


EVEN = np.full((2, 3, 4), 0.25)


@pytest.mark.parametrize(
    ("attention", "more", "said"),
    [
        ("key", {}, r"attention: floats of heads, examples and tokens, got an array of shape \(\) of <U3"),
        (EVEN[0], {}, r"attention: floats of .* got an array of shape \(3, 4\) of float64"),
        (np.ones((1, 1, 1), int), {}, "attention: floats of .* of int64"),
        (np.zeros((2, 3, 0)), {}, r"attention: floats of .* shape \(2, 3, 0\)"),
        (4 * EVEN, {}, "attention: weights are 0 to 1 and sum to 1 .* head 1, example 1 they are"),
        (np.where(np.arange(3)[:, None] == 1, [1.5, -0.5, 0, 0], EVEN), {}, "of head 1, example 2"),
        (np.where(np.arange(2)[:, None, None] == 1, np.nan, EVEN), {}, "of head 2, example 1 they are .nan"),
        (EVEN, {"threshold": "high"}, "threshold: at least 0 and below 1, got 'high'"),
        (EVEN, {"owner": [0, 1]}, r"owner: a head \(0 to 1\) for each of 3 examples, got \[0, 1\]"),
        (EVEN, {"owner": [0, 1, 2]}, "owner: a head"),
        (EVEN, {"owner": [0.0, 1.0, 1.0]}, "owner: a head"),
    ],
)
def test_what_are_no_weights_is_refused(attention: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        saturation(attention, **more)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_weights_of_torch_are_taken(dtype: torch.dtype) -> None:
    scores = torch.randn(3, 5, 200, generator=torch.Generator().manual_seed(0)) * 4
    attention = scores.softmax(2).to(dtype)
    plain = attention.double().numpy()
    assert saturation(attention.requires_grad_(), threshold=0.5) == saturation(plain, threshold=0.5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("entries", ["uniform", "normal"])
@pytest.mark.parametrize("contexts", ["shared", "fresh"])
@pytest.mark.parametrize("sizes", [(2, 2, 4, 2), (4, 8, 16, 8), (6, 16, 32, 5), (6, 16, 32, 32)], ids=str)
def test_built_heads_saturate_on_all_examples_but_their_own(
    sizes: tuple[int, int, int, int], contexts: str, entries: str, dtype: str
) -> None:
    examples = library(sizes, contexts=contexts, entries=entries)
    found = built(sizes, examples, dtype=dtype)
    seen = saturation(found.attention, found.owner)
    assert {head.own_share for head in seen.heads} == {0}
    assert {head.others_share for head in seen.heads[1:]} == {1}
    assert seen.heads[0].own == min(sizes[1], sizes[3])  # no rank to spare: nothing is promised of the others


def test_with_rank_to_spare_every_head_saturates() -> None:
    sizes = (4, 8, 16, 8)
    examples = library(sizes, more=28 - largest_library(*sizes))
    found = built(sizes, examples)
    seen = saturation(found.attention, found.owner)
    assert {(head.own_share, head.others_share) for head in seen.heads} == {(0, 1)}
    assert {head.alone for head in seen.heads} == {7}
    assert seen.examples_by_heads == (0, 0, 0, 28, 0)
