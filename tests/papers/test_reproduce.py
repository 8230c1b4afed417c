"""A reproduction end to end: runs, verdicts, files; a second call measures nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import capax
from capax.errors import ReportError
from capax.papers import recipe
from capax.papers.evidence import exactly
from capax.papers.recipe import SCALES, Evidence, Verdict, agrees, listed, recipes
from capax.papers.reproduce import Reproduction, reproduce
from capax.sweeps.under_way import SweepProgress

STUDY = """
[task]
seq_len = 3
vocab_size = 10
library_size = {size}
[model]
d_head = 4
[training]
max_epochs = 20
[protocol]
restarts = 2
[grid]
d_model = [4, 16]
"""
RECIPES = """
source = "Tiny <b>2026</b>"
[studies.pair]
seconds = { demo = 1, small = 1, paper = 1 }
[[recipes]]
figure = "figure-1"
title = "width"
study = "pair"
chart = "width"
[[recipes.claims]]
says = "wider holds more"
standing = "ours"
judge = "test_reproduce.wider_holds_more"
[[recipes.claims]]
says = "nothing is held"
value = "-1"
standing = "ours"
judge = "test_reproduce.fewer_than_none"
[[recipes]]
figure = "theorem-1"
title = "so"
[[recipes.claims]]
says = "so it is"
standing = "ours"
judge = "test_reproduce.so_it_is"
"""


def wider_holds_more(of: Evidence) -> Verdict:
    first, second = of.runs
    return exactly(second.memorized > first.memorized, f"{second.memorized}", "counted")


def fewer_than_none(of: Evidence) -> Verdict:
    return exactly(of.runs[0].memorized < 0, "0", "counts are not negative")


def so_it_is(of: Evidence) -> Verdict:
    return agrees("it is")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A paper of one figure, two networks of which one is four times as wide, and of a theorem without runs."""
    folder = tmp_path / "tiny"
    (folder / "studies").mkdir(parents=True)
    (folder / "recipes.toml").write_text(RECIPES)
    for place, scale in enumerate(SCALES):
        (folder / "studies" / f"pair-{scale}.toml").write_text(STUDY.format(size=20 + 10 * place))
    monkeypatch.setitem(recipe.PAPERS, "tiny", folder)


@pytest.mark.usefixtures("tiny")
def test_end_to_end(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    first = recipes("tiny", "figure-1")[0].runs("demo")[0]
    capax.measure(
        first.task, first.model, first.training, protocol=first.protocol, store=tmp_path / "out" / "tiny-demo.db"
    )
    states: list[SweepProgress] = []
    found = reproduce("tiny", folder=tmp_path / "out", workers=1, progress=states.append)
    assert (states[-1].stored, states[-1].done) == (1, 1)
    assert [claim.answer for one in found.recipes for claim in one.claims] == ["agrees", "differs", "agrees"]
    assert found.recipes[0].claims[1].reason.count("demo scale") == 1
    assert [found.count(answer, "ours") for answer in ("agrees", "differs", "cannot be judged")] == [2, 1, 0]
    assert found.claims("the paper's") == []
    assert [(one.runs, one.of) for one in found.recipes] == [(2, 2), (0, 0)]
    kept = tmp_path / "out" / "tiny-demo.json"
    assert Reproduction.model_validate_json(kept.read_text()) == found
    page = (tmp_path / "out" / "tiny-demo.html").read_text()
    assert "nothing is held" in page
    assert "<b>2026</b>" not in page
    assert 'id="figure-1-0"' in page
    assert 'id="width-0"' not in page  # once, under the recipe's name
    assert page.count('href="#figure-1-0"') == 3  # from both its claims, and the contents
    assert ": of the paper&#39;s claims 0 agree, 0 differ, 0 cannot be judged</title>" in page
    assert "figure-1: Memorized sequences against width" in page

    again = reproduce("tiny", folder=tmp_path / "out", workers=1, progress=states.append)
    assert again == found
    assert (states[-1].stored, states[-1].done) == (2, 0)

    reproduce("tiny", "theorem-1", scale="small", folder=tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir() if path.suffix in (".db", ".html", ".json")} == {
        "tiny-demo.db",
        "tiny-demo.html",
        "tiny-demo.json",
        "tiny-theorem-1-small.json",
    }

    one = reproduce("tiny", "figure-1", folder=tmp_path / "out", workers=1)
    assert one.recipes[0].claims == found.recipes[0].claims
    assert (tmp_path / "out" / "tiny-figure-1-demo.html").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ReportError, match=r"^out: .*file"):
        reproduce("harma2024", "hopfield", folder=tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_the_list_has_everything_and_shared_studies_once() -> None:
    rows = listed()
    assert len(rows.recipes) == sum(len(recipes(paper)) for paper in recipe.PAPERS)
    assert rows.seconds["demo"] <= sum(row.seconds["demo"] for row in rows.recipes)
    of_one = listed("harma2024")
    grid = [row for row in of_one.recipes if row.study == "grid"]
    assert len(grid) > 1
    once = {row.study: row.seconds["demo"] for row in of_one.recipes if row.study}
    assert of_one.seconds["demo"] == sum(once.values())
