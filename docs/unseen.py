"""Writes what laws of capacity said of networks that none is ever fitted to, and what these were found to hold.

`python docs/unseen.py predict` writes what the laws that ship say, once and for all, before anything is measured.
`python docs/unseen.py` writes the page. A test compares it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from predicted import predict

from capax.specs import Run
from capax.sweeps.grid import read_study

FOLDER = Path(__file__).with_name("capacity")
EXAMPLES = Path(__file__).parents[1] / "examples"
VARIED, GRID = EXAMPLES / "capacity-unseen.toml", EXAMPLES / "capacity-grid-unseen.toml"
LEVELS = (0.5, 0.8)
"""Of intervals, besides 95 %."""
PREDICTED = {
    "reference": FOLDER / "unseen-predicted.csv",
    "reference:power": FOLDER / "unseen-predicted-power.csv",
    "reference:ecm": FOLDER / "unseen-predicted-ecm.csv",
}
"""What each law said; those of width, heads and length alone only of the networks of the grid."""


def runs(*studies: Path) -> dict[str, Run]:
    """The networks of studies, by key."""
    return {run.key(): run for study in studies for run in read_study(study).runs}


if __name__ == "__main__":
    if sys.argv[1:] == ["predict"]:
        for law, path in PREDICTED.items():
            predict(runs(GRID) if ":" in law else runs(VARIED, GRID), path, law, LEVELS)
