"""Both renderers draw every kind of chart; files are whole or not there."""

from pathlib import Path

import numpy as np
import pytest
from made import made
from matplotlib.figure import Figure
from PIL import Image

import capax
from capax.errors import LettersMissing, ReportError
from capax.figures import drawing, interactive, looks
from capax.figures.chart import Axis, Chart, Heat, Panel, Series


def chart(*series: Series, log: bool = False) -> Chart:
    axis = Axis(label="x", log=10 if log else None)
    return Chart(name="n", title="t", caption="c", panels=(Panel(x=axis, y=axis, series=series),))


MIXED = chart(
    Series(name="a", kind="line", x=(1, 2), y=(1, None), low=(0, None), high=(2, None), group=0),
    Series(name="a, each", kind="points", x=(1, 1), y=(1, 2), group=0, faint=True),
    Series(name="law", kind="band", x=(1, 2, 3), y=(1, 2, None), low=(0, 1, None), high=(2, 3, None), group=8),
    Series(name="line alone", kind="band", x=(1, 2), y=(1, 2), group=2),
    Series(name="bars", kind="bars", x=(1.5, 3.5), y=(3, 4), width=2, group=3),
    Series(name="known", kind="reference", x=(1, 2), y=(3, 3)),
    Series(name="an entry", kind="points", x=(), y=(), group=13),
)


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_files_are_of_the_format_of_their_ending(tmp_path: Path, ending: str, start: bytes) -> None:
    drawing.draw(MIXED, tmp_path / f"f.{ending}")
    assert (tmp_path / f"f.{ending}").read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [f"f.{ending}"]


@pytest.mark.slow
def test_a_file_carries_its_caption(tmp_path: Path) -> None:
    drawing.draw(MIXED.model_copy(update={"caption": "Härmä's ≥ 2 <runs>"}), tmp_path / "f.png")
    with Image.open(tmp_path / "f.png") as image:
        assert image.info["Description"] == "Härmä's ≥ 2 <runs>"
    drawing.draw(MIXED, tmp_path / "f.pdf")
    assert b"/Subject (c)" in (tmp_path / "f.pdf").read_bytes()
    drawing.draw(MIXED, tmp_path / "f.svg")
    assert "<dc:description>c</dc:description>" in (tmp_path / "f.svg").read_text().replace("\n", "").replace("  ", "")


def test_letters_that_the_font_lacks_are_named_once(tmp_path: Path) -> None:
    lacking = chart(*(Series(name=name, kind="line", x=(1, 2), y=(1, 2)) for name in ("漢字", "字 𓀀")))
    with pytest.warns(LettersMissing, match="^out: its font has no 字 漢 𓀀: boxes stand for them$") as said:
        drawing.draw(lacking, tmp_path / "f.png")
    assert len(said) == 1
    assert (tmp_path / "f.png").is_file()


def test_a_legend_has_the_marks_of_lines_that_have_points_elsewhere() -> None:
    axis = Axis(label="x")
    empty, full = (Series(name="later", kind="line", x=x, y=x, group=2) for x in ((), (1, 2)))
    first = Series(name="first", kind="line", x=(1, 2), y=(1, 2), group=1)
    panels = tuple(Panel(x=axis, y=axis, series=(first, later)) for later in (empty, full, empty))
    figure = drawing.drawn(Chart(name="n", title="t", caption="c", panels=panels))
    marks = {handle.get_label(): handle.get_marker() for handle in figure.legends[0].legend_handles}
    (line,) = [line for line in figure.axes[1].lines if line.get_label() == "later"]
    assert marks["later"] == line.get_marker() not in (".", marks["first"])


def test_a_legend_has_hollow_marks_of_groups_that_have_no_others() -> None:
    axis = Axis(label="x")
    some, bounds, all_bounds = (
        Series(name=name, kind="points", x=(1, 2), y=(1, 2), group=group, hollow=hollow)
        for name, group, hollow in (("some", 1, False), ("some", 1, True), ("all", 2, True))
    )
    panels = tuple(Panel(x=axis, y=axis, series=series) for series in ((bounds,), (some, bounds, all_bounds)))
    figure = drawing.drawn(Chart(name="n", title="t", caption="c", panels=panels))
    filled = {handle.get_label(): handle.get_fillstyle() for handle in figure.legends[0].legend_handles}
    assert filled == {"some": "full", "all": "none"}


def test_a_reference_at_one_place_is_seen() -> None:
    alone = chart(Series(name="known", kind="reference", x=(3,), y=(4,)))
    (line,) = drawing.drawn(alone).axes[0].lines
    assert line.get_marker() == "_"
    (trace,) = interactive.figure(alone)["data"]
    assert (trace["mode"], trace["marker"]["symbol"]) == ("markers", "line-ew-open")


def test_the_highest_marks_are_whole_on_an_axis_from_zero() -> None:
    figure = capax.figure("scatter", {"a": [1, 2, 3], "b": [1000, 1001, 1002]}, x="a", y="b")
    bottom, top = figure.axes[0].get_ylim()
    assert bottom == 0
    assert top == pytest.approx(1.05 * 1002)


