"""Whether tests run with the versions that the project is developed with: others round and word things otherwise."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"


def pinned(*names: str) -> bool:
    """Whether distributions are of the versions in constraints.txt."""
    pins = dict(line.split("==") for line in CONSTRAINTS.read_text().splitlines() if "==" in line)
    return all(version(name) == pins[name] for name in names)
