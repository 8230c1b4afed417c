"""docs/reproduce.md says what there is."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_is_that_of_the_recipes() -> None:
    spec = importlib.util.spec_from_file_location("recipes", DOCS / "recipes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (DOCS / "reproduce.md").read_text(encoding="utf-8")
    assert module.page(text) == text, "python docs/recipes.py"
