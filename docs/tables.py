"""Writes what the law of capacity said of networks with trained tables and large vocabularies, and what they hold.

`python docs/tables.py`. The networks are those of examples/capacity-tables.toml, as far as it has been swept; what the
law that shipped said of them was written before any was measured. A test compares the page.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from parts import filled, head

import capax
from capax.specs import Run
from capax.sweeps.grid import read_study

PAGE = Path(__file__).with_name("predictions.md")
FOLDER = Path(__file__).with_name("capacity")
PREDICTED, STORE = FOLDER / "tables-predicted.csv", FOLDER / "tables.db"
STUDY = Path(__file__).parents[1] / "examples" / "capacity-tables.toml"
HEADS = (
    *("vocabulary", "tokens", "tables", "layers", "width", "trained", "effective", "kbit, predicted (95 %)"),
    *("kbit, measured (95 %)", "bits per effective", "measured / predicted"),
)


def row(run: Run, said: dict[str, float], found: dict[str, float] | None) -> str:
    """A network: what was said of it and what it holds; a dash where it was not run."""
    counts = run.model.parameter_counts(**run.task.sizes())
    effective = run.model.effective_parameters(**run.task.sizes())
    task, model = run.task.columns(), run.model.columns()
    cells = [
        *(f"{task['vocab_size']}", f"{task['seq_len']}", f"{model['embeddings']}"),
        *(f"{model['n_layers']}", f"{model['d_model']}", f"{counts['trainable']:,}", f"{effective:,}"),
        kbit(said["predicted"], said["low"], said["high"]),
    ]
    if found is None:
        cells += ["not run", "–", "–"]
    elif not found["converged"]:
        cells += ["not converged", "–", "–"]
    else:
        held = found["capacity_bits"]
        cells += [
            kbit(held, found["capacity_low"], found["capacity_high"]),
            f"{held / effective:.2f}",
            f"{held / said['predicted']:.2f}",
        ]
    return f"| {' | '.join(cells)} |"


def kbit(value: float, low: float, high: float) -> str:
    """Bits and their interval, in thousands."""
    return f"{value / 1000:.1f} ({low / 1000:.1f} to {high / 1000:.1f})"


def section() -> str:
    """What was said and what was found."""
    runs = read_study(STUDY).runs
    said = {row["key"]: row for row in pl.read_csv(PREDICTED).iter_rows(named=True)}
    done = {row["key"]: row for row in capax.read(STORE).iter_rows(named=True)}
    found = {key: row for key, row in done.items() if row["converged"]}
    inside = [said[key]["low"] <= row["capacity_bits"] <= said[key]["high"] for key, row in found.items()]
    off = [abs(said[key]["predicted"] / row["capacity_bits"] - 1) for key, row in found.items()]
    hours = sum(row["seconds"] for row in done.values()) / 3600
    return "\n".join(
        [
            *head(*HEADS),
            *(row(run, said[run.key()], done.get(run.key())) for run in runs),
            "",
            f"{len(done)} of {len(runs)} have been run, in {hours:.1f} hours beside other work; {sum(inside)} of the "
            f"{len(found)} that converged lie in the 95 % intervals (mean error {np.mean(off):.1%}).",
        ]
    )


def page(text: str) -> str:
    """The page with what has been measured."""
    return filled(text, "tables", "tables.py", section())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
