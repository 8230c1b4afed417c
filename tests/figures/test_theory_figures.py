"""Bounds beside data, and the heads of kept weights, as figures."""

import json
from pathlib import Path

import numpy as np
import pytest

import capax
from capax.checks.saturation import saturated, saturation
from capax.cli import main
from capax.errors import ReportError
from capax.figures import interactive, registry, theory
from capax.figures.drawing import draw
from capax.figures.runs import read
from capax.figures.saturation import chart as saturation_chart
from capax.reports import report
from capax.results import Measurement
from capax.theory.bounds.catalogue import bounds
from capax.theory.bounds.exceeded import exceeded

STORE = Path(__file__).parents[2] / "docs" / "capacity" / "capacity.db"


@pytest.fixture(scope="module")
def run() -> Measurement:
    return capax.measure(
        capax.Sequences(seq_len=4, vocab_size=8, library_size=30),
        capax.Transformer(d_model=8, n_heads=2),
        capax.Training(max_epochs=20, lr=0.01),
        restarts=1,
    )


def drawn(chart: object) -> dict[str, float]:
    """Bits by name of the row, an assumption unmet or not."""
    (panel,) = chart.panels
    return {
        name.removesuffix(" (unmet)"): x
        for series in panel.series
        if series.kind == "points"
        for x, name in zip(series.x, series.y, strict=True)
    }


def test_every_bound_in_bits_is_a_row_beside_what_was_measured(run: Measurement) -> None:
    (chart,) = theory.bounds([run], None)
    catalogue = bounds(run.spec)
    found = drawn(chart)
    amounts = {f"{unit.name} (measured)": unit.amount for unit in run.units if unit.name in theory.UNITS}
    assert found == {one.name: one.bits for one in catalogue.bounds if one.bits is not None} | {
        name: amount for name, amount in amounts.items() if amount > 0
    }
    assert list(chart.panels[0].y.names) == [
        str(name) for series in chart.panels[0].series if series.kind == "points" for name in series.y
    ]
    (line,) = [series for series in chart.panels[0].series if series.kind == "reference"]
    assert line.x == (run.bits, run.bits)


def test_what_is_proved_is_apart_and_above_what_was_measured(run: Measurement) -> None:
    (chart,) = theory.bounds([run], None)
    (proved,) = [series for series in chart.panels[0].series if series.name == theory.PROVED]
    assert proved.y == ("stored_bits",)
    assert min(proved.x) > run.bits
    assert not exceeded(run)
    catalogue = bounds(run.spec)
    for series in chart.panels[0].series:
        for label in series.y if series.kind == "points" and "measured" not in series.y[0] else ():
            one = catalogue[label.removesuffix(" (unmet)")]
            assert label.endswith("(unmet)") == any(each.met is False for each in one.assumptions)
            assert (series.name == "another system of this size") == (one.scope == "reference")
            assert (series.name == "measured of other trained models") == (
                one.kind == "rate" and one.scope != "reference"
            )


def test_the_run_of_most_bits_of_each_task_is_shown(run: Measurement) -> None:
    poorer = run.model_copy(update={"bits": run.bits - 1, "key": "poorer"})
    larger = run.model_copy(
        update={"parameters": run.parameters.model_copy(update={"trainable": 10**6}), "key": "larger"}
    )
    other = capax.measure(
        capax.Relations(n_items=5), capax.KeyQueryChannel(d_model=4, d_head=2), capax.Training(max_steps=20), restarts=1
    )
    charts = theory.bounds([poorer, larger, run, other], None)
    assert [run.key[:12] in charts[0].caption, other.key[:12] in charts[1].caption] == [True, True]
    assert "sign_patterns" in drawn(charts[1])


def test_of_runs_at_convergence_the_most_is_what_they_can_hold() -> None:
    """Items recalled whole are worth little of it: the run with the most of those may hold less than others."""
    runs = read([STORE]).runs
    (chart,) = theory.bounds(runs, None)
    held = {run.key: run.capacity.extrapolated for run in runs if run.capacity and run.capacity.extrapolated}
    most = max(held, key=lambda key: held[key])
    assert most != max(runs, key=lambda run: run.bits).key
    assert most[:12] in chart.caption
    assert drawn(chart)["capacity (measured)"] == held[most]
    (line,) = [series for series in chart.panels[0].series if series.kind == "reference"]
    assert (line.name, line.x) == ("capacity (measured)", (held[most],) * 2)


