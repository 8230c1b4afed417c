"""What the figures of counts show, as data."""

from pathlib import Path

import pytest
from made import changed, made, trained

import capax
from capax.errors import ReportError
from capax.figures.chart import Chart, Series
from capax.figures.columns import Column
from capax.figures.curves import MOST_CURVES, training_curves
from capax.figures.declared import BATCH_SIZE, FFN_FIGURE, MAC_MLS, TRAINABLE_FIGURE, UNITS, WIDTH_FIGURE
from capax.figures.groups import Group
from capax.figures.lines import Lines, Shown, limits
from capax.figures.shatter import epochs_to_shatter
from capax.results import Interval


def shown(chart: Chart, panel: int, kind: str, faint: bool = False) -> dict[str, Series]:
    found = [series for series in chart.panels[panel].series if series.kind == kind and series.x]
    return {series.name: series for series in found if series.faint == faint}


def points(series: Series) -> list[tuple[object, object]]:
    return list(zip(series.x, series.y, strict=True))


def test_width_has_a_line_per_head_count_and_a_panel_per_length() -> None:
    runs = [
        made(n + h + w, n + h + w - 1, seq_len=n, n_heads=h, d_model=w)
        for n in (8, 4)
        for h in (2, 1)
        for w in (16, 4, 8)
        if (h, w) != (2, 16)
    ]
    (chart,) = WIDTH_FIGURE.shown(runs, None)
    assert [panel.title for panel in chart.panels] == ["4 tokens", "8 tokens"]
    for place, length in enumerate((4, 8)):
        lines, dots = shown(chart, place, "line"), shown(chart, place, "points", faint=True)
        assert points(lines["1 head"]) == [(w, length + 1 + w) for w in (4, 8, 16)]
        assert points(lines["2 heads"]) == [(w, length + 2 + w) for w in (4, 8)]
        assert points(dots["1 head, each restart"])[:2] == [(4, length + 5), (4, length + 4)]
        assert lines["1 head"].group == 0 != lines["2 heads"].group
    assert "No intervals" in chart.caption


def test_intervals_are_drawn_from_three_restarts_on() -> None:
    few = [made(5, 4, d_model=w) for w in (4, 8)]
    many = [made(6, 5, 4, d_model=w) for w in (4, 8)]
    for runs, ends in ((few, None), (many, (5.0, 5.0))):
        (chart,) = WIDTH_FIGURE.shown(runs, None)
        assert shown(chart, 0, "line")["1 head"].low == ends
        assert ("Bars" in chart.caption) == (ends is not None)


def test_two_seeds_are_a_mean_without_an_interval() -> None:
    runs = [made(6, 5, 4, d_model=w, seed=seed) for w in (4, 8) for seed in (0, 1)]
    runs[0] = runs[0].model_copy(update={"memorized": 9})
    (chart,) = WIDTH_FIGURE.shown(runs, None)
    line = shown(chart, 0, "line")["1 head"]
    assert points(line) == [(4, 7.5), (8, 6)]
    assert line.low is None
    assert (
        "the mean of 2 seeds; dots: each restart. 4 of 4 runs ended at a budget: longer training may" in chart.caption
    )
    assert "No intervals: fewer than 3 seeds." in chart.caption


def test_three_seeds_are_a_mean_with_its_interval() -> None:
    runs = [made(6, 5, 4, d_model=w, seed=seed) for w in (4, 8) for seed in (0, 1, 2)]
    runs[:3] = [run.model_copy(update={"memorized": n}) for run, n in zip(runs[:3], (9, 12, 6), strict=True)]
    (chart,) = WIDTH_FIGURE.shown(runs, None)
    line = shown(chart, 0, "line")["1 head"]
    reach = 4.302653 * 3 / 3**0.5  # of Student's t with two degrees of freedom, from a table
    assert line.low == pytest.approx((9 - reach, 6))
    assert line.high == pytest.approx((9 + reach, 6))
    assert "the mean of 3 seeds; dots: each restart." in chart.caption
    assert "Bars: 95 % intervals of the mean over seeds" in chart.caption
    assert "of one seed" not in chart.caption
    (chart,) = WIDTH_FIGURE.shown(runs[:4], None)
    assert shown(chart, 0, "line")["1 head"].low == pytest.approx((9 - reach, 5.0))  # 8: of its restarts
    assert "the mean of 1 to 3 seeds" in chart.caption
    assert "of one seed, prediction intervals for the best of as many" in chart.caption


