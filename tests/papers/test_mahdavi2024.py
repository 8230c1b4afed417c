"""The published grids, and the paper's findings at a scale of minutes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import capax
from capax.papers.evidence import field
from capax.papers.recipe import PAPERS, SCALES, Scale
from capax.specs import Run
from capax.sweeps.grid import read_study

STUDIES = {
    "heads-shared": 8 * 12,
    "heads-fresh": 8 * 6,
    "context-shared": 8 * 4 * 2,
    "context-fresh": 8 * 5,
    "head-size-shared": 12 * 3,
    "heads-shared-regression": 8 * 5,
    "heads-fresh-regression": 8 * 5,
    "context-shared-regression": 8 * 4,
    "context-fresh-regression": 8 * 5,
    "saturation": 2,
}
"""Runs of one seed, counted from the table of the authors' sweeps."""


def runs(name: str, scale: Scale) -> tuple[Run, ...]:
    return read_study(PAPERS["mahdavi2024"] / "studies" / f"{name}-{scale}.toml").runs


def test_the_published_grids_are_those_of_the_code() -> None:
    assert {name: len(runs(name, "paper")) for name in STUDIES} == STUDIES
    every = [run for name in STUDIES for run in runs(name, "paper")]
    assert len({run.key() for run in every}) == len(every)
    assert {(run.training.batch_size, run.training.lr, run.model.d_model, run.model.profile) for run in every} == {
        (256, 1e-3, 64, "mahdavi2024")
    }
    heads = runs("heads-shared", "paper")[0]
    assert heads.training.budget(10_000) == 50_000
    assert heads.training.budget(130_000) == 500 * 508
    assert runs("head-size-shared", "paper")[0].training.budget(10_000) == 300_000
    assert not any(run.training.stop_when_complete for run in runs("saturation", "paper"))


@pytest.mark.parametrize("name", [name for name in STUDIES if name != "saturation"])
def test_smaller_scales_sweep_the_same(name: str) -> None:
    """At every scale a study varies the same fields (the smaller ones also the seed, in place of the library)."""

    def varied(scale: Scale) -> set[str]:
        fields = [
            {**run.task.model_dump(), **run.model.model_dump(exclude={"d_value"}), "labels": run.task.labels}
            for run in runs(name, scale)
        ]
        return {field for field in fields[0] if len({str(each[field]) for each in fields}) > 1} - {"library_size"}

    kinds = {(run.task.contexts, run.task.labels) for scale in SCALES for run in runs(name, scale)}  # type: ignore[union-attr]
    assert len(kinds) == 1
    assert len(varied("paper")) == 1
    assert varied("demo") == varied("small") == varied("paper")


def means(name: str, swept: str, store: Path) -> tuple[list[int], list[float]]:
    """Sizes, and what is recalled above chance there on the mean over seeds."""
    found: dict[int, list[float]] = {}
    for run in capax.sweep(runs(name, "small"), store=store):
        found.setdefault(field(run, swept), []).append(run.memorized_above_chance)
    assert {len(seeds) for seeds in found.values()} == {6}
    return sorted(found), [float(np.mean(found[size])) for size in sorted(found)]


@pytest.mark.very_slow
def test_capacity_is_linear_in_the_heads(tmp_path: Path) -> None:
    """The paper's accuracy has R² of at least .98 about a line."""
    heads, counts = means("heads-shared", "n_heads", tmp_path / "s.db")
    assert np.corrcoef(heads, counts)[0, 1] ** 2 >= 0.98


@pytest.mark.very_slow
def test_capacity_rises_with_the_context(tmp_path: Path) -> None:
    assert (np.diff(means("context-shared", "context_size", tmp_path / "s.db")[1]) > 0).all()
