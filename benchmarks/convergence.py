"""Whether intervals of extrapolated capacities hold what trainings eight times as long reach. By name only.

`python -m benchmarks.convergence FILE [PARTS PART]` adds to a file of results; shapes that it holds are not repeated.
Each shape is three cells: three libraries, with three restarts each, all in one pack.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import capax
from capax.protocols.convergence import converged_at
from capax.training.pack import Pack
from capax.training.prepare import prepare

SHAPES, SEED, CELLS, RESTARTS = 16, 0, 3, 3
LONGER, MOST_TOKENS, MOST_STEPS = 8, 2000, 25_000
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


def shapes() -> list[capax.Run]:
    """Different networks and tasks, drawn from `CHOICES`, as runs."""
    generator, found = np.random.default_rng(SEED), dict[str, capax.Run]()
    while len(found) < SHAPES:
        drawn = {name: values[generator.integers(len(values))] for name, values in CHOICES.items()}
        task = capax.Sequences(**{name: drawn.pop(name) for name in ("seq_len", "vocab_size", "loss")})
        run = capax.Run(task=task, model=capax.Transformer(**drawn), protocol=capax.Capacity())
        size = run.task.library_size
        enough = size < run.task.largest_library  # else there are too few prefixes to show what it holds
        if enough and size * task.seq_len <= MOST_TOKENS:
            found[run.key()] = run
    return list(found.values())


def trained(run: capax.Run) -> tuple[list[list[float]], int]:
    """Each member's bits at the ends of cycles, until all cells were trained eight times as long as they took."""
    count, size, training = CELLS * RESTARTS, run.task.library_size, run.training
    seeds = tuple(seed for seed in range(CELLS) for _ in range(RESTARTS))
    members = tuple(range(RESTARTS)) * CELLS
    pack = Pack(run.task, run.model, training, seeds, members, (size,) * count, size, mixed=False, one_library=True)
    learner, ends, step = prepare(pack), [[] for _ in members], 0
    tolerance = training.cycle_tolerance
    assert tolerance is not None
    while True:
        learner.step(training.lr_at(step, None))
        step += 1
        if step < sum(training.cycle(step - 1)):
            continue
        for known, bits in zip(learner.information(range(count)), ends, strict=True):
            bits.append(known.clipped if known is not None else float("nan"))
        ended = [converged_at(bits, tolerance) for bits in ends]
        cycles = len(ends[0])
        # cycle k ends after T (2^k − 1) steps: eight times as many are three cycles more
        if step > MOST_STEPS or all(at is not None and cycles >= at + 3 for at in ended):
            return ends, step


def main(results: Path = RESULTS, parts: int = 1, part: int = 0) -> None:
    torch.set_num_threads(1)
    known = {json.loads(line)["key"] for line in results.read_text().splitlines()} if results.exists() else set()
    for run in shapes()[part::parts]:
        if run.key() in known:
            continue
        ends, steps = trained(run)
        effective = run.model.effective_parameters(**run.task.sizes())
        found = {
            "key": run.key(),
            "effective": effective,
            "cells": CELLS,
            "ends": ends,
            "run": run.model_dump(mode="json"),
        }
        with results.open("a") as file:
            file.write(json.dumps(found) + "\n")
        print(f"{run.model.words()}; {run.task.words()}: {steps} steps", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
