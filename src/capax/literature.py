"""What papers print, read from data files that say of each number how it is known."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def stated_by(source: str) -> Any:
    """The numbers of a source, such as `harma2024`, with their standing and notes."""
    return json.loads((files("capax") / "data" / "published" / f"{source}.json").read_text(encoding="utf-8"))
