"""What the figure of a sensitivity study shows, and that it is drawn."""

from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import capax
from capax.errors import ReportError
from capax.figures import tornado
from capax.probes.sensitivity import Sensitivity
from capax.specs import Run


def study() -> Sensitivity:
    """Two choices with numbers, one alternative without; as a search for D_K* may find them."""
    sources: dict[str, object] = {"sources": (), "interval": None, "memorized": 1, "memorized_per_restart": (1,)}
    same = {
        **sources,
        "same_training": False,
        "interval": {"low": 6, "high": None, "level": 0.95, "of": "size"},
        "epochs": 1,
        "steps": 1,
        "seconds": 1.0,
        "key": "k",
    }

    def other(value: object, number: float | None, verdict: bool | None) -> dict[str, object]:
        change = {"change": None if number is None else number - 10, "relative_change": None}
        return {**same, **change, "value": value, "number": number, "beyond_noise": verdict, "stop_reason": "budget"}

    return Sensitivity.model_validate(
        {
            "compared": "total_key_dim",
            "number": 10,
            "interval": {"low": 9, "high": None, "level": 0.95, "of": "total key dimension"},
            "noise": "",
            "memorized": 1,
            "memorized_per_restart": (1,),
            "chance": 0,
            "library_size": 8,
            "stop_reason": "budget",
            "key": "k",
            "choices": [
                {
                    "choice": "steps",
                    "base_value": 1500,
                    "base_sources": (),
                    "alternatives": [other(500, None, None), other(4000, 7.0, True), other(4100, 7.1, True)],
                    "swing": 3,
                    "beyond_noise": True,
                },
                {
                    "choice": "lr",
                    "base_value": 0.05,
                    "base_sources": (),
                    "alternatives": [other(1e-2, 11.0, False), other(None, 9.5, None)],
                    "swing": 1.5,
                    "beyond_noise": False,
                },
            ],
            "notes": (),
            "spec": Run(
                task=capax.Relations(n_items=8), model=capax.KeyQueryChannel(d_model=4), protocol=capax.Budget()
            ),
            "versions": {},
        }
    )


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Sensitivity], Figure]:
    """Draws a study and gives the figure of it."""
    saved: list[Figure] = []
    whole = tornado.save

    def save(figure: Figure, *given: object) -> None:
        saved.append(figure)
        whole(figure, *given)

    monkeypatch.setattr(tornado, "save", save)

    def draw(study: Sensitivity) -> Figure:
        tornado.draw_tornado(study, tmp_path / "t.pdf", "title")
        assert (tmp_path / "t.pdf").read_bytes().startswith(b"%PDF")
        return saved[-1]

    return draw


def dots(panel: Axes) -> dict[float, float]:
    """Numbers of alternatives by their heights, rounded to the choice's place."""
    found = [(line.get_xdata(), line.get_ydata()) for line in panel.lines if line.get_marker() in ("o", "x")]
    return {float(x[0]): round(float(y[0])) for x, y in found if len(x)}


def test_a_tornado_shows_what_the_study_found(drawn: Callable[[Sensitivity], Figure]) -> None:
    (panel,) = drawn(study()).axes
    assert dots(panel) == {7.0: 0, 7.1: 0, 11.0: 1, 9.5: 1}
    labels = [tick.get_text() for tick in panel.get_yticklabels()]
    assert labels == ["steps\nbase 1500\n(500: none enough)", "lr\nbase 0.05"]
    ends = [round(float(bar.get_x() + bar.get_width()), 6) for bar in panel.patches if bar.get_width() in (-3, -0.5, 1)]
    assert ends == [7, 9.5, 11]
    assert {one.get_text() for one in panel.texts} == {"4000, 4100", "none", "0.01"}
    lines = [line for line in panel.lines if line.get_label() != "its own interval" and line.get_marker() == "None"]
    assert len([line for line in lines if len(set(line.get_ydata())) == 1]) == 4  # an interval each


def test_labels_that_would_run_into_each_other_become_one() -> None:
    """Letters 1 wide: two labels of 4 and 3 letters need 4.5 between their middles, with a space between them."""
    values = [(10.0, "1024"), (14.0, "256"), (40.0, "64"), (60.0, "8")]
    assert tornado.labels(values, 1.0) == [(12.0, "1024, 256"), (40.0, "64"), (60.0, "8")]
    assert tornado.labels(values, 0.1) == values
    assert tornado.labels(values, 9.0) == [(35.0, "1024, 256, 64, 8")]


def test_restarts_are_judged_by_the_bases_interval_alone(drawn: Callable[[Sensitivity], Figure]) -> None:
    """So the figure shows no others."""
    run = Run(task=capax.Relations(n_items=8), model=capax.KeyQueryChannel(d_model=4, d_head=2))
    legends = [drawn(one).legends[0] for one in (study(), study().model_copy(update={"spec": run}))]
    assert all(one.get_window_extent().x0 >= 0 for one in legends)
    names = [{entry.get_text() for entry in legend.get_texts()} for legend in legends]
    assert names[0] - names[1] == {"its own interval"}


def test_without_a_number_of_the_base_there_is_no_tornado(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="nothing to draw"):
        tornado.draw_tornado(study().model_copy(update={"number": None}), tmp_path / "t.png", "title")
    assert not (tmp_path / "t.png").exists()