def test_a_run_that_did_not_converge_has_no_capacity() -> None:
    run = next(run for run in read([STORE]).runs if run.capacity and run.capacity.extrapolated)
    assert run.capacity is not None
    lost = run.capacity.model_copy(update={"converged": False, "extrapolated": None, "interval": None})
    (chart,) = theory.bounds([run.model_copy(update={"capacity": lost})], None)
    assert drawn(chart)["reached, not converged (measured)"] == lost.bits
    assert not any(name.startswith("capacity") for name in drawn(chart))
    assert "a lower bound of what it can hold" in chart.caption


def test_what_has_no_bits_says_why() -> None:
    with pytest.raises(ReportError, match="counts no bits"):
        theory.bounds([], None)
    alone = bounds(capax.Transformer(d_model=8)).model_copy(update={"bounds": ()})
    with pytest.raises(ReportError, match="bits"):
        theory.chart(alone, {})


@pytest.mark.slow
def test_names_are_from_top_to_bottom_in_both_drawings(run: Measurement, tmp_path: Path) -> None:
    (chart,) = theory.bounds([run], None)
    draw(chart, tmp_path / "b.svg")
    layout = interactive.figure(chart)["layout"]
    assert layout["yaxis"]["categoryarray"] == list(chart.panels[0].y.names)
    assert layout["yaxis"]["range"][0] > layout["yaxis"]["range"][1]


@pytest.mark.slow
def test_a_saturation_map_counts_every_example_once(run: Measurement, tmp_path: Path) -> None:
    sharp = np.random.default_rng(0).random((3, 50)) < 0.5
    attention = np.where(sharp[..., None], [1.0, 0.0], [0.5, 0.5])
    chart = saturation_chart(saturation(attention), saturated(attention), run)
    each, together, patterns = chart.panels
    assert each.series[0].y == tuple(sharp.mean(1))
    assert together.series[0].y == tuple(np.bincount(sharp.sum(0), minlength=4))
    numbers = [int(name.split(": ")[1]) for name in patterns.heat.y]
    assert sum(numbers) == 50
    assert numbers == sorted(numbers)
    for number, pattern in zip(numbers, patterns.heat.z, strict=True):
        assert number == (np.array(pattern) == sharp.T).all(1).sum()
    draw(chart, tmp_path / "s.png")


def layer(store: str, seed: int, kept: bool) -> Measurement:
    return capax.measure(
        capax.Associations(context_size=3, library_size=10, n_classes=4),
        capax.AssociativeAttention(n_heads=2, d_model=4, d_head=2),
        capax.Training(max_steps=4, eval_steps=2),
        restarts=1,
        seed=seed,
        store=store,
        keep_weights=kept,
    )


@pytest.mark.slow
def test_a_report_has_the_saturation_of_layers_that_were_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "s.db"
    of_none, of_kept = layer(str(store), 0, kept=False), layer(str(store), 1, kept=True)
    content = report.content(store)
    (figure,) = (shown for shown in report.figures_of(content)[0] if shown["id"] == "saturation-0")
    memory = capax.load(of_kept.key, store)
    attention = memory.attention()  # type: ignore[union-attr]
    alone = saturation_chart(saturation(attention), saturated(attention), of_kept)
    assert figure["chart"] == alone.model_dump()
    with pytest.raises(SystemExit) as ended:
        main(["figure", "saturation", str(store), "-o", str(tmp_path / "s.png")])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"Figure: {tmp_path / 's.png'}")
    with pytest.raises(ReportError, match="--keep-weights"):
        registry.figures({of_kept.key: store}, lambda run: run)["saturation"].shown([of_none], None)


@pytest.mark.slow
def test_commands_draw_or_refuse_before_they_begin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "s.db")
    kept = layer(store, 0, kept=True)
    picture = tmp_path / "f.png"
    for command in (["check", "saturation", kept.key[:9], "--store", store], ["bounds", "--d-model", "8"]):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--figure", str(picture), "--json"])
        assert ended.value.code == 0
        json.loads(capsys.readouterr().out)
        assert picture.read_bytes().startswith(b"\x89PNG")
        picture.unlink()
        with pytest.raises(SystemExit) as ended:
            main([*command, "--figure", str(tmp_path / "no" / "f.png")])
        assert ended.value.code == 2
        folder = tmp_path / "no"
        assert capsys.readouterr() == ("", f"capax: figure: cannot write {folder / 'f.png'}: no such folder {folder}\n")
