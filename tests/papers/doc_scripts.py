"""The scripts that write what docs show of runs; what one reads stays read."""

from __future__ import annotations

import runpy
import sys
from functools import cache
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
sys.path.append(str(DOCS))  # where Python looks first when they are run as scripts


@cache
def script(name: str) -> dict[str, Any]:
    """What a script in docs defines."""
    return runpy.run_path(str(DOCS / f"{name}.py"))
