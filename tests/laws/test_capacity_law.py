"""Bits that networks hold are fitted over their effective parameters, whatever their shapes are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import capax
from capax.cli import main
from capax.errors import LawError, TableError

DENSITY = 2.25


def rows(**columns: object) -> pl.DataFrame:
    """Networks of several shapes at one density, but for a per cent of noise; the last one did not converge."""
    effective = np.array([500, 900, 1600, 2500, 4000, 7000, 12000, 20000])
    noise = np.exp(0.01 * np.random.default_rng(0).standard_normal(len(effective)))
    bits = [float(one) for one in DENSITY * effective * noise]
    known = {
        "task": "sequences",
        "model": "transformer",
        "protocol": "capacity",
        "vocab_size": 100,
        "loss": "all",
        "seq_len": 8,
        "d_head": [4, 8, 8, 16, 16, 32, 32, 64],
        "n_layers": [1, 1, 2, 1, 2, 1, 1, 3],
        "n_heads": 1,
        "d_model": 16,
        "library_size": 50,  # items: no bound of bits
        "effective_parameters": effective,
        "capacity_bits": [*bits[:-1], None],
    }
    return pl.DataFrame(known | columns)


def test_a_law_of_effective_parameters_is_of_networks_of_all_shapes() -> None:
    law = capax.PowerLaw(axes=["effective_parameters"], target="capacity_bits").fit(rows()[:-1])
    low, high = law.parameter_intervals()["effective_parameters"]
    assert low is not None
    assert high is not None
    assert low < 1 < high
    assert law.predict({"effective_parameters": [3000]}) == pytest.approx([3000 * DENSITY], rel=0.03)
    assert "d_head" not in law.domain_.protocol


def test_other_laws_still_ask_for_one_shape_and_counts_stay_within_libraries() -> None:
    with pytest.raises(LawError, match="n_layers: the rows mix"):
        capax.PowerLaw(axes=["seq_len"], target="capacity_bits").fit(rows()[:-1])
    with pytest.raises(TableError, match=r"memorized of 50 \(library_size\)"):
        capax.PowerLaw(axes=["effective_parameters"], target="items").fit(rows(items=60.0))
    with pytest.raises(LawError, match="loss: the rows mix"):
        capax.PowerLaw(axes=["effective_parameters"], target="capacity_bits").fit(rows(loss=["all", "last"] * 4)[:-1])


def test_the_command_leaves_out_what_did_not_converge_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "a.parquet"
    rows().write_parquet(data)
    with pytest.raises(SystemExit) as exit_:
        main(
            [
                "fit",
                "--law",
                "power",
                "--data",
                str(data),
                "--axes",
                "effective_parameters",
                "--target",
                "capacity_bits",
            ]
        )
    out, err = capsys.readouterr()
    assert exit_.value.code == 0, err
    assert "power: 7 rows" in out
    assert "1 run without a capacity_bits was left out" in out
