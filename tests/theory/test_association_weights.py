"""The built weights memorize exactly as many examples as the bound says, whoever evaluates them."""

import subprocess
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import Sizes, built, by_definition, by_torch, library

from capax.errors import CapaxError
from capax.tasks.association_files import Examples
from capax.theory.construct.associations import largest_library, targets
from capax.theory.construct.layer import outputs

KINDS = list(product(("shared", "fresh"), ("uniform", "normal")))
LABELS = (
    {"labels": "normal"},
    {"labels": "uniform", "d_out": 5},
    {"labels": "normal", "d_out": 40},
    {"labels": "classes", "n_classes": 7},
)
SMALL = [
    (n_heads, n, d, d_head)
    for n_heads in (1, 2, 3, 5)
    for n, d, d_head in (
        *((1, 2, 1), (2, 3, 2), (3, 8, 3), (4, 6, 4), (5, 6, 2)),
        *((6, 12, 20), (7, 8, 7), (8, 16, 8), (8, 16, 1), (12, 16, 9)),
    )
]
HALVES = (KINDS[0], KINDS[3]), (KINDS[1], KINDS[2])
LARGE = [
    *((kind, (8, 16, 32, 16, 1)) for kind in KINDS),
    *((kind, (8, 32, 64, 32, 64)) for kind in HALVES[1]),
    (HALVES[0][0], (20, 32, 64, 10, 1)),
    pytest.param(HALVES[0][1], (20, 32, 64, 10, 1), marks=pytest.mark.very_slow),
    *(pytest.param(kind, (20, 32, 64, 64, 64), marks=pytest.mark.very_slow) for kind in KINDS),
]
"""Of large layers the kinds that differ in both, not all four."""


def error(outputs_: np.ndarray, examples: Examples, n_classes: int | None = None) -> float:
    """Largest difference from the labels, relative to the largest."""
    wanted = targets(examples, n_classes)
    return float(np.abs(outputs_ - wanted).max() / np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SMALL, ids=str)
def test_memorizes_as_many_as_the_bound_says(sizes: Sizes) -> None:
    n_heads, n, _, d_head = sizes
    for (contexts, entries), labels in product(KINDS, LABELS):
        examples = library(sizes, contexts=contexts, entries=entries, **labels)
        assert len(examples) == n_heads * (min(n, d_head) - 1) + 1
        found = built(sizes, examples, n_classes=labels.get("n_classes"))
        answers = outputs(found.weights, examples)
        assert error(answers, examples, labels.get("n_classes")) < 1e-8
        if labels["labels"] == "classes":
            assert (answers.argmax(1) == examples.labels).all()
            assert found.recalled == len(examples)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "case"), LARGE, ids=str)
def test_large_layers(kind: tuple[str, str], case: tuple[int, ...]) -> None:
    (contexts, entries), (*sizes, d_out) = kind, case
    examples = library(tuple(sizes), contexts=contexts, entries=entries, d_out=d_out)
    found = built(tuple(sizes), examples)
    assert found.max_error / found.max_label < 1e-8
    assert found.condition_number < 1e7
    for other_way in (by_torch, by_definition):
        assert error(other_way(found.weights, examples), examples) < 1e-8


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.data())
def test_any_sizes(data: st.DataObject) -> None:
    n_heads, d = data.draw(st.integers(1, 7)), data.draw(st.integers(2, 14))
    sizes = (n_heads, data.draw(st.integers(1, d - 1)), d, data.draw(st.integers(1, d + 2)))
    contexts, entries = data.draw(st.sampled_from(KINDS))
    labels, d_out = data.draw(st.sampled_from(("normal", "uniform"))), data.draw(st.integers(1, 20))
    seed = data.draw(st.integers(0, 2**32))
    examples = library(sizes, seed=seed, contexts=contexts, entries=entries, labels=labels, d_out=d_out)
    found = built(sizes, examples, seed=seed)
    assert found.weights.query.shape == found.weights.key.shape == (n_heads, d, sizes[3])
    assert found.weights.out.shape == (n_heads, min(d, d_out), d_out)
    for answers in (
        outputs(found.weights, examples),
        by_definition(found.weights, examples),
        by_torch(found.weights, examples),
    ):
        assert error(answers, examples) < 1e-8


