"""The figures of Adler 2025 hold what searches and trainings found."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

import capax
from capax.errors import ReportError
from capax.figures import interactive, key_dims
from capax.figures.columns import powers
from capax.figures.drawing import draw
from capax.figures.groups import alike
from capax.figures.key_dims import GRAPH, cells
from capax.figures.trainings import F1
from capax.laws.power import LinearRelationLaw, RelationLaw
from capax.results import HeadCount, Interval, KeyDimensionSearch, Measurement

FIGURES = (
    key_dims.KEY_DIMENSION.shown,
    key_dims.key_dimension_map,
    key_dims.BEST_HEADS.shown,
    key_dims.FIXED_COMPRESSION.shown,
)
TRAINING = capax.Training(max_steps=30, batch_size=64, eval_steps=10)


def searched(n_items: int = 6, d_model: int = 4, **protocol: object) -> Measurement:
    budget = capax.Budget(**({"head_counts": (1, 2), "restarts": 2, "max_trainings": 8, "target_f1": 0.6} | protocol))
    return capax.measure(
        capax.Relations(n_items=n_items), capax.KeyQueryChannel(d_model=d_model), TRAINING, protocol=budget
    )


@pytest.fixture(scope="module")
def search() -> Measurement:
    return searched()


@pytest.mark.slow
def test_trainings_that_searches_share_count_once(search: Measurement) -> None:
    """Of one seed, those of one head are the same whatever other heads are searched."""
    alone = searched(head_counts=(1,))
    assert [one.metrics["f1"] for one in alone.members] == [one.metrics["f1"] for one in search.members][
        : len(alone.members)
    ]
    (both,), (one,) = F1.shown([search, alone], None), F1.shown([search], None)
    assert both.panels[0].series == one.panels[0].series
    other = searched(head_counts=(1,)).spec.replace(seed=1)
    again = F1.shown([search, alone.model_copy(update={"spec": other})], None)[0]
    assert again.panels[0].series != one.panels[0].series


def told(
    base: Measurement, n_items: int, d_model: int, dims: dict[int, tuple[int, int, int] | None], seed: int = 0
) -> Measurement:
    """The measurement of another search: D_K and its range for each number of heads."""
    counts = tuple(
        HeadCount(
            n_heads=h,
            d_head=None if found is None else found[0] // h,
            total_key_dim=None if found is None else found[0],
            interval=Interval(
                low=1 if found is None else found[1], high=None if found is None else found[2], level=0.95, of=""
            ),
            f1=1.0,
            trainings=9,
        )
        for h, found in dims.items()
    )
    best = min((c for c in counts if c.total_key_dim), key=lambda c: (c.total_key_dim, c.n_heads), default=None)
    task, model = capax.Relations(n_items=n_items), capax.KeyQueryChannel(d_model=d_model)
    protocol = base.spec.protocol.replace(head_counts=tuple(dims))
    return base.model_copy(
        update={
            "spec": base.spec.replace(task=task, model=model, protocol=protocol, seed=seed),
            "search": KeyDimensionSearch(
                n_heads=best and best.n_heads,
                d_head=best and best.d_head,
                total_key_dim=best and best.total_key_dim,
                interval=best and best.interval,
                per_heads=counts,
            ),
        }
    )


@pytest.fixture(scope="module")
def grid(search: Measurement) -> list[Measurement]:
    return [
        told(search, 16, 16, {1: (3, 2, 4), 2: (4, 3, 6)}),
        told(search, 32, 16, {1: (9, 8, 12), 2: (8, 7, 10)}),
        told(search, 32, 32, {1: (4, 4, 5), 2: (6, 5, 8)}),
        told(search, 64, 16, {1: None, 2: None}),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["half", "mean"])
def test_a_search_is_drawn_training_by_training(criterion: str) -> None:
    """A size's trainings tell what the search said of it: mean F1 at the size that was found."""
    run = searched(criterion=criterion)
    assert run.key_search is not None
    members = iter(run.members)
    for count in run.key_search.per_heads:
        trained = [next(members) for _ in range(count.trainings)]
        if count.d_head is not None:
            near = min({one.d_head for one in trained}, key=lambda size: abs(size - count.d_head))
            values = [one.metrics["f1"] for one in trained if one.d_head == near]
            assert np.mean(values) == pytest.approx(count.f1)
    assert next(members, None) is None