@pytest.mark.parametrize(("x", "whole"), [((1, 2, 3), True), ((1.0, 2.5, 3.0), False)])
def test_marks_between_whole_numbers_are_none(x: tuple[float, ...], whole: bool) -> None:
    figure = drawing.drawn(chart(Series(name="a", kind="line", x=x, y=x)))
    assert all(float(tick).is_integer() for tick in figure.axes[0].get_xticks()) is whole


@pytest.mark.parametrize("names", [["1 head", "16 heads", "F1 0.99"], [f"{n} heads" for n in range(9)], ["long" * 15]])
def test_a_legend_is_inside_its_figure(names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(drawing, "save", lambda figure, *_, **__: drawn.append(figure))
    drawing.draw(chart(*(Series(name=n, kind="line", x=(1, 2), y=(1, 2)) for n in names)), tmp_path / "f.png")
    drawn[0].draw_without_rendering()
    box, legend = drawn[0].bbox, drawn[0].legends[0].get_window_extent()
    assert box.x0 <= legend.x0
    assert legend.x1 <= box.x1


def test_a_file_that_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "f.xyz").write_text("before")
    with pytest.raises(ReportError, match=r"^out: "):
        drawing.draw(MIXED, tmp_path / "f.xyz")
    with pytest.raises(ReportError, match=r"^figure: "):
        drawing.save(Figure(), tmp_path / "none" / "f.png")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("f.xyz", "before")]


def test_a_path_is_checked_before_the_work(tmp_path: Path) -> None:
    for path, message in (
        ("f.xyz", r"out: should end in one of .*\.png.*, got"),
        ("none/f.png", "out: cannot write .*: no such folder"),
    ):
        with pytest.raises(ReportError, match=message):
            drawing.check_writable(tmp_path / path, "out")
    (tmp_path / "kept.png").write_bytes(b"\x89PNG before")
    (tmp_path / "text.png").write_text("before")
    with pytest.raises(ReportError, match=r"out: .*text\.png is there, and no PNG file; name another file"):
        drawing.check_writable(tmp_path / "text.png", "out")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ReportError, match=r"out: .*folder\.png is a folder"):
        drawing.check_writable(tmp_path / "folder.png", "out")
    drawing.check_writable(tmp_path / "kept.png")
    drawing.check_writable(tmp_path / "new.png")
    assert (tmp_path / "kept.png").read_bytes() == b"\x89PNG before"
    assert not (tmp_path / "new.png").exists()


def test_the_drawn_line_is_where_its_points_are(tmp_path: Path) -> None:
    """Two pictures differ when a point differs, and only then."""
    pictures = []
    for height in (1.0, 1.0, 5.0):
        path = tmp_path / "p.png"
        drawing.draw(chart(Series(name="a", kind="line", x=(1, 2, 3), y=(1, height, 9))), path)
        pictures.append(np.asarray(Image.open(path)))
    assert (pictures[0] == pictures[1]).all()
    assert (pictures[0] != pictures[2]).any()


def test_the_page_has_one_entry_for_each_name_that_is_not_faint() -> None:
    found = interactive.figure(MIXED)
    entries = [trace["name"] for trace in found["data"] if trace.get("showlegend")]
    assert sorted(entries) == sorted(series.name for series in MIXED.panels[0].series if not series.faint)
    behind_first = Chart(
        name="n",
        title="t",
        caption="c",
        panels=(
            Panel(
                x=Axis(label="x"),
                y=Axis(label="y"),
                series=(MIXED.panels[0].series[0].model_copy(update={"faint": True}), MIXED.panels[0].series[0]),
            ),
        ),
    )
    assert [trace["showlegend"] for trace in interactive.figure(behind_first)["data"]] == [False, True]


def test_what_is_of_one_group_is_hidden_together() -> None:
    traces = {trace["name"]: trace for trace in interactive.figure(MIXED)["data"]}
    assert traces["a"]["legendgroup"] == traces["a, each"]["legendgroup"] != traces["law"]["legendgroup"]


def test_an_area_is_drawn_where_both_ends_are_known() -> None:
    area, line = (trace for trace in interactive.figure(MIXED)["data"] if trace["name"] == "law")
    assert (area["x"], area["y"]) == ([1, 2, 2, 1], [2, 3, 1, 0])
    assert line["y"] == [1, 2, None]
    assert sum(trace["name"] == "line alone" for trace in interactive.figure(MIXED)["data"]) == 1


@pytest.mark.parametrize(
    ("ends", "marks"),
    [((3, 40), [1, 2, 5, 10, 20, 50]), ((1, 100_000), [1, 10, 100, 1000, 10_000, 100_000]), ((1.3, 3), [1.5, 2, 2.5])],
)
def test_logarithmic_axes_have_plain_marks(ends: tuple[float, float], marks: list[float]) -> None:
    line = Series(name="a", kind="line", x=ends, y=ends)
    axis = interactive.figure(chart(line, log=True))["layout"]["xaxis"]
    assert set(marks) <= set(axis["tickvals"])
    assert axis["type"] == "log"


