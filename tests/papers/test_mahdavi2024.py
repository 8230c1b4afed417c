"""The published grids, and the paper's findings at a scale of minutes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import capax
from capax.papers.mahdavi2024 import DEMO, PUBLISHED, SCALES, SMALL, Experiment


def test_the_published_grids_are_those_of_the_code() -> None:
    """Runs of one seed, counted from the table of the authors' sweeps."""
    counts = {name: len(experiment.runs()) for name, experiment in PUBLISHED.items()}
    assert counts == {
        "heads-shared": 8 * 4,
        "heads-fresh": 8 * 6,
        "context-shared": 8 * 4,
        "context-fresh": 8 * 5,
        "head-size-shared": 12 * 3,
        "heads-shared-regression": 8 * 5,
        "heads-fresh-regression": 8 * 5,
        "context-shared-regression": 8 * 4,
        "context-fresh-regression": 8 * 5,
        "saturation-4-heads": 1,
        "saturation-8-heads": 1,
    }
    every = [run for experiment in PUBLISHED.values() for run in experiment.runs()]
    assert len({run.key() for run in every}) == len(every)
    assert {(run.training.batch_size, run.training.lr, run.model.d_model, run.model.profile) for run in every} == {
        (256, 1e-3, 64, "mahdavi2024")
    }
    heads = PUBLISHED["heads-shared"].runs()[0]
    assert heads.training.budget(10_000) == 50_000
    assert heads.training.budget(130_000) == 500 * 508
    assert PUBLISHED["head-size-shared"].runs()[0].training.budget(10_000) == 300_000
    assert not PUBLISHED["saturation-4-heads"].runs()[0].training.stop_when_complete


@pytest.mark.parametrize("smaller", [SMALL, DEMO])
def test_smaller_scales_sweep_the_same(smaller: dict[str, Experiment]) -> None:
    assert set(smaller) <= set(PUBLISHED)
    for name, small in smaller.items():
        published = PUBLISHED[name]
        assert (small.swept, small.contexts, small.labels) == (published.swept, published.contexts, published.labels)
    assert SCALES == {"paper": PUBLISHED, "small": SMALL, "demo": DEMO}


def counts(experiment: Experiment, store: Path) -> np.ndarray:
    runs = experiment.runs()
    found = {run.spec.key(): run for run in capax.sweep(runs, store=store)}
    return np.array([found[run.key()].memorized_above_chance for run in runs])


@pytest.mark.slow
def test_capacity_is_linear_in_the_heads(tmp_path: Path) -> None:
    """The paper's accuracy has R² of at least .98 about a line."""
    experiment = SMALL["heads-shared"]
    heads, memorized = np.array(experiment.values), counts(experiment, tmp_path / "s.db")
    assert np.corrcoef(heads, memorized)[0, 1] ** 2 >= 0.98


@pytest.mark.slow
def test_capacity_rises_with_the_context(tmp_path: Path) -> None:
    assert (np.diff(counts(SMALL["context-shared"], tmp_path / "s.db")) > 0).all()
