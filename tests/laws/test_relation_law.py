"""The scaling law of the key-query channel, and what it predicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import capax
from capax.errors import CapaxError, LawError
from capax.laws.files import from_json, to_json
from capax.store import table_files


def study(noise: float = 0.0, logarithm: bool = True) -> pl.DataFrame:
    edges, width = (a.ravel() for a in np.meshgrid([16, 64, 256, 1024], [16, 32, 64]))
    load = edges * (np.log2(edges) if logarithm else 1) / width
    counts = 0.7 * load**1.1 * np.exp(noise * np.random.default_rng(0).standard_normal(len(edges)))
    columns = {"n_items": edges, "n_edges": edges, "d_model": width}
    return pl.DataFrame(columns | {"total_key_dim": counts, "library_size": edges})


@pytest.mark.parametrize("logarithm", [True, False])
def test_a_law_without_noise_is_found(logarithm: bool) -> None:
    law = (capax.RelationLaw if logarithm else capax.LinearRelationLaw)(n_bootstrap=20).fit(study(1e-9, logarithm))
    assert law.parameters_["c"] == pytest.approx(0.7, rel=1e-6)
    assert law.parameters_["s"] == pytest.approx(1.1, rel=1e-6)


@pytest.mark.parametrize("kind", [capax.RelationLaw, capax.LinearRelationLaw])
def test_more_items_with_as_many_edges_need_more(kind: type[capax.RelationLaw]) -> None:
    """Where graphs have more or fewer edges than items, the exponent of their ratio is found; else it is held at 0."""
    rows = study(1e-9, kind.logarithm)
    items = rows["n_items"] * pl.Series([1, 2, 4] * 4)
    many = rows.with_columns(n_items=items, total_key_dim=rows["total_key_dim"] * (items / rows["n_edges"]) ** 0.6)
    law = kind(n_bootstrap=20).fit(many)
    assert law.parameters_ == pytest.approx({"c": 0.7, "s": 1.1, "t": 0.6}, rel=1e-6)
    assert "held at 0" in kind(n_bootstrap=20).fit(rows).undetermined_["t"]
    assert law.domain_.ranges["edges_per_item"] == (0.25, 1)
    asked = {"n_items": [64, 64], "n_edges": [64, 128], "d_model": [32, 32]}
    assert law.inside_domain(asked).tolist() == [True, False]


def test_a_key_dimension_above_the_library_is_no_lower_bound() -> None:
    law = capax.RelationLaw(n_bootstrap=20).fit(study(0.1).with_columns(library_size=1))
    assert not law.rows_.complete.any()


def test_what_the_search_found_is_no_part_of_the_protocol() -> None:
    rows = study(0.1).with_columns(d_head=pl.arange(12), n_heads=pl.arange(1, 13), graph=pl.lit("permutation"))
    law = capax.RelationLaw(n_bootstrap=20).fit(rows)
    assert law.domain_.protocol == {"graph": "permutation"}
    assert set(law.domain_.ranges) == {"n_edges", "d_model", "n_items", "edges_per_item", "load"}


def test_graphs_of_several_kinds_are_its_domain() -> None:
    mixed = study(0.1).with_columns(graph=pl.Series(["tree"] + ["permutation"] * 11))
    law = capax.RelationLaw(n_bootstrap=20).fit(mixed)
    assert law.domain_.kinds == {"graph": ("permutation", "tree")}
    assert "graph" not in law.domain_.protocol
    mixed = mixed.with_columns(embeddings=pl.Series(["onehot"] + ["gaussian"] * 11))
    with pytest.raises(LawError, match=r"embeddings: .* onehot, gaussian"):
        capax.RelationLaw().fit(mixed)


def test_one_relation_is_refused_and_one_load_has_no_slope() -> None:
    with pytest.raises(LawError, match="n_edges: above 1"):
        capax.RelationLaw().fit(study().with_columns(n_edges=1))
    law = capax.RelationLaw(n_bootstrap=20).fit(study(0.1).with_columns(n_edges=64, d_model=32))
    assert "held at 1" in law.undetermined_["s"]


def test_it_comes_back_bit_for_bit() -> None:
    law = capax.LinearRelationLaw(n_bootstrap=20).fit(study(0.1))
    assert (from_json(to_json(law)).predict(study()) == law.predict(study())).all()


@pytest.fixture(scope="module")
def law() -> capax.RelationLaw:
    return capax.RelationLaw(n_bootstrap=50).fit(study(0.1))


def test_predictions_are_the_laws_with_heads_by_the_rule(law: capax.RelationLaw) -> None:
    found = capax.predict(law, n_items=256, n_edges=256, d_model=32)
    row = {"n_items": [256], "n_edges": [256], "d_model": [32]}
    assert found.value == law.predict(row)[0]
    assert found.interval.low == law.predict_interval(row)[0][0]
    assert found.n_heads * found.d_head >= found.value
    assert found.n_heads * (found.d_head - 1) < found.value
    assert capax.predict(law, n_items=64, n_edges=64, d_model=64).n_heads == 1
    many = capax.predict(law, n_items=1024, n_edges=1024, d_model=16)
    assert many.n_heads > found.n_heads
    assert many.d_head <= 8, "half the width"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"n_edges": 1}, "n_edges: above 1 .*got 1"),
        ({"d_model": 0}, "d_model: at least 1, got 0"),
        ({"n_items": 1}, "n_items: .*at least 2, got 1"),
        ({"n_items": 10}, "n_edges: at most 90 .n_items 10., got 100"),
        ({"d_model": 128, "extrapolate": False}, "outside the domain of relation"),
        ({"n_items": 50, "extrapolate": False}, "edges_per_item 2 is outside 1"),
        ({"n_items": None}, "n_items: is required"),
        ({"level": 0.0}, "level: above 0 and at most 0.998"),
    ],
)
def test_what_cannot_be_asked_is_named(law: capax.RelationLaw, fields: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"n_items": 100, "n_edges": 100, "d_model": 32, **fields}
    with pytest.raises(CapaxError, match=said):
        capax.predict(law, **asked)


def test_a_plan_has_the_key_dimension_that_the_law_asks_for(law: capax.RelationLaw) -> None:
    """Each width with the heads of the rule; the items that they are enough for are at least the target."""
    found = capax.plan(law, 200, n_items=200, d_model=[16, 32, 64], probability=0.8)
    assert {row.d_model for row in found.architectures} == {16, 32, 64}
    for row in found.architectures:
        asked = {"n_items": [200], "n_edges": [200], "d_model": [row.d_model]}
        assert row.n_heads * (row.d_head - 1) < law.quantile(asked, 0.8)[0] <= row.n_heads * row.d_head
        assert row.at_least >= 200
        held = {"n_items": [200], "n_edges": [row.memorized], "d_model": [row.d_model]}
        with pytest.warns(UserWarning, match="outside"):  # with other edges an item
            assert law.predict(held)[0] == pytest.approx(row.n_heads * row.d_head, rel=1e-6)


@pytest.mark.very_slow
def test_a_plan_of_relations_is_verified_by_training() -> None:
    law = capax.load_law("reference:relation")
    found = capax.plan(law, 40, n_items=40, d_model=[32], probability=0.95)
    checked = capax.verify_plan(law, found)
    assert (checked.measurement.library_size, checked.measurement.spec.task.graph) == (40, "permutation")
    assert checked.held == (checked.measurement.metrics["f1"] >= 0.99)


def test_a_law_of_another_task_has_other_sizes() -> None:
    with pytest.raises(LawError, match="n_edges: no such size"):
        capax.predict("reference", n_edges=100, d_model=32)


@pytest.mark.parametrize("law", [capax.RelationLaw(n_bootstrap=20), capax.LinearRelationLaw(n_bootstrap=20)])
def test_the_study_that_ships_has_slope_one_where_there_are_channels_enough(law: Any) -> None:
    """With the paper's logarithm and without: these cells do not tell which."""
    rows = table_files.from_file("reference:relations")
    low, high = law.fit(rows.filter(rows["d_model"] >= 32)).parameter_intervals()["s"]
    assert low < 1 < high


