"""What docs show of runs, and the data that ship, are what their scripts make of the runs that are kept."""

from __future__ import annotations

import re

import pytest
from doc_scripts import DOCS, script

PAGES = sorted(path.stem for path in DOCS.glob("*.py") if "\ndef page(" in path.read_text("utf-8"))
DATA = sorted(name for name in PAGES if "\ndef reference(" in (DOCS / f"{name}.py").read_text("utf-8"))
SLOW = ("exposures",)  # laws of every form are fitted for it
FITTED = ("published",)
"""Pages of laws that do not suit the rows: a fit runs along a valley, and ends where the rounding of products says."""
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def test_all_scripts_are_found() -> None:
    assert {"capacity", "exposures", "quantize"} <= set(DATA)
    assert {"facts", "published", "recipes", "reproduced", "variants"} <= set(PAGES)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in PAGES])
def test_a_page_is_what_its_script_writes(name: str) -> None:
    made = script(name)
    text = made["PAGE"].read_text("utf-8")
    again = made["page"](text)
    if name in FITTED:
        assert NUMBER.sub("#", again) == NUMBER.sub("#", text), f"run python docs/{name}.py"
        assert numbers(again) == pytest.approx(numbers(text), rel=0.05)
    else:
        assert again == text, f"run python docs/{name}.py"


def numbers(text: str) -> list[float]:
    return [float(one.replace(",", "")) for one in NUMBER.findall(text)]


@pytest.mark.parametrize("name", DATA)
def test_data_that_ship_are_those_of_the_runs(name: str) -> None:
    made = script(name)
    assert made["REFERENCE"].read_bytes() == made["reference"](), f"run python docs/{name}.py"
