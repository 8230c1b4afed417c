"""Plans in bits that are verified: by their network, or a proxy that is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from made import made
from plans import law, model_of, planned

import capax
from capax.cli import main
from capax.cli.plan_shown import show_verified
from capax.errors import LawError
from capax.planning import known, proxies
from capax.planning.cost import operations
from capax.planning.results import NOT_KNOWN, BitsFrontier
from capax.results import CapacityEstimate
from capax.store import table_files


def test_what_is_known_early_is_not_verified_by_what_is_held() -> None:
    found = planned(20, seq_len=4, vocab_size=16, n_layers=1, exposures=100)
    with pytest.raises(LawError, match="exposures: none where the plan is to be verified"):
        capax.verify_plan(law(), found)


@pytest.mark.slow
def test_every_size_that_was_given_is_that_of_the_network(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = planned(200, seq_len=8, vocab_size=100, n_layers=1, n_heads=4, n_kv_heads=[1, 2], embeddings="frozen")
    assert {one.further["n_kv_heads"] for one in found.architectures} == {1, 2}
    for one in found.architectures:
        model = model_of(one).replace(**one.further)
        assert one.trainable_parameters == model.parameter_counts(vocab_size=100, context=7)["trainable"]
        assert f"n_kv_heads {one.further['n_kv_heads']} is not in the data" in one.outside
    assert found.sure is None
    assert BitsFrontier.model_validate_json(found.model_dump_json()) == found

    class Measured(Exception):
        pass

    def measured(task: capax.Task, model: capax.Transformer, **how: object) -> None:
        raise Measured(model.n_kv_heads)

    monkeypatch.setattr("capax.planning.proxies.measure", measured)
    for one in found.architectures:
        with pytest.raises(Measured, match=str(one.further["n_kv_heads"])):
            capax.verify_plan(law(), found, one)
    asked = ["--items", "200", "--seq-len", "8", "--vocab-size", "100", "--d-value", "4"]
    with pytest.raises(SystemExit, match="0"):
        main(["plan", "sequences", *asked, "--target", "bytes"])
    assert "d_value" in capsys.readouterr().out


@pytest.mark.parametrize(("n_heads", "d_head"), [(1, 4), (1, 8), (2, 4), (4, 4), (1, 16)])
def test_heads_that_do_not_fill_the_width_are_verified(
    n_heads: int, d_head: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network that is measured is the one that was planned."""

    class Measured(Exception):
        pass

    def measured(task: Any, model: Any, **how: Any) -> None:
        raise Measured(f"{model.n_heads} of {model.d_head} in {model.d_model}")

    monkeypatch.setattr("capax.planning.proxies.measure", measured)
    few = {"n_layers": 1, "ffn": "none", "embeddings": "frozen"}
    found = planned(5, seq_len=4, vocab_size=16, d_model=[16], n_heads=[n_heads], d_head=d_head, **few)
    assert found.architectures
    with pytest.raises(Measured, match=f"^{n_heads} of {d_head} in 16$"):
        capax.verify_plan(law(), found)


@pytest.mark.very_slow
def test_a_width_that_was_given_is_the_one_that_is_verified(tmp_path: Path) -> None:
    few = {"n_layers": 1, "n_heads": 1, "d_head": 4, "ffn": "none", "embeddings": "frozen"}
    found = planned(10, seq_len=4, vocab_size=16, d_model=[18], **few)
    checked = capax.verify_plan(law(), found, store=tmp_path / "runs.db")
    assert checked.proxy is None
    assert checked.measurement.spec.model.d_model == 18


