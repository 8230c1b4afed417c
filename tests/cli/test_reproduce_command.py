"""`capax reproduce`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import refused, run

from capax.papers import catalogue
from capax.papers.reproduce import RecipeList, Reproduction


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "reproduce", "--list")
    for recipes in catalogue.PAPERS.values():
        for recipe in recipes:
            assert any(line.split()[:2] == [recipe.paper, recipe.figure] for line in out.splitlines())
    assert "expected on two cores" in out
    rows = RecipeList.model_validate_json(run(capsys, "reproduce", "adler2025", "figure-2", "--list", "--json"))
    assert [(row.figure, row.command) for row in rows.recipes] == [("figure-2", "capax reproduce adler2025 figure-2")]


def test_what_needs_no_runs_is_judged_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = run(capsys, "reproduce", "harma2024", "hopfield", "-o", tmp_path, "--quiet")
    assert "2 agree, 1 differ, 0 cannot be judged" in out
    assert "[about 7 %] (derived)" in out
    printed = run(capsys, "reproduce", "mahdavi2024", "table-1", "-o", tmp_path, "--json")
    found = Reproduction.model_validate_json(printed)
    assert found.recipes[0].command == "capax check QUERIES.npy CONTEXTS.npy"
    kept = tmp_path / "mahdavi2024-table-1-demo.json"
    assert json.loads(kept.read_text()) == json.loads(printed)
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "paper: one of harma2024, mahdavi2024, adler2025, all, is required"),
        (["adler"], "paper: one of harma2024, mahdavi2024, adler2025, all, got 'adler'"),
        (["adler", "--list"], "paper: one of"),
        (["adler2025", "figure-99"], "figure: of adler2025 one of theorem-b1, "),
        (["adler2025", "--scale", "large"], "scale: one of demo, small, paper, got 'large'"),
        (["all", "figure-1"], "figure: only with one paper, got 'figure-1'"),
        (["all", "--json"], "json: prints one paper"),
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
    assert "out: cannot write into" in said
