"""`capax reproduce`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import narrow, refused, run

from capax.cli.reproduce import _announced
from capax.papers.recipe import PAPERS, RecipeList, listed, recipes
from capax.papers.reproduce import Reproduction
from capax.sweeps.under_way import SweepProgress
from capax.text import duration


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "reproduce", "--list")
    rest = iter(out.splitlines())  # in this order
    for paper in PAPERS:
        assert any(line.startswith(f"{paper}: ") for line in rest)
        for recipe in recipes(paper):
            assert recipe.title in next(line for line in rest if line.startswith(f"{recipe.figure} "))
    assert "expected on two cores" in out
    rows = RecipeList.model_validate_json(run(capsys, "reproduce", "adler2025", "figure-2", "--list", "--json"))
    assert [(row.figure, row.command) for row in rows.recipes] == [("figure-2", "capax reproduce adler2025 figure-2")]


def test_the_list_fits_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    narrow(monkeypatch, 80)
    out = run(capsys, "reproduce", "--list")
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    words = set(out.split())
    for row in listed().recipes:
        assert {*row.figure.split(), *row.title.split()} <= words
        times = " ".join(duration(seconds) if seconds else "–" for seconds in row.seconds.values())
        lines = [" ".join(line.split()) for line in out.splitlines() if line.startswith(f"{row.figure} ")]
        assert any(line.endswith(times) for line in lines)


def test_what_needs_no_runs_is_judged_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = run(capsys, "reproduce", "harma2024", "hopfield", "-o", tmp_path, "--quiet")
    assert "of the paper's claims 0 agree, 0 differ, 0 cannot be judged" in out
    assert (
        out.index("What follows from arithmetic")
        < out.index("couplings")
        < out.index("Self-checks")
        < out.index("500e9")
    )
    assert str(tmp_path / "harma2024-hopfield-demo.json") in out.splitlines()
    assert "expected to take" not in out
    assert "runs took" not in out
    assert "[about 7 %] (secondary)" in out
    printed = run(capsys, "reproduce", "mahdavi2024", "table-1", "-o", tmp_path, "--json")
    found = Reproduction.model_validate_json(printed)
    assert found.recipes[0].command == "capax check assumptions QUERIES.npy CONTEXTS.npy"
    kept = tmp_path / "mahdavi2024-table-1-demo.json"
    assert json.loads(kept.read_text()) == json.loads(printed)
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "paper: one of harma2024"),
        (["adler"], "got 'adler'"),
        (["adler", "--list"], "paper: one of"),
        (["adler2025", "figure-99"], "figure: of adler2025"),
        (["adler2025", "--scale", "large"], "scale"),
        (["all", "figure-1"], "figure-1"),
        (["all", "--json"], "json: "),
        (["adler2025", "--workers", "0"], "workers"),
    ],
)
def test_bad_input(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, "reproduce", *arguments)
    assert not list(tmp_path.glob("*/*.json"))


def test_a_folder_that_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    said = refused(capsys, "reproduce", "harma2024", "hopfield", "-o", tmp_path / "file", "--quiet")
    assert "out: " in said


def test_the_time_is_told_before_the_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (row,) = listed("harma2024", "figure-5").recipes
    seen = []
    show = _announced(seen.append, "harma2024", "demo", row.seconds["demo"])
    before = SweepProgress(total=3, stored=1, done=0, failed=0, running=0, memorized=0, seconds_left=None)
    show(before)
    show(before)
    assert seen == [before, before]
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert all(part in said for part in ("harma2024", "demo", "3 runs", duration(row.seconds["demo"])))
