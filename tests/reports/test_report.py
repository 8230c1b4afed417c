"""A report is one file that holds its runs, whatever they are called."""

import base64
import gzip
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import capax
from capax.errors import ReportError
from capax.figures.chart import Axis, Chart, Panel, Series
from capax.reports import report
from capax.reports.caveats import caveats
from capax.store.schema import Failure


@pytest.fixture(scope="module")
def runs() -> list[capax.Measurement]:
    return [
        capax.measure(
            capax.Sequences(seq_len=4, vocab_size=9, library_size=20),
            capax.Transformer(n_heads=n_heads, d_model=d_model, d_head=2),
            capax.Training(max_epochs=2),
            restarts=2,
        )
        for n_heads in (1, 2)
        for d_model in (4, 8)
    ]


def embedded(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL).group(1))


def packed(html: str) -> dict:
    text = re.search(r'<script type="text/plain" id="packed">(.*?)</script>', html, re.DOTALL).group(1)
    return json.loads(gzip.decompress(base64.b64decode(text)))


@pytest.mark.slow
def test_a_report_holds_every_run_and_the_figure_of_them(runs: list[capax.Measurement]) -> None:
    html = report.build(report.Content("t", ("a.db",), tuple(runs), (), None))
    data = embedded(html)
    assert data["runs"]["memorized"] == [run.memorized for run in runs]
    assert data["runs"]["key"] == [run.key for run in runs]
    (panel,) = packed(html)["charts"]["width-0"]["panels"]
    assert [series["y"] for series in panel["series"] if series["kind"] == "line"] == [
        [run.memorized for run in runs[:2]],
        [run.memorized for run in runs[2:]],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["<script>alert(1)</script>\"'&</title>\u2028</script>", "x" * 10_000])
def test_a_hostile_name_stays_text(runs: list[capax.Measurement], name: str) -> None:
    html = report.build(report.Content(name, (name,), tuple(runs), (), None))
    ours = html.replace(report.PLOTLY.read_text(encoding="utf-8"), "")
    assert "<script>alert" not in ours
    assert ours.count("</title>") == 1
    assert ours.count("</script>") == 5  # data, what is packed, plotly, and two of ours
    embedded(html)
    packed(html)


def test_without_runs_there_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"^store: .*a\.db"):
        report.build(report.Content("t", ("a.db",), (), (), None))


def test_a_report_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"^out: "):
        report.write("text", tmp_path / "missing" / "r.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_figures_that_a_page_cannot_hold_are_named(
    runs: list[capax.Measurement], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = report.Content("t", ("a.db",), tuple(runs), (), None)
    monkeypatch.setattr(report, "ROOM", 1000)
    shown, missing = report.figures_of(content)
    assert shown == []
    assert any("capax figure width" in one["reason"] for one in missing)
    assert "Figures left out, as the page would be too large" in report.build(content)


@pytest.mark.slow
def test_the_first_chart_of_every_figure_comes_before_the_second_of_any(
    runs: list[capax.Measurement], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = Series(name="s", kind="points", x=(1.0,), y=(1.0,))
    panel = Panel(x=Axis(label="x"), y=Axis(label="y"), series=(drawn,))

    def charts(*titles: str) -> SimpleNamespace:
        found = [Chart(name="n", title=title, panels=(panel,), caption="c") for title in titles]
        return SimpleNamespace(title="t", of="o", shown=lambda runs, law: found)

    figures: Any = {"one": charts("a", "b"), "two": charts("c")}
    content = report.Content("t", ("a.db",), tuple(runs), (), None, figures=figures)
    size = len(charts("a").shown(None, None)[0].model_dump_json())
    monkeypatch.setattr(report, "ROOM", 2 * size)
    shown, missing = report.figures_of(content)
    assert [one["id"] for one in shown] == ["one-0", "two-0"]
    assert [one["reason"] for one in missing] == ["1 of 2 charts; capax figure one draws them"]


@pytest.mark.slow
def test_every_unit_of_every_run_is_a_column(runs: list[capax.Measurement]) -> None:
    data = embedded(report.build(report.Content("t", ("a.db",), tuple(runs), (), None)))
    table = {
        name: [column["all"]] * len(runs) if isinstance(column, dict) else column
        for name, column in data["runs"].items()
    }
    for place, run in enumerate(runs):
        for unit in run.units:
            name = {"items": "memorized", "items_above_chance": "memorized_above_chance"}.get(unit.name, unit.name)
            assert unit.interval is not None
            assert table[name][place] == unit.amount
            assert table[f"{name}_low"][place] == unit.interval.low
            assert table[f"{name}_high"][place] == unit.interval.high
            assert table[f"{name}_per_parameter"][place] == unit.per_trainable_parameter
            assert table[f"{name}_per_any_parameter"][place] == unit.per_parameter


def test_caveats_say_what_holds_for_these_runs(runs: list[capax.Measurement]) -> None:
    lines = " ".join(caveats(runs))
    assert "Intervals of 4 runs" in lines
    assert "4 runs ended" in lines
    assert "recalled all" not in lines
    whole = runs[0].model_copy(update={"memorized": 20, "stop_reason": "complete", "interval": None})
    lines = " ".join(caveats([whole]))
    assert "1 run recalled all" in lines
    assert "1 run without" in lines
    assert "budget" not in lines
    alike = runs[0].model_copy(update={"interval": None})
    assert "1 run without an interval: all restarts begin with equal weights" in " ".join(caveats([alike]))
    no_token = whole.model_copy(update={"unreachable": (0,)})
    assert "1 run had targets that a frozen read-out can never put first" in " ".join(caveats([no_token]))


@pytest.mark.slow
def test_numbers_that_json_has_not_are_left_out(runs: list[capax.Measurement]) -> None:
    odd = runs[0].model_copy(update={"bits": float("nan"), "seconds": float("inf")})
    data = embedded(report.build(report.Content("t", ("a.db",), (odd, *runs[1:]), (), None)))
    assert data["runs"]["bits"] == [None, *(run.bits for run in runs[1:])]
    assert data["runs"]["seconds"][0] is None


@pytest.mark.slow
def test_a_user_s_file_is_named_without_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "secret project"
    folder.mkdir()
    runs = []
    for name in ("mine.txt", "other.txt"):
        (folder / name).write_text("\n".join(f"{n} {n + 1} {n} 0" for n in range(len(name))))
        task = capax.Sequences(library=str(folder / name))
        model = capax.Transformer(d_model=4, d_head=2)
        runs.append(capax.measure(task, model, capax.Training(max_epochs=1), restarts=1))
    failure = Failure("k", "2026-01-01", f"cannot read {folder / 'mine.txt'}", 1, runs[0].spec.model_dump(mode="json"))
    html = report.build(report.Content("t", ("a.db",), tuple(runs), (failure,), None))
    assert str(tmp_path) not in html
    assert "secret project" not in html
    assert embedded(html)["runs"]["library"] == ["mine.txt", "other.txt"]
    assert "cannot read mine.txt" in html
    assert "library mine.txt" in html  # what tells kinds of runs apart


def test_a_failure_names_no_folder_of_a_model() -> None:
    spec = {"task": {"embeddings": "hf:/home/me/minilm"}}
    failure = Failure("k", "2026-01-01", "embeddings: no folder '/home/me/minilm'", 1, spec)
    (seen,) = report.without_folders(report.Content("t", (), (), (failure,), None)).failures
    assert seen.error == "embeddings: no folder 'minilm'"
    spec = {"task": {}, "model": {"network": {"weights": "/home/me/ck"}}}
    failure = Failure("k", "2026-01-01", "weights: /home/me/ck has changed", 1, spec)
    (seen,) = report.without_folders(report.Content("t", (), (), (failure,), None)).failures
    assert seen.error == "weights: ck has changed"


@pytest.mark.slow
def test_imported_files_are_named_without_their_folders(runs: list[capax.Measurement]) -> None:
    sources = {"secret folder/th eirs.csv": 3, "/home/me/th eirs.csv": 4, "published:morris2025": 5}
    html = report.build(report.Content("t", ("a.db",), tuple(runs), (), None, imported=sources))
    assert "Left out: 7 rows imported from th eirs.csv." in html
    assert "Left out: 5 rows imported from published:morris2025." in html
    assert "secret folder" not in html
    assert "/home/me" not in html


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a/b.txt", "b.txt"),
        ("b c/d/", "d"),
        (r"C:\a\b.txt", "b.txt"),
        ("b.txt", "b.txt"),
        ("/", "/"),
        ("hf:/a/b", "hf:b"),  # the tokens of a model in a folder
    ],
)
def test_the_name_of_a_file(path: str, name: str) -> None:
    assert report._file_name(path) == name


