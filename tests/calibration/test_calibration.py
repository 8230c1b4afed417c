"""Known capacities are measured right, and what is wrong is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import capax
from capax.calibration import explicit, hopfield, linear_memory, perceptron
from capax.calibration.calibrate import SYSTEMS, Calibration, compare
from capax.calibration.system import Measured, Slack, System, one_by_one, sampling, search
from capax.errors import SpecError
from capax.specs import Training

FAST = ["perceptron-exact", "hopfield-all", "hopfield-half", "attention-memory", "key-query"]
SHORT = Training(lr=0.3, schedule="cosine", warmup=0.01, max_steps=600, batch_size=512, eval_steps=50)


def without_seconds(found: Calibration) -> Calibration:
    timeless = [one.model_copy(update={"seconds": 0.0}) for one in found.systems]
    return found.model_copy(update={"seconds": 0.0, "systems": tuple(timeless)})


@pytest.mark.slow
def test_exact_systems_hold_and_repeat() -> None:
    named: list[str] = []
    found = capax.calibrate(FAST, progress=named.append)
    assert found.off == ()
    assert [one.system for one in found.systems] == named == FAST
    again = capax.calibrate(FAST[2:3])
    assert without_seconds(again).systems == without_seconds(found).systems[2:3]
    assert Calibration.model_validate_json(found.model_dump_json()) == found
    for one in found.systems:
        assert one.search_ended == "precise"
        assert one.interval.high is not None
        assert one.interval.low <= one.measured <= one.interval.high
        assert one.tolerance == pytest.approx(sum(part.amount for part in one.allowances))
        assert one.tolerance < 0.2 * one.known.value


@pytest.mark.slow
def test_least_squares_memory_holds() -> None:
    assert compare(linear_memory.least_squares(32)).verdict == "holds"


@pytest.mark.slow
def test_another_seed_draws_anew_and_holds() -> None:
    found = capax.calibrate(["hopfield-half"], seed=1)
    assert found.off == ()
    assert found.systems[0].measured != capax.calibrate(["hopfield-half"]).systems[0].measured


def test_attention_weights_end_at_the_bound_itself() -> None:
    one = compare(explicit.associations(n_heads=2, context_size=5, d_model=12, d_head=5))
    assert (one.verdict, one.measured) == ("holds", 9)
    assert (one.interval.low, one.interval.high) == pytest.approx((9, 10))


def shifted(system: System, share: float) -> System:
    return replace(system, known=system.known.model_copy(update={"value": system.known.value * share}))


@pytest.mark.slow
@pytest.mark.parametrize(
    "system",
    [
        shifted(explicit.associations(), 30 / 29),
        shifted(explicit.associations(), 28 / 29),
        shifted(hopfield.every_pattern(300), 0.8),
        replace(hopfield.every_pattern(300), measure=hopfield.half_of_patterns(300).measure),
        replace(explicit.associations(n_heads=3), known=explicit.associations(n_heads=4).known),
        replace(linear_memory.least_squares(16), known=linear_memory.least_squares(20).known),
    ],
    ids=["one-more", "one-less", "another-value", "other-success", "fewer-heads", "smaller-memory"],
)
def test_off_where_known_and_measured_differ(system: System) -> None:
    one = compare(system)
    assert one.verdict == "off"
    assert one.search_ended == "precise"
    assert one.reason


@pytest.mark.slow
def test_a_perceptron_that_is_trained_too_briefly_is_off() -> None:
    brief = compare(perceptron.trained(8, SHORT.replace(max_steps=15, eval_steps=5)))
    assert brief.verdict == "off"
    assert brief.measured < brief.known.value - brief.tolerance


@pytest.mark.very_slow
def test_the_same_perceptron_trained_longer_holds() -> None:
    assert compare(perceptron.trained(8, SHORT)).verdict == "holds"


def coin(size: int, generator: np.random.Generator) -> bool:
    return bool(generator.random() < 1 / (1 + (size / 50) ** 4))


def test_off_where_the_search_did_not_end() -> None:
    measured = search("coin", one_by_one("coin", coin), first_size=8, largest_size=999, width=0.05, max_trials=40)
    one = compare(replace(perceptron.exact(), known=perceptron.known(25), measure=measured))
    assert (one.verdict, one.search_ended) == ("off", "budget")
    assert "precision" in (one.reason or "")


def test_off_where_the_threshold_lies_beyond_all_sizes() -> None:
    always = one_by_one("always", lambda size, generator: True)
    measured = search("always", always, first_size=8, largest_size=32, width=0.05)
    one = compare(replace(perceptron.exact(16), measure=measured))
    assert one.interval.high is None
    assert (one.verdict, one.search_ended) == ("off", "all_succeeded")


@pytest.mark.parametrize(("value", "off"), [(89.9, True), (90.1, False), (109.9, False), (110.1, True), (np.nan, True)])
def test_the_measured_point_decides_not_its_interval(value: float, off: bool) -> None:
    system = replace(perceptron.exact(50), slack=(Slack(0.1, "one"),))
    assert (system.fault(Measured(value, 0.0, np.inf, 50, "precise")) is not None) == off


def test_tolerance_is_the_sum_of_its_parts() -> None:
    system = replace(perceptron.exact(10), slack=(Slack(0.1, "one"), Slack(0.05, "other")))
    assert system.tolerance == pytest.approx(3.0)
    assert sampling(0.1).share == pytest.approx(3 * 0.05 / 1.96)


@pytest.mark.parametrize(
    ("only", "seed", "said"),
    [
        (["perceptrons"], 0, "^only: .*perceptron-exact.*'perceptrons'"),
        ([], 0, "^only: .*none"),
        ("perceptron", 0, "^only: .*'perceptron'"),
        (["key-query"], -1, "^seed: .*-1"),
        (["key-query"], 2**63, "^seed: "),
    ],
)
def test_bad_input(only: list[str], seed: int, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        capax.calibrate(only, seed)


@pytest.mark.slow
def test_a_name_twice_is_measured_once() -> None:
    assert len(capax.calibrate(["attention-memory"] * 2).systems) == 1


@pytest.mark.very_slow
def test_every_system_holds() -> None:
    found = capax.calibrate()
    assert [one.system for one in found.systems] == list(SYSTEMS)
    assert found.off == (), [one.reason for one in found.systems]