@pytest.mark.parametrize("contexts", ["shared", "fresh"])
def test_fewer_examples_are_split_evenly(contexts: str) -> None:
    sizes = (5, 8, 16, 8)
    for size in (1, 4, 13, 35):
        examples = library(sizes, contexts=contexts, more=size - largest_library(*sizes))
        found = built(sizes, examples)
        assert error(outputs(found.weights, examples), examples) < 1e-8
        counts = np.bincount(found.owner, minlength=5)
        assert counts.sum() == size
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize(("contexts", "entries"), KINDS)
@pytest.mark.parametrize("sizes", [(4, 8, 16, 8), (8, 32, 64, 32)], ids=str)
def test_float32(sizes: Sizes, contexts: str, entries: str) -> None:
    examples = library(sizes, contexts=contexts, entries=entries, labels="classes", n_classes=10)
    found = built(sizes, examples, dtype="float32", n_classes=10)
    assert {array.dtype for array in vars(found.weights).values()} == {np.dtype("float32")}
    answers = outputs(found.weights, examples)
    assert answers.dtype == np.float32
    assert error(answers, examples, 10) < 1e-3
    assert found.recalled == len(examples)


def test_the_same_seed_gives_the_same_weights() -> None:
    sizes = (3, 4, 8, 4)
    examples = library(sizes)
    first, second, third = (built(sizes, examples, seed=seed).weights for seed in (1, 1, 2))
    assert np.array_equal(first.key, second.key)
    assert np.array_equal(first.out, second.out)
    assert not np.array_equal(first.key, third.key)


def test_orders_do_not_matter_to_the_layer() -> None:
    sizes = (3, 6, 10, 6)
    examples = library(sizes, contexts="fresh", d_out=3)
    weights = built(sizes, examples).weights
    answers = outputs(weights, examples)
    generator = np.random.default_rng(0)
    tokens, items, heads = generator.permutation(6), generator.permutation(len(examples)), generator.permutation(3)
    assert outputs(weights, replace(examples, contexts=examples.contexts[:, tokens])) == pytest.approx(answers)
    shuffled = Examples(examples.queries[items], examples.contexts[items], examples.labels[items])
    assert outputs(weights, shuffled) == pytest.approx(answers[items])
    other_heads = replace(weights, **{name: array[heads] for name, array in vars(weights).items()})
    assert outputs(other_heads, examples) == pytest.approx(answers)


def test_queries_and_keys_do_not_depend_on_the_labels() -> None:
    sizes = (3, 6, 10, 6)
    examples = library(sizes)
    once = built(sizes, examples).weights
    twice = built(sizes, replace(examples, labels=2 * examples.labels)).weights
    assert np.array_equal(once.query, twice.query)
    assert np.array_equal(once.key, twice.key)
    assert twice.value == pytest.approx(2 * once.value)


@pytest.mark.parametrize(("of_queries", "of_contexts"), [(1e12, 1e-9), (1e-60, 1e80), (1e160, 1e-160)])
def test_any_scale(of_queries: float, of_contexts: float) -> None:
    sizes = (3, 6, 10, 6)
    for contexts, entries in KINDS:
        examples = library(sizes, contexts=contexts, entries=entries)
        scaled = replace(examples, queries=examples.queries * of_queries, contexts=examples.contexts * of_contexts)
        found = built(sizes, scaled)
        assert error(outputs(found.weights, scaled), scaled) < 1e-8
        assert found.condition_number < 1e5


def test_queries_of_very_different_lengths() -> None:
    sizes = (3, 6, 10, 6)
    examples = library(sizes, contexts="fresh")
    lengths = 10.0 ** np.random.default_rng(0).uniform(-5, 5, (len(examples), 1))
    uneven = replace(examples, queries=examples.queries * lengths)
    assert error(outputs(built(sizes, uneven).weights, uneven), uneven) < 1e-8


