"""The law of associations, and the layers that hold a target by it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest

import capax
from capax.errors import CapaxError, LawError
from capax.laws.files import from_json, to_json
from capax.specs import Associations, AssociativeAttention
from capax.store import table_files

TRUTH = {"k": 2.0, "a": 1.1, "b": 0.7, "c": 0.3, "g": 0.5}


def truth(heads: Any, context: Any, head: Any, width: Any) -> Any:
    return 2.0 * heads**1.1 * (context - 1.0) ** 0.7 * np.minimum(head, context) ** 0.3 * width**0.5


def study(noise: float = 0.0, **only: int) -> pl.DataFrame:
    grid = itertools.product((1, 2, 4, 8), (2, 4, 8, 16), (2, 4, 8, 32), (16, 64))
    rows = pl.DataFrame(list(grid), schema=["n_heads", "context_size", "d_head", "d_model"], orient="row")
    for name, value in only.items():
        rows = rows.filter(pl.col(name) == value)
    counts = truth(*(rows[name].to_numpy() for name in rows.columns))
    errors = np.random.default_rng(0).standard_normal(len(counts))
    return rows.with_columns(
        memorized_above_chance=counts * np.exp(noise * errors), library_size=10_000, task=pl.lit("associations"),
        profile=pl.lit("mahdavi2024"), labels=pl.lit("classes"), n_classes=100,
    )  # fmt: skip


def test_a_law_without_noise_is_found() -> None:
    law = capax.AssociationLaw(n_bootstrap=20).fit(study(noise=1e-9))
    for name, value in TRUTH.items():
        assert law.parameters_[name] == pytest.approx(value, rel=1e-6)
    assert law.predict(study()) == pytest.approx(study()["memorized_above_chance"].to_numpy())


def test_intervals_hold_the_truth() -> None:
    law = capax.AssociationLaw(n_bootstrap=50).fit(study(noise=0.2))
    for name, (low, high) in law.parameter_intervals(0.999).items():
        assert low is not None
        assert high is not None
        assert low < TRUTH[name] < high


def test_a_head_size_beyond_the_context_adds_nothing() -> None:
    law = capax.AssociationLaw(n_bootstrap=20).fit(study(noise=0.1))
    rows = {"n_heads": [4] * 3, "context_size": [8] * 3, "d_head": [8, 16, 32], "d_model": [16] * 3}
    assert len(set(law.predict(rows).tolist())) == 1


def test_what_does_not_vary_is_held() -> None:
    law = capax.AssociationLaw(n_bootstrap=20).fit(study(noise=0.1, d_model=16))
    assert law.undetermined_ == {"g": "one value of d_model only (16); held at 0"}
    law = capax.AssociationLaw(n_bootstrap=20).fit(study(noise=0.1, d_head=2))
    assert law.undetermined_ == {"c": "one value of min(d_head, context_size) only; held at 0"}


def test_one_token_is_refused() -> None:
    rows = study().with_columns(context_size=1)
    with pytest.raises(LawError, match="context_size: above 1"):
        capax.AssociationLaw().fit(rows)
    law = capax.AssociationLaw(n_bootstrap=20).fit(study(noise=0.1))
    with pytest.raises(LawError, match="context_size: above 1"):
        law.predict({"n_heads": [1], "context_size": [1], "d_head": [1], "d_model": [16]})


def test_it_comes_back_bit_for_bit() -> None:
    law = capax.AssociationLaw(n_bootstrap=20).fit(study(noise=0.1))
    back = from_json(to_json(law))
    assert (back.predict(study()) == law.predict(study())).all()
    assert back.domain_.protocol["profile"] == "mahdavi2024"


# plans


@pytest.fixture(scope="module")
def law() -> capax.AssociationLaw:
    return capax.AssociationLaw(n_bootstrap=200).fit(study(noise=0.1))


def test_each_layer_holds_and_the_next_smaller_head_does_not(law: capax.AssociationLaw) -> None:
    found = capax.plan(
        law, 60, context_size=8, d_model=[16, 64], d_head=range(1, 33), n_heads=range(1, 9), extrapolate=True
    )
    assert found.architectures
    sizes = [layer.trainable_parameters for layer in found.architectures]
    assert sizes == sorted(sizes)
    for layer in found.architectures:
        assert layer.at_least >= 60
        assert layer.memorized >= layer.at_least
        if layer.d_head > 1:
            row = {"n_heads": [layer.n_heads], "context_size": [8], "d_head": [layer.d_head - 1]}
            assert law.quantile({**row, "d_model": [layer.d_model]}, 0.1)[0] < 60
        task = Associations(context_size=8, library_size=60)
        sizes_of = {name: getattr(layer, name) for name in ("n_heads", "d_model", "d_head")}
        model = AssociativeAttention(**sizes_of, profile="mahdavi2024")
        assert layer.trainable_parameters == model.parameter_counts(**task.sizes())["trainable"]
        assert layer.bytes == 4 * layer.trainable_parameters
    assert all(layer.d_head <= 8 for layer in found.architectures), "a larger head adds parameters and no capacity"


def test_the_nearest_is_told_where_nothing_holds(law: capax.AssociationLaw) -> None:
    found = capax.plan(law, 10**6, context_size=16)
    assert found.architectures == ()
    assert found.nearest is not None
    assert (found.nearest.n_heads, found.nearest.d_model) == (8, 64)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"items": 0}, "items: .*0"),
        ({"context_size": 64}, "outside the domain of association .*context_size"),
        ({"n_heads": [64]}, "outside the domain .*n_heads"),
        ({"n_heads": [0]}, "n_heads: at least 1, got 0"),
        ({"probability": 1.5}, "probability: above 0 and at most 0.999, got 1.5"),
        ({"precision": "int8"}, "precision: float32, float64, bfloat16, got 'int8'"),
        ({"budget_parameters": 10}, "budget_parameters: at least .* got 10"),
        ({"multiple": 0}, "multiple: .*0"),
    ],
)
def test_what_cannot_be_asked_is_named(law: capax.AssociationLaw, fields: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"items": 50, "context_size": 8, **fields}
    with pytest.raises(CapaxError, match=said):
        capax.plan(law, **asked)


def test_predictions_are_the_laws(law: capax.AssociationLaw) -> None:
    found = capax.predict(law, context_size=8, n_heads=4, d_model=16, d_head=8)
    row = {"n_heads": [4], "context_size": [8], "d_head": [8], "d_model": [16]}
    assert found.value == law.predict(row)[0]
    assert found.interval.low == law.predict_interval(row)[0][0]
    assert found.inside_domain
    with pytest.raises(LawError, match="outside the domain"):
        capax.predict(law, context_size=8, n_heads=40, d_model=16, d_head=8)
    far = capax.predict(law, context_size=8, n_heads=40, d_model=16, d_head=8, extrapolate=True)
    assert not far.inside_domain
    with pytest.raises(LawError, match=r"level: above 0 and at most 0\.998"):
        capax.predict(law, context_size=8, n_heads=4, d_model=16, d_head=8, level=1.0)


def test_the_law_that_ships_is_that_of_the_study_that_ships() -> None:
    shipped = capax.load_law("reference:association")
    rows = table_files.from_file("reference:associations")
    now = capax.AssociationLaw(n_bootstrap=20).fit(rows)
    np.testing.assert_allclose(shipped.predict(rows), now.predict(rows), rtol=1e-6)
    assert shipped.domain_ == now.domain_


def test_the_law_that_ships_does_not_know_larger_values() -> None:
    """Of d_value 4 a training remembers some two and a half times as many."""
    sizes = {"context_size": 8, "n_heads": 4, "d_model": 32, "d_head": 8}
    assert capax.predict("reference:association", **sizes).inside_domain
    with pytest.raises(LawError, match="d_value 4 is not in the data"):
        capax.predict("reference:association", **sizes, d_value=4)
