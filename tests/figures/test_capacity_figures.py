"""What the figures of capacity and of convergence show of runs whose numbers are known."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from made import made

import capax
from capax.errors import ReportError
from capax.figures.capacity import MOST_KINDS, MOST_RUNS, _above_zero, bits_by_parameters, convergence
from capax.figures.chart import Chart, Series
from capax.figures.drawing import draw
from capax.figures.interactive import figure
from capax.figures.runs import read
from capax.reports import report
from capax.reports.caveats import caveats
from capax.results import Cycle, Interval

CYCLES = ((10, 100.0), (30, 150.0), (70, 140.0))


@pytest.fixture(scope="module")
def trained() -> capax.Measurement:
    """A run by protocol capacity, of a second."""
    return capax.measure(
        capax.Sequences(seq_len=3, vocab_size=9),
        capax.Transformer(d_model=4, d_head=2),
        capax.Training(schedule="cycles", cycle_steps=5, max_steps=15, eval_steps=5),
        protocol="capacity",
        device="cpu",
    )


def held(run: capax.Measurement, width: int, bits: float, limit: float | None) -> capax.Measurement:
    """The run as one of another width that reached so many bits, and tends to others."""
    spec = run.spec.replace(model=run.spec.model.replace(d_model=width))
    assert run.capacity is not None
    estimate = run.capacity.model_copy(
        update={
            "bits": bits,
            "extrapolated": limit,
            "converged": limit is not None,
            "interval": None if limit is None else Interval(low=bits, high=limit + 5, level=0.95, of="a test's"),
        }
    )
    cycles = tuple(Cycle(epochs=at, steps=at, memorized=1, bits=known, signed_bits=known) for at, known in CYCLES)
    shorter = (cycles, cycles[:2], cycles)
    return run.model_copy(
        update={
            "spec": spec,
            "key": spec.key(),
            "parameters": run.parameters.model_copy(update={"effective": 10 * width}),
            "capacity": estimate,
            "members": tuple(
                member.model_copy(update={"cycles": ends}) for member, ends in zip(run.members, shorter, strict=True)
            ),
        }
    )


@pytest.fixture(scope="module")
def runs(trained: capax.Measurement) -> list[capax.Measurement]:
    return [held(trained, 4, 90.0, 100.0), held(trained, 8, 120.0, 400.0 / 2), held(trained, 16, 150.0, None)]


def test_bits_lie_over_effective_parameters_with_their_intervals(runs: list[capax.Measurement]) -> None:
    (chart,) = bits_by_parameters(runs, None)
    (panel,) = chart.panels
    assert (panel.x.log, panel.y.log) == (10, 10)
    (known, hollow) = (series for series in panel.series if series.kind == "points" and series.x)
    assert (known.x, known.y, known.low, known.high) == ((40, 80), (100, 200), (90, 120), (105, 205))
    assert (hollow.x, hollow.y, hollow.low, hollow.hollow) == ((160,), (150,), None, True)
    assert any(series.name == "not converged" and not series.x for series in panel.series)


def test_lines_are_densities_published_and_of_the_runs_that_converged(runs: list[capax.Measurement]) -> None:
    (chart,) = bits_by_parameters(runs, None)
    lines = {series.name: [y / x for x, y in zip(series.x, series.y, strict=True)] for series in chart.panels[0].series
             if series.kind == "reference"}  # fmt: skip
    (allen_zhu, morris, own) = lines
    assert lines[allen_zhu] == pytest.approx([2, 2])
    assert lines[morris] == pytest.approx([3.6, 3.6])
    assert lines[own] == pytest.approx([2.5, 2.5])
    assert "Allen-Zhu" in allen_zhu
    assert "published, other networks" in morris
    assert "these runs: 2.50" in own


def test_captions_state_protocol_interval_and_who_did_not_converge(runs: list[capax.Measurement]) -> None:
    for (chart,) in (bits_by_parameters(runs, None), convergence(runs, None)):
        assert "3 restarts on one library" in chart.caption
        assert "95% intervals: a test's" in chart.caption
        assert "1 of 3 runs did not converge" in chart.caption
    (chart,) = bits_by_parameters(runs[:2], None)
    assert "All 2 runs converged" in chart.caption
    assert not any(series.hollow for series in chart.panels[0].series)


def test_a_line_is_the_mean_of_the_most_that_restarts_knew_and_ends_in_what_it_tends_to(
    runs: list[capax.Measurement],
) -> None:
    (chart,) = convergence(runs, None)
    bits, density = chart.panels
    lines = [series for series in bits.series if series.kind == "line"]
    assert [line.x for line in lines] == [(10, 30, 70)] * 3
    assert [line.y for line in lines] == [(100, 150, 150)] * 3  # none falls; the one that stopped first stays
    ends = [series for series in bits.series if series.kind == "points"]
    assert [(end.y, end.low, end.high) for end in ends] == [((100,), (90,), (105,)), ((200,), (120,), (205,))]
    assert all(end.x[0] > 70 for end in ends)
    per = [series for series in density.series if series.kind == "points"]
    assert [end.y[0] for end in per] == pytest.approx([2.5, 2.5])


def test_lines_of_equal_sizes_are_told_apart(runs: list[capax.Measurement]) -> None:
    other = runs[0].model_copy(update={"spec": runs[0].spec.replace(seed=7)})
    (chart,) = convergence([*runs, other], None)
    names = [series.name for series in chart.panels[0].series if series.kind == "line"]
    assert len(set(names)) == 4
    assert sorted(name.partition(", ")[2] for name in names) == ["", "", f"seed {runs[0].spec.seed}", "seed 7"]
    (chart,) = convergence([*runs, runs[0].model_copy(update={"key": "f" * 64})], None)
    assert len({series.name for series in chart.panels[0].series if series.kind == "line"}) == 4


def changed(run: capax.Measurement, **fields: object) -> capax.Measurement:
    """The run as one of another network or task, of the same sizes."""
    spec = run.spec
    model = {name: value for name, value in fields.items() if name in type(spec.model).model_fields}
    task = {name: value for name, value in fields.items() if name not in model}
    other = spec.replace(model=spec.model.replace(**model), task=spec.task.replace(**task))
    return run.model_copy(update={"spec": other, "key": other.key()})


def test_networks_of_equal_sizes_are_named_by_what_most_do_not_have(runs: list[capax.Measurement]) -> None:
    others = [changed(runs[0], loss="last"), changed(runs[1], skips=False, ffn="none")]
    (chart,) = bits_by_parameters([*runs, *others], None)
    names = {
        series.name: series.x for series in chart.panels[0].series if series.kind == "points" and not series.hollow
    }
    assert names == {
        "3 tokens of 9": (40, 80),
        "3 tokens of 9, loss last": (40,),
        "3 tokens of 9, ffn none, no skips": (80,),
    }
    assert "look alike" not in chart.caption
    (chart,) = convergence([*runs, *others], None)
    lines = [series.name for series in chart.panels[0].series if series.kind == "line"]
    assert sorted(name.partition(", ")[2] for name in lines) == ["", "", "", "ffn none, no skips", "loss last"]


def test_more_kinds_than_can_be_told_apart_look_alike_and_the_caption_says_in_what_they_differ(
    runs: list[capax.Measurement],
) -> None:
    """Networks apart from each other first, items last."""
    sized = [changed(runs[0], dropout=0.01 * place) for place in range(1, 1 + MOST_KINDS)]
    (chart,) = bits_by_parameters([*runs, *sized], None)
    assert {series.name for series in chart.panels[0].series if series.kind == "points" and series.x} == {
        "3 tokens of 9"
    }
    assert "Marks that look alike differ in dropout." in chart.caption
    items = [changed(runs[0], vocab_size=size) for size in range(10, 10 + MOST_KINDS)]
    (chart,) = bits_by_parameters([runs[0], *items], None)
    assert {series.name for series in chart.panels[0].series if series.kind == "points"} == {"these runs"}
    assert "Marks that look alike differ in their items." in chart.caption


def test_of_many_runs_some_are_drawn(trained: capax.Measurement) -> None:
    many = [held(trained, 4 * width, 90.0 + width, 100.0 + width) for width in range(1, 31)]
    (chart,) = convergence(many, None)
    assert len([series for series in chart.panels[0].series if series.kind == "line"]) == MOST_RUNS
    assert f"{MOST_RUNS} of 30 runs" in chart.caption


def test_other_trainings_have_figures_of_their_own(runs: list[capax.Measurement]) -> None:
    (first, *rest) = runs
    other = first.spec.replace(training=first.spec.training.replace(lr=0.01))
    changed = first.model_copy(update={"spec": other, "key": other.key()})
    for shown in (bits_by_parameters, convergence):
        titles = [chart.title for chart in shown([*rest, changed], None)]
        assert len(titles) == 2
        assert any("lr 0.01" in title for title in titles)


def test_without_such_runs_there_is_no_figure() -> None:
    for shown in (bits_by_parameters, convergence):
        with pytest.raises(ReportError, match="no run by protocol capacity"):
            shown([made(3, 4)], None)


def test_hollow_marks_are_hollow_in_files_and_on_the_page(runs: list[capax.Measurement], tmp_path: Path) -> None:
    (chart,) = bits_by_parameters(runs, None)
    draw(chart, tmp_path / "a.svg")
    assert "fill: none" in (tmp_path / "a.svg").read_text()
    drawn = [trace["marker"]["symbol"] for trace in figure(chart)["data"] if trace.get("mode") == "markers"]
    assert [str(symbol).endswith("-open") for symbol in drawn] == [False, True, True]


@pytest.mark.slow
def test_a_report_has_both_figures_and_a_row_for_each_run(runs: list[capax.Measurement]) -> None:
    content = report.Content("t", ("a.db",), tuple(runs), (), None)
    shown, _ = report.figures_of(content)
    assert {"capacity-0", "convergence-0"} <= {figure["id"] for figure in shown}
    html = report.build(content)
    for name in report.HELD:
        assert f'"{name}"' in html
    told = " ".join(caveats(runs))
    assert "capacity_reached" in told
    assert "1 run did not converge" in told
    assert not any("capacity_bits" in line for line in caveats([made(3, 4)]))


def test_adapters_of_all_ranks_share_a_figure_and_a_control_has_its_own(tmp_path: Path) -> None:
    kept = Path(__file__).parents[2] / "docs" / "reproduced" / "lora2026-demo.db"
    runs = read([Path(shutil.copy(kept, tmp_path))]).runs
    drawn = {chart.title: sum(len(one.x) for one in points(chart)) for chart in bits_by_parameters(runs, None)}
    assert drawn == {
        "Capacity against effective parameters (sequences, base_weights checkpoint)": 3,
        "Capacity against effective parameters (facts, base_weights checkpoint)": 2,
        "Capacity against effective parameters (sequences, base_weights shuffled)": 1,
        "Capacity against effective parameters (facts, base_weights shuffled)": 1,
    }


def points(chart: Chart) -> list[Series]:
    return [one for one in chart.panels[0].series if one.kind == "points"]


def test_points_of_no_bits_are_told_and_not_drawn_on_a_logarithmic_axis() -> None:
    whole = Series(name="a", kind="line", x=(1.0, 2.0, 3.0), y=(0.0, 5.0, None), texts=("p", "q", "r"), group=0)
    kept = _above_zero(whole)
    assert (kept.x, kept.y, kept.texts, kept.low) == ((2.0,), (5.0,), ("q",), None)
