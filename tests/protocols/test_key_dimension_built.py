"""D_K* is never above the total key dimension of weights that can be built."""

from __future__ import annotations

from typing import Any

import pytest

import capax
from capax.results import BuiltChannel, HeadCount, Interval, KeyDimensionSearch, Measurement
from capax.store.tables import table

OF = {"level": 0.95, "of": "total key dimension"}


def search(total: int | None, low: float = 96, high: float | None = 160) -> KeyDimensionSearch:
    """What two head counts reached: none, and some."""
    interval = Interval(low=low, high=high, **OF)
    d_head = None if total is None else total // 32
    found = HeadCount(n_heads=32, d_head=d_head, total_key_dim=total, interval=interval, f1=0.99, trainings=9)
    none = {"n_heads": None, "d_head": None, "interval": None}
    best = none if total is None else {"n_heads": 32, "d_head": d_head, "interval": interval}
    return KeyDimensionSearch(total_key_dim=total, per_heads=(found,), **best)


@pytest.mark.parametrize(
    ("total", "built", "value", "by", "ends"),
    [
        (128, 64, 64, "built", (64, 64)),
        (128, 120, 120, "built", (96, 120)),
        (128, 128, 128, "training", (96, 128)),
        (128, 140, 128, "training", (96, 140)),
        (128, 500, 128, "training", (96, 160)),
        (None, 64, 64, "built", (64, 64)),
        (None, 500, 500, "built", (96, 500)),
    ],
)
def test_the_smaller_counts(total: int | None, built: int, value: int, by: str, ends: tuple[float, float]) -> None:
    of = BuiltChannel(n_heads=built, d_head=1, total_key_dim=built)
    found = search(total).held_against(of)
    assert (found.total_key_dim, found.reached_by, found.built) == (value, by, of)
    assert (found.n_heads, found.d_head) == ((built, 1) if by == "built" else (32, total // 32 if total else None))
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == ends
    assert found.per_heads == search(total).per_heads


def test_without_built_weights_what_was_reached_stays() -> None:
    assert search(128).held_against(None) == search(128).model_copy(update={"reached_by": "training"})
    assert search(None).held_against(None) == search(None)


@pytest.fixture(scope="module")
def run() -> Measurement:
    """A width at which hardly any training succeeds, with few steps."""
    protocol = capax.Budget(head_counts=(1,), restarts=2, max_trainings=8)
    channel = capax.KeyQueryChannel(d_model=3)
    return capax.measure(capax.Relations(n_items=12), channel, capax.Training(max_steps=20), protocol=protocol)


def test_a_search_is_held_against_weights_for_its_own_graph(run: Measurement) -> None:
    found = run.key_search
    assert found is not None
    made = capax.construct(run.spec.task, capax.KeyQueryChannel(d_model=3), seed=0).report
    assert found.built == BuiltChannel(n_heads=made.n_heads, d_head=made.d_head, total_key_dim=made.total_key_dim)
    assert (run.total_key_dim, found.reached_by) == (12, "built")
    assert all(count.total_key_dim is None for count in found.per_heads)
    assert "12 x 1, built, not reached by training" in str(run)


def test_counts_of_a_training_stand_beside_its_own_size(run: Measurement) -> None:
    assert run.trained_channel == (1, 3)
    row = table([run]).row(0, named=True)
    sizes = {name: row[name] for name in row if "key_dim" in name or name.endswith(("n_heads", "d_head"))}
    search = run.key_search
    assert search is not None
    assert search.interval is not None
    assert sizes == {
        "n_heads": 12,
        "d_head": 1,
        "total_key_dim": 12,
        "total_key_dim_low": search.interval.low,
        "total_key_dim_high": 12,
        "trained_n_heads": 1,
        "trained_d_head": 3,
    }
    assert row["f1"] < 0.99
    trained = capax.KeyQueryChannel(d_model=3, d_head=3)
    assert row["trainable_parameters"] == trained.built_counts(n_items=12)["trainable"]


def without(run: Measurement, **spec: Any) -> Measurement:
    """The run as an earlier version stored it."""
    fields = run.model_dump(mode="json")
    fields["search"] |= {"total_key_dim": None, "n_heads": None, "d_head": None, "interval": None}
    for name in ("built", "reached_by"):
        del fields["search"][name]
    fields["spec"]["model"] |= spec
    return Measurement.model_validate(fields)


def test_an_earlier_run_is_held_against_a_dimension_an_edge(run: Measurement) -> None:
    found = without(run)
    assert (found.total_key_dim, found.n_heads, found.d_head) == (12, 12, 1)
    assert found.key_search.reached_by == "built"
    assert Measurement.from_json(found.to_json()) == found


@pytest.mark.parametrize("spec", [{"aggregate": "sum"}, {"channel": "softmax", "aggregate": "sum"}], ids=str)
def test_nothing_is_built_where_scores_are_not_the_largest(run: Measurement, spec: dict[str, Any]) -> None:
    assert without(run, **spec).total_key_dim is None
