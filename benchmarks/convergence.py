"""Whether intervals of extrapolated capacities hold what trainings eight times as long reach. An hour; by name only.

Cells that a file of results holds already are not repeated."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import capax

CELLS, SEED = 44, 0
LONGER, MOST_TOKENS = 8, 2000
RESULTS = Path("convergence.jsonl")
CHOICES: dict[str, tuple[Any, ...]] = {
    "d_model": (6, 8, 12),
    "n_heads": (1, 2, 4),
    "d_head": (2, 4, 8),
    "n_layers": (1, 1, 1, 2),
    "ffn": ("mlp", "mlp", "none"),
    "embeddings": ("frozen", "frozen", "trained"),
    "seq_len": (3, 5, 8, 12),
    "vocab_size": (16, 40, 100, 200),
    "loss": ("all", "last"),
}


def cells() -> list[tuple[capax.Sequences, capax.Transformer]]:
    """Different networks and tasks, drawn from `CHOICES`."""
    generator, found = np.random.default_rng(SEED), dict[str, tuple[capax.Sequences, capax.Transformer]]()
    while len(found) < CELLS:
        drawn = {name: values[generator.integers(len(values))] for name, values in CHOICES.items()}
        task = capax.Sequences(**{name: drawn.pop(name) for name in ("seq_len", "vocab_size", "loss")})
        model = capax.Transformer(**drawn)
        size = capax.Run(task=task, model=model, protocol=capax.Capacity()).task.library_size
        enough = size < task.largest_library  # else there are too few prefixes to show what it holds
        if enough and size * task.seq_len <= MOST_TOKENS:
            found[f"{task} {model}"] = (task, model)
    return list(found.values())


def measured(task: capax.Sequences, model: capax.Transformer) -> dict[str, Any]:
    """A cell's cycles until it converges, and in a training eight times as long."""
    short = capax.measure(task, model, protocol="capacity")
    assert short.capacity is not None
    first, steps = short.spec.training.cycle_steps, max(member.steps for member in short.members)
    assert first is not None
    task = task.replace(library_size=short.library_size)
    longer = capax.Training(max_steps=LONGER * (steps + first) - first, cycle_tolerance=1e-9)
    long = capax.measure(task, model, longer, protocol="capacity")
    return {
        "task": task.model_dump(mode="json"),
        "model": model.model_dump(mode="json"),
        "effective": short.parameters.effective,
        "short": short.capacity.model_dump(mode="json"),
        "seconds": short.seconds,
        "cycles": [[end.bits for end in member.cycles] for member in short.members],
        "cycles_long": [[end.bits for end in member.cycles] for member in long.members],
        "stopped_long": [member.stop_reason for member in long.members],
    }


def main(results: Path = RESULTS) -> None:
    lines = results.read_text().splitlines() if results.exists() else []
    for number, (task, model) in enumerate(cells()):
        if number < len(lines):
            continue
        found = measured(task, model)
        with results.open("a") as file:
            file.write(json.dumps(found) + "\n")
        print(
            f"{number}: {model.words()}; {task.words()}: {found['short']['bits']:.0f}, {found['seconds']:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
