"""The bounds say what numbers show: ranks of features, residuals one example further, parameters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import built, library

from capax.tasks.association_files import Examples
from capax.theory.bounds.associations import (
    fresh_context_rank,
    mahdavi2024,
    n_parameters,
    parameter_limit,
    shared_context_rank,
)
from capax.theory.bounds.bound import Bound
from capax.theory.construct.associations import targets
from capax.theory.construct.layer import attention, features


def of_a_layer(*sizes: int | None, **known: object) -> list[Bound]:
    """All of them for n_heads, context_size, d_model, d_head, d_value and d_out."""
    names = ("n_heads", "context_size", "d_model", "d_head", "d_value", "d_out")
    every = (mahdavi2024, shared_context_rank, fresh_context_rank, parameter_limit)
    return [bound(**dict(zip(names, sizes, strict=True)), **known) for bound in every]


def random_features(n_heads: int, n: int, d: int, size: int, contexts: str) -> tuple[np.ndarray, Examples]:
    """Z of random query and key matrices with logits of about 1."""
    generator = np.random.default_rng(7)
    queries = generator.standard_normal((size, d))
    tokens = generator.standard_normal((1 if contexts == "shared" else size, n, d))
    examples = Examples(queries, tokens, generator.standard_normal((size, 1)))
    query, key = generator.standard_normal((2, n_heads, d, d)) / d**0.75
    return features(attention(query, key, examples), tokens), examples


def residual(z: np.ndarray, examples: Examples) -> float:
    wanted = targets(examples)
    solved = np.linalg.lstsq(z, wanted, rcond=None)[0]
    return float(np.abs(z @ solved - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize(("n_heads", "n"), [(1, 5), (3, 4), (4, 8), (8, 8), (5, 16)])
def test_shared_contexts_give_features_of_the_rank_of_the_bound(n_heads: int, n: int) -> None:
    d, bound = 2 * n, n_heads * (n - 1) + 1
    assert shared_context_rank(n_heads, n, d).value == bound == mahdavi2024(n_heads, n, d, n).value
    z, _ = random_features(n_heads, n, d, 2 * n_heads * n, "shared")
    sizes = np.linalg.svd(z, compute_uv=False)
    assert np.linalg.matrix_rank(z) == bound
    assert sizes[bound - 1] > 1e4 * sizes[bound] if bound < len(sizes) else True
    at_bound, examples = random_features(n_heads, n, d, bound, "shared")
    assert residual(at_bound, examples) < 1e-8
    one_more, examples = random_features(n_heads, n, d, bound + 1, "shared")
    assert residual(one_more, examples) > 1e-3


@pytest.mark.parametrize(("n_heads", "n", "d"), [(1, 4, 3), (2, 9, 4)])
def test_long_contexts_are_limited_by_the_width(n_heads: int, n: int, d: int) -> None:
    z, _ = random_features(n_heads, n, d, 50, "shared")
    assert np.linalg.matrix_rank(z) == shared_context_rank(n_heads, n, d).value == n_heads * d


@pytest.mark.parametrize("sizes", [(2, 4, 8, 4), (4, 8, 16, 8), (8, 16, 32, 16)], ids=str)
def test_the_built_weights_hold_no_example_more(sizes: tuple[int, int, int, int]) -> None:
    more = library(sizes, more=1)
    fitting = Examples(more.queries[:-1], more.contexts, more.labels[:-1])
    weights = built(sizes, fitting).weights
    attended = attention(weights.query, weights.key, more)
    z = features(attended, more.contexts)
    assert np.linalg.matrix_rank(z) == len(fitting)
    assert residual(z[:-1], fitting) < 1e-8
    assert residual(z, more) > 1e-3


@pytest.mark.parametrize("size", [10, 32, 64, 90])
@pytest.mark.parametrize(("n_heads", "n", "d"), [(4, 8, 16), (8, 4, 8)])
def test_fresh_contexts_give_features_of_full_rank(n_heads: int, n: int, d: int, size: int) -> None:
    z, _ = random_features(n_heads, n, d, size, "fresh")
    assert np.linalg.matrix_rank(z) == min(size, fresh_context_rank(n_heads, d).value)


def test_published_values() -> None:
    values = [mahdavi2024(heads, 32, 64, 64).value for heads in (1, 5, 10, 20, 30, 40, 50, 60)]
    assert values == [32, 156, 311, 621, 931, 1241, 1551, 1861]
    assert mahdavi2024(20, 32, 64, 10).value == 181


def test_an_assumption_that_fails_leaves_no_value() -> None:
    wide = mahdavi2024(4, 64, 64, 64)
    assert wide.value is None
    assert "context_size < d_model" in wide.reason
    assert [assumption.met for assumption in wide.assumptions[:3]] == [False, None, None]
    alike = mahdavi2024(4, 8, 64, 64, queries_independent=False, contexts_independent=True)
    assert alike.value is None
    assert "queries" in alike.reason


def test_parameters_are_those_of_the_weights() -> None:
    sizes = (8, 32, 64, 32)
    weights = built(sizes, library(sizes, d_out=64)).weights
    assert weights.n_parameters == n_parameters(8, 64, 32, 64, 64) == 98_304


def test_a_layer_has_as_many_dimensions_as_its_jacobian_has_rank() -> None:
    n_heads, d, d_head, d_value, d_out = 1, 4, 2, 2, 3
    generator = np.random.default_rng(3)
    shapes = [(d, d_head), (d, d_head), (d, d_value), (d_value, d_out)]
    point = [generator.standard_normal(shape) for shape in shapes]

    def maps(query: np.ndarray, key: np.ndarray, value: np.ndarray, out: np.ndarray) -> np.ndarray:
        return np.concatenate([(query @ key.T).ravel(), (value @ out).ravel()])

    columns = []
    for place, shape in enumerate(shapes):
        for at in np.ndindex(shape):
            step = np.zeros(shape)
            step[at] = 1e-6
            ahead, behind = ([*point[:place], point[place] + sign * step, *point[place + 1 :]] for sign in (1, -1))
            columns.append((maps(*ahead) - maps(*behind)) / 2e-6)
    rank = np.linalg.matrix_rank(np.array(columns), tol=1e-6)
    assert parameter_limit(n_heads, d, d_head, d_value, d_out).value == rank // d_out
    assert parameter_limit(n_heads, d, 10, 10, d_out).value == (d * d + d * d_out) // d_out


def test_upper_bounds_are_not_below_what_was_built() -> None:
    for sizes in ((1, 4, 6, 4), (4, 8, 16, 8), (20, 32, 64, 10)):
        for d_out in (1, 3, 64):
            made, *upper = of_a_layer(*sizes, min(sizes[2], d_out), d_out)
            assert made.kind == "constructive"
            assert all(bound.kind == "upper" and bound.value >= made.value for bound in upper)


def test_bits_are_those_of_classes() -> None:
    found = mahdavi2024(20, 32, 64, 64, n_classes=100)
    assert found.bits == pytest.approx(621 * np.log2(100))
    whole = mahdavi2024(20, 32, 64, 64, n_classes=100, d_value=64, d_out=100)
    assert whole.bits == found.bits
    narrow = mahdavi2024(20, 32, 64, 64, n_classes=100, d_value=1, d_out=100)
    assert (narrow.value, narrow.bits) == (621, None)
    assert "d_value = 1 numbers, too few for one-hot vectors" in narrow.bits_reason
    real = mahdavi2024(20, 32, 64, 64)
    assert real.bits is None
    assert "real label" in real.bits_reason
    for limit in of_a_layer(20, 32, 64, 64, 64, 100, n_classes=100)[1:]:
        assert limit.bits is None
        assert "no finite number of bits" in (limit.bits_reason or "")


def test_what_is_missing_or_not_met_is_said() -> None:
    nothing = of_a_layer(4, None, 64, 16, None, None)
    assert [bound.reason for bound in nothing] == [
        "context_size is not given",
        "context_size is not given",
        None,
        "n_classes or d_out is not given",
    ]
    fresh = of_a_layer(4, 8, 64, 16, 16, 64, shared_context=False)
    assert "share" in fresh[1].reason
    narrow = fresh[0].assumptions[-1]
    assert (narrow.met, narrow.needed, fresh[0].value) == (False, False, 29)
    assert of_a_layer(4, 8, 64, 16, 16, 16, shared_context=True)[0].assumptions[-1].met


@settings(derandomize=True, deadline=None, max_examples=60)
@given(heads=st.integers(1, 30), n=st.integers(1, 60), d=st.integers(2, 64), d_head=st.integers(1, 64))
def test_more_of_anything_holds_no_less(heads: int, n: int, d: int, d_head: int) -> None:
    at = mahdavi2024(heads, n, d, d_head)
    assert (at.value is None) == (n >= d)
    if at.value is None:
        return
    assert at.value <= shared_context_rank(heads, n, d).value <= fresh_context_rank(heads, d).value
    assert mahdavi2024(heads + 1, n, d, d_head).value >= at.value
    assert mahdavi2024(heads, n, d, d_head + 1).value >= at.value
    assert mahdavi2024(heads, n, d + 1, d_head).value == at.value
    if n + 1 < d:
        assert mahdavi2024(heads, n + 1, d, d_head).value >= at.value
    if d_head >= n:
        assert mahdavi2024(heads, n, d, n).value == at.value
