"""The scripts that write what docs show of runs; what one reads stays read."""

from __future__ import annotations

import re
import runpy
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.append(str(DOCS))  # where Python looks first when they are run as scripts


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?")


def alike(one: str | None, other: str | None) -> bool:
    """Whether two texts say the same but for rounding: numbers to 2 %."""
    first, second = ([float(number) for number in NUMBER.findall(text or "")] for text in (one, other))
    same = NUMBER.sub("", one or "") == NUMBER.sub("", other or "")
    return same and first == pytest.approx(second, rel=0.02)


@cache
def script(name: str) -> dict[str, Any]:
    """What a script in docs defines."""
    return runpy.run_path(str(DOCS / f"{name}.py"))
