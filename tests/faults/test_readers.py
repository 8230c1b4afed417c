"""Readers of stores: pages, figures, listings and fits stand whatever is in a store, and however much it is."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made import made, of_library, trained, with_curves
from markupsafe import escape
from matplotlib import rc_context

import capax
from capax.cli import main, output, progress
from capax.errors import FigureFailed, LawError, ReportError
from capax.figures import curves, drawing, interactive, registry, saturation
from capax.figures.chart import Axis, Chart, Heat, Panel, Series
from capax.figures.light import Light
from capax.figures.runs import read
from capax.laws.compare import compare
from capax.protocols.progress import Progress, Status
from capax.reports import report

NAME = "a[red]b[/bold]$c$ :key: <b>&lt;"
"""Markup of a terminal, an emoji, mathematics, tags and entities of HTML: all of them letters of a user's name."""
FILE = NAME.replace("/", "")
BROKEN = "$\\nothing{$"
"""No mathematics that matplotlib could draw."""


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[str, str]:
    """What a command that ends well prints, and what it says on stderr."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert ended.value.code == 0, err
    return out, err


def run_of(memorized: int, *, points: int = 4, library: str = "random", **fields: Any) -> capax.Measurement:
    """A run of two restarts with this count, fields and library's name, and with curves of so many points."""
    found = with_curves(made(memorized, memorized, **fields), points)
    return found if library == "random" else of_library(found, library)


def stored(path: Path, *runs: capax.Measurement) -> Path:
    with capax.Store(path) as store:
        for one in runs:
            store.add(one)
    return path


@pytest.fixture
def eight_seeds(tmp_path: Path) -> Path:
    return stored(tmp_path / "eight.db", *(run_of(10 + seed, seed=seed) for seed in range(8)))


