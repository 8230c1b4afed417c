"""Plans in bits: at any size, with an interval, a cost, and a budget in place of a target."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import polars as pl
import pytest
from plans import law, model_of, planned

import capax
from capax.errors import CapaxError, LawError, OutsideDomain
from capax.laws.files import from_json, load_law, to_json
from capax.planning import bits, known
from capax.planning.cost import PEAKS, USED, Cost, hours_on, least_hours, operations
from capax.planning.results import BitsFrontier
from capax.store import table_files, tables

WIDTHS = sorted({round(16 * 2 ** (step / 4) / 8) * 8 for step in range(41)})
"""That a plan tries: multiples of eight, four to an octave."""


def test_a_plan_of_two_hundred_thousand_sequences_has_an_answer() -> None:
    found = planned(200_000, seq_len=16, vocab_size=32_000)
    assert found.bits == pytest.approx(200_000 * 15 * np.log2(32_000))
    assert len(found.architectures) == 12  # six depths, with frozen and with tied tables
    for one in found.architectures:
        assert one.at_least >= 200_000
        assert one.interval.low < one.memorized < (one.interval.high or 0)
        assert one.bits / one.effective_parameters < 6
        assert one.outside
        model = model_of(one)
        assert one.trainable_parameters == model.parameter_counts(vocab_size=32_000, context=15)["trainable"]
    sizes = [one.trainable_parameters for one in found.architectures]
    assert sizes == sorted(sizes)
    assert found.sure is None
    assert found.largest_inside is None  # of such a vocabulary
    assert sum(found.drivers.values()) == pytest.approx(1)


def test_each_is_the_narrowest_of_its_family() -> None:
    found = planned(2000, seq_len=8, vocab_size=100, n_layers=[1, 2], n_heads=[2], d_head=[16], probability=0.8)
    for one in found.architectures:
        width = max(width for width in WIDTHS if width < one.d_model)
        narrower = {"d_model": [width], "n_heads": [2], "d_head": [16], "n_layers": [one.n_layers]}
        less = planned(2000, seq_len=8, vocab_size=100, embeddings=one.embeddings, probability=0.8, **narrower)
        assert not less.architectures
        assert less.nearest is not None
        assert less.nearest.at_least < 2000 <= one.at_least


def test_intervals_widen_with_the_distance() -> None:
    widths = []
    for items in (50, 5000, 5_000_000):
        first = planned(items, seq_len=8, vocab_size=100, n_layers=1, embeddings="frozen").architectures[0]
        assert first.interval.high is not None
        widths.append(np.log(first.interval.high / first.interval.low))
    assert widths == sorted(widths)
    assert widths[2] > 2 * widths[0]


@pytest.mark.parametrize(
    ("budget", "spent"),
    [
        ({"budget_parameters": 50_000}, lambda one: one.trainable_parameters / 50_000),
        ({"budget_bytes": 400_000}, lambda one: one.bytes / 400_000),
        ({"budget_hours": 0.1}, lambda one: one.cost.hours / 0.1),
    ],
)
def test_a_budget_without_a_target_is_spent_by_the_widest(budget: dict[str, float], spent: object) -> None:
    found = planned(seq_len=8, vocab_size=100, n_layers=[1, 2], **budget)
    assert found.items is None
    assert len(found.architectures) == 4
    assert callable(spent)
    for one in found.architectures:
        assert 0.3 < spent(one) <= 1
    held = [one.at_least for one in found.architectures]
    assert held == sorted(held, reverse=True)


def test_what_has_to_be_known_early_takes_larger_networks() -> None:
    sizes = []
    for exposures in (30, 300, 100_000, None):
        found = planned(4000, seq_len=8, vocab_size=100, n_layers=1, embeddings="frozen", exposures=exposures)
        sizes.append(found.architectures[0].trainable_parameters)
        assert found.exposures == (exposures or 3100)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 1.5 * sizes[-1]
    assert sizes[2] == sizes[3]


def test_how_far_the_share_may_be_wrong_is_in_the_interval() -> None:
    early, late = (
        planned(900, seq_len=8, vocab_size=100, n_layers=1, d_model=24, embeddings="frozen", exposures=exposures)
        for exposures in (30, None)
    )
    (of_early,), (of_late,) = early.architectures or (early.nearest,), late.architectures or (late.nearest,)
    shares = load_law("reference:exposure").share_draws(
        {"effective_parameters": [of_early.effective_parameters], "exposures": [30], "n_layers": [1]}, known.HELD
    )
    held = np.log(of_late.interval.high / of_late.interval.low) / 2 / 1.96
    expected = 1.96 * np.hypot(held, np.log(shares).std())  # both are nearly log-normal here
    assert np.log(of_early.interval.high / of_early.interval.low) / 2 == pytest.approx(expected, rel=0.05)
    assert of_early.memorized == pytest.approx(of_late.memorized * np.median(shares), rel=0.01)


@pytest.mark.parametrize("exposures", [100, 1000])
def test_nothing_is_known_that_is_not_held_however_little_is_told_of_it(exposures: int) -> None:
    sizes = {"seq_len": 16, "vocab_size": 1000, "n_layers": [1, 2, 12], "d_model": 512, "embeddings": "frozen"}
    early, late = (planned(10, exposures=seen, **sizes).architectures for seen in (exposures, None))
    held = {(one.n_layers, one.n_heads): one.interval.high for one in late}
    assert len(early) == len(held) == 3
    for one in early:
        assert one.interval.low < one.at_least < one.memorized < one.interval.high <= held[one.n_layers, one.n_heads]


def test_how_little_is_told_of_deep_networks_early_is_what_makes_their_interval_wide() -> None:
    sizes = {"seq_len": 16, "vocab_size": 1000, "n_layers": 12, "d_model": 512}
    early, late = (planned(10, exposures=seen, **sizes) for seen in (100, None))
    assert next(iter(early.drivers)) == "exposures"
    assert sum(early.drivers.values()) == pytest.approx(1)
    assert "exposures" not in late.drivers
    assert [*early.drivers][1:] == [*late.drivers]


def test_inside_the_domain_the_smallest_that_is_sure_is_said() -> None:
    found = planned(40, seq_len=8, vocab_size=100, n_layers=1, n_heads=1, d_head=16)
    assert found.sure is not None
    assert found.largest_inside is not None
    assert not found.sure.outside + found.largest_inside.outside
    assert found.sure.at_least >= 40
    assert found.measured is not None
    assert "effective_parameters" in found.measured.sizes


def test_a_cost_is_six_operations_a_parameter_and_token() -> None:
    """Of a network whose tables and attention are small beside its blocks, which is the rule of thumb."""
    task = capax.Sequences(seq_len=9, vocab_size=16)
    model = capax.Transformer(d_model=256, n_heads=4, d_head=64, n_layers=4)
    found = Cost.of(operations(model, task, 1000, 100), "h100", 2048, 0.0)
    trained = model.parameter_counts(**task.sizes())["trainable"]
    assert found.flops == pytest.approx(6 * trained * 1000 * 8 * 100, rel=0.02)
    assert found.accelerator_hours == pytest.approx(found.flops / (USED * PEAKS["h100"]) / 3600)


def test_a_training_takes_its_steps_however_small_the_network() -> None:
    few = planned(10, seq_len=8, vocab_size=16)
    assert [one.cost.hours for one in few.architectures] == [
        pytest.approx(3100 * 0.001 * (1 + one.n_layers) / 3600) for one in few.architectures
    ]
    assert all(one.cost.accelerator_hours == one.cost.hours for one in few.architectures)
    fewer = planned(10, seq_len=8, vocab_size=16, exposures=310)
    assert fewer.architectures[0].cost.hours == pytest.approx(few.architectures[0].cost.hours / 10)
    assert any("at least 1 ms a step" in note for note in few.notes)
    with pytest.raises(LawError, match=r"^budget_hours: at least 0\.001722 "):
        planned(10, seq_len=8, vocab_size=16, budget_hours=0.0017)
    task, model = capax.Sequences(seq_len=9, vocab_size=16), capax.Transformer(d_model=256, n_layers=4)
    large = operations(model, task, 1e6, 100)
    assert Cost.of(large, "h100", 256, least_hours(100, 4)) == Cost.of(large, "h100", 256, 0.0)


def test_narrow_networks_take_longer_on_an_accelerator_as_those_that_were_measured_did() -> None:
    """Half a float32's bytes, twice the operations that were measured in TF32: 52 and 70 TFLOP/s."""
    for width, measured in ((192, 52e12), (256, 70e12)):
        assert 1e15 / (3600 * hours_on("h200", 1e15, width)) == pytest.approx(2 * measured, rel=0.02)
    for name, peak in PEAKS.items():
        assert hours_on(name, 1e15, 10_000) == pytest.approx(1e15 / (USED * peak) / 3600)
        assert hours_on(name, 1e15, 100) > hours_on(name, 1e15, 101)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "items: is required, or a budget"),
        ({"budget_parameters": 10}, "budget_parameters: at least .* got 10"),
        ({"budget_hours": -1.0}, "budget_hours: a positive number, got -1"),
        ({"budget_parameters": 1e6, "accelerator": "tpu"}, "accelerator: a100, h100, h200, b200, got 'tpu'"),
        ({"budget_parameters": 10**6, "loss": "first"}, "loss: all or last, got 'first'"),
        ({"budget_parameters": 10**6, "n_layers": [0]}, "n_layers"),
    ],
)
def test_what_cannot_be_planned_is_said(asked: dict[str, object], said: str) -> None:
    with pytest.raises(CapaxError, match=said):
        planned(seq_len=8, vocab_size=100, **asked)


