"""The figure of variants: which hold more for their parameters than the base, beyond the noise of seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

import capax
from capax.errors import ReportError
from capax.figures.capacity import per_parameter
from capax.figures.drawing import draw
from capax.figures.interactive import figure
from capax.figures.variants import by_variant, variants
from capax.results import Interval, Measurement

PLAIN = capax.Transformer(d_model=4, d_head=2)


@pytest.fixture(scope="module")
def measured() -> Measurement:
    """A run by protocol capacity, of a second."""
    return capax.measure(
        capax.Sequences(seq_len=3, vocab_size=9),
        PLAIN,
        capax.Training(schedule="cycles", cycle_steps=5, max_steps=15, eval_steps=5),
        protocol="capacity",
        device="cpu",
    )


def holding(run: Measurement, seed: int, density: float | None, **fields: Any) -> Measurement:
    """The run as one of a variant that holds so many bits per effective parameter; None: it did not converge."""
    spec = run.spec.replace(model=PLAIN.replace(**fields), seed=seed)
    own = run.model_copy(update={"spec": spec})
    parameters = run.parameters.model_copy(update={"effective": spec.model.effective_parameters(**spec.task.sizes())})
    own = own.model_copy(update={"parameters": parameters})
    assert run.capacity is not None
    bits = None if density is None else density * per_parameter(own)
    interval = None if bits is None else Interval(low=bits, high=bits, level=0.95, of="a test's")
    held = run.capacity.model_copy(update={"extrapolated": bits, "converged": bits is not None, "interval": interval})
    return own.model_copy(update={"capacity": held})


@pytest.fixture(scope="module")
def runs(measured: Measurement) -> list[Measurement]:
    """Three seeds of the plain network, of one that holds a tenth more, and of one that holds the same."""
    found = []
    for seed, noise in enumerate((0.99, 1.0, 1.01)):
        found.append(holding(measured, seed, 2.0 * noise, window=(None, 2, 5)[seed]))  # it reads 2 tokens: all the same
        found.append(holding(measured, seed, 2.2 * noise, norm="rms"))
        found.append(holding(measured, seed, 2.005 * noise, attention="linear"))
    found.append(holding(measured, 9, None, positions="none"))
    return found


def test_intervals_of_ratios_tell_what_is_beyond_noise(runs: list[Measurement]) -> None:
    base, more, same = variants([run for run in runs if run.capacity is not None and run.capacity.extrapolated])
    assert (base.name, more.name, same.name) == ("base", "norm rms", "attention linear")
    assert base.density("effective") == pytest.approx(2.0, rel=1e-3)
    assert more.ratios is not None
    assert same.ratios is not None
    middle, low, high = more.ratios["effective"]
    assert middle == pytest.approx(1.1, rel=1e-9)
    assert 1 < low < middle < high
    assert same.ratios["effective"][1] < 1 < same.ratios["effective"][2]
    spread = np.std(np.log([0.99, 1.0, 1.01]), ddof=1)  # Student's interval is narrower, Bonferroni's of two wider
    half = np.log(high / low) / 2
    assert t.ppf(0.975, 6) * spread * np.sqrt(2 / 3) < half < t.ppf(1 - 0.025 / 2, 6) * spread * np.sqrt(2 / 3)


def test_a_chart_names_them_and_says_what_is_compared(runs: list[Measurement], tmp_path: Path) -> None:
    (chart,) = by_variant(runs, None)
    effective, trainable = chart.panels
    assert effective.y.names == trainable.y.names == ("norm rms", "attention linear", "base")
    (mean,) = [one for one in effective.series if one.name == "mean"]
    assert mean.x == pytest.approx((2.2, 2.005, 2.0), rel=1e-3)
    assert mean.low is not None
    assert mean.low[2] is None
    assert "1 layer, 1 head of 2, width 4" in chart.caption
    assert "3 runs of each variant" in chart.caption
    draw(chart, tmp_path / "variants.png")
    drawn = [one for one in figure(chart)["data"] if one["name"] == "mean"]
    assert all("error_x" in one and "error_y" not in one for one in drawn)


def test_one_seed_has_no_interval(runs: list[Measurement]) -> None:
    (chart,) = by_variant([run for run in runs if run.spec.seed == 0], None)
    assert "no interval" in chart.caption
    assert all(one.low is None for panel in chart.panels for one in panel.series)


def test_networks_that_differ_in_sizes_alone_are_no_variants(measured: Measurement) -> None:
    sizes = [holding(measured, 0, 2.0, d_model=width) for width in (4, 6, 8)]
    with pytest.raises(ReportError, match="more than their sizes"):
        by_variant(sizes, None)
