"""What stderr says while something takes long."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from commands import refused

import capax
from capax.cli import main, progress
from capax.specs.papers import PAPERS

MEASURE = ("measure", "sequences", "--library-size", "20", "--d-model", "8", "--restarts", "2", "--workers", "1")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.0)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    assert exit_.value.code == 0
    return capsys.readouterr().err.splitlines()


@pytest.mark.usefixtures("at_once")
@pytest.mark.very_slow
def test_a_log_says_first_what_is_done_and_how_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    first, *rest = told(capsys, *MEASURE, "--max-epochs", "30")
    assert "width 8; 8 tokens from 100" in first
    assert "best of 2 restarts" in first
    assert "at most" in first
    assert rest
    assert all("recalled" in line and "/2 done" in line for line in rest)
    assert "often" in told(capsys, *MEASURE, "--patience", "2", "--seed", "1")[0]
    by_cycles = told(capsys, *MEASURE, "--protocol", "capacity", "--cycle-tolerance", "0.5")[0]
    assert by_cycles.index("often") < by_cycles.index("at most")
    assert told(capsys, *MEASURE, "--max-epochs", "30", "--seed", "2", "--quiet") == []
    assert told(capsys, *MEASURE, "--max-epochs", "30") == []  # it is in the store


@pytest.mark.usefixtures("at_once")
def test_checks_say_how_far_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.default_rng(0)
    np.save("queries.npy", draw.standard_normal((12, 8)))
    np.save("contexts.npy", draw.standard_normal((12, 3, 8)))
    lines = told(capsys, "check", "assumptions", "queries.npy", "contexts.npy")
    assert any(line.startswith("capax: subsets tested: ") for line in lines)
    assert any(line.startswith("capax: ranks of contexts: 11 of 12") for line in lines)


def test_what_a_paper_states_fills_what_was_not_given() -> None:
    measured = capax.measure(
        capax.Sequences(library_size=30, loss="last"),
        capax.Transformer(d_model=8),
        capax.Training(max_epochs=2),
        paper="harma2024",
    )
    spec = measured.spec
    assert (spec.task.library_size, spec.model.positions, len(measured.members)) == (30, "frozen", 5)
    assert spec.training.batch_size == 512


def test_a_paper_has_its_own_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    assert all(name in refused(capsys, *MEASURE, "--paper", "vaswani2017") for name in PAPERS)
    assert "associations by protocol mac" in refused(capsys, *MEASURE, "--paper", "mahdavi2024")
    other = ("--paper", "harma2024", "--model", "x-transformers")
    assert "Transformer, got XTransformers" in refused(capsys, *MEASURE, *other)
