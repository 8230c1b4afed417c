"""The figures of Mahdavi et al. 2024 hold what was recalled, and what theory says of it."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import linregress

import capax
from capax.errors import ReportError
from capax.figures import interactive
from capax.figures.accuracy import ACCURACY, straightness
from capax.figures.drawing import draw
from capax.results import Measurement

HEADS, CONTEXT, HEAD_SIZE = ACCURACY


def run(
    n_heads: int = 2, context_size: int = 4, d_head: int = 4, library_size: int = 20, seed: int = 0, restarts: int = 2
) -> Measurement:
    return capax.measure(
        capax.Associations(context_size=context_size, library_size=library_size, n_classes=4),
        capax.AssociativeAttention(n_heads=n_heads, d_model=8, d_head=d_head, profile="mahdavi2024"),
        capax.Training(max_steps=60, eval_steps=20, lr=0.05),
        restarts=restarts,
        seed=seed,
    )


@pytest.fixture(scope="module")
def heads() -> list[Measurement]:
    return [run(n_heads=h, library_size=size) for size in (20, 40) for h in (4, 1, 2)]


@pytest.mark.slow
def test_a_line_a_library_against_heads(heads: list[Measurement]) -> None:
    (chart,) = HEADS.shown(heads, None)
    (panel,) = chart.panels
    twenty, forty, theorem, luck = panel.series
    assert (twenty.name, forty.name) == ("library of 20", "library of 40")
    ordered = [heads[1], heads[2], heads[0]]
    assert twenty.x == (1, 2, 4)
    assert twenty.y == tuple(one.memorized / 20 for one in ordered)
    assert twenty.low is None  # an interval of two restarts is as wide as the axis
    assert "Bars" not in chart.caption
    assert forty.y == tuple(one.memorized / 40 for one in (heads[4], heads[5], heads[3]))
    assert theorem.y == (4 / 20, 7 / 20, 13 / 20)
    assert theorem.name == "theorem 1, library of 20"  # and the limit of fixed weights, which is the same here
    assert luck.x == (1, 2, 4)
    assert luck.y == tuple(one.chance / 20 for one in ordered)
    assert min(luck.y) > 0.25  # the commonest of four classes
    assert "by chance: what guessing or one constant answer recalls, whichever is more" in chart.caption
    older = [one.model_copy(update={"chance_constant": None}) for one in heads]
    assert "by chance: expected from guessing." in HEADS.shown(older, None)[0].caption
    assert "(of runs of earlier versions guessing alone)" in HEADS.shown([*heads[:3], *older[3:]], None)[0].caption
    straight = linregress([1, 2, 4], twenty.y).rvalue ** 2
    assert straightness(ordered) == pytest.approx(straight)
    assert f"{straight:.3f} (library of 20)" in chart.caption


@pytest.mark.slow
def test_theory_is_of_the_library_with_most_places(heads: list[Measurement]) -> None:
    """The smallest may have been asked at one place, where a line would not be seen."""
    (chart,) = HEADS.shown([heads[0], *heads[3:]], None)
    references = [one for one in chart.panels[0].series if one.kind == "reference"]
    assert [one.name for one in references] == ["theorem 1, library of 40", "by chance, library of 40"]
    assert {one.x for one in references} == {(1, 2, 4)}


def test_intervals_are_drawn_from_three_restarts_on() -> None:
    runs = [run(n_heads=h, restarts=3) for h in (1, 2)]
    (chart,) = HEADS.shown(runs, None)
    line = chart.panels[0].series[0]
    assert line.low == tuple(one.interval.low / 20 for one in runs)
    assert line.high == tuple(one.interval.high / 20 for one in runs)
    assert "Bars:" in chart.caption
    assert line.texts[0].startswith(f"{runs[0].memorized / 20:.4g}: {runs[0].memorized} of 20, ")


def test_straightness_of_a_line_is_one_and_of_too_little_unknown(heads: list[Measurement]) -> None:
    line = [one.model_copy(update={"memorized": 3 * one.spec.model.n_heads + 1}) for one in heads[:3]]
    assert straightness(line) == pytest.approx(1)
    assert straightness(line[:2]) is None
    assert straightness([one.model_copy(update={"memorized": 1}) for one in line]) is None


@pytest.mark.slow
def test_the_bound_stops_rising_at_the_context_and_is_absent_where_it_is_not_proved() -> None:
    """d_head helps up to n = 4; n must be below d_model = 8."""
    (chart,) = HEAD_SIZE.shown([run(d_head=d) for d in (2, 4, 8)], None)
    shares = {series.name: series for series in chart.panels[0].series}
    assert shares["theorem 1, library of 20"].y == (3 / 20, 7 / 20, 7 / 20)
    assert shares["rank limit, library of 20"].y == (7 / 20,) * 3
    (chart,) = CONTEXT.shown([run(context_size=n) for n in (2, 4, 8)], None)
    shares = {series.name: series for series in chart.panels[0].series}
    assert shares["theorem 1, library of 20"].x == (2, 4)
    assert shares["library of 20"].x == (2, 4, 8)


def test_seeds_are_one_point(heads: list[Measurement]) -> None:
    other = run(n_heads=1, seed=1)
    (chart,) = HEADS.shown([*heads[:3], other], None)
    line = chart.panels[0].series[0]
    assert line.y[0] == np.mean([heads[1].memorized / 20, other.memorized / 20])
    assert "Means of 1 to 2 seeds." in chart.caption


@pytest.mark.slow
def test_panels_hold_what_else_differs(heads: list[Measurement], tmp_path: Path) -> None:
    wider = [run(n_heads=h, context_size=2) for h in (1, 2)]
    (chart,) = HEADS.shown([*heads, *wider], None)
    assert [panel.title for panel in chart.panels] == ["context 2", "context 4"]
    assert chart.panels[0].series[1].x == ()
    draw(chart, tmp_path / "f.pdf")
    assert interactive.figure(chart)["data"]


def test_what_the_runs_do_not_fill_says_why(heads: list[Measurement]) -> None:
    with pytest.raises(ReportError, match=r"mac .*context_size"):
        HEADS.shown([], None)
    with pytest.raises(ReportError, match="differ in context_size"):
        CONTEXT.shown(heads, None)
