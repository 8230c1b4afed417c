"""One run by every definition, against plain computations."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import capax
from capax.protocols import units
from capax.protocols.units import LibraryInformation
from capax.results import Interval, Measurement, Parameters

SHORT = capax.Training(max_epochs=40, lr=3e-3, batch_size=32)


def amounts(run: Measurement) -> dict[str, float]:
    return {unit.name: unit.amount for unit in run.units}


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["all", "last"])
def test_information_is_what_the_best_weights_code_better_than_a_guess(loss: str, tmp_path: Path) -> None:
    task = capax.Sequences(seq_len=5, vocab_size=12, library_size=90, loss=loss)
    model = capax.Transformer(d_model=16, d_head=8)
    run = capax.measure(task, model, SHORT, restarts=1, store=tmp_path / "s.db", keep_weights=True)
    memory = capax.load(run.key, tmp_path / "s.db")
    tokens = torch.from_numpy(memory.library)
    with torch.no_grad():
        logits = memory.model.logits(tokens[None, :, :-1], "all")[0].double()
    nats = -logits.log_softmax(-1).gather(2, tokens[:, 1:, None])[..., 0]
    nats = nats[:, -1:] if loss == "last" else nats
    gained = (math.log(12) - nats).sum(1).numpy() / math.log(2)
    assert amounts(run)["morris_bits"] == pytest.approx(gained.clip(0).sum(), rel=1e-5)
    assert amounts(run)["allen_zhu_bits"] == pytest.approx(gained.sum(), rel=1e-5)


@pytest.mark.slow
def test_every_definition_of_one_run() -> None:
    task = capax.Sequences(seq_len=4, vocab_size=8, library_size=60)
    run = capax.measure(task, capax.Transformer(d_model=16, d_head=8), SHORT, restarts=3)
    found = amounts(run)
    assert found["items"] == run.memorized
    assert found["items_above_chance"] == run.memorized_above_chance
    assert found["tokens"] == 4 * run.memorized
    assert found["bits"] == run.bits == pytest.approx(3 * run.memorized_above_chance)
    assert 0 < found["allen_zhu_bits"] <= found["morris_bits"] <= 60 * 3 * 3
    for unit in run.units:
        assert unit.interval is not None
        assert unit.interval.low <= unit.interval.high
        assert unit.per_trainable_parameter == unit.amount / run.parameters.trainable
        assert unit.per_parameter == unit.amount / run.parameters.total
    assert Measurement.from_json(run.to_json()) == run


def test_classes_have_information_and_real_labels_and_relations_have_none() -> None:
    model, short = capax.AssociativeAttention(d_model=8, d_head=4), capax.Training(max_steps=30)
    classes = capax.Associations(context_size=4, library_size=20, n_classes=4)
    assert {"bits", "morris_bits"} <= amounts(capax.measure(classes, model, short, restarts=1)).keys()
    real = capax.Associations(context_size=4, library_size=20, labels="normal")
    assert amounts(capax.measure(real, model, short, restarts=1)).keys() == {"items", "items_above_chance", "bits"}
    graph = capax.Relations(n_items=8)
    run = capax.measure(graph, capax.KeyQueryChannel(d_model=8, d_head=4), short, restarts=1)
    assert amounts(run).keys() == {"items", "items_above_chance", "bits"}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["mls", "shatter"])
def test_a_search_knows_what_the_training_that_counts_knew(protocol: str) -> None:
    task = capax.Sequences(seq_len=4, vocab_size=8, library_size=24)
    chosen = capax.Mls(first_size=4, max_trainings=8, seeds=4) if protocol == "mls" else capax.Shatter(trials=3)
    run = capax.measure(task, capax.Transformer(d_model=16, d_head=8), SHORT, protocol=chosen)
    by_name = {unit.name: unit for unit in run.units}
    assert by_name["morris_bits"].interval is None
    assert 0 < by_name["morris_bits"].amount <= 24 * 3 * 3


@pytest.mark.slow
def test_trainings_without_finite_probabilities_know_nothing_and_are_kept() -> None:
    """The best evaluations of some restarts are of weights that overflow."""
    task = capax.Sequences(seq_len=4, vocab_size=8, library_size=40)
    model = capax.Module(factory="overflowing:Overflowing")
    two = capax.measure(task, model, SHORT, restarts=2, seed=2)
    one = capax.measure(task, model, SHORT, restarts=1, seed=2)
    assert "morris_bits" not in amounts(one)
    assert next(unit for unit in two.units if unit.name == "morris_bits").interval is None  # of the other restart alone
    for run in (one, two):
        assert np.isfinite(list(amounts(run).values())).all()
        assert Measurement.from_json(run.to_json()) == run


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    st.integers(0, 500),
    st.lists(st.floats(0, 500), min_size=2, max_size=2),
    st.integers(1, 9),
    st.integers(1, 10**6),
)
def test_intervals_are_scaled_as_their_amounts(memorized: int, ends: list[float], length: int, trainable: int) -> None:
    task = capax.Sequences(seq_len=length + 1, vocab_size=16, library_size=16)
    low, high = sorted(ends)
    interval = Interval(low=low, high=high, level=0.95, of="test")
    found = units.amounts(
        task,
        memorized,
        interval,
        lambda items: units.above_chance(items, 31.25, 500),
        lambda items: units.above_chance(items, 31.25, 500) * task.bits_per_item(),
        None,
        Parameters(trainable=trainable, total=2 * trainable),
    )
    by_name = {unit.name: unit for unit in found}
    assert by_name["bits"].amount == pytest.approx(4 * by_name["items_above_chance"].amount)
    assert by_name["tokens"].interval.low == (length + 1) * low
    assert by_name["bits"].interval.high == pytest.approx(4 * units.above_chance(high, 31.25, 500))
    assert by_name["tokens"].per_parameter == by_name["tokens"].per_trainable_parameter / 2
    assert np.isfinite([unit.amount for unit in found]).all()


@pytest.mark.slow
def test_a_search_counts_each_size_as_a_library_that_is_whole() -> None:
    """Its interval is of library sizes: of one that is memorized whole every item is above chance."""
    run = capax.measure(
        capax.Sequences(seq_len=3, vocab_size=3),
        capax.Transformer(d_model=8, d_head=4),
        capax.Training(max_epochs=30, lr=0.01),
        protocol=capax.Mls(seeds=3, max_trainings=12),
    )
    found = {unit.name: unit for unit in run.units}["items_above_chance"]
    assert run.interval is not None
    assert found.interval is not None
    assert found.interval.low == pytest.approx(run.interval.low, rel=1e-12)
    assert found.interval.low > 0
    assert found.amount == pytest.approx(run.memorized)


@pytest.mark.slow
def test_facts_without_finite_scores_are_kept_without_groups(tmp_path: Path) -> None:
    """Every second member's scores are no numbers."""
    (tmp_path / "a.csv").write_text("key,answer\n" + "".join(f"k{n},{'xy'[n % 2]}\n" for n in range(20)))
    task = capax.Facts(library=str(tmp_path / "a.csv"), tokenization="words")
    model = capax.Module(factory="overflowing:Overflowing", arguments={"always": True})
    runs = [capax.measure(task, model, SHORT, restarts=1, seed=seed) for seed in range(4)]
    assert {run.breakdown is None for run in runs} == {True, False}
    assert all((run.memorized == 0) is (run.breakdown is None) for run in runs)


def test_bits_that_may_be_negative_have_an_interval_that_may_be() -> None:

    interval = Interval(low=0.0, high=1.0, level=0.95, of="")
    found = units.amounts(
        capax.Sequences(seq_len=4, vocab_size=8, library_size=20), 0.0, interval, lambda items: items,
        lambda items: 9 * items, LibraryInformation((0.1, 0.2, 0.1), (-5.0, -9.0, -7.0), 180.0),
        Parameters(trainable=10, total=10, effective=None),
    )  # fmt: skip
    (signed,) = (one for one in found if one.name == "allen_zhu_bits")
    assert signed.amount == -5.0
    assert signed.interval is not None
    assert signed.interval.low < -5.0 < signed.interval.high
