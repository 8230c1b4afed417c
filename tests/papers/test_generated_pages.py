"""What docs show of runs, and the data that ship, are what their scripts make of the runs that are kept."""

from __future__ import annotations

import polars as pl
import pytest
from doc_scripts import DOCS, alike, script
from polars.testing import assert_frame_equal
from versions import pinned

PAGES = sorted(path.stem for path in DOCS.glob("*.py") if "\ndef page(" in path.read_text("utf-8"))
DATA = sorted(name for name in PAGES if "\ndef reference(" in (DOCS / f"{name}.py").read_text("utf-8"))
SLOW = ("exposures", "night", "published", "unstated", "variants")  # hundreds of fits each


def test_all_scripts_are_found() -> None:
    assert {"capacity", "exposures", "quantize"} <= set(DATA)
    assert {"facts", "literature", "published", "recipes", "reproduced", "variants"} <= set(PAGES)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in PAGES])
def test_a_page_is_what_its_script_writes(name: str) -> None:
    made = script(name)
    text = made["PAGE"].read_text("utf-8")
    if name != "night":
        assert made["page"](text) == text, f"run python docs/{name}.py"
        return
    shown, again = text.splitlines(), made["page"](text).splitlines()
    assert all(map(alike, shown, again)), f"run python docs/{name}.py"
    assert len(shown) == len(again)


@pytest.mark.parametrize("name", DATA)
def test_data_that_ship_are_those_of_the_runs(name: str) -> None:
    made = script(name)
    shipped, again = made["REFERENCE"].read_bytes(), made["reference"]()
    if pinned("numpy", "polars", "scipy"):
        assert shipped == again, f"run python docs/{name}.py"
    else:
        one, other = (pl.read_csv(text, infer_schema_length=None, comment_prefix="#") for text in (shipped, again))
        assert_frame_equal(one, other, rel_tol=1e-9)