def test_numbers_on_axes_are_short() -> None:
    numbers = (0.05, 1, 5000, 20_000, 1e6, 2.5e9)
    assert [looks.plain(value) for value in numbers] == ["0.05", "1", "5000", "20k", "1M", "2.5G"]


@pytest.mark.slow
def test_every_registered_figure_of_some_runs_is_drawn_by_both(tmp_path: Path) -> None:
    runs = [made(3 + n + w, 4, seq_len=n, d_model=w, batch_size=b) for n in (4, 8) for w in (4, 8) for b in (4, 8)][::2]
    for name in ("width", "curves"):
        for shown in capax.charts(name, runs):
            assert shown.name == name
            drawing.draw(shown, tmp_path / "f.svg")
            assert interactive.figure(shown)["data"]


def test_bars_at_one_place_stand_beside_each_other() -> None:
    """Marks stay where they were measured; bars of one series, and of series at other places, stand at them."""
    bars = {"kind": "points", "low": (0, 0), "high": (3, 3), "y": (1, 2)}
    first, same, other = (Series(name=name, x=x, **bars) for name, x in (("a", (1, 2)), ("b", (2, 4)), ("c", (3, 5))))
    shifts = drawing._shifts(chart(first, same).panels[0])
    assert shifts[1] - shifts[0] == drawing.BESIDE
    assert sum(shifts.values()) == 0
    assert drawing._shifts(chart(first, other).panels[0]) == {}
    assert drawing._shifts(chart(first, same, other).panels[0]).keys() == {0, 1}, "others stay at their marks"
    many = drawing._shifts(chart(*[first] * 20).panels[0])
    assert max(many.values()) - min(many.values()) < drawing.MOST_BESIDE
    axes = drawing.drawn(chart(first, same)).axes[0]
    for place, (line, low_to_high) in enumerate(zip(axes.lines, axes.collections, strict=True)):
        marks = line.get_transform().transform(line.get_xydata())
        lows = low_to_high.get_transform().transform([path.vertices[0] for path in low_to_high.get_paths()])
        assert marks[:, 0] == pytest.approx(axes.transData.transform(line.get_xydata())[:, 0]), "marks do not move"
        assert lows[:, 0] - marks[:, 0] == pytest.approx(shifts[place] * axes.figure.dpi / 72)


@pytest.mark.parametrize(("value", "ends"), [(0.0, (0, 1)), (1.0, (0, 1)), (300.0, (0, 300)), (-2.0, (-2, 1))])
def test_a_map_of_one_value_says_where_it_lies(value: float, ends: tuple[float, float]) -> None:
    heat = Heat(x=(1, 2), y=(1,), z=((value, value),), texts=(("", ""),), label="of one value")
    axes = Figure().subplots()
    drawing._draw_heat(axes.figure, axes, heat)
    assert axes.images[0].get_clim() == ends


def test_a_long_name_goes_on_several_lines_of_the_legend_which_is_as_much_higher() -> None:
    long = "published, other networks: 3.6 bits per parameter, and so on for as long as it takes"
    heights = []
    for name in ("a name alone", long):
        points = Series(name=name, kind="points", x=(1.0,), y=(1.0,), group=0)
        panel = Panel(x=Axis(label="x"), y=Axis(label="y"), series=(points,))
        found = interactive.figure(Chart(name="a", title="t", caption="c", panels=(panel,)))
        (entry,) = (trace["name"] for trace in found["data"] if trace.get("showlegend"))
        assert entry.replace("<br>", " ") == name
        assert max(map(len, entry.split("<br>"))) <= interactive.LEGEND_LETTERS
        heights.append(found["narrow"]["height"] - found["narrow"]["margin"]["b"])
    assert heights[0] == heights[1]  # the panels keep theirs


def test_a_narrow_screen_has_one_panel_below_the_other() -> None:
    two = MIXED.model_copy(update={"panels": MIXED.panels * 2})
    found = interactive.figure(two)
    assert found["columns"] == 2
    assert (
        found["narrow"].keys()
        >= {"xaxis", "xaxis2", "yaxis", "yaxis2"}
        == {name for name in found["layout"] if "axis" in name}
    )
    assert found["narrow"]["xaxis"]["domain"] == found["narrow"]["xaxis2"]["domain"] == [0, 1]
    assert found["narrow"]["yaxis"]["domain"][0] > found["narrow"]["yaxis2"]["domain"][1]
    assert found["narrow"]["height"] > found["layout"]["height"]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("perceptron", ["perceptron"]),
        ("linear_associative_memory", ["linear_", "associative_memory"]),
        ("morris_bits (measured)", ["morris_bits ", "(measured)"]),
        ("x" * 30, ["x" * 30]),
    ],
)
def test_long_names_go_on_two_lines(name: str, lines: list[str]) -> None:
    assert interactive._folded(name).split("\n") == lines


def test_an_unknown_figure_lists_those_there_are() -> None:
    with pytest.raises(ReportError, match=r"figure: one of capacity, .*, got 'wdith'"):
        capax.figure("wdith", [])
