"""A store in a few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from capax.overview import Overview
from capax.store.schema import Summary


def of_store(path: Path, runs: Sequence[Summary], failed: int, sources: Mapping[str, int]) -> Overview:
    """What it holds, and its runs, the last first."""
    last_first = runs[::-1]
    return Overview(
        title=f"Store {path}: {len(runs)} run{'s' * (len(runs) != 1)}{', the last first' * (len(runs) > 1)}",
        rows={
            "of": ", ".join(dict.fromkeys(f"{run.task} by {run.protocol}" for run in runs)),
            "failed": str(failed) if failed else "",
            "imported": ", ".join(f"{count} rows from {source}" for source, count in sources.items()),
        },
        table={
            "key": [run.key[:12] for run in last_first],
            **({"name": [run.name or "" for run in last_first]} if any(run.name for run in runs) else {}),
            "items": [run.items for run in last_first],
            "layers": [str(run.n_layers or "-") for run in last_first],
            "heads": [str(run.n_heads or "-") for run in last_first],
            "width": [str(run.d_model or "-") for run in last_first],
            "memorized": [f"{run.memorized} of {run.library_size}" for run in last_first],
            "bits/par.": [f"{run.bits_per_parameter:.3g}" for run in last_first],
        },
    )
