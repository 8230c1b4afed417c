"""Writes the reference data of facts, and what facts.md shows of them: `python docs/facts.py`.

In the folder lies the store that `capax sweep examples/facts/facts.toml` wrote.
"""

from __future__ import annotations

from pathlib import Path

import polars

from capax.figures.runs import read

FOLDER = Path(__file__).with_name("facts")
REFERENCE = Path(__file__).parents[1] / "src/capax/data/reference/facts.csv"
MODEL = ("n_layers", "n_heads", "d_head", "d_model", "embeddings", "ffn")


def rows() -> polars.DataFrame:
    """A row for each run: its file, its network, and what of the file is recalled."""
    found = []
    for run in read([FOLDER / "facts.db"]).runs:
        task, model = run.spec.task.columns(), run.spec.model.columns()
        found.append(
            {
                "file": Path(task["library"]).stem,
                **{name: task[name] for name in ("seq_len", "vocab_size", "relations", "tokenization")},
                **{name: model[name] for name in MODEL},
                "loss": run.spec.task.scored("loss"),
                "effective_parameters": run.parameters.effective,
                "trainable_parameters": run.parameters.trainable,
                "facts": run.library_size,
                "recalled": run.memorized,
                "bits": round(run.library_size * task["bits_per_fact"], 1),
                "entropy_bits": round(run.library_size * task["entropy_per_fact"], 1),
                "known_bits": round(next(unit.amount for unit in run.units if unit.name == "morris_bits"), 1),
                "steps": run.steps,
                "stop_reason": run.stop_reason,
            }
        )
    return polars.DataFrame(found).sort("file", "effective_parameters")


if __name__ == "__main__":
    REFERENCE.write_text("# Files of facts in networks of several widths (docs/facts.py)\n" + rows().write_csv())