@pytest.mark.very_slow  # three trainings to convergence each
@pytest.mark.parametrize("proxy", [None, 8])
def test_a_plan_is_verified_by_its_network_or_a_narrower_one(
    proxy: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is verified is the promise: of the network itself the target, of a narrower one what the law says of it."""
    monkeypatch.setattr("capax.planning.cost.peak", lambda: 1e11)
    narrow = capax.Transformer(n_layers=1, n_heads=1, d_head=4, ffn="none", d_model=8)
    said = capax.predict(law(), seq_len=4, vocab_size=16, n_layers=1, n_heads=1, d_head=4, ffn="none", d_model=8)
    worth = 2 * said.value * operations(narrow, capax.Sequences(seq_len=4, vocab_size=16), 1.0, known.EXPOSURES)
    monkeypatch.setattr(
        proxies, "HOURS", 1.0 if proxy is None else 1.05 * proxies.RESTARTS * worth / (0.2 * 1e11) / 3600
    )
    few = {"n_layers": 1, "n_heads": 1, "d_head": 4, "ffn": "none", "embeddings": "frozen"}
    found = planned(20, seq_len=4, vocab_size=16, d_model=[24], **few)
    assert found.architectures[0].d_model == 24
    checked = capax.verify_plan(law(), found, store=tmp_path / "runs.db")
    run = checked.measurement
    assert checked.proxy == proxy
    assert run.spec.model.d_model == (proxy or 24)
    assert run.capacity is not None
    assert checked.promised_bits == found.bits or proxy
    held = run.capacity.extrapolated or run.capacity.bits
    assert checked.held == (held >= (checked.promised_bits or 0))
    assert json.loads(checked.model_dump_json())["proxy"] == proxy


def measured_bits(amount: float, converged: bool = True) -> capax.Measurement:
    """A run that found so many bits, or at least so many."""
    estimate = CapacityEstimate(
        bits=amount,
        extrapolated=amount if converged else None,
        interval=None,
        converged=converged,
        last_gain=None,
        library_bits=2 * amount,
        library_sizes=(40,),
        per_effective_parameter=None,
        per_trainable_parameter=1.0,
        per_parameter=1.0,
    )
    return made(20).model_copy(update={"capacity": estimate})


@pytest.mark.parametrize(
    ("share", "converged", "held", "said"),
    [
        (0.5, False, None, "whether the promise holds is not known: not converged"),
        (0.5, True, False, "the promise does not hold: 50.0 % are missing"),
        (1.5, False, True, "the promise holds"),
    ],
)
def test_a_lower_bound_breaks_no_promise(
    share: float,
    converged: bool,
    held: bool | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = planned(20, seq_len=4, vocab_size=16, n_layers=1, d_model=[24])
    assert found.bits is not None
    run = measured_bits(share * found.bits, converged)
    monkeypatch.setattr("capax.planning.proxies.measure", lambda *_, **__: run)
    monkeypatch.setattr(proxies, "HOURS", 1e9)
    checked = capax.verify_plan(law(), found)
    assert checked.held is held
    assert (checked.miss_percent is None) == (held is None)
    show_verified(checked)
    assert said in capsys.readouterr().out
    assert (NOT_KNOWN in checked.overview().text()) == (held is None)


def test_a_promise_is_kept_in_its_own_unit_and_by_the_family_that_was_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a law of `bits`, which counts the last of seven tokens, so many items are a seventh of what was measured."""
    rows = table_files.from_file("reference:grid").with_columns(bits=pl.col("capacity_items") * np.log2(100))
    power = capax.PowerLaw(target="bits", n_bootstrap=50).fit(rows)
    found = capax.plan(power, 100, seq_len=8)
    assert isinstance(found, BitsFrontier)
    assert found.bits == pytest.approx(100 * np.log2(100))
    models: list[capax.Transformer] = []

    def measured(task: capax.Task, model: capax.Transformer, **how: object) -> capax.Measurement:
        models.append(model)
        return measured_bits(7 * (found.bits or 0) * 0.9)

    monkeypatch.setattr("capax.planning.proxies.measure", measured)
    monkeypatch.setattr(proxies, "HOURS", 1e9)
    checked = capax.verify_plan(power, found)
    assert checked.miss_percent == pytest.approx(10)
    first = found.architectures[0]
    assert [(one.d_model, one.d_head, one.n_heads, one.n_layers) for one in models] == [
        (first.d_model, first.d_head, first.n_heads, first.n_layers)
    ]


def test_only_a_plan_can_be_verified() -> None:
    with pytest.raises(LawError, match=r"frontier: what capax\.plan gives, got None"):
        capax.verify_plan("reference", None)  # type: ignore[arg-type]
