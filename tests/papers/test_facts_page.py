"""What docs/how-to/my-facts.md shows came out of runs that are kept in docs/facts; the study that ships is theirs."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import polars
import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "facts.py"))


def test_the_page_has_the_tables_of_the_study(script: dict[str, Any]) -> None:
    text = script["PAGE"].read_text()
    assert script["page"](text) == text, "run python docs/facts.py"


def test_the_study_is_that_of_the_runs(script: dict[str, Any]) -> None:
    shipped = polars.read_csv(script["REFERENCE"], comment_prefix="#")
    assert script["kept"]().rows() == shipped.rows(), "run python docs/facts.py"


def test_plans_hold_at_their_level(script: dict[str, Any]) -> None:
    """By the fills of the other files, at least nine of ten needs lie inside intervals of 95 %."""
    found = script["planned"]()
    assert len(found) >= 12
    assert sum(one.inside for one in found) >= 0.9 * len(found)
