"""What docs/how-to/quantize.md shows came out of what is kept in docs/quantize; the data that plans take are theirs."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from capax.probes.quantization import Quantization
from capax.sweeps.grid import read_study

DOCS = Path(__file__).parents[2] / "docs"
AGAIN = "run python docs/quantize.py"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "quantize.py"))


@pytest.fixture(scope="module")
def full(script: dict[str, Any]) -> list[Quantization]:
    return script["found"]("quantize")


def test_the_page_has_the_tables_of_the_studies(script: dict[str, Any]) -> None:
    text = script["PAGE"].read_text()
    assert script["page"](text) == text, AGAIN
    assert (script["FOLDER"] / "quantization.png").is_file()


def test_the_data_of_plans_are_those_of_the_study(script: dict[str, Any]) -> None:
    assert script["REFERENCE"].read_text() == script["reference"](), AGAIN


@pytest.mark.parametrize("study", ["quantize", "quantize-adam", "quantize-filled"])
def test_what_is_kept_is_of_the_runs_of_the_studies(script: dict[str, Any], study: str) -> None:
    runs = read_study(DOCS.parent / "examples" / f"{study}.toml").runs
    assert [one.keys for one in script["found"](study)] == [(run.key(),) for run in runs]


def test_what_the_page_says_is_so(full: list[Quantization], script: dict[str, Any]) -> None:
    """Of full networks and of those that are less full; the numbers are those of the text."""
    best = [one.precisions[one.most].name for one in full]
    assert (best.count("int8"), best.count("int7"), best.count("int9")) == (5, 2, 1)
    assert all(one.precisions[one.most].group == 32 for one in full)
    left = {(one.spec.key(), row.name, row.group): row.left for one in full for row in one.precisions}

    def shares(name: str, group: int | None = 32) -> list[float]:
        return [mean.value for (_, found, size), mean in left.items() if (found, size) == (name, group) and mean]

    assert 0.87 <= min(shares("int8")) < max(shares("int8")) < 0.985
    assert 0.23 < min(shares("int6")) < max(shares("int6")) <= 0.75
    assert max(shares("int4")) <= 1 / 16
    assert 0.002 < 1 - max(shares("bfloat16", None)) < 1 - min(shares("bfloat16", None)) <= 0.012
    frozen = [one for one in full if one.spec.model.columns()["readout"] == "frozen"]
    widths = [next(row.left for row in one.precisions if (row.name, row.group) == ("int7", 32)) for one in frozen]
    assert [round(mean.value, 2) for mean in widths if mean] == [0.75, 0.85, 0.87, 0.93]
    density = [one.precisions[0].bits.value / one.trainable_parameters for one in full]
    assert 1.6 < min(density) < max(density) < 2.15
    filled = script["found"]("quantize-filled")
    most = [one.precisions[one.most].bits_per_byte.value for one in filled]
    (same,) = (one for one in full if one.spec.model == filled[0].spec.model)
    assert max(most) < same.precisions[same.most].bits_per_byte.value
