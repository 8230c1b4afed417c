"""What docs/capacity.md and the README show came out of runs that are kept in docs/; the reference data are theirs."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import capax
from capax.cli.demo import CELLS
from capax.store import tables
from capax.sweeps.grid import read_study

DOCS = Path(__file__).parents[2] / "docs"
AGAIN = "run python docs/capacity.py"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "capacity.py"))


@pytest.fixture(scope="module")
def runs(script: dict[str, Any]) -> list[capax.Measurement]:
    return script["runs"]()


def test_the_page_is_made_of_the_runs(script: dict[str, Any]) -> None:
    text = (DOCS / "capacity.md").read_text(encoding="utf-8")
    assert script["page"](text) == text, AGAIN


def test_the_readme_shows_the_networks_of_the_demonstration(script: dict[str, Any]) -> None:
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert script["readme"](text) == text, AGAIN
    assert len(script["demonstrated"]()) == len(CELLS)
    assert script["DEMO"].is_file()


def test_the_pictures_are_there(script: dict[str, Any]) -> None:
    assert {path.name for path in script["FOLDER"].glob("*.png")} == {"capacity.png", "convergence.png"}


def test_the_reference_data_are_the_runs(script: dict[str, Any]) -> None:
    assert script["REFERENCE"].read_bytes() == script["reference"](), AGAIN
    rows = tables.from_file("reference:capacity")
    assert {"capacity_bits", "capacity_low", "capacity_high", "effective_parameters", "converged"} <= set(rows.columns)


def test_the_runs_are_those_of_the_study(runs: list[capax.Measurement]) -> None:
    study = read_study(DOCS.parent / "examples" / "capacity.toml")
    assert {run.key for run in runs} == {spec.key() for spec in study.runs}


def test_what_the_page_says_of_the_runs_is_so(runs: list[capax.Measurement]) -> None:
    """Densities vary far less per effective than per trainable parameter; both counts of bits nearly agree."""
    effective = [run.capacity.per_effective_parameter for run in runs]
    trainable = [run.capacity.per_trainable_parameter for run in runs]
    assert max(effective) / min(effective) < max(trainable) / min(trainable)
    for run in runs:
        last = [member.cycles[-1] for member in run.members]
        shares = [end.signed_bits / end.bits for end in last]
        low, high = (0.92, 0.945) if run.spec.task.loss == "last" else (0.998, 1)
        assert all(low <= round(share, 3) <= high for share in shares)
