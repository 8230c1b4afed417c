"""What laws that ship say of networks before they are measured, kept once and for all.

A law that is fitted later may know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl

from capax.laws.files import load_law
from capax.planning.answers import predicted
from capax.specs import Run

LEVEL = 0.95


def predict(runs: Mapping[str, Run], path: Path, law: str = "reference", others: Iterable[float] = ()) -> None:
    """Write predictions and 95 % intervals of runs, given by key, to a file that is not there yet.

    Args:
        others: further levels of intervals.
    """
    if path.exists():
        raise SystemExit(f"{path}: was predicted before, and is not predicted again")
    asked = load_law(law)
    known = [
        {
            **run.task.columns(),
            **run.model.columns(),
            "effective_parameters": run.model.effective_parameters(**run.task.sizes()),
        }
        for run in runs.values()
    ]
    rows = pl.DataFrame([{name: row[name] for name in asked.columns} for row in known])
    found = {"key": list(runs), "predicted": predicted(asked, rows)}
    for level in (LEVEL, *others):
        low, high = ends(level)
        found[low], found[high] = asked.predict_interval(rows, level)
    pl.DataFrame(found).write_csv(path, float_precision=1)


def ends(level: float) -> tuple[str, str]:
    """The columns of an interval."""
    named = "" if level == LEVEL else f"_{level:.0%}".rstrip("%")
    return f"low{named}", f"high{named}"
