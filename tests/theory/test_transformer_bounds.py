"""Bounds for transformers by hand and against what their papers print."""

from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax import Transformer
from capax.theory.bounds.bound import TABLE, Bound, Statement
from capax.theory.bounds.catalogue import bounds
from capax.theory.bounds.facts import Sizes, facts
from capax.theory.bounds.transformers import (
    dana2025,
    dana2025_accuracy,
    madden2025_empirical_upper,
    madden2025_lower,
    madden2025_upper,
    madden_parameters,
)

ALONE = Transformer(
    d_model=2, d_head=1, ffn="none", norms=False, embeddings="trained", positions="trained", readout="trained"
)


def told(bound: Statement, spec: Transformer, vocab_size: int | None, *sizes: int | None) -> Bound:
    """A bound for a model, so many tokens, and a library's size or the trainable parameters."""
    known = facts(spec, Sizes(vocab_size=vocab_size), 32)
    return bound(**known | dict.fromkeys(("library_size", "trainable"), *sizes or (None,)))


def test_dana_by_hand() -> None:
    found = told(dana2025, ALONE.replace(n_heads=5), 50)
    assert found.value == 7  # T0 = H d_head + 2, their instance of corollary 1
    assert found.bits == pytest.approx(7 * log2(50))
    assert all(assumption.met for assumption in found.assumptions)
    assert (found.scope, found.kind, found.standing) == ("attention", "constructive", "read")
    assert told(dana2025, Transformer(n_heads=4, d_model=64, d_head=16), None).value == 128
    assert (
        told(dana2025, Transformer(n_heads=4, d_model=32, d_head=64), None).value == 160
    )  # d_head counts up to d_model


def test_dana_is_about_a_layer_with_a_skip() -> None:
    none = told(dana2025, Transformer(skips=False), 50)
    assert none.value is None
    assert "skip" in none.reason
    usual = told(dana2025, Transformer(), 50)
    assert [(one.met, one.needed) for one in usual.assumptions if one.met is False] == [(False, False)] * 2
    assert "d_value" in told(dana2025, Transformer(d_value=3), 50).reason


def test_accuracy_that_a_capacity_implies() -> None:
    spec = Transformer(n_heads=4, d_model=64, d_head=16)
    assert told(dana2025_accuracy, spec, 50, 2500).value == pytest.approx(1 / 50 + 49 / 50 * 128 / 2500)
    for size in (1, 128):
        assert told(dana2025_accuracy, spec, 50, size).value == 1
    for name in ("vocab_size", "library_size"):
        assert name in told(dana2025_accuracy, spec, None, None).reason


@settings(derandomize=True, deadline=None, max_examples=30)
@given(heads=st.integers(1, 40), d=st.integers(2, 64), d_head=st.integers(1, 64), size=st.integers(1, 10**6))
def test_dana_grows_to_a_whole_library(heads: int, d: int, d_head: int, size: int) -> None:
    spec = Transformer(n_heads=heads, d_model=d, d_head=d_head)
    accuracy = told(dana2025_accuracy, spec, 50, size).value
    assert 1 / 50 <= accuracy <= 1
    assert told(dana2025_accuracy, spec, 50, size + 1).value <= accuracy
    assert told(dana2025_accuracy, spec.replace(n_heads=heads + 1), 50, size).value >= accuracy
    assert (accuracy == 1) == (told(dana2025, spec, 50).value >= size)


@pytest.mark.parametrize(("zeta", "m"), [(182, 4), (690, 512), (417, 64)])
def test_parameters_of_the_published_experiment(zeta: int, m: int) -> None:
    """k = ζ m + 17(ζ + m) + 1088 counts no positions, but a bias of the read-out and four of attention (d = 16)."""
    assert madden_parameters(zeta, m, 16, 1, 16, 16, 0) + zeta + 4 * 16 == zeta * m + 17 * (zeta + m) + 1088


def test_madden_by_hand() -> None:
    spec = Transformer(activation="silu")
    upper, empirical = told(madden2025_upper, spec, 100, 51_648), told(madden2025_empirical_upper, spec, 100, 51_648)
    assert upper.value == 521  # 51648 / 99
    assert empirical.value == int((2 + 1 / 99) * 51_648 / 99 + 2)
    assert [one.met for one in empirical.assumptions] == [True, True]
    assert told(madden2025_empirical_upper, Transformer(), 100, 51_648).assumptions[1].met is None
    for found in (upper, empirical):
        assert (found.bits, found.scope) == (None, "model")
        assert not found.proved_for_recall
    assert "vocab_size" in told(madden2025_upper, Transformer(), None, 7).reason
    assert told(madden2025_upper, Transformer(activation="rrelu"), 100, 51_648).value is None
    assert told(madden2025_upper, Transformer(n_experts=4, top_k=1), 100, 51_648).value is None
    assert told(madden2025_upper, Transformer(n_experts=2, top_k=2), 100, 51_648).value is not None
    relu = told(madden2025_upper, Transformer(activation="relu"), 100, 51_648)
    assert "ReLU" in relu.reason


def test_madden_lower_is_of_another_system() -> None:
    found = told(madden2025_lower, Transformer(d_model=64), 9)
    assert (found.value, found.scope, found.assumptions[1].met) == (256, "reference", False)
    assert "hidden" in told(madden2025_lower, Transformer(ffn="none"), 9).reason
    for activation in ("relu", "softmax"):
        assert "not met: activation analytic" in str(
            told(madden2025_lower, Transformer(activation=activation), 9).reason
        )


@settings(derandomize=True, deadline=None, max_examples=30)
@given(k=st.integers(1, 10**9), zeta=st.integers(2, 10**5))
def test_upper_bounds_are_in_order(k: int, zeta: int) -> None:
    spec = Transformer(activation="silu")
    upper, empirical = (told(of, spec, zeta, k).value for of in (madden2025_upper, madden2025_empirical_upper))
    assert upper <= k / (zeta - 1) < upper + 1
    assert 2 * upper <= empirical <= 3 * (k / (zeta - 1)) + 2
    assert told(madden2025_upper, spec, zeta, k + 1).value >= upper
    assert told(madden2025_upper, spec, zeta + 1, k).value <= upper


def test_orders_are_never_numbers() -> None:
    found = bounds(Transformer(), vocab_size=100, library_size=1000, seq_len=8).bounds
    orders = [one for one in found if one.kind == "order" and "tokens" in TABLE[one.name].reads]
    orders = [one for one in orders if one.name not in ("adler2025", "vardi2022")]
    assert [one.name for one in orders] == [
        "kim2023",
        "kajitsuka_sato2024",
        "kajitsuka_sato2025",
        "kajitsuka_sato2025_all",
        "nichani2025_attention",
        "nichani2025_mlp",
    ]
    for one in orders:
        assert (one.value, one.bits) == (None, None)
        assert "constants" in str(one.reason)
        assert "O" in one.formula or "Õ" in one.formula
    assert [one.standing for one in orders] == ["secondary", "secondary", "read", "read", "secondary", "secondary"]
    assert all("unverified" in one.source for one in orders if one.name.startswith("nichani"))
