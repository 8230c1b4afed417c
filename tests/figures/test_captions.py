"""Sentences under figures."""

from __future__ import annotations

from pathlib import Path

import pytest

import capax

NIGHT = Path(__file__).parents[2] / "docs" / "reproduced" / "harma2024-night.db"


@pytest.mark.slow
def test_lines_of_which_a_law_says_nothing_are_named() -> None:
    """The published law knows four heads at most."""
    law = capax.load_law("published:harma2024")
    (chart,) = capax.charts("width", NIGHT, law=law)
    assert "Not of 5 heads, outside its domain." in chart.caption
    (inside,) = capax.charts("width", [run for run in _runs() if run.spec.model.n_heads <= 4], law=law)
    assert "outside its domain" not in inside.caption


def _runs() -> list[capax.Measurement]:
    with capax.Store(NIGHT, create=False) as store:
        return list(store.each(None))
