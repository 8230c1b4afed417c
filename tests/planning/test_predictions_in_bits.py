"""Predictions in bits: of given sizes, after so many exposures, and how sure they are."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from made import made
from plans import law, planned

import capax
from capax.cli.plan_shown import show_prediction
from capax.errors import LawError, OutsideDomain
from capax.store import tables


def test_a_prediction_is_in_bits_and_items(capsys: pytest.CaptureFixture[str]) -> None:
    found = capax.predict(law(), seq_len=8, vocab_size=100, n_layers=1, n_heads=1, d_head=16, d_model=16)
    assert found.bits == pytest.approx(found.value * 7 * np.log2(100))
    assert found.inside_domain
    far = capax.predict(law(), seq_len=8, vocab_size=100, n_layers=1, n_heads=4, d_head=64, d_model=256)
    assert not far.inside_domain


def test_no_more_items_are_predicted_than_there_are() -> None:
    few = {"seq_len": 2, "vocab_size": 2, "n_layers": 1, "n_heads": 1, "d_head": 16}
    found = capax.predict(law(), **few, d_model=16)
    assert (found.value, found.interval.low, found.interval.high) == (2, 2, 2)
    assert found.bits is not None
    assert found.bits > 1000
    assert any("only 2 sequences ask distinct questions" in note for note in found.notes)
    widest = planned(budget_parameters=10**4, **few).architectures[0]
    assert (widest.memorized, widest.at_least, widest.interval.high) == (2, 2, 2)


def test_items_that_are_fewer_than_could_be_held_are_not_said_to_have_its_bits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """4096 sequences have 49 kbit; of 55 that are expected, or as little as 48, the network could hold them all."""
    few = {"seq_len": 4, "vocab_size": 16, "n_layers": 1, "n_heads": 1, "d_head": 48, "embeddings": "trained"}
    found = capax.predict(law(), **few, d_model=48)
    assert found.interval.low < found.value == found.interval.high == 4096
    show_prediction(found, law(), "sequences")
    told = " ".join(capsys.readouterr().out.split())
    assert "could hold about" in told
    assert "more than all 4096 sequences have" in told
    assert f"between {found.interval.low:.4g} and 4096" in told


def test_what_trainings_reached_by_a_budget_is_not_discounted_by_exposures_again() -> None:
    """Bits of runs of protocol mac are of as many exposures as these had."""
    runs = [
        made(20 * width, seq_len=8, vocab_size=100, d_model=width, library_size=1000).model_copy(
            update={"stop_reason": "budget", "bits": 130.0 * width}
        )
        for width in (4, 8, 16, 32)
    ]
    fitted = capax.PowerLaw(axes=["d_model"], target="bits").fit(tables.table(runs))
    assert "4 of 4 trainings ended at a budget: counts are what these reached, and no capacities" in fitted.notes_
    sizes = {"seq_len": runs[0].spec.task.seq_len, "vocab_size": runs[0].spec.task.vocab_size}
    with pytest.raises(LawError, match=r"^exposures: only beside a law of what is held at convergence .*is of bits$"):
        capax.predict(fitted, **sizes, n_layers=1, n_heads=1, d_head=16, d_model=16, exposures=60)
    of_capacity = [run.model_copy(update={"spec": run.spec.replace(protocol=capax.Capacity())}) for run in runs]
    reached = capax.PowerLaw(axes=["d_model"], target="bits").fit(tables.table(of_capacity))
    with pytest.raises(LawError, match=r"^exposures: only beside a law of what is held at convergence"):
        capax.predict(reached, **sizes, n_layers=1, n_heads=1, d_head=16, d_model=16, exposures=60)
    with pytest.raises(LawError, match=r"^exposures: "):
        capax.plan(fitted, 100, **sizes, exposures=60)
    assert not any("in the end" in note for note in capax.plan(fitted, 100, **sizes, extrapolate=True).notes)


def test_what_is_known_early_is_predicted() -> None:
    asked = dict(n_layers=1, n_heads=1, d_head=16, d_model=16, seq_len=16, vocab_size=100)
    early, late = (capax.predict(law(), **asked, exposures=exposures) for exposures in (100, 1000))
    held = capax.predict(law(), **asked)
    assert early.value < late.value < held.value
    assert early.inside_domain
    assert any("after 100 exposures" in note for note in early.notes)
    deep = capax.predict(law(), **(asked | {"n_layers": 8}), exposures=100)  # which takes longer to get going
    of_deep, of_one = deep.value / capax.predict(law(), **(asked | {"n_layers": 8})).value, early.value / held.value
    assert of_deep < 0.9 * of_one
    assert (early.exposures, "exposures" in (held.model_extra or {})) == (100, False)
    assert not capax.predict(law(), **asked, exposures=1).inside_domain
    with pytest.raises(LawError, match="exposures: should be a whole number"):
        capax.predict(law(), **asked, exposures=1.5)  # type: ignore[arg-type]


def test_outside_the_domain_what_was_asked_is_named() -> None:
    with pytest.raises(OutsideDomain, match="vocab_size 32000 is outside"):
        planned(10, seq_len=16, vocab_size=32_000, extrapolate=False)


@pytest.mark.parametrize("value", [0.9999, 1, "0.9", None, True])
def test_probabilities_that_draws_do_not_tell_are_refused(value: object) -> None:
    with pytest.raises(LawError, match=r"probability: above 0 and at most 0\.999, got"):
        planned(10, seq_len=16, vocab_size=100, probability=value)
    with pytest.raises(LawError, match=r"level: above 0 and at most 0\.998, got"):
        capax.predict(law(), n_heads=1, d_model=16, seq_len=8, vocab_size=100, level=value)  # type: ignore[arg-type]


def test_a_law_that_is_not_fitted_is_refused() -> None:
    with pytest.raises(LawError, match="law: a fitted law, got one of capacity that is not fitted"):
        capax.plan(capax.CapacityLaw(), 10, seq_len=16, vocab_size=100)


def test_what_is_expected_is_as_often_exceeded_as_missed() -> None:
    """Far away, too, where an average of exponents would follow the steepest."""
    one = planned(10_000_000, seq_len=16, vocab_size=32_000).architectures[0]
    table = {"effective_parameters": [one.effective_parameters], "n_layers": [one.n_layers], "n_heads": [one.n_heads]}
    table |= {"d_head": [one.d_head], "d_model": [one.d_model], "vocab_size": [32_000], "seq_len": [16]}
    table |= {"loss": ["all"], "embeddings": [one.embeddings], "ffn": ["mlp"]}
    assert one.bits == pytest.approx(float(law().quantile(pl.DataFrame(table), 0.5)[0]), rel=1e-9)
