"""Whether intervals of extrapolated capacities hold what trainings eight times as long reach. By name only.

`python -m benchmarks.convergence FILE` reports; `... FILE PARTS PART [SEED]` first trains one part of the shapes, which
the seed draws, and adds them to a file of results; shapes that it holds are not repeated. Each shape is three cells:
three libraries, with three restarts each, all in one pack.
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

SHAPES, CELLS, RESTARTS = 17, 3, 3
LONGER, MOST_TOKENS, MOST_STEPS = 8, 2000, 25_000
RESULTS = Path("convergence.jsonl")
TOLERANCES = (0.2, 0.15, 0.1, 0.07, 0.05, 0.035)
HEADS = (
    *("ended as a cycle added less than", "cells of shapes", "that cycle added", "the next three", "of the rule's"),
    *("nothing to twice the rule's", "in the interval", "above what it says"),
)
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


def shapes(seed: int) -> list[capax.Run]:
    """Different networks and tasks, drawn from `CHOICES`, as runs."""
    generator, found = np.random.default_rng(seed), dict[str, capax.Run]()
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
    """What a cell's restarts said when they had converged, and knew after eight times as many steps, each of its own.

    None where one did not converge, or gains did not shrink.
    """
    at = [converged_at(bits, tolerance) for bits in ends]
    most = [np.maximum.accumulate(bits) for bits in ends]
    if None in at or len(ends[0]) < max(at) + 3:  # type: ignore[type-var, operator]
        return None
    found = trend([bits[:stop].tolist() for bits, stop in zip(most, at, strict=True)])
    if found.later is None or found.interval is None or found.interval.high is None:
        return None
    longer = float(np.mean([bits[stop + 2] for bits, stop in zip(most, at, strict=True)]))  # type: ignore[operator]
    return {
        "reached": found.reached,
        "last": float(np.mean([bits[stop - 1] - bits[stop - 2] for bits, stop in zip(most, at, strict=True)])),  # type: ignore[operator]
        "added": (longer - found.reached) / (found.later - found.reached),
        "later": found.later,
        "low": found.interval.low,
        "high": found.interval.high,
        "longer": longer,
        "inside": found.interval.low <= longer <= found.interval.high,
    }


Shape = tuple[capax.Run, list[dict[str, float]]]


def said(results: Path, tolerance: float | None = None) -> list[Shape]:
    """The cells of each shape that said what they would reach; None: by the tolerance of the recipe."""
    found = list[Shape]()
    for line in results.read_text().splitlines():
        known = json.loads(line)
        run = capax.Run(**known["run"])
        at = run.training.cycle_tolerance if tolerance is None else tolerance
        assert at is not None
        places = range(0, CELLS * RESTARTS, RESTARTS)
        cells = (cell(known["ends"][place : place + RESTARTS], at) for place in places)
        found.append((run, [one for one in cells if one is not None]))
    return found


def report(results: Path) -> None:
    """A line for each shape; then, by tolerance, how far what was reached lies from what was said."""
    for run, cells in said(results):
        each = "; ".join(
            f"{found['reached']:.0f}, then {found['longer']:.0f} ({found['low']:.0f} to {found['high']:.0f})"
            for found in cells
        )
        model: Any = run.model
        setting = f"{model.words()}, FFN {model.ffn}, embeddings {model.embeddings} | {run.task.words()}"
        print(f"| {setting} | {model.effective_parameters(**run.task.sizes())} | {each} |")
    print(f"\n| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}")
    for tolerance in TOLERANCES:
        shapes = [cells for _, cells in said(results, tolerance) if cells]
        every = [found for cells in shapes for found in cells]
        added = np.array([found["added"] for found in every])
        over, gain, further = (
            np.array([np.mean([of(found) for found in cells]) for cells in shapes])
            for of in (
                lambda found: found["longer"] / found["later"] - 1,
                lambda found: found["last"] / found["reached"],
                lambda found: found["longer"] / found["reached"] - 1,
            )
        )
        low, middle, high = np.quantile(added, [0.025, 0.5, 0.975])
        cells = (
            f"{tolerance:.1%}",
            f"{len(every)} of {len(shapes)}",
            f"{gain.mean():.1%}",
            f"{further.mean():.1%}",
            f"{middle:.2f} ({low:.2f} to {high:.2f})",
            f"{((added >= 0) & (added <= 2)).sum()}",
            f"{sum(found['inside'] for found in every)}",
            f"{over.mean():+.1%} ± {over.std(ddof=1) / len(over) ** 0.5:.1%}",
        )
        print(f"| {' | '.join(cells)} |")


def main(results: Path = RESULTS, parts: int = 0, part: int = 0, seed: int = 0) -> None:
    """Train the shapes of one part, or all where the file is not there; then report."""
    if parts or not results.exists():
        train(results, parts or 1, part, seed)
    report(results)


def train(results: Path, parts: int, part: int, seed: int) -> None:
    """Add the shapes of one part to a file."""
    torch.set_num_threads(1)
    known = {json.loads(line)["key"] for line in results.read_text().splitlines()} if results.exists() else set()
    for run in shapes(seed)[part::parts]:
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
