"""Any column of runs against any other, with power laws through groups."""

import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from made import made
from matplotlib.figure import Figure

import capax
from capax.errors import CapaxError, ReportError, TableError
from capax.figures import scatter
from capax.figures.chart import Chart, Series
from capax.figures.power_fit import power_fit
from capax.reports.caveats import caveats
from capax.results import CapacityEstimate, Interval, Measurement
from capax.store.tables import spec_columns

COUNTS = {(4, 1): (5, 6, 7), (8, 1): (9, 8, 11), (16, 1): (20, 19, 18), (4, 2): (3, 4, 4), (8, 2): (7, 6, 6)}
RUNS = [made(*counts, d_model=width, n_layers=layers) for (width, layers), counts in COUNTS.items()]


def series(chart: Chart, panel: int = 0) -> dict[str, Series]:
    """The series of a panel that have points, those of lower bounds by a name of their own."""
    return {f"{one.name}{', hollow' * one.hollow}": one for one in chart.panels[panel].series if one.x}


def test_every_run_is_a_mark_of_its_group_with_its_interval() -> None:
    (chart,) = capax.charts("scatter", RUNS, x="d_model", y="memorized", color="n_layers")
    found = series(chart)
    assert found["2 layers"].x == (4, 8)
    assert found["2 layers"].y == (4, 7)
    one = found["1 layer"]
    assert (one.x, one.y) == ((4, 8), (7, 11))
    assert (one.low, one.high) == ((6, 10), (8, 12))
    assert found["1 layer, hollow"].x == (16,)  # the library of 20 is whole: a lower bound
    assert "Hollow" in chart.caption
    assert "Bars: 95 % intervals, of the best of restarts from 3 on." in chart.caption
    (alone,) = capax.charts("scatter", RUNS, x="d_model", y="memorized")
    assert "differ in n_layers (1 to 2)" in alone.caption


def test_intervals_are_those_of_the_units_to_scale() -> None:
    amounts = [
        one.model_copy(update={"interval": Interval(low=one.amount / 2, high=one.amount * 3, level=0.95, of="test")})
        for one in RUNS[0].units
    ]
    runs = [run.model_copy(update={"units": tuple(amounts), "memorized_per_restart": (1, 2, 3)}) for run in RUNS]
    for name in ("bits", "bits_per_parameter", "morris_bits", "morris_bits_per_any_parameter", "tokens"):
        (chart,) = capax.charts("scatter", runs, x="d_model", y=name, panel="n_layers")
        one = series(chart, 1)["5 runs"]
        assert one.low is not None
        assert one.high is not None
        np.testing.assert_allclose(np.array([one.low, one.high], float), np.outer((0.5, 3.0), one.y))
    few = [run.model_copy(update={"memorized_per_restart": (1, 2)}) for run in runs]
    assert series(capax.charts("scatter", few, x="d_model", y="bits")[0])["5 runs"].low is None


def test_what_did_not_converge_is_a_lower_bound_and_has_no_value_where_none_is_known() -> None:
    def held(run: Measurement, bits: float, converged: bool) -> Measurement:
        known = Interval(low=bits - 1, high=bits + 2, level=0.95, of="test")
        found = CapacityEstimate(
            bits=bits,
            extrapolated=bits if converged else None,
            interval=known if converged else None,
            converged=converged,
            last_gain=0.1,
            library_bits=9.0,
            library_sizes=(20,),
            per_effective_parameter=1.0,
            per_trainable_parameter=1.0,
            per_parameter=1.0,
        )
        return run.model_copy(update={"capacity": found})

    runs = [held(RUNS[0], 5.0, converged=True), held(RUNS[1], 6.0, converged=False)]
    (chart,) = capax.charts("scatter", runs, x="d_model", y="capacity_reached")
    assert (series(chart)["2 runs"].y, series(chart)["2 runs, hollow"].y) == ((5.0,), (6.0,))
    (chart,) = capax.charts("scatter", runs, x="d_model", y="capacity_bits")
    assert (series(chart)["1 run"].low, series(chart)["1 run"].high) == ((4.0,), (7.0,))
    assert "Left out: 1 run without d_model or capacity_bits" in chart.caption