def test_outside_the_domain_nothing_is_planned_where_that_is_forbidden() -> None:
    with pytest.raises(OutsideDomain, match="outside the domain of capacity"):
        planned(100, seq_len=8, vocab_size=32_000, extrapolate=False)
    inside = planned(10**6, seq_len=8, vocab_size=100, extrapolate=False)
    assert inside.nearest is not None
    assert not inside.nearest.outside


@pytest.mark.parametrize(("name", "value"), [("budget_bytes", 10**6), ("exposures", 100), ("accelerator", "h100")])
def test_what_only_laws_in_bits_answer_is_refused_by_a_law_of_counts(name: str, value: Any) -> None:
    with pytest.raises(LawError, match=f"{name}: only for laws in bits"):
        capax.plan("reference:power", 300, seq_len=8, **{name: value})


def test_a_law_whose_file_has_no_rows_plans_as_well() -> None:
    file = json.loads(to_json(law())) | {"columns": {}, "counts": [], "library": []}
    asked = {"seq_len": 8, "vocab_size": 100, "n_layers": 1}
    found, whole = capax.plan(from_json(json.dumps(file)), 500, **asked), planned(500, **asked)
    assert isinstance(found, BitsFrontier)
    assert found.architectures == whole.architectures
    assert found.measured is None
    assert whole.measured is not None


