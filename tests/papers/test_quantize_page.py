"""What docs/how-to/quantize.md says is so of what is kept in docs/quantize, which is of the studies."""

from __future__ import annotations

import pytest
from doc_scripts import DOCS, script

from capax.probes.quantization import Quantization
from capax.sweeps.grid import read_study


def found(study: str) -> list[Quantization]:
    return script("quantize")["found"](study)


def test_the_picture_is_there() -> None:
    assert (DOCS / "quantize/quantization.png").is_file()


@pytest.mark.parametrize("study", ["quantize", "quantize-adam", "quantize-filled"])
def test_what_is_kept_is_of_the_runs_of_the_studies(study: str) -> None:
    runs = read_study(DOCS.parent / "examples" / f"{study}.toml").runs
    assert [one.keys for one in found(study)] == [(run.key(),) for run in runs]


def test_what_the_page_says_is_so() -> None:
    """Of full networks and of those that are less full; the numbers are those of the text."""
    full = found("quantize")
    best = [one.precisions[one.most].name for one in full]
    assert (best.count("int8"), best.count("int7"), best.count("int9")) == (5, 2, 1)
    assert all(one.precisions[one.most].group == 32 for one in full)
    left = {(one.spec.key(), row.name, row.group): row.left for one in full for row in one.precisions}

    def shares(name: str, group: int | None = 32) -> list[float]:
        return [mean.value for (_, written, size), mean in left.items() if (written, size) == (name, group) and mean]

    assert 0.87 <= min(shares("int8")) < max(shares("int8")) < 0.985
    assert 0.23 < min(shares("int6")) < max(shares("int6")) <= 0.75
    assert max(shares("int4")) <= 1 / 16
    assert 0.002 < 1 - max(shares("bfloat16", None)) < 1 - min(shares("bfloat16", None)) <= 0.012
    frozen = [one for one in full if one.spec.model.columns()["readout"] == "frozen"]
    widths = [next(row.left for row in one.precisions if (row.name, row.group) == ("int7", 32)) for one in frozen]
    assert [round(mean.value, 2) for mean in widths if mean] == [0.75, 0.85, 0.87, 0.93]
    density = [one.precisions[0].bits.value / one.trainable_parameters for one in full]
    assert 1.6 < min(density) < max(density) < 2.15
    filled = found("quantize-filled")
    most = [one.precisions[one.most].bits_per_byte.value for one in filled]
    (same,) = (one for one in full if one.spec.model == filled[0].spec.model)
    assert max(most) < same.precisions[same.most].bits_per_byte.value
