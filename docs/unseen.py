"""Writes what laws of capacity said of networks that none is ever fitted to, and what these were found to hold.

`python docs/unseen.py predict` writes what the laws that ship say, once and for all, before anything is measured.
`python docs/unseen.py` writes the page. A test compares it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from parts import filled, head
from predicted import LEVEL, ends, predict

import capax
from capax.specs import Run
from capax.sweeps.grid import read_study

PAGE = Path(__file__).with_name("predictions.md")
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
STORES = (FOLDER / "unseen.db", FOLDER / "grid-unseen.db")
TARGETS = {"reference": "capacity_bits", "reference:power": "capacity_items", "reference:ecm": "capacity_items"}


def runs(*studies: Path) -> dict[str, Run]:
    """The networks of studies, by key."""
    return {run.key(): run for study in studies for run in read_study(study).runs}


def row(name: str, law: str, rows: pl.DataFrame) -> str:
    """How a law's predictions of some networks compare with what they hold."""
    told = rows.join(pl.read_csv(PREDICTED[law]), on="key")
    held = told[TARGETS[law]]
    inside = []
    for level in (*LEVELS, LEVEL):
        low, high = ends(level)
        inside.append(f"{((told[low] <= held) & (held <= told[high])).sum()}")
    ratio = (held / told["predicted"]).to_numpy()
    cells = (name, f"{len(told)}", *inside, f"{np.abs(1 / ratio - 1).mean():.1%}", f"{np.median(ratio):.2f}")
    return f"| {' | '.join(cells)} |"


def section() -> str:
    """What was said and what was found."""
    asked, done = runs(VARIED, GRID), pl.concat([capax.read(store) for store in STORES], how="diagonal")
    found = done.filter("converged")
    with_ffn, of_grid = pl.col("ffn") != "none", pl.col("key").is_in(list(runs(GRID)))
    shown = {
        "drawn at random, without an FFN": ("reference", ~of_grid & ~with_ffn),
        "drawn at random, with an FFN": ("reference", ~of_grid & with_ffn),
        "between those of the grid": ("reference", of_grid),
        "all": ("reference", pl.lit(True)),
        "between those of the grid, by `reference:power`": ("reference:power", of_grid),
        "between those of the grid, by `reference:ecm`": ("reference:ecm", of_grid),
    }
    levels = (f"in the {level:.0%} interval" for level in (*LEVELS, LEVEL))
    return "\n".join(
        [
            *head("networks", "how many", *levels, "mean error", "median of measured / predicted"),
            *(row(name, law, found.filter(which)) for name, (law, which) in shown.items()),
            "",
            f"{len(done)} of {len(asked)} have been run, in {done['seconds'].sum() / 3600:.1f} hours beside other "
            f"work; left out is what did not converge ({len(done) - len(found)}).",
        ]
    )


def page(text: str) -> str:
    """The page with what has been measured."""
    return filled(text, "unseen", "unseen.py", section())


if __name__ == "__main__":
    if sys.argv[1:] == ["predict"]:
        for law, path in PREDICTED.items():
            predict(runs(GRID) if ":" in law else runs(VARIED, GRID), path, law, LEVELS)
    else:
        PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