def test_an_interval_of_a_mean_ends_where_its_number_does() -> None:
    runs = [made(6, 5, 4, d_model=w, seed=seed) for w in (4, 8) for seed in (0, 1, 2)]
    counts = (0, 20, 10, 20, 20, 8)
    runs = [run.model_copy(update={"memorized": n}) for run, n in zip(runs, counts, strict=True)]
    (chart,) = WIDTH_FIGURE.shown(runs, None)
    line = shown(chart, 0, "line")["1 head"]
    assert (line.low[0], line.high) == (0, (20, 20))


def test_a_run_given_twice_is_no_further_seed() -> None:
    runs = [made(6, 5, d_model=w, seed=seed) for w in (4, 8) for seed in (0, 1, 1)]
    (chart,) = WIDTH_FIGURE.shown(runs, None)
    assert shown(chart, 0, "line")["1 head"].low is None


def test_runs_of_different_kinds_are_never_one_line() -> None:
    runs = [made(3 + w, d_model=w, vocab_size=v) for w in (4, 8, 16) for v in (9, 12) if (w, v) != (16, 12)]
    first, second = WIDTH_FIGURE.shown(runs, None)
    assert "vocab_size 9" in first.title
    assert "vocab_size 12" in second.title
    assert [len(shown(chart, 0, "line")["1 head"].x) for chart in (first, second)] == [3, 2]
    with pytest.raises(ReportError, match="differ in d_model"):
        WIDTH_FIGURE.shown([made(3, d_model=4, vocab_size=9), made(3, d_model=8, vocab_size=12)], None)


def test_the_library_is_drawn_where_a_run_comes_near_it() -> None:
    (chart,) = WIDTH_FIGURE.shown([made(w, d_model=w) for w in (4, 10)], None)
    assert points(shown(chart, 0, "reference")["whole library"]) == [(4, 20), (10, 20)]
    assert points(shown(chart, 0, "reference")["by chance"]) == [(4, 20 / 9), (10, 20 / 9)]
    (chart,) = WIDTH_FIGURE.shown([made(w, d_model=w) for w in (4, 9)], None)
    assert "whole library" not in shown(chart, 0, "reference")
    assert "library of 20" in chart.caption


def test_limits_follow_libraries_that_differ_within_a_panel() -> None:
    runs = [made(20, library_size=20), made(40, library_size=40, batch_size=8), made(40, library_size=20, batch_size=8)]

    drawn = Shown(Group(tuple(runs), ""), runs, None)

    def library(chosen: list[capax.Measurement]) -> list[list[tuple[object, object]]]:
        return [points(part) for part in limits(chosen, drawn, Column("batch_size")) if part.name == "whole library"]

    assert library(runs[:1]) == [[(8, 20), (512, 20)]]
    assert library(runs[:2]) == [[(8, 40), (512, 20)]]
    assert library(runs) == [[(8, 20), (512, 20)], [(8, 40)]]


def test_batch_sizes_end_at_the_library() -> None:
    runs = [made(3 + n, seq_len=n, batch_size=b) for n in (4, 8) for b in (2, 8, 512)]
    (chart,) = BATCH_SIZE.shown(runs, None)
    lines = shown(chart, 0, "line")
    assert points(lines["4 tokens"]) == [(2, 7), (8, 7), (20, 7)]
    assert points(lines["8 tokens"]) == [(2, 11), (8, 11), (20, 11)]
    with pytest.raises(ReportError, match="batch_size"):
        BATCH_SIZE.shown(runs[:1], None)