@pytest.mark.slow
def test_one_architecture_with_eight_seeds_has_a_page(
    eight_seeds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert run(capsys, "report", eight_seeds, "--out", page)[1] == ""
    text = page.read_text()
    assert "one configuration" in text
    assert "could not be drawn" not in text


def test_one_architecture_with_eight_seeds_is_drawn_against_its_law(
    eight_seeds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said, _ = run(capsys, "figure", "measured-predicted", eight_seeds, "--out", tmp_path / "figure.svg")
    assert "one configuration" in said
    assert (tmp_path / "figure.svg").stat().st_size > 1000


def test_laws_are_compared_on_one_architecture_with_eight_seeds(
    eight_seeds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said, _ = run(capsys, "fit", "--store", eight_seeds, "--law", "power", "--compare")
    assert "left out: all rows" in said
    assert "1 heads" not in said
    with pytest.raises(SystemExit) as ended:
        main(["fit", "--store", str(eight_seeds), "--law", "power", "--compare", "--figure", str(tmp_path / "p.png")])
    assert ended.value.code == 2
    assert "one configuration" in capsys.readouterr().err


def test_one_parameter_needs_in_the_singular() -> None:
    table = {name: [4.0, 4.0] for name in ("seq_len", "n_heads", "d_model")}
    with pytest.raises(LawError, match=r"^power: .* 3 rows .*got 2"):
        capax.PowerLaw(target="memorized").fit(table | {"memorized": [9.0, 10.0], "library_size": [99.0, 99.0]})


def test_two_architectures_are_left_out_one_at_a_time() -> None:
    table = {
        "seq_len": np.full(8, 4.0),
        "n_heads": np.full(8, 1.0),
        "d_model": np.repeat([4.0, 8.0], 4),
        "memorized": np.arange(10.0, 18.0),
        "library_size": np.full(8, 100.0),
    }
    (score,) = compare(table, [capax.PowerLaw(target="memorized")]).scores
    assert score.mape_left_out is None
    assert score.reasons[0] == "left out: the other rows do not determine r, on which the prediction depends"


def fails(error: BaseException) -> Callable[..., Any]:
    def shown(runs: Any, law: Any) -> Any:
        raise error

    return shown


@pytest.mark.slow
def test_no_error_of_one_figure_takes_the_page_with_it(
    eight_seeds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = {
        "width": ZeroDivisionError("by\nnothing"),
        "units": MemoryError("2 GB " * 500),
        "bounds": KeyError("n_heads"),
    }
    for name, error in errors.items():
        monkeypatch.setitem(registry.FIGURES, name, registry.Drawn(name, "capax", fails(error)))
    page = tmp_path / "page.html"
    out, err = run(capsys, "report", eight_seeds, "--out", page)
    assert out.startswith("Report: ")
    reasons = ["ZeroDivisionError: by nothing", f"MemoryError:{' 2 GB' * 96} 2 ...", "KeyError: 'n_heads'"]
    told = zip(errors, reasons, strict=True)
    assert err.splitlines() == [f"capax: figure {name} failed: {reason}" for name, reason in told]
    text = page.read_text()
    for reason in reasons:
        assert f"could not be drawn: {escape(reason)}" in text
    assert '"measured-predicted-0"' in text


@pytest.mark.slow
def test_a_figure_that_fails_warns_and_an_interrupt_ends_the_page(eight_seeds: Path) -> None:
    content = report.content(eight_seeds)
    broken = registry.Drawn("units", "capax", fails(ValueError("no")))
    with pytest.warns(FigureFailed, match="units .*ValueError: no"):
        report.build(replace(content, figures={"units": broken}))
    with pytest.raises(KeyboardInterrupt):
        report.build(replace(content, figures={"units": replace(broken, shown=fails(KeyboardInterrupt()))}))


MODULE = """
import torch

def make(vocab_size, name):
    return torch.nn.Embedding(vocab_size, vocab_size)
"""


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a user's module, and a store with names that are markup elsewhere, one in another folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "makes.py").write_text(MODULE)
    runs = [run_of(10 + width // 4, d_model=width, library=f"{BROKEN}{FILE}.csv") for width in (4, 8, 12, 16, 20)]
    runs += [run_of(9 + width // 4, d_model=width, library=f"[red]{FILE}.csv") for width in (4, 8)]
    yield stored(tmp_path / f"{FILE}.db", *runs)
    sys.modules.pop("makes", None)


@pytest.mark.slow
def test_a_module_with_markup_in_its_arguments_is_measured_and_listed(
    hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = json.dumps({"name": f"[/red]{NAME}"})
    small = ["--library-size", "10", "--max-epochs", "1", "--restarts", "1", "--vocab-size", "9", "--workers", "1"]
    module = ["--module", "makes:make", "--arguments", arguments]
    out, _ = run(capsys, "measure", "sequences", *module, *small, "--store", hostile)
    assert out.startswith(f"makes:make(name={'[/red]' + NAME!r}); ")
    assert run(capsys, "measure", "sequences", *module, *small, "--store", hostile) == (out, "")
    run(capsys, "runs", "--store", hostile)
    run(capsys, "runs", "--store", hostile, "--where", "model=module")
    out, _ = run(capsys, "watch", hostile, "--once")
    assert "memorized" in out
    out, _ = run(capsys, "check", "model", *module, "--vocab-size", "9")
    assert f"{'[/red]' + NAME!r}" in out


@pytest.mark.slow
def test_markup_in_names_of_files_is_letters_in_reports_figures_and_fits(
    hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / f"{FILE}.html"
    out, err = run(capsys, "report", hostile, "--out", page, "--title", NAME)
    assert (out.split(" (")[0], err) == (f"Report: {page}", "")
    assert "could not be drawn" not in page.read_text()
    out, _ = run(capsys, "figure", "width", hostile, "--out", tmp_path / f"{FILE}.svg")
    assert f"[red]{FILE}" in out
    out, _ = run(capsys, "fit", "--store", hostile, "--law", "power", "--where", f"library={BROKEN}{FILE}.csv")
    assert "power: 5 rows" in out


def test_what_a_terminal_shows_has_no_commands_in_it(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    output.console().print(f"[/red]{NAME}", soft_wrap=True)
    assert f"[/red]{NAME}" in capsys.readouterr().out
    with progress.training(label=f"[/red]{NAME}") as told:
        assert told is not None
        told(Progress((Status(0, 0, 20, 4, 1, 0.1, None, 9),), 100, 60.0, 5400.0))
    assert f"[/red]{NAME}" in capsys.readouterr().err


def of_names(name: str) -> Chart:
    """A chart with a user's text wherever there is one."""
    lines = tuple(Series(name=f"{name} {place}", kind="line", x=(1, 2), y=(1, 2), group=place) for place in range(2))
    dots = Series(name=name, kind="points", x=(1, 2), y=(f"{name} y", "z"), texts=(name, name))
    bars = Series(name=name, kind="bars", x=(f"{name} x", "y"), y=(1, 2))
    heat = Heat(x=(f"{name} h", "i"), y=(name, "j"), z=((1, 2), (3, 4)), texts=((name, "b"), ("c", "d")), label=name)
    axis = Axis(label=name)
    named = Axis(label=name, names=(f"{name} y", "z"))
    return Chart(
        name="names",
        title=name,
        caption=name,
        panels=(
            Panel(title=name, x=axis, y=axis, series=lines),
            Panel(title=name, x=axis, y=named, series=(dots,)),
            Panel(title=name, x=axis, y=axis, series=(bars,)),
            Panel(title=name, x=axis, y=axis, heat=heat),
        ),
        share_y=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["$x^2$ \\$", f"{BROKEN} {BROKEN}"])
def test_a_dollar_in_a_drawn_text_is_a_letter(name: str, tmp_path: Path) -> None:
    with rc_context({"svg.fonttype": "none"}):
        drawing.draw(of_names(name), tmp_path / "f.svg")
    drawn = (tmp_path / "f.svg").read_text()
    for part in ("", " 0", " y", " x", " h"):
        assert f">{name}{part}</text>" in drawn


def test_a_tag_in_a_text_of_the_page_is_letters() -> None:
    drawn = interactive.figure(of_names("<b>x</b>&lt;"))
    texts = json.dumps(drawn)
    assert "<b>" not in texts
    assert "&lt;b&gt;x&lt;/b&gt;&amp;lt;" in texts
    bars = [trace["x"] for trace in drawn["data"] if trace["type"] == "bar"]
    assert bars == [["&lt;b&gt;x&lt;/b&gt;&amp;lt; x", "y"], [0, 1, 0, 1]]  # those of a histogram, and a map's cells


@pytest.fixture
def long_curves(tmp_path: Path) -> Path:
    """Runs with long curves."""
    runs = (run_of(10 + seed % 9, points=400, seed=seed, d_model=4 + 4 * (seed % 3)) for seed in range(40))
    return stored(tmp_path / "long.db", *runs)


def peak(does: Callable[[], Any]) -> int:
    """Bytes that something needs at most."""
    tracemalloc.start()
    try:
        does()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_store_is_read_run_by_run(long_curves: Path) -> None:
    with capax.Store(long_curves) as store:
        runs = store.runs()
        assert list(store.each()) == runs
        chosen = {run.key for run in runs[::7]}
        assert list(store.each(chosen)) == runs[::7]
        reading = store.each()
        next(reading)
        store.delete(runs[1].key)
        assert [run.key for run in reading] == [run.key for run in runs[2:]]
        assert 10 * peak(lambda: [None for _ in store.each()]) < peak(store.runs)


@pytest.mark.slow
def test_a_table_of_runs_needs_no_curves(long_curves: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capax.Store(long_curves) as store:
        whole = peak(store.runs)
    capax.read(long_curves)  # what is imported on the way does not count
    assert 2 * peak(partial(capax.read, long_curves)) < whole
    assert 2 * peak(partial(run, capsys, "runs", "--store", long_curves, "--where", "d_model=8")) < whole


@pytest.mark.slow
def test_json_of_runs_is_written_run_by_run(
    long_curves: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with capax.Store(long_curves) as store:
        store.add(run_of(7, seed=99, library="ä.csv"))
        runs = store.runs()
    out, _ = run(capsys, "runs", "--store", long_curves, "--json")
    assert out.isascii()
    assert json.loads(out) == [run.model_dump(mode="json") for run in runs]
    out, _ = run(capsys, "runs", "--store", long_curves, "--json", "--where", "d_model=8")
    assert json.loads(out) == [run.model_dump(mode="json") for run in runs if run.spec.model.d_model == 8]
    monkeypatch.setattr(capax.Store, "runs", None)
    monkeypatch.setattr(json, "dumps", None)
    with capax.Store(long_curves) as store:
        store.delete(runs[-1].key)
    run(capsys, "runs", "--store", long_curves, "--json")


def test_json_of_an_empty_store_is_an_empty_array(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "runs", "--store", stored(tmp_path / "empty.db"), "--json") == ("[]\n", "")


@pytest.mark.slow
def test_a_report_loads_curves_only_of_the_runs_whose_curves_it_draws(
    long_curves: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with capax.Store(long_curves) as store:
        whole = store.runs()
    found = read([long_curves])
    assert all(len(member.curve.epoch) == 2 for run in found.runs for member in run.members)
    loaded = []
    find = capax.Store.find

    def counted(store: capax.Store, start: str) -> capax.Measurement:
        loaded.append(start)
        return find(store, start)

    monkeypatch.setattr(capax.Store, "find", counted)
    drawn = registry.figures(found.kept, found.with_curves)["curves"].shown(found.runs, None)
    assert drawn == curves.training_curves(whole, None)
    assert len(loaded) == curves.MOST_CURVES


@pytest.mark.slow
def test_runs_of_a_page_share_what_is_equal_in_them(long_curves: Path) -> None:
    with capax.Store(long_curves) as store:
        whole = store.runs()
    light = Light()
    found = [light.run(run) for run in whole]
    for run, one in zip(whole, found, strict=True):
        assert one.model_copy(update={"members": run.members}) == run
        assert json.loads(one.to_json())["units"] == json.loads(run.to_json())["units"]
        assert one.spec.key() == run.spec.key()
        assert one.model_fields_set == run.model_fields_set
    assert len({id(run.spec.task) for run in found}) == len({id(run.model_fields_set) for run in found}) == 1
    assert len({id(run.spec.model) for run in found}) == 3


def test_a_page_without_kept_layers_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "capax.memory", None)
    with pytest.raises(ReportError, match="no layer"):
        saturation.of_kept({}, [trained()], None)


def test_a_fit_of_many_rows_needs_no_matrix_of_rows_by_rows() -> None:
    rows = 3000
    draws = np.random.default_rng(0)
    table = {name: draws.choice(values, rows) for name, values in {"seq_len": [4, 8], "n_heads": [1, 2]}.items()}
    table["d_model"] = draws.choice([8, 16, 32], rows)
    table["memorized"] = table["d_model"] * table["n_heads"] * np.exp(draws.normal(0, 0.1, rows))
    law = capax.PowerLaw(target="memorized").fit(table)
    assert peak(lambda: capax.PowerLaw(target="memorized").fit(table)) < rows * rows * 8 / 2
    assert law.parameters_["r"] == pytest.approx(1, abs=0.05)
