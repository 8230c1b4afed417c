"""What the README shows and docs/capacity.md says is so of the runs that are kept in docs/."""

from __future__ import annotations

import pytest
from doc_scripts import DOCS, script

import capax
from capax.cli.demo import CELLS
from capax.store import Store, table_files
from capax.sweeps.grid import read_study


@pytest.fixture(scope="module")
def runs() -> list[capax.Measurement]:
    return script("capacity")["runs"]()


def test_the_readme_shows_the_networks_of_the_demonstration() -> None:
    made = script("capacity")
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert made["readme"](text) == text, "run python docs/capacity.py"
    assert len(made["demonstrated"]()) == len(CELLS)
    assert made["DEMO"].is_file()


def test_the_pictures_are_there() -> None:
    assert {path.name for path in (DOCS / "capacity").glob("*.png")} == {"capacity.png", "convergence.png"}


def test_the_reference_data_have_their_columns() -> None:
    rows = table_files.from_file("reference:capacity")
    assert {"capacity_bits", "capacity_low", "capacity_high", "effective_parameters", "converged"} <= set(rows.columns)


@pytest.mark.slow
def test_all_stores_have_the_estimates_of_the_rule_of_today() -> None:
    made, estimates = script("estimates"), 0
    for path in made["STORES"]:
        with Store(path, read_only=True) as store:
            runs = list(store.each())
        assert [run.key for run in runs if made["renewed"](run) != run] == [], "run python docs/estimates.py"
        estimates += sum(run.capacity is not None for run in runs)
    assert estimates > 390


def test_the_runs_are_those_of_the_study(runs: list[capax.Measurement]) -> None:
    study = read_study(DOCS.parent / "examples" / "capacity.toml")
    assert {run.key for run in runs} == {spec.key() for spec in study.runs if spec.seed == 0}


def test_what_the_page_says_of_the_runs_is_so(runs: list[capax.Measurement]) -> None:
    """Densities vary far less per effective than per trainable parameter; both counts of bits nearly agree."""
    effective = [run.capacity.per_effective_parameter for run in runs]
    trainable = [run.capacity.per_trainable_parameter for run in runs]
    assert max(effective) / min(effective) < max(trainable) / min(trainable)
    for run in runs:
        last = [member.cycles[-1] for member in run.members]
        shares = [end.signed_bits / end.bits for end in last]
        low, high = (0.94, 0.947) if run.spec.task.loss == "last" else (0.998, 1)
        assert all(low <= round(share, 3) <= high for share in shares)
