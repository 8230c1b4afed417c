"""Where the command line finds a user's modules."""

from __future__ import annotations

import sys
from pathlib import Path


def search_here() -> None:
    """Let Python find modules in the working directory first, as `python -m` does; worker processes inherit it."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
