"""What docs/how-to/my-facts.md shows came out of runs that are kept in docs/facts; the study that ships is theirs."""

from __future__ import annotations

import polars
from doc_scripts import script


def test_the_study_is_that_of_the_runs() -> None:
    made = script("facts")
    shipped = polars.read_csv(made["REFERENCE"], comment_prefix="#")
    assert made["kept"]().rows() == shipped.rows(), "run python docs/facts.py"


def test_plans_hold_at_their_level() -> None:
    """By the fills of the other files, at least nine of ten needs lie inside intervals of 95 %."""
    found = script("facts")["planned"]()
    assert len(found) >= 12
    assert sum(one.inside for one in found) >= 0.9 * len(found)