def test_the_error_says_what_rounding_costs() -> None:
    examples = library((4, 8, 16, 8), contexts="fresh")
    queries = examples.queries.copy()
    queries[3] = queries[20] + 1e-10 * np.random.default_rng(9).random(16)  # independent, but for the last digits
    near = replace(examples, queries=queries)
    found = built((4, 8, 16, 8), near)
    truth = error(by_definition(found.weights, near), near)
    assert truth > 1e-10
    assert 0.1 * truth < found.max_error / found.max_label


def test_a_scale_that_float32_does_not_hold() -> None:
    examples = library(SIZES)
    small = replace(examples, contexts=examples.contexts * 1e-40)
    with pytest.raises(CapaxError, match=r"dtype.*float32"):
        built(SIZES, small, dtype="float32")


SIZES = (3, 4, 8, 4)


def changed(**arrays: object) -> Examples:
    return replace(library(SIZES, contexts="fresh"), **arrays)


def spoiled(name: str, at: object, value: object) -> Examples:
    examples = library(SIZES, contexts="fresh")
    array = getattr(examples, name).copy()
    array[at] = array[value] if isinstance(value, int | tuple | list) else value
    return replace(examples, **{name: array})


def a_sum() -> Examples:
    queries = library(SIZES).queries.copy()
    queries[5] = queries[0] - 2 * queries[2]
    return changed(queries=queries)


CONTRADICTION = Examples(np.ones((2, 8)), library(SIZES).contexts, np.array([[1.0], [2.0]]))


@pytest.mark.parametrize(
    ("examples", "said"),
    [
        (library(SIZES, more=1), "library_size.*10.*3 heads.*11"),
        (changed(contexts=np.ones((1, 8, 8))), "context_size.*d_model = 8.*8"),
        (changed(contexts=np.ones((1, 4, 8))), "contexts.*context 1.*rank 1"),
        (spoiled("contexts", (6, 2), (6, 0)), "contexts.*context 7.*rank 3"),
        (spoiled("queries", 3, 1), "queries.*examples 2, 4"),
        (spoiled("queries", 9, 0), "queries.*examples 1, 10"),
        (a_sum(), "queries.*examples 1, 3, 6"),
        (spoiled("queries", 2, 0.0), "queries.*zero.*example 3"),
        (spoiled("queries", (4, 0), np.nan), "queries.*finite.*5"),
        (spoiled("contexts", (4, 0, 1), np.inf), "contexts.*finite.*5"),
        (CONTRADICTION, "examples 1 and 2"),
        (changed(queries=np.ones((0, 8)), labels=np.ones(0)), "queries.*empty"),
    ],
)
def test_examples_that_do_not_meet_the_assumptions_are_named(examples: Examples, said: str) -> None:
    with pytest.raises(CapaxError, match=said):
        built(SIZES, examples)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"n_classes": 3}, "n_classes.*3"), ({"dtype": "float32", "n_classes": 0}, "n_classes.*0")],
)
def test_options_that_mean_nothing(options: dict[str, object], said: str) -> None:
    with pytest.raises(CapaxError, match=said):
        built(SIZES, library(SIZES), **options)


def test_too_few_classes() -> None:
    examples = library(SIZES, labels="classes", n_classes=5)
    with pytest.raises(CapaxError, match=r"n_classes.*5.*4"):
        built(SIZES, examples, n_classes=4)


@pytest.mark.parametrize("place", range(4))
def test_sizes_below_one(place: int) -> None:
    sizes = [2, 2, 4, 2]
    sizes[place] = 0
    name = ("n_heads", "context_size", "d_model", "d_head")[place]
    with pytest.raises(CapaxError, match=f"{name}.*1.*0"):
        largest_library(*sizes)


@pytest.mark.slow
def test_theory_needs_no_torch() -> None:
    code = "import sys, capax.theory.construct.report, capax.theory.bounds; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