@pytest.mark.slow
def test_any_law_of_bits_plans_and_knows_what_is_known_early() -> None:
    rows = tables.where(table_files.from_file("reference:capacity"), ["vocab_size=100", "loss=all"])
    power = capax.PowerLaw(axes=["d_model"], target="capacity_bits").fit(
        rows.filter(pl.col("n_layers") == 1).select("d_model", "capacity_bits")
    )
    sizes = [
        capax.plan(power, 900, seq_len=8, vocab_size=100, exposures=exposures, extrapolate=True)
        .architectures[0]
        .d_model
        for exposures in (50, None)
    ]
    assert sizes[0] > sizes[1]


@pytest.mark.slow
@pytest.mark.parametrize("tables", ["frozen", "trained"])
def test_heads_of_a_given_number_share_the_width_where_that_takes_fewer_parameters(tables: str) -> None:
    asked: dict[str, Any] = {"seq_len": 16, "vocab_size": 256, "n_layers": 1, "embeddings": tables}
    for items, heads in ((300, 2), (300, 4), (2000, 8), (20_000, 16)):
        (found,) = planned(items, **asked, n_heads=heads).architectures
        networks = [
            one
            for width in range(8, 2 * found.d_model, 8)
            for d_head in {width // heads, min(64, width)} - {0}
            for one in planned(items, **asked, n_heads=heads, d_head=d_head, d_model=width).architectures
        ]
        assert found.trainable_parameters == min(one.trainable_parameters for one in networks)
        assert found.at_least >= items


def test_heads_of_a_given_number_hold_as_much_as_a_budget_allows() -> None:
    asked: dict[str, Any] = {"seq_len": 8, "vocab_size": 100, "n_layers": 1, "embeddings": "frozen", "n_heads": 32}
    (found,) = planned(**asked, budget_parameters=10**6).architectures
    (sharing,) = planned(**asked, budget_parameters=10**6, d_head=9).architectures
    assert found.at_least >= sharing.at_least


def test_a_depth_that_the_domain_leaves_out_does_not_hold_too_little() -> None:
    asked: dict[str, Any] = {"seq_len": 16, "vocab_size": 100, "n_layers": [4, 16]}
    inside = planned(2000, **asked, extrapolate=False)
    assert {one.n_layers for one in inside.architectures} == {4}
    assert inside.too_small == ()
    assert not any("16 layers" in note for note in inside.notes)
    assert 16 in {one.n_layers for one in planned(2000, **asked).architectures}


def test_a_plan_comes_back_from_json() -> None:
    for asked in ({"n_layers": 1}, {"budget_bytes": 10**5}):
        found = planned(None if "budget_bytes" in asked else 500, seq_len=8, vocab_size=100, **asked)
        assert BitsFrontier.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize("target", tables.IN_BITS)
def test_items_are_worth_what_the_target_counts_of_them(target: str) -> None:
    """Column `bits` counts what recall does, the last token; all others count what the loss covers, every next one."""
    rows = table_files.from_file("reference:grid").with_columns(pl.col("capacity_bits").alias(target))
    power = capax.PowerLaw(target=target, n_bootstrap=50).fit(rows)
    found = capax.predict(power, seq_len=8, n_heads=2, d_model=32)
    assert found.bits == pytest.approx(found.value * np.log2(100) * (1 if target == "bits" else 7))


def test_a_fitted_law_plans_what_all_its_data_had() -> None:
    rows = table_files.from_file("reference:grid")
    power = capax.PowerLaw(target="capacity_bits", n_bootstrap=50).fit(rows)
    found = capax.plan(power, 100, seq_len=8)
    asked = capax.plan(power, 100, seq_len=8, n_layers=1, d_head=64)
    assert isinstance(found, BitsFrontier)
    assert found.architectures
    assert [one.model_dump(exclude={"cost"}) for one in found.architectures] == [
        one.model_dump(exclude={"cost"}) for one in asked.architectures
    ]
    assert {(one.n_layers, one.d_head) for one in found.architectures} == {(1, 64)}


@pytest.mark.parametrize("name", ["reference", "reference:power"])
def test_no_more_items_are_planned_than_there_are(name: str) -> None:
    with pytest.raises(CapaxError, match=r"at most 100 .*distinct.*, got 101$") as error:
        capax.plan(name, 101, seq_len=2, vocab_size=100, extrapolate=True)
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("items", [300, 20_000])
def test_hours_for_so_many_items_hold_as_many(items: int) -> None:
    first = planned(items, seq_len=16, vocab_size=1000).architectures
    hours = 1.001 * min(one.cost.hours for one in first)
    found = planned(seq_len=16, vocab_size=1000, budget_hours=hours)
    assert found.architectures[0].at_least >= items
    assert all(one.cost.hours <= (1 + 1e-9) * hours for one in found.architectures)


def test_hours_cap_items_and_not_the_bits_that_a_network_could_hold() -> None:
    """What is expected, its interval and what is sure are of items that the hours show."""
    found = planned(seq_len=16, vocab_size=1000, budget_hours=0.1)
    assert any(note == bits.LIMITED for note in found.notes)
    for one in found.architectures:
        assert one.memorized <= one.bits / (15 * np.log2(1000)) * (1 + 1e-9)
        assert one.interval.low <= one.at_least <= one.memorized <= (one.interval.high or 0)
        assert one.cost.hours <= 0.1 * (1 + 1e-9)
    assert any(one.memorized < 0.99 * one.bits / (15 * np.log2(1000)) for one in found.architectures)
    few = planned(seq_len=16, vocab_size=1000, budget_hours=0.1, budget_parameters=2000)
    assert bits.LIMITED not in few.notes


@pytest.mark.parametrize(
    ("asked", "ended"),
    [
        ({"items": 10**9}, False),
        ({"items": 10**14}, True),
        ({"items": 10**14, "d_model": [16, 32]}, False),
        ({"items": 10**14, "n_layers": 1, "ffn": "none", "extrapolate": False}, False),
        ({"budget_parameters": 10**11}, False),
        ({"budget_parameters": 10**16}, True),
    ],
)
def test_a_plan_says_where_its_widths_end(asked: dict[str, Any], ended: bool) -> None:
    found = planned(seq_len=16, vocab_size=1000, **asked)
    assert (bits.WIDER in found.notes) is ended


def test_a_budget_of_many_parameters_is_used() -> None:
    (first, *_) = planned(seq_len=16, vocab_size=1000, n_layers=2, budget_parameters=10**11).architectures
    assert first.trainable_parameters > 10**11 / 2 ** (0.5 / 15)  # 15 widths within a quarter of an octave


def test_a_budget_that_a_network_just_keeps_leaves_it_in_the_plan() -> None:
    sizes = {"seq_len": 16, "vocab_size": 256, "n_layers": 2, "embeddings": "frozen"}
    (one,) = planned(20_000, **sizes).architectures
    for budget in ({"budget_parameters": one.trainable_parameters}, {"budget_bytes": one.bytes}):
        (again,) = planned(20_000, **sizes, **budget).architectures
        assert again.d_model == one.d_model


@pytest.mark.parametrize("tables", ["frozen", "trained"])
def test_no_narrower_network_of_a_family_holds_as_much(tables: str) -> None:
    """Between the usual widths, too: all multiples of eight where they are few, else a fiftieth of the width apart."""
    for items, multiple in ((2000, 8), (300, 1), (10**6, 8)):
        sizes = {"seq_len": 16, "vocab_size": 256, "n_layers": 2, "embeddings": tables, "multiple": multiple}
        (one,) = planned(items, **sizes).architectures
        narrower = [width for width in range(one.d_model - 40, one.d_model) if width > 0 and width % multiple == 0]
        narrower = [width for width in narrower if width <= one.d_model * 0.98]
        asked = {name: value for name, value in sizes.items() if name != "multiple"}
        found = planned(items, **asked, d_model=narrower)
        assert not found.architectures, (items, one.d_model, found.architectures[0].d_model)


def test_the_nearest_that_was_measured_is_by_what_a_network_could_hold() -> None:
    """After a hundred exposures it knows less; what was measured had converged."""
    sizes = {"seq_len": 16, "vocab_size": 256, "n_layers": 2, "d_model": 64}
    early, late = (planned(100, **sizes, exposures=count) for count in (100, None))
    assert early.architectures[0].bits < 0.8 * late.architectures[0].bits
    assert early.measured == late.measured is not None


def test_inside_the_domain_the_network_that_holds_most_in_the_hours_is_named() -> None:
    """One that holds more bits may be shown fewer items in them."""
    found = planned(seq_len=8, vocab_size=100, budget_hours=0.01)
    inside = [one.at_least for one in found.architectures if not one.outside]
    assert found.largest_inside is not None
    assert found.largest_inside.at_least >= max(inside) > 0


def test_items_that_are_few_take_a_small_network() -> None:
    """Of two tokens from 16 there are 16 sequences: a larger network holds no more of them."""
    found = planned(seq_len=2, vocab_size=16, budget_parameters=100_000)
    assert {one.at_least for one in found.architectures} == {16}
    assert found.architectures[0].trainable_parameters < 5000


@pytest.mark.parametrize("usual", [{"n_kv_heads": 2}, {"d_value": 16}, {"window": 99}, {"window": 99, "stride": 3}])
def test_sizes_that_say_what_is_so_without_them_are_inside_the_domain(usual: dict[str, int]) -> None:
    sizes = {"seq_len": 16, "vocab_size": 256, "n_layers": 2, "d_model": 32, "n_heads": 2, "d_head": 16}
    found = capax.predict("reference", **sizes, **usual)
    assert found == capax.predict("reference", **sizes)
    assert found.inside_domain
    assert not capax.predict("reference", **sizes, n_kv_heads=1).inside_domain
    assert capax.predict("reference", **sizes, d_value=400).outside == ("d_value 400 is not in the data",)


def test_exposures_beyond_the_curve_are_told() -> None:
    for exposures, number, beyond in ((1, "1", True), (1000, "1000", False), (10**7, "10 M", True)):
        found = planned(10, seq_len=16, vocab_size=100, d_model=[16], n_layers=1, exposures=exposures)
        said = f"exposures {number} is outside 100 to 6300 (of reference:exposure)"
        first = found.architectures[0] if found.architectures else found.nearest
        assert first is not None
        assert (said in first.outside) == beyond
    with pytest.raises(
        OutsideDomain, match=r"exposures 1 is outside 100 to 6300 \(of reference:exposure\); extrapolate"
    ):
        planned(10, seq_len=16, vocab_size=100, exposures=1, extrapolate=False)


def test_bits_of_a_longer_training_than_the_one_whose_cost_is_told_are_told_as_such() -> None:
    """Planned for what is known after those exposures, the first is the smallest that knows it then."""
    asked = {"seq_len": 16, "vocab_size": 1000}
    found, early = capax.plan("reference", 23_000, **asked), capax.plan("reference", 23_000, **asked, exposures=3100)
    (told,) = (note for note in found.notes if "in the end" in note)
    said = re.search(r"after 3100 exposures the first knows (\d+)% \(\d+% to \d+%\) of that", told)
    share = float(said.group(1)) / 100
    assert 0.85 < share < 1
    assert not any("in the end" in note for note in early.notes)
    assert early.architectures[0].trainable_parameters > found.architectures[0].trainable_parameters