def test_the_best_head_counts_of_the_study_that_ships() -> None:
    rows = table_files.from_file("reference:relations")
    one_item_a_channel = rows.filter(rows["n_items"] == rows["d_model"])
    assert one_item_a_channel["n_heads"].to_list() == [1] * len(one_item_a_channel)
    for _, group in rows.sort("n_items").group_by("d_model"):
        assert group["n_heads"].is_sorted(), "the best head count never falls as items are added"
    for _, group in rows.sort("d_model", descending=True).group_by("n_items", maintain_order=True):
        assert group["n_heads"].is_sorted(), "nor as channels are taken away"


def test_the_law_that_ships_is_that_of_the_study_that_ships() -> None:
    shipped = capax.load_law("reference:relation")
    rows = table_files.from_file("reference:relations")
    rows = rows.filter(rows["d_model"] >= 16)
    now = capax.RelationLaw(n_bootstrap=20).fit(rows)
    np.testing.assert_allclose(shipped.predict(rows), now.predict(rows), rtol=1e-6)
    assert shipped.domain_ == now.domain_


def test_a_load_that_was_not_measured_is_outside() -> None:
    """Items and channels were measured, but never so many channels for so few items."""
    asked = {"n_items": 32, "n_edges": 32, "d_model": 128}
    with pytest.raises(LawError, match=r"load 1\.25 is outside 5 to 72"):
        capax.predict("reference:relation", **asked, extrapolate=False)
    assert capax.predict("reference:relation", **(asked | {"d_model": 32})).inside_domain
    linear = capax.LinearRelationLaw(n_bootstrap=20).fit(study(0.1, logarithm=False))
    assert linear.domain_.ranges["load"] == (0.25, 64)


def test_one_channel_is_never_enough_for_three_edges() -> None:
    """Its scores are q_i k_j: no signs and sizes tell three edges that share no items from the pairs across."""
    found = capax.predict("reference:relation", n_items=32, n_edges=32, d_model=128, extrapolate=True)
    assert found.value == found.interval.low == found.n_heads * found.d_head == 2
    planned = capax.plan_relations(capax.Relations(n_items=32), d_model=128, extrapolate=True).channels[0]
    assert planned.total_key_dim == 2
    assert capax.plan_relations(capax.Relations(n_items=32), d_model=128).channels[0].by == "built"


def test_nothing_is_said_below_what_any_graph_needs() -> None:
    """One head of one channel recognizes no three edges apart, whatever a law says of so small a load."""
    law, small = capax.RelationLaw(n_bootstrap=40).fit(study(0.1)), {"n_items": [4], "n_edges": [4], "d_model": [64]}
    assert law.load({name: np.array(value) for name, value in small.items()}) < 1
    said = [*law.quantiles(small, (0.1, 0.5, 0.9)), *law.predict_interval(small)]
    assert np.min(said) == 2
