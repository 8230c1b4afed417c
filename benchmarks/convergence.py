"""Whether intervals of extrapolated capacities hold what trainings eight times as long reach. By name only.

`python -m benchmarks.convergence FILE` reports; `... FILE PARTS PART` first trains one part of the shapes and adds them
to a file of results; shapes that it holds are not repeated. Each shape is three cells: three libraries, with three
restarts each, all in one pack.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import capax
from capax.protocols.convergence import trend
from capax.training.pack import Pack
from capax.training.prepare import prepare
from capax.training.stopping import converged_at

SHAPES, SEED, CELLS, RESTARTS = 17, 0, 3, 3
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


def cell(ends: list[list[float]], tolerance: float) -> dict[str, float] | None:
    """What a cell's restarts said when they had converged, and knew after eight times as many steps.

    None where one did not converge, or gains did not shrink.
    """
    at = [converged_at(bits, tolerance) for bits in ends]
    most = [np.maximum.accumulate(bits) for bits in ends]
    if None in at or len(ends[0]) < max(at) + 3:  # type: ignore[type-var, operator]
        return None
    found = trend([bits[:stop].tolist() for bits, stop in zip(most, at, strict=True)])
    if found.later is None or found.interval is None or found.interval.high is None:
        return None
    longer = float(np.mean([bits[max(at) + 2] for bits in most]))  # type: ignore[type-var, operator]
    assert found.last_gain is not None
    last = found.reached * found.last_gain / (1 + found.last_gain)
    return {
        "reached": found.reached,
        "added": (longer - found.reached) / last if last > 0 else float("nan"),
        "later": found.later,
        "low": found.interval.low,
        "high": found.interval.high,
        "longer": longer,
        "inside": found.interval.low <= longer <= found.interval.high,
    }


def report(results: Path) -> None:
    """A line for each shape, and how many intervals hold what was reached."""
    held, added, silent, beyond = [], [], 0, list[list[float]]()
    for line in results.read_text().splitlines():
        known = json.loads(line)
        run = capax.Run(**known["run"])
        assert run.training.cycle_tolerance is not None
        cells = [
            cell(known["ends"][place : place + RESTARTS], run.training.cycle_tolerance)
            for place in range(0, CELLS * RESTARTS, RESTARTS)
        ]
        said = [found for found in cells if found is not None]
        silent += len(cells) - len(said)
        held += [found["inside"] for found in said]
        added += [found["added"] for found in said]
        beyond += [[found["longer"] / found["later"] - 1 for found in said]] if said else []
        each = "; ".join(
            f"{found['reached']:.0f}, then {found['longer']:.0f} ({found['low']:.0f} to {found['high']:.0f})"
            for found in said
        )
        model: Any = run.model
        setting = f"{model.words()}, FFN {model.ffn}, embeddings {model.embeddings} | {run.task.words()}"
        print(f"| {setting} | {known['effective']} | {each} |")
    low, middle, high = np.nanquantile(added, [0.025, 0.5, 0.975])
    print(
        f"{sum(held)} of {len(held)} intervals hold what eight times as many steps brought; {silent} cells said nothing"
    )
    print(f"the three cycles after convergence added {middle:.2f} of the last gain ({low:.2f} to {high:.2f})")
    means, every = np.array([np.mean(shape) for shape in beyond]), [value for shape in beyond for value in shape]
    print(
        f"{sum(value > 0 for value in every)} of {len(every)} ended above `extrapolated`, by {means.mean():.1%} on the "
        f"mean of {len(means)} shapes (standard error {means.std(ddof=1) / len(means) ** 0.5:.1%})"
    )


def main(results: Path = RESULTS, parts: int = 0, part: int = 0) -> None:
    """Train the shapes of one part, or all where the file is not there; then report."""
    if parts or not results.exists():
        train(results, parts or 1, part)
    report(results)


def train(results: Path, parts: int, part: int) -> None:
    """Add the shapes of one part to a file."""
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