def test_ffn_and_trained_parts_are_compared_per_architecture() -> None:
    kinds = {"mlp": 9, "identity": 5, "none": 4}
    runs = [made(count + w, d_model=w, ffn=ffn) for ffn, count in kinds.items() for w in (4, 8)]
    (chart,) = FFN_FIGURE.shown([*runs, made(3, n_heads=2)], None)
    lines = shown(chart, 0, "line")
    assert len(chart.panels) == 1
    assert {name: line.y[0] for name, line in lines.items()} == {
        "FFN trained": 13,
        "FFN the identity": 9,
        "no FFN": 8,
    }
    parts = [made(5, embeddings=e, readout=r) for e in ("frozen", "trained") for r in ("frozen", "trained")]
    (chart,) = TRAINABLE_FIGURE.shown(parts, None)
    assert set(shown(chart, 0, "line")) == {
        "trained: positions",
        "trained: positions, readout",
        "trained: embeddings, positions",
        "trained: embeddings, positions, readout",
    }
    assert chart.panels[1].y.label == "trainable parameters"
    for figure in (FFN_FIGURE, TRAINABLE_FIGURE):
        with pytest.raises(ReportError, match=r"differ in (ffn|embeddings)"):
            figure.shown([made(3)])


def test_mac_and_mls_of_one_architecture_stand_together() -> None:
    macs = [made(9 + w, 7, d_model=w) for w in (4, 8)]
    searched = [
        made(3 + w, d_model=w).model_copy(
            update={
                "spec": changed(trained().spec, d_model=w).replace(protocol=capax.Mls()),
                "interval": Interval(low=2 + w, high=4 + w, level=0.95, of="test"),
            }
        )
        for w in (4, 8)
    ]
    (chart,) = MAC_MLS.shown([*macs, *searched], None)
    lines = shown(chart, 0, "line")
    assert points(lines["MAC"]) == [(4, 13), (8, 17)]
    assert points(lines["MAC minus chance"]) == [(4, 13 - 20 / 9), (8, 17 - 20 / 9)]
    assert points(lines["MLS"]) == [(4, 7), (8, 11)]
    assert lines["MLS"].low == (6, 10)
    with pytest.raises(ReportError, match="differ in protocol"):
        MAC_MLS.shown(macs, None)


def test_curves_are_those_of_the_members() -> None:
    run = trained()
    (chart,) = training_curves([run], None)
    memorized, loss = chart.panels
    assert len(memorized.series) == len(run.members) == 2
    best = max(run.members, key=lambda member: member.memorized)
    (line,) = (series for series in memorized.series if not series.faint)
    assert points(line) == [(e, m / 20) for e, m in zip(best.curve.epoch, best.curve.memorized, strict=True)]
    assert next(series for series in loss.series if not series.faint).y == best.curve.loss


def test_curves_of_other_tasks_say_their_sizes_and_loss() -> None:
    training = capax.Training(max_steps=20, eval_steps=5)
    associations = capax.measure(
        capax.Associations(context_size=3, library_size=10, labels="uniform"),
        capax.AssociativeAttention(n_heads=2, d_model=8, d_head=4),
        training,
    )
    relations = capax.measure(
        capax.Relations(n_items=6), capax.KeyQueryChannel(n_heads=2, d_model=4, d_head=3), training
    )
    one, other = training_curves([associations, relations], None)
    assert {series.name for series in one.panels[0].series} == {"context 3, 1 layer, 2 heads, head size 4, width 8"}
    assert "mean squared error" in one.caption
    assert {series.name for series in other.panels[0].series} == {"6 items, 6 edges, 2 heads, head size 3, width 4"}
    (line,) = (series for series in other.panels[1].series if not series.faint)
    assert line.y == max(relations.members, key=lambda member: member.memorized).curve.loss