def test_lower_bounds_are_those_of_which_nothing_more_can_be_recalled() -> None:
    """All edges and false ones beside them are not; all that can be recalled of contradicting items is."""
    task, channel = capax.Relations(n_items=8), capax.KeyQueryChannel(n_heads=1, d_head=3, d_model=6)
    run = capax.measure(task, channel, capax.Training(max_steps=80), restarts=1)
    assert (run.memorized, run.stop_reason) == (run.library_size, "budget")
    assert run.metrics["f1"] < 1
    (chart,) = capax.charts("scatter", [run], x="d_model", y="memorized")
    assert list(series(chart)) == ["1 run"]
    assert not any("lower bound" in line for line in caveats([run]))
    some = RUNS[0].model_copy(update={"recallable": RUNS[0].memorized})
    assert some.memorized < some.library_size
    (chart,) = capax.charts("scatter", [some], x="d_model", y="memorized")
    assert list(series(chart)) == ["1 run, hollow"]
    assert any("lower bound" in line for line in caveats([some]))


def test_a_power_law_is_found_again_with_its_interval() -> None:
    rng = np.random.default_rng(0)
    x = np.geomspace(3, 3000, 12)
    exact = power_fit(x, 2.5 * x**-0.7, "these")
    assert exact is not None
    assert (exact.constant, exact.exponent, exact.low, exact.high) == pytest.approx((2.5, -0.7, -0.7, -0.7))
    fits = [power_fit(x, 2.5 * x**1.3 * np.exp(rng.normal(0, 0.2, len(x))), "these") for _ in range(400)]
    inside = [fit is not None and fit.low <= 1.3 <= fit.high for fit in fits]
    assert 0.92 <= np.mean(inside) <= 0.98
    assert power_fit(x[:2], x[:2], "these") is None
    assert power_fit([4, 4, 4], [1, 2, 3], "these") is None
    with pytest.raises(ReportError, match=r"^fit: a power law needs memorized above 0, got 0 \(these\)$"):
        power_fit([1, 2, 3], [0, 1, 2], "these", ("d_model", "memorized"))


def test_each_group_has_its_own_law_through_many_points() -> None:
    table = pl.DataFrame(
        {
            "size": [1.0, 2, 4, 1, 2, 4, 8],
            "held": [3.0, 6, 12, 5, 20, 80, 1],
            "kind": ["a"] * 3 + ["b"] * 3 + ["c"],
            "held_low": [2.0] * 7,
            "held_high": [90.0] * 7,
        }
    )
    (chart,) = capax.charts("scatter", table, x="size", y="held", color="kind", fit="power", log="xy")
    found = series(chart)
    laws = [one for one in found.values() if one.kind == "band"]
    assert [one.name for one in laws] == [
        "kind a: x^1.00000 (1.00000 to 1.00000)",
        "kind b: x^2.00000 (2.00000 to 2.00000)",
    ]
    for law, (constant, exponent) in zip(laws, ((3, 1), (5, 2)), strict=True):
        assert len(law.x) == 100
        np.testing.assert_allclose(law.y, constant * np.array(law.x) ** exponent)
        np.testing.assert_allclose(np.diff(np.log(law.x)), np.log(4) / 99)
    assert "No line through what has fewer than 3 points: kind c." in chart.caption
    assert "least squares of log y on log x" in chart.caption
    assert found["kind a"].low == (2.0, 2.0, 2.0)
    assert chart.panels[0].x.log == chart.panels[0].y.log == 10