@pytest.mark.very_slow
def test_the_table_shows_what_tells_runs_apart(runs: list[capax.Measurement]) -> None:
    found = ["memorized", "memorized_low", "memorized_high", "chance", "bits_per_parameter", "stop_reason"]
    data = embedded(report.build(report.Content("t", ("a.db",), tuple(runs), (), None)))
    assert data["brief"] == ["key", "n_heads", "d_model", *found]
    associations = [
        capax.measure(
            capax.Associations(context_size=context_size, library_size=8),
            capax.AssociativeAttention(n_heads=1, d_model=4, d_head=2),
            capax.Training(max_steps=5),
            restarts=1,
        )
        for context_size in (2, 4)
    ]
    mixed = report.build(report.Content("t", ("a.db",), (*runs, *associations), (), None))
    shown = embedded(mixed)["brief"]
    assert shown[:6] == ["key", "task", "library_size", "context_size", "n_heads", "d_model"]
    assert shown[-6:] == found
    assert len(shown) <= report.MOST_COLUMNS
    assert "seq_len" not in shown  # the same in all that have it
    apart = report.brief({"key": [1, 2], **{f"field{n}": [1, 2] for n in range(30)}}, {f"field{n}" for n in range(30)})
    assert len(apart) == report.MOST_COLUMNS


def test_the_table_shows_what_was_reached_where_no_capacity_is_known() -> None:
    fields = {f"field{n}": [1, 2] for n in range(30)}
    table = {"key": [1, 2], "protocol": ["capacity"] * 2, **fields} | {name: [None, 9.0] for name in report.HELD}
    shown = report.brief(table, fields)
    assert shown[-len(report.HELD) :][:2] == ["capacity_bits", "capacity_reached"]
    assert len(shown) == report.MOST_COLUMNS + report.MORE_COLUMNS


@pytest.mark.very_slow
def test_a_file_of_weights_that_is_damaged_leaves_out_its_figure(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    task = capax.Associations(context_size=2, library_size=8)
    model = capax.AssociativeAttention(n_heads=1, d_model=4, d_head=2)
    capax.measure(task, model, capax.Training(max_steps=5), restarts=1, store=store, keep_weights=True)
    content = report.content(store)
    shown, missing = report.figures_of(content)
    assert "saturation-0" in [one["id"] for one in shown]
    (weights,) = (tmp_path / "a.db-weights").glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:20])
    shown, missing = report.figures_of(content)
    assert "saturation-0" not in [one["id"] for one in shown]
    (reason,) = [one["reason"] for one in missing if one["title"].startswith("heads that attend")]
    assert "cannot read a.db-weights" in reason
    assert "<li>heads that attend" in report.build(content)
