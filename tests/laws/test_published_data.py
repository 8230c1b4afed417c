"""What others published, as tables: the fits to them are those that were computed from them elsewhere."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import get_args

import numpy as np
import polars as pl
import pytest

import capax
from capax.cli import main
from capax.errors import LawError, TableError
from capax.literature import stated_by
from capax.results import Standing
from capax.store import published, table_files

SOURCES = [f"published:{name}" for name in published.TABLES]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int | str | None, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    out, err = capsys.readouterr()
    return exit_.value.code, out, err


def fitted(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, tuple[float, float]]:
    """Parameters with their standard errors, as half of the interval that would hold two thirds of them."""
    code, out, err = run(capsys, "fit", *arguments, "--level", "0.6827", "--json")
    assert code == 0, err
    found = {one["name"]: one for one in json.loads(out)["parameters"]}
    return {
        name: (one["value"], (one["high"] - one["low"]) / 2) for name, one in found.items() if one["low"] is not None
    }


@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        ((), {"total_parameters": (0.992, 0.020), "s": (-0.010, 0.034)}),
        (("--where", "precision=bfloat16"), {"total_parameters": (1.006, 0.020), "s": (-0.045, 0.033)}),
    ],
)
def test_capacity_is_proportional_to_parameters_and_depth_is_free(
    capsys: pytest.CaptureFixture[str], precision: tuple[str, ...], expected: dict[str, tuple[float, float]]
) -> None:
    options = ("--law", "power", "--axes", "total_parameters,n_layers", "--target", "capacity_bits")
    found = fitted(capsys, "--data", "published:morris2025", *options, *precision)
    for name, (value, error) in expected.items():
        assert found[name][0] == pytest.approx(value, abs=0.001)
        assert found[name][1] == pytest.approx(error, abs=0.0035)
    assert found == fitted(capsys, "--data", "published:morris2025", *precision), "the fit that they are there for"


def test_adapters_hold_more_on_a_larger_base(capsys: pytest.CaptureFixture[str]) -> None:
    found = fitted(capsys, "--data", "published:nguyen2026")
    assert found["base_parameters"] == (pytest.approx(0.353, abs=0.001), pytest.approx(0.045, abs=0.004))
    assert found["adapter_parameters"] == (pytest.approx(1.075, abs=0.001), pytest.approx(0.047, abs=0.004))


def test_the_cells_that_no_fit_has_seen_are_missed_by_a_fifth() -> None:
    rows = table_files.from_file("published:nguyen2026")
    law = capax.PowerLaw(axes=["base_parameters", "adapter_parameters"], target="capacity_bits")
    law.fit(rows.filter(~pl.col("held_out")))
    held = rows.filter("held_out")
    with pytest.warns(UserWarning, match="outside the domain"):
        share = law.predict(held) / held["capacity_bits"].to_numpy()
    assert share == pytest.approx([1.17, 0.96, 0.66, 0.75, 0.70], abs=0.006)
    assert np.mean(np.abs(share - 1)) == pytest.approx(0.22, abs=0.005)


def test_of_columns_that_rise_together_no_exponent_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    axes = "base_parameters,adapter_parameters,pretrain_tokens"
    code, out, err = run(capsys, "fit", "--data", "published:nguyen2026", "--axes", axes, "--json")
    assert code == 0, err
    found = {one["name"]: one for one in json.loads(out)["parameters"]}
    assert found["adapter_parameters"]["value"] == pytest.approx(1.0755, abs=0.001)
    for name, other in (("base_parameters", "pretrain_tokens"), ("pretrain_tokens", "base_parameters")):
        assert (found[name]["value"], found[name]["low"], found[name]["high"]) == (None, None, None)
        assert f"rises with {other} in these rows" in found[name]["reason"]
    assert found["k"]["value"] is None


def test_bounds_are_not_fitted(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "fit", "--data", "published:allenzhu2024", "--law", "power")
    assert code == 2
    assert "bounds that the paper states" in err
    assert len(err.splitlines()) == 1
    rows = table_files.from_file("published:allenzhu2024")
    with pytest.raises(LawError, match="the rows are bounds"):
        capax.PowerLaw(axes=["exposures"], target="capacity_bits").fit(rows)
    by_exposures = {row["exposures"]: row for row in rows[:2].iter_rows(named=True)}
    assert [by_exposures[at]["bits_per_parameter_low"] for at in (1000, 100)] == [2, 1]
    assert rows["bits_per_parameter_high"].max() == 2.3


@pytest.mark.parametrize(
    ("name", "known"),
    [("published:morris", SOURCES), ("published:", SOURCES), ("reference:x", list(table_files.REFERENCE))],
)
def test_an_unknown_name_is_answered_by_those_there_are(
    capsys: pytest.CaptureFixture[str], name: str, known: list[str]
) -> None:
    code, _, err = run(capsys, "fit", "--data", name)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert all(one in err for one in known)
    with pytest.raises(TableError, match="got"):
        table_files.from_file(name)


@pytest.mark.parametrize("name", SOURCES)
def test_every_number_has_a_standing(name: str) -> None:
    found = stated_by(name.removeprefix(published.PREFIX))
    standings = {*found["columns"].values(), *(one["standing"] for one in found["same"].values())}
    assert standings <= set(found["standing"]) <= set(get_args(Standing))
    assert set(found["rows"]) == set(found["columns"])
    assert set(table_files.from_file(name)["source"]) == {found["source"]}
    (kept,) = [one for one in (files("capax") / "data" / "published").iterdir() if name.endswith(one.name[:-5])]
    assert kept.is_file()


def test_what_is_derived_follows_from_what_is_read() -> None:
    rows = table_files.from_file("published:morris2025")
    assert rows["capacity_bits"].to_list() == pytest.approx(
        (rows["bits_per_parameter"] * rows["total_parameters"]).to_list(), rel=1e-5
    )
    width, layers = rows["d_model"].to_numpy(), rows["n_layers"].to_numpy()
    formula = 12 * width**2 * layers + 13 * width * layers + (2048 + 64) * width + 2 * width
    assert formula == pytest.approx(rows["total_parameters"].to_numpy(), rel=0.004)
    for row in rows.iter_rows(named=True):
        model = capax.Transformer(
            n_layers=row["n_layers"],
            n_heads=4,
            d_model=row["d_model"],
            d_head=row["d_model"] // 4,
            embeddings="trained",
            readout="tied",
        )
        sizes = {"vocab_size": 2048, "context": 64}
        fewer = model.parameter_counts(**sizes)["trainable"] - model.effective_parameters(**sizes)
        fewer += row["n_layers"] * (4 * row["d_model"] + 1)
        assert row["total_parameters"] - row["effective_parameters"] == fewer
