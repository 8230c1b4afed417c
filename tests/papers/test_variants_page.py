"""The page on variants shows a store of the studies that it names."""

from __future__ import annotations

from doc_scripts import DOCS
from matplotlib.image import imread

import capax
from capax.sweeps.grid import read_study


def test_the_store_holds_the_studies() -> None:
    stored = set(capax.read(DOCS / "variants/variants.db")["key"])
    asked = [read_study(DOCS.parent / "examples" / name).runs for name in ("variants.toml", "variants-blocks.toml")]
    assert stored == {run.key() for runs in asked for run in runs}


def test_the_picture_is_there() -> None:
    assert imread(DOCS / "variants/variants.png").shape[1] > 500
