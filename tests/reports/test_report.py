"""A report is one file that holds its runs, whatever they are called."""

import json
import re
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs

import capax
from capax.errors import ReportError
from capax.reports import report


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


def test_a_report_holds_every_run_and_the_figure_of_them(runs: list[capax.Measurement]) -> None:
    html = report.build(report.Content("t", ("a.db",), tuple(runs), (), None))
    data = embedded(html)
    assert data["runs"]["memorized"] == [run.memorized for run in runs]
    assert data["runs"]["key"] == [run.key for run in runs]
    (panel,) = data["charts"]["width-0"]["panels"]
    assert [series["y"] for series in panel["series"][:2]] == [
        [run.memorized for run in runs[:2]],
        [run.memorized for run in runs[2:]],
    ]


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "\"'&</title>", "x" * 10_000, "\u2028</script>"])
def test_a_hostile_name_stays_text(runs: list[capax.Measurement], name: str) -> None:
    html = report.build(report.Content(name, (name,), tuple(runs), (), None))
    ours = html.replace(get_plotlyjs(), "")
    assert "<script>alert" not in ours
    assert ours.count("</title>") == 1
    assert ours.count("</script>") == 5  # data, plotly, and three of ours
    embedded(html)


def test_without_runs_there_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"store: no finished runs in a\.db"):
        report.build(report.Content("t", ("a.db",), (), (), None))


def test_a_report_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="out: cannot write"):
        report.write("text", tmp_path / "missing" / "r.html")
    assert not list(tmp_path.iterdir())