def test_of_a_search_by_an_earlier_version_only_what_it_found_is_drawn(search: Measurement) -> None:
    assert search.key_search is not None
    older = tuple(member.model_copy(update={"d_head": None}) for member in search.members)
    (chart,) = F1.shown([search.model_copy(update={"members": older})], None)
    sizes = [count.total_key_dim for count in search.key_search.per_heads]
    assert [series.x for series in chart.panels[0].series[:2]] == [() if d is None else (d,) for d in sizes]


def test_f1_of_restarts_has_the_interval_of_a_t_test() -> None:
    runs = [
        capax.measure(
            capax.Relations(n_items=6),
            capax.KeyQueryChannel(d_model=4, n_heads=h, d_head=d),
            TRAINING,
            restarts=4,
        )
        for h, d in [(1, 1), (1, 2), (2, 1)]
    ]
    (chart,) = F1.shown(runs, None)
    (panel,) = chart.panels
    one, two, target = panel.series
    assert (one.name, one.x, two.name, two.x) == ("1 head", (1, 2), "2 heads", (2,))
    assert target.y == (0.99, 0.99)
    values = [member.metrics["f1"] for member in runs[1].members]
    ends = ttest_1samp(values, 0).confidence_interval(0.95)
    assert one.y[1] == pytest.approx(np.mean(values))
    assert (one.low[1], one.high[1]) == pytest.approx((max(ends.low, 0), min(ends.high, 1)))
    with pytest.raises(ReportError, match="differ in d_head"):
        F1.shown(runs[:1], None)


def test_f1_of_searches_has_a_panel_a_graph_and_every_head_in_the_legend(search: Measurement) -> None:
    other = searched(head_counts=(4,), n_items=7)
    (chart,) = F1.shown([search, other], None)
    assert [panel.title for panel in chart.panels] == ["6 items", "7 items"]
    for panel in chart.panels:
        assert [series.name for series in panel.series] == ["1 head", "2 heads", "4 heads", "F1 0.6"]
    assert chart.panels[1].series[0].x == ()
    legend = [trace for trace in interactive.figure(chart)["data"] if trace["showlegend"] and trace["x"]]
    assert [trace["name"] for trace in sorted(legend, key=lambda trace: trace["legendrank"])] == [
        "1 head", "2 heads", "4 heads", "F1 0.6",
    ]  # fmt: skip
    assert len(search.members) == sum(
        int(text.split(" over ")[1].split()[0]) for series in chart.panels[0].series[:3] for text in series.texts
    )


def test_cells_of_searches_that_differ_in_their_seeds_are_one(search: Measurement) -> None:
    runs = [
        told(search, 8, 8, {1: (3, 2, 4)}, seed=0),
        told(search, 8, 8, {1: (9, 7, 11)}, seed=1),
        told(search, 8, 8, {1: (5, 4, 6)}, seed=2),
    ]
    (cell,) = cells(alike(runs, GRAPH)[0])
    assert (cell.key_dim, cell.low, cell.high) == (5, 2, 11)
    assert "median of 3 searches" in cell.text


def test_the_map_has_a_row_a_graph_and_a_column_a_width(grid: list[Measurement]) -> None:
    (chart,) = key_dims.key_dimension_map(grid, None)
    heat = chart.panels[0].heat
    assert (heat.x, heat.y) == (("16", "32"), ("16", "32", "64"))
    assert heat.z == ((math.log2(3), None), (3.0, 2.0), (None, None))
    assert heat.texts == (("3\n2–4", ""), ("8\n7–10", "4\n4–5"), ("none", ""))
    assert "1 of 4 cells" in chart.caption


def test_the_law_is_drawn_through_the_geometric_mean(grid: list[Measurement]) -> None:
    (chart,) = key_dims.KEY_DIMENSION.shown(grid, None)
    sixteen, thirty_two, line = chart.panels[0].series
    assert (sixteen.y, thirty_two.y) == ((3, 8), (4,))
    assert sixteen.x == (math.log2(16), pytest.approx(2 * math.log2(32)))
    ratios = [3 / math.log2(16), 8 / (2 * math.log2(32)), 4 / math.log2(32)]
    assert line.y[0] / line.x[0] == pytest.approx(np.prod(ratios) ** (1 / 3))
    assert line.y[1] / line.x[1] == pytest.approx(np.prod(ratios) ** (1 / 3))
    assert (sixteen.low, sixteen.high) == ((2, 7), (4, 10))


