"""What the law of capacity that ships says of networks before they are measured, kept once and for all.

A law that is fitted later may know them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from capax.laws.files import load_law
from capax.planning.answers import predicted
from capax.specs import Run


def predict(runs: Mapping[str, Run], path: Path) -> None:
    """Write predictions and intervals of runs, given by key, to a file that is not there yet."""
    if path.exists():
        raise SystemExit(f"{path}: was predicted before, and is not predicted again")
    law = load_law("reference")
    known = [
        {
            **run.task.columns(),
            **run.model.columns(),
            "effective_parameters": run.model.effective_parameters(**run.task.sizes()),
        }
        for run in runs.values()
    ]
    rows = pl.DataFrame([{name: row[name] for name in law.columns} for row in known])
    low, high = law.predict_interval(rows)
    found = {"key": list(runs), "predicted": predicted(law, rows), "low": low, "high": high}
    pl.DataFrame(found).write_csv(path, float_precision=0)