def test_of_many_runs_some_curves_are_drawn_from_least_to_most() -> None:
    runs = [made(count, d_model=width) for count, width in zip(range(1, 20), range(4, 23), strict=True)]
    (chart,) = training_curves(runs, None)
    names = {series.name for series in chart.panels[0].series}
    assert len(names) == MOST_CURVES
    assert {"width 4", "width 22"} <= names
    assert chart.caption.startswith("7 of 19 runs")


def test_the_histogram_counts_every_trial_that_completed() -> None:
    run = capax.measure(
        capax.Sequences(seq_len=3, vocab_size=9, library_size=4, loss="last"),
        capax.Transformer(d_model=16, d_head=4),
        capax.Training(max_epochs=60, lr=0.01),
        protocol=capax.Shatter(trials=30),
    )
    (chart,) = epochs_to_shatter([run], None)
    bars, fit = chart.panels[0].series
    assert run.shatter is not None
    assert sum(bars.y) == len(run.shatter.epochs) > 10
    assert bars.x == fit.x
    assert 0 < sum(fit.y) <= 30 + 1e-9
    assert "30" in chart.panels[0].x.label
    with pytest.raises(ReportError, match="by protocol shatter"):
        epochs_to_shatter([trained()], None)


def test_units_are_per_trainable_parameter() -> None:
    runs = [made(3, d_model=w) for w in (4, 8)]
    (chart,) = UNITS.shown(runs, None)
    lines = shown(chart, 0, "line")
    of = {unit.name: unit.per_trainable_parameter for unit in trained().units}
    assert {name: line.y[0] for name, line in lines.items()} == {
        "items above chance": of["bits"],
        "Morris et al. 2025": of["morris_bits"],
        "Allen-Zhu and Li 2024": of["allen_zhu_bits"],
    }


def test_units_have_the_intervals_of_their_amounts() -> None:
    runs = [made(3, d_model=w) for w in (4, 8)]
    told = Interval(low=2, high=5, level=0.95, of="test")
    units = tuple(unit.model_copy(update={"interval": told}) for unit in runs[0].units)
    runs[0] = runs[0].model_copy(update={"units": units, "memorized_per_restart": (3, 3, 3)})
    (chart,) = UNITS.shown(runs, None)
    trainable = runs[0].parameters.trainable
    for line in shown(chart, 0, "line").values():
        assert (line.low, line.high) == ((2 / trainable, None), (5 / trainable, None))
    assert "Bars:" in chart.caption
    of_two = runs[0].model_copy(update={"memorized_per_restart": (3, 3)})
    (chart,) = UNITS.shown([of_two, runs[1]], None)
    assert all(line.low is None for line in shown(chart, 0, "line").values())
    assert "Bars" not in chart.caption


@pytest.mark.parametrize("figure", [WIDTH_FIGURE, MAC_MLS, UNITS])
def test_without_runs_of_its_protocol_there_is_no_figure(figure: Lines) -> None:
    with pytest.raises(ReportError, match=r"no run by protocol mac.* d_model"):
        figure.shown([])


def test_a_store_without_runs_is_said_to_be_one(tmp_path: Path) -> None:
    capax.Store(tmp_path / "empty.db").close()
    for name in ("width", "f1", "curves", "bounds"):
        with pytest.raises(ReportError, match=r"^store: no finished runs in empty"):
            capax.figure(name, tmp_path / "empty.db")


def test_curves_of_equal_sizes_are_told_apart() -> None:
    second = made(3, 4, seed=1)
    again = second.model_copy(update={"key": "f" * 64})
    (chart,) = training_curves([trained(), second, again], None)
    names = {series.name.partition("width 4, ")[2] for series in chart.panels[0].series}
    assert names == {"seed 0", f"seed 1, {second.key[:12]}", f"seed 1, {again.key[:12]}"}
