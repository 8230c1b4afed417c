"""docs/reproduce.md says what there is, docs/reproduced.md what came out."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("script", "page"), [("recipes", "reproduce.md"), ("reproduced", "reproduced.md")])
def test_generated_tables_are_current(script: str, page: str) -> None:
    spec = importlib.util.spec_from_file_location(script, DOCS / f"{script}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (DOCS / page).read_text(encoding="utf-8")
    assert module.page(text) == text, f"python docs/{script}.py"