def test_arguments_of_a_module_are_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "brought_to_scatter.py").write_text("def tiny(vocab_size, rank=1): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    runs = []
    for rank in (2, 4, 8):
        options = {"rank": rank, "task": 3, "library_size": 5}  # no task's columns, whatever they are called
        spec = RUNS[0].spec.replace(model=capax.Module(factory="brought_to_scatter:tiny", arguments=options))
        own = RUNS[0].spec.task.columns()
        assert {name: spec_columns(spec)[name] for name in ("task", "library_size")} == {
            name: own[name] for name in ("task", "library_size")
        }
        runs.append(made(3 + rank).model_copy(update={"spec": spec, "key": spec.key()}))
    (chart,) = capax.charts("scatter", [*runs, RUNS[0]], x="rank", y="memorized", color="model", log="x")
    assert series(chart)["model module"].x == (2, 4, 8)
    assert "Left out: 1 run without rank or memorized" in chart.caption


def test_stores_have_imported_rows_and_conditions(tmp_path: Path) -> None:
    with capax.Store(tmp_path / "s.db") as store:
        for run in RUNS:
            store.add(run)
        store.import_rows(pl.DataFrame({"seq_len": [4], "n_heads": [1], "d_model": [32], "memorized": [40]}), "theirs")
    (chart,) = capax.charts("scatter", tmp_path / "s.db", x="d_model", y="memorized", color="source")
    assert series(chart)["source theirs"].y == (40,)
    assert len(series(chart)["no source"].x) == 4
    (chart,) = capax.charts("scatter", tmp_path / "s.db", x="d_model", y="memorized", where=["n_layers=2"])
    assert series(chart)["2 runs"].x == (4, 8)
    (chart,) = capax.charts("width", tmp_path / "s.db", where=["n_layers=2"])
    assert chart == capax.charts("width", RUNS[3:])[0]


def test_it_is_a_figure_of_matplotlib_of_the_size_that_was_asked_for(tmp_path: Path) -> None:
    options = {"x": "d_model", "y": "memorized", "color": "n_layers", "panel": "n_heads", "log": "xy"}
    drawn = capax.figure("scatter", RUNS, width=3.4, dpi=200, out=tmp_path / "f", format="pdf", **options)
    assert isinstance(drawn, Figure)
    assert drawn.get_figwidth() == 3.4
    assert drawn.axes[0].get_xscale() == drawn.axes[0].get_yscale() == "log"
    assert drawn.axes[0].get_xlabel() == "width d_model"
    assert (tmp_path / "f").read_bytes().startswith(b"%PDF")
    sized = capax.figure("width", RUNS[:3], width=5, height=4, dpi=100)
    assert sized.get_size_inches().tolist() == [5, 4]
    assert sized.dpi == 100


def test_logarithms_take_no_zero() -> None:
    zero = [*RUNS, made(0, 0, 0, d_model=32)]
    with pytest.raises(ReportError, match=r"^log: y \(memorized\): 1 of 1 values are 0 or less, such as 0"):
        capax.charts("scatter", zero, x="d_model", y="memorized", log="y", panel="library_size", where=["d_model=32"])
    (chart,) = capax.charts("units", RUNS[:3], log="x")
    assert chart.panels[0].x.log == 2  # it is logarithmic already, with marks of its own
    level = [run.model_copy(update={"chance": 0.0}) for run in RUNS[:3]]
    (chart,) = capax.charts("width", level, log="y")
    assert "by chance" not in series(chart)
    assert chart.caption.endswith("Not on the logarithmic axis: by chance (0).")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"y": "bits"}, "x: figure scatter needs a column"),
        ({"x": "d_modle", "y": "bits"}, "x: no column 'd_modle'; the nearest are d_model"),
        ({"x": "d_model", "y": "bits", "color": "layers"}, "color: no column 'layers'; the nearest are n_layers"),
        ({"x": "activation", "y": "bits"}, "x: column activation holds words such as 'gelu', not numbers"),
        ({"x": "d_model", "y": "gated"}, "y: column gated holds truth values such as False, not numbers"),
        ({"x": "d_model", "y": "window"}, "y: no run has a value of window"),
        ({"x": "d_model", "y": 3}, "y: a name of a column, got 3"),
        ({"x": "d_model", "y": "bits", "fit": "line"}, "fit: power, got 'line'"),
        ({"x": "n_heads", "y": "memorized", "fit": "power"}, "fit: a power law needs 3 points"),
        ({"x": "d_model", "y": "bits", "law": "reference"}, "law: not drawn in figure scatter"),
        ({"x": "d_model", "y": "bits", "log": "z"}, "log: x, y or xy, got 'z'"),
        ({"x": "d_model", "y": "bits", "width": 0}, "width: 1 to 40 inches, got 0"),
        ({"x": "d_model", "y": "bits", "width": "3"}, "width: 1 to 40 inches, got '3'"),
        ({"x": "d_model", "y": "bits", "height": 1e9}, "height: 1 to 40 inches, got 1000000000.0"),
        ({"x": "d_model", "y": "bits", "dpi": 1}, "dpi: 30 to 2400 dots per inch, got 1"),
        ({"x": "d_model", "y": "bits", "width": 39, "dpi": 1200}, "width: at most 20000 dots"),
        ({"x": "d_model", "y": "bits", "format": "pdf"}, "format: pdf is of a file, and there is no out"),
        ({"x": "d_model", "y": "bits", "out": "f", "format": "gex"}, "format: one of .*, got 'gex'"),
        ({"x": "d_model", "y": "bits", "out": "f.svg", "format": "pdf"}, "format: pdf, but out ends in .svg"),
        ({"x": "d_model", "y": "bits", "out": "f.pdf", "width": 1, "height": 1}, "out: 1 by 1 inches have no room"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(
    options: dict[str, object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CapaxError, match=f"^{said}"):
        capax.figure("scatter", RUNS, **options)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_columns_of_a_mapping_have_one_length() -> None:
    with pytest.raises(TableError, match=r"^table: columns should be of one length, got a 3, b 2$"):
        capax.figure("scatter", {"a": [1, 2, 3], "b": [2, 4]}, x="a", y="b")


def test_there_is_room_for_so_many_groups_and_panels() -> None:
    runs = [made(5, seed=seed) for seed in range(15)]
    with pytest.raises(ReportError, match=r"^color: at most 14 groups, seed has 15 values"):
        capax.charts("scatter", runs, x="d_model", y="bits", color="seed")
    with pytest.raises(ReportError, match=r"^panel: at most 12 panels, seed has 15 values"):
        capax.charts("scatter", runs, x="d_model", y="bits", panel="seed")
    with pytest.raises(ReportError, match=r"^color: of figure scatter alone, width has its own columns"):
        capax.charts("width", runs, color="seed")


def test_a_narrow_figure_shows_all_of_its_legend_and_its_title() -> None:
    table = {"x": [1, 2], "y": [1, 2], "kind": ["a name that is longer than a column of a page has room for"] * 2}
    drawn = capax.figure("scatter", table, x="x", y="y", color="kind", width=2.5)
    drawn.draw_without_rendering()
    (legend,) = drawn.legends
    for box in (legend.get_window_extent(), drawn._suptitle.get_window_extent()):  # type: ignore[attr-defined]
        assert box.x0 >= 0
        assert box.x1 <= drawn.bbox.x1


def test_marks_of_logarithmic_axes_never_run_into_each_other() -> None:
    for ends in ((1, 1.3), (2, 9), (1, 300), (3, 3e6), (1, 1e15)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            drawn = capax.figure("scatter", {"x": ends, "y": ends}, x="x", y="y", log="xy", width=2)
            drawn.draw_without_rendering()
        for axis in (drawn.axes[0].xaxis, drawn.axes[0].yaxis):
            low, high = sorted(axis.get_view_interval())
            boxes = [
                tick.label1.get_window_extent()
                for tick in axis.get_major_ticks()
                if low <= tick.get_loc() <= high and tick.label1.get_text()
            ]
            assert len(boxes) >= 2
            assert not any(one.overlaps(other) for n, one in enumerate(boxes) for other in boxes[:n])


def test_parts_of_an_estimate_have_no_interval_of_their_own() -> None:
    row = {"capacity_bits": 1000.0, "capacity_low": 900.0, "capacity_high": 1200.0, "capacity_last_gain": 0.04}
    assert scatter._ends(row, "capacity_bits") == (900, 1200)
    assert scatter._ends(row, "capacity_last_gain") is None
    assert scatter._ends(row, "capacity_low") is None


def test_an_amount_of_nothing_has_its_interval() -> None:
    run = made(5, 6, 7, d_model=4)
    ends = Interval(low=-6.0, high=9.0, level=0.95, of="test")
    units = tuple(one.model_copy(update={"amount": 0.0, "interval": ends}) for one in run.units)
    nothing = run.model_copy(update={"units": units})
    for name, parts in (("bits", 1), ("bits_per_parameter", run.parameters.trainable)):
        (chart,) = capax.charts("scatter", [nothing, RUNS[0]], x="d_model", y=name, color="library_size")
        (one,) = series(chart).values()
        assert one.low is not None
        assert one.high is not None
        assert (one.low[0], one.high[0]) == pytest.approx((-6 / parts, 9 / parts))


def test_imported_rows_alone_are_drawn_and_told(tmp_path: Path) -> None:
    with capax.Store(tmp_path / "s.db") as store:
        store.import_rows(
            pl.DataFrame({"seq_len": [4, 8], "n_heads": 1, "d_model": [32, 16], "memorized": [40, 30]}), "theirs"
        )
    (chart,) = capax.charts("scatter", tmp_path / "s.db", x="d_model", y="memorized")
    assert "2 of the marks are imported rows." in chart.caption
    with pytest.raises(ReportError, match="no finished runs"):
        capax.charts("width", tmp_path / "s.db")
