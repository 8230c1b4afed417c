"""Figures and reports in Python, of stores and of measurements at hand, whatever their task and model are."""

import sqlite3
import warnings
from contextlib import closing
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from made import made, trained
from matplotlib.figure import Figure

import capax
from capax.errors import CapaxError, FigureFailed, FurtherKinds, ReportError, SpecError
from capax.figures.registry import FIGURES
from capax.figures.runs import read
from capax.results import Measurement
from capax.specs import Task

WIDTHS = [made(3 + width, 4, d_model=width) for width in (4, 8)]


def test_stores_and_measurements_have_the_same_figure(tmp_path: Path) -> None:
    with capax.Store(tmp_path / "one.db") as store:
        for run in WIDTHS:
            store.add(run)
    charts = capax.charts("width", WIDTHS)
    assert capax.charts("width", tmp_path / "one.db") == capax.charts("width", [str(tmp_path / "one.db")]) == charts
    with capax.Store(tmp_path / "one.db") as store:
        assert capax.charts("width", store) == charts
        assert capax.read(store).equals(capax.read(tmp_path / "one.db"))
    assert capax.charts("curves", tmp_path / "one.db") == capax.charts("curves", WIDTHS)  # whose curves are read again


def said(figure: Figure) -> str:
    """The title of a figure of matplotlib, on one line."""
    return " ".join(figure.get_suptitle().split())


def test_further_kinds_of_runs_are_numbered(tmp_path: Path) -> None:
    others = [made(3 + width, d_model=width, vocab_size=12) for width in (4, 8)]
    every = [*WIDTHS, *others]
    capax.figure("width", every, out=tmp_path / "w.svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w-2.svg", "w.svg"]
    first, second = capax.charts("width", every)
    with pytest.warns(FurtherKinds, match=r"kind=2, \.\.\.\): .*vocab_size 12"):
        assert said(capax.figure("width", every)) == first.title
    assert said(capax.figure("width", every, kind=2)) == second.title
    with pytest.raises(ReportError, match=r"^kind: 1 to 2, got 3"):
        capax.figure("width", every, kind=3)


def test_a_law_may_be_named() -> None:
    (chart,) = capax.charts("width", WIDTHS, law="reference:power")
    assert "power" in chart.caption


def test_a_report_of_measurements_is_written(tmp_path: Path) -> None:
    capax.report(WIDTHS, tmp_path / "r.html", title="Mine")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<title>Mine</title>" in text
    assert all(run.key in text for run in WIDTHS)


@pytest.mark.parametrize(
    ("runs", "name", "field"),
    [([], "width", "store"), ([WIDTHS[0], "a.db"], "width", "runs"), (WIDTHS, "wdith", "figure")],
)
def test_what_is_no_figure_of_runs_is_refused(runs: list[Measurement | str], name: str, field: str) -> None:
    with pytest.raises((SpecError, ReportError), match=f"^{field}: "):
        capax.figure(name, runs)


def test_an_unwritable_file_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    for write in (
        lambda out: capax.figure("width", "missing.db", out=out),
        lambda out: capax.report("missing.db", out),
    ):
        with pytest.raises(CapaxError, match=r"^out: "):
            write(tmp_path / "no" / "f.png")


def layer(width: int) -> Measurement:
    return capax.measure(
        capax.Associations(context_size=3, library_size=10, n_classes=4),
        capax.AssociativeAttention(n_heads=2, d_model=width, d_head=2),
        capax.Training(max_steps=4, eval_steps=2),
        restarts=1,
        device="cpu",
    )


@pytest.mark.parametrize("name", ["width", "parameters", "curves", "units"])
def test_figures_take_runs_by_their_columns(name: str) -> None:
    """Not by their task: associations are shown as sequences are, and never in one chart with them."""
    layers = [layer(width) for width in (4, 8)]
    (chart,) = FIGURES[name].shown(layers, None)
    lines = [series for series in chart.panels[0].series if series.kind == "line"]
    assert len([x for line in lines for x in line.x]) >= 2
    assert chart.panels in [one.panels for one in FIGURES[name].shown([*WIDTHS, *layers], None)]


def test_numeric_arguments_of_a_module_are_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "brought_here.py").write_text("def tiny(vocab_size, d_model=1, kind='a'): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    runs = []
    for kind in ("a", "b"):
        for width in (4, 8):
            model = capax.Module(factory="brought_here:tiny", arguments={"d_model": width, "kind": kind})
            spec = trained().spec.replace(model=model)
            runs.append(made(3 + width).model_copy(update={"spec": spec, "key": spec.key()}))
    for chart, kind in zip(capax.charts("width", runs), ("a", "b"), strict=True):
        assert f"kind {kind}" in chart.title
        (line,) = (series for series in chart.panels[0].series if series.kind == "line")
        assert line.x == (4, 8)


class Marked(Task):
    """A user's task: tokens whose target follows from a mark."""

    task: Literal["marked_for_figures"] = "marked_for_figures"
    n_marks: int = 5
    library_size: int = 8

    def sizes(self) -> dict[str, int]:
        return {"vocab_size": 2 * self.n_marks, "context": 2}

    def guess_probability(self) -> float:
        return 1 / self.n_marks

    def tokens(self, size: int, generator: np.random.Generator) -> np.ndarray:
        pairs = generator.choice(self.n_marks**2, size, replace=False)
        marks = np.stack([pairs % self.n_marks, pairs // self.n_marks], axis=1)
        return np.concatenate([marks, generator.integers(0, self.n_marks, (size, 1))], axis=1)


@pytest.mark.slow
def test_a_users_task_has_figures_and_a_report(tmp_path: Path) -> None:
    runs = [
        capax.measure(
            Marked(),
            capax.Transformer(d_model=width, d_head=2),
            capax.Training(max_epochs=3),
            restarts=2,
            device="cpu",
        )
        for width in (4, 8)
    ]
    for name in ("width", "parameters", "curves", "units"):
        (chart,) = capax.charts(name, runs)
        assert chart.panels[0].series[0].x
    assert "items" in capax.charts("width", runs)[0].title
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FigureFailed)
        capax.report(runs, tmp_path / "r.html")
    assert '"width-0"' in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_of_a_run_in_two_stores_the_later_one_counts(tmp_path: Path) -> None:
    task, model = capax.Sequences(seq_len=3, vocab_size=9, library_size=10), capax.Transformer(d_model=4)
    training = capax.Training(max_epochs=2)
    earlier = capax.measure(task, model, training, restarts=1, store=tmp_path / "old.db", keep_weights=True)
    with capax.Store(tmp_path / "new.db") as store:
        store.add(earlier.model_copy(update={"memorized": 7}))
    with closing(sqlite3.connect(tmp_path / "old.db")) as old, old:
        old.execute("UPDATE runs SET finished = '2020' || substr(finished, 5)")
    for order in (("old.db", "new.db"), ("new.db", "old.db")):
        found = read([tmp_path / name for name in order])
        assert [run.memorized for run in found.runs] == [7]
        assert not found.kept