def test_a_fitted_law_is_drawn_where_it_was_fitted(grid: list[Measurement]) -> None:
    edges = [16, 32, 64, 32, 64, 128]
    table = {"n_items": edges, "n_edges": edges, "d_model": [16, 16, 32, 32, 32, 32]}
    keys = [3, 8, 8, 4, 9, 22]
    law = RelationLaw(n_bootstrap=40).fit(table, keys)
    (chart,) = key_dims.KEY_DIMENSION.shown(grid, law)
    (band,) = (series for series in chart.panels[0].series if series.x and series.kind == "band")
    assert len(band.x) == 100
    sizes = np.array([16.0, 32])
    ends = {
        "n_items": sizes,
        "n_edges": sizes,
        "d_model": np.array([16.0, 16]),
    }  # of the least load, and of the largest
    assert (band.y[0], band.y[-1]) == pytest.approx(tuple(law.predict(ends)))
    loads = np.array(band.x)
    with pytest.warns(UserWarning, match="outside"):  # the same loads, of one graph
        between = law.predict(
            {"n_items": np.full(100, 32.0), "n_edges": np.full(100, 32.0), "d_model": 32 * math.log2(32) / loads}
        )
    assert band.y == pytest.approx(between.tolist())
    assert "the law relation" in chart.caption
    of_edges = RelationLaw(n_bootstrap=40, target="memorized").fit(table, keys)
    assert "of memorized, not of D_K*" in key_dims.KEY_DIMENSION.shown(grid, of_edges)[0].caption
    without = LinearRelationLaw(n_bootstrap=40).fit(table, keys)
    (chart,) = key_dims.KEY_DIMENSION.shown(grid, without)
    assert "not drawn" in chart.caption
    assert all(series.kind != "band" for series in chart.panels[0].series)


def test_best_heads_are_those_of_the_smallest_key_dimension(grid: list[Measurement]) -> None:
    (chart,) = key_dims.BEST_HEADS.shown(grid, None)
    sixteen, thirty_two = chart.panels[0].series
    assert (sixteen.x, sixteen.y) == ((1, 2), (1, 2))
    assert (sixteen.low, sixteen.high) == ((1, 1), (2, 2))
    assert (thirty_two.x, thirty_two.y) == ((1,), (1,))
    assert "in 1 of 3 cells" in chart.caption


def test_items_and_width_that_grow_together_are_a_line(grid: list[Measurement]) -> None:
    (chart,) = key_dims.FIXED_COMPRESSION.shown(grid, None)
    keys, heads = chart.panels
    assert [(series.name, series.x, series.y) for series in keys.series] == [("1 item per channel", (16, 32), (3, 4))]
    assert [series.y for series in heads.series] == [(1, 1)]


def test_what_the_runs_do_not_fill_says_why(search: Measurement) -> None:
    unlike = [search, search.model_copy(update={"spec": search.spec.replace(training=capax.Training(max_steps=9))})]
    for figure in FIGURES:
        with pytest.raises(ReportError, match="by protocol budget"):
            figure([], None)
        with pytest.raises(ReportError, match=r"by protocol budget that differ in .*nothing else"):
            figure(unlike, None)


@pytest.mark.slow
def test_every_figure_is_drawn_both_ways(grid: list[Measurement], search: Measurement, tmp_path) -> None:
    charts = [figure(grid, None)[0] for figure in FIGURES] + F1.shown([search], None)
    for chart in charts:
        draw(chart, tmp_path / "f.png")
        assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
        assert interactive.figure(chart)["data"]


@pytest.mark.parametrize(
    ("values", "ticks"),
    [((1, 8), (1, 2, 4, 8)), ((3, 9), (2, 4, 8, 16)), ((1, 1.5), (1, 1.5)), ((2.079, 3.727), (2.08, 3.73))],
)
def test_an_axis_has_two_marks_at_least(values: tuple[float, ...], ticks: tuple[float, ...]) -> None:
    assert powers("", values).ticks == ticks


def test_a_law_is_drawn_of_graphs_that_have_one_size_at_its_domain_s_end() -> None:
    """With 512 items, the most that it knows: no warning, since no row is beyond."""
    found = capax.charts(
        "key-dimension",
        Path(__file__).parents[2] / "docs" / "capacity" / "relations-graphs.db",
        law="reference:relation",
    )
    assert any(series.name == "law" for chart in found for panel in chart.panels for series in panel.series)
