"""A reproduction end to end: runs, verdicts, files; a second call measures nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import capax
from capax.errors import ReportError
from capax.papers import catalogue
from capax.papers.recipe import Claim, Evidence, Recipe, Study, Verdict
from capax.papers.reproduce import Reproduction, listed, reproduce
from capax.specs import Mac, Run, Sequences, Training, Transformer
from capax.sweeps.under_way import SweepProgress


def runs(library_size: int) -> tuple[Run, ...]:
    """Two networks of which one is twice as wide: a second of training."""
    return tuple(
        Run(
            task=Sequences(seq_len=3, vocab_size=10, library_size=library_size),
            model=Transformer(d_model=width, d_head=4),
            training=Training(max_epochs=20),
            protocol=Mac(restarts=2),
        )
        for width in (4, 16)
    )


def wider_holds_more(of: Evidence) -> Verdict:
    first, second = of.runs
    right = second.memorized > first.memorized
    return Verdict(answer="agrees" if right else "differs", measured=f"{second.memorized}", reason="counted")


def fewer_than_none(of: Evidence) -> Verdict:
    right = of.runs[0].memorized < 0
    return Verdict(answer="agrees" if right else "differs", measured=None, reason="counts are not negative")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A paper of one figure, and of a theorem without runs."""
    study = Study(
        "tiny", {"demo": runs(20), "small": runs(30), "paper": runs(40)}, dict.fromkeys(("demo", "small", "paper"), 1.0)
    )
    claims = (
        Claim("wider holds more", None, "ours", wider_holds_more),
        Claim("nothing is held", "-1", "ours", fewer_than_none),
    )
    agrees = Claim("so it is", None, "ours", lambda of: Verdict(answer="agrees", measured=None, reason="it is"))
    recipes = (
        Recipe("tiny", "figure-1", "width", claims, study, chart="width"),
        Recipe("tiny", "theorem-1", "so", (agrees,)),
    )
    monkeypatch.setitem(catalogue.PAPERS, "tiny", recipes)
    monkeypatch.setitem(catalogue.NAMES, "tiny", "Tiny <b>2026</b>")


@pytest.mark.usefixtures("tiny")
def test_end_to_end(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    first = runs(20)[0]
    capax.measure(
        first.task, first.model, first.training, protocol=first.protocol, store=tmp_path / "out" / "tiny-demo.db"
    )
    states: list[SweepProgress] = []
    found = reproduce("tiny", folder=tmp_path / "out", workers=1, progress=states.append)
    assert (states[-1].stored, states[-1].done) == (1, 1)
    assert [claim.answer for recipe in found.recipes for claim in recipe.claims] == ["agrees", "differs", "agrees"]
    assert found.recipes[0].claims[1].reason.endswith("(sizes and training of the demo scale are not the paper's)")
    assert (found.count("agrees"), found.count("differs"), found.count("cannot be judged")) == (2, 1, 0)
    assert [(recipe.runs, recipe.of) for recipe in found.recipes] == [(2, 2), (0, 0)]
    kept = tmp_path / "out" / "tiny-demo.json"
    assert Reproduction.model_validate_json(kept.read_text()) == found
    page = (tmp_path / "out" / "tiny-demo.html").read_text()
    assert "nothing is held" in page
    assert "<b>2026</b>" not in page
    assert 'id="figure-1-0"' in page
    assert 'id="width-0"' not in page  # once, under the recipe's name
    assert page.count('href="#figure-1-0"') == 2  # from both its claims
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
    with pytest.raises(ReportError, match=r"out: cannot write into .*file: it is not a folder"):
        reproduce("harma2024", "hopfield", folder=tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_the_list_has_everything_and_shared_studies_once() -> None:
    rows = listed()
    assert len(rows.recipes) == sum(map(len, catalogue.PAPERS.values()))
    assert rows.seconds["demo"] <= sum(row.seconds["demo"] for row in rows.recipes)
    of_one = listed("harma2024")
    grid = [row for row in of_one.recipes if row.study == "grid"]
    assert len(grid) > 1
    once = {row.study: row.seconds["demo"] for row in of_one.recipes if row.study}
    assert of_one.seconds["demo"] == sum(once.values())
