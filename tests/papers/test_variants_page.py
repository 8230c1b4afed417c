"""The page on variants shows what the store beside it holds."""

from __future__ import annotations

import runpy
from pathlib import Path

from matplotlib.image import imread

import capax
from capax.sweeps.grid import read_study

DOCS = Path(__file__).parents[2] / "docs"


def test_the_store_holds_the_studies() -> None:
    stored = set(capax.read(DOCS / "variants/variants.db")["key"])
    asked = [read_study(DOCS.parent / "examples" / name).runs for name in ("variants.toml", "variants-blocks.toml")]
    assert stored == {run.key() for runs in asked for run in runs}


def test_the_page_shows_the_runs_of_the_studies() -> None:
    text = (DOCS / "how-to/which-attention.md").read_text("utf-8")
    made = runpy.run_path(str(DOCS / "variants.py"))
    assert made["page"](text) == text, "run python docs/variants.py"
    assert imread(DOCS / "variants/variants.png").shape[1] > 500
