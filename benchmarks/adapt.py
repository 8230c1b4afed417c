"""Adaptive sweeps: seconds until the interval at a target is narrow enough, against the plain grid (goal half).

The interval is `half_width`; narrow enough is 1.1 times that of the whole grid, once each, in the same study, with the
target inside the law's domain. Both are looked at after every fourth run. The grid comes in a random order, one seed a
configuration; candidates are the grid with five seeds, or with one as well. Measurements are simulated for the laws of
counts. For the law of capacity they are those that docs/capacity keeps, with the seconds that they took (on several
machines); the target is one of them, which neither sees: it may lie outside the domain.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import capax
from capax.errors import LawError
from capax.laws.domain import OutsideDomainWarning
from capax.laws.law import Law
from capax.results import Measurement
from capax.store import Store
from capax.store import tables as stored
from capax.sweeps.informative import candidate_table, half_width, next_runs

ECM = {"a": 145.27, "b": -0.13, "c": 1.29, "d": 0.13, "e": 0.20, "alpha": 400.0, "beta": 900.0}
"""Table 1, with a plateau that this library can show."""
POWER = {"k": 1.8, "p": 0.95, "q": 0.52, "r": 1.9}
"""What tests/laws/data/study.csv shows: 4 to 22000 sequences, 13 of 100 configurations above the library."""
LIBRARY = 4000
NOISE = 0.1
STUDIES = 20
ROUND = 4
COUNTS = "memorized_above_chance"
TARGET = {"seq_len": np.array([64.0]), "n_heads": np.array([4.0]), "d_model": np.array([256.0])}
KEPT = [Path("docs/capacity", f"{name}.db") for name in ("capacity", "varied", "grid", "depth", "ladder")]
ORDERS, DRAWS = 10, 100
Table = dict[str, np.ndarray]


@dataclass(frozen=True)
class Reached:
    """Seconds and runs until the interval was narrow enough; the error of the prediction then, and the half width."""

    seconds: float
    runs: int
    error: float
    half_width: float


def main(studies: int = STUDIES) -> None:
    for law, truth in ((capax.PowerLaw(), POWER), (capax.ECM(), ECM)):
        found = [compare(law, truth, seed) for seed in range(studies)]
        plain, once, repeated = ([study[place] for study in found] for place in range(3))
        print(
            f"adapt  {law.name}, {studies} simulated studies: {share(repeated, plain)} of the plain grid's seconds "
            f"(goal 50 %) with up to 5 seeds of a run, {share(once, plain)} with one; runs {runs(plain)} plain, "
            f"{runs(repeated)}, {runs(once)}; truth inside the interval {inside(plain)} plain, "
            f"{inside(repeated)}, {inside(once)} (95 %)",
            flush=True,
        )
    of_what_is_kept()


def of_what_is_kept() -> None:
    every = {run.key: run for path in KEPT for run in Store(path, create=False).each()}
    kept = [run for run in every.values() if run.capacity is not None]
    for layers in (2, 8):
        target = max(
            (run for run in kept if run.spec.model.n_layers == layers), key=lambda run: run.parameters.effective
        )
        chosen, plain = replay([run for run in kept if run.key != target.key], target)
        print(
            f"adapt  capacity, {len(kept) - 1} measurements for one of {target.parameters.effective} effective "
            f"parameters in {layers} layers: {share([chosen] * len(plain), plain)} of the plain grid's seconds "
            f"(goal 50 %) in {ORDERS} orders, {chosen.seconds / 3600:.1f} h; runs {runs(plain)} plain, {chosen.runs}; "
            f"half of the interval {100 * chosen.half_width:.1f} %, off by {100 * chosen.error:.1f} %",
            flush=True,
        )


def share(some: list[Reached], plain: list[Reached]) -> str:
    ratios = sorted(one.seconds / other.seconds for one, other in zip(some, plain, strict=True))
    return f"{100 * median(ratios):.1f} % ({100 * ratios[0]:.1f} to {100 * ratios[-1]:.1f})"


def runs(some: list[Reached]) -> str:
    return f"{median(one.runs for one in some):g}"


def inside(some: list[Reached]) -> str:
    return f"{sum(one.error <= one.half_width for one in some)}/{len(some)}"


def compare(law: Law, truth: dict[str, float], seed: int) -> tuple[Reached, Reached, Reached]:
    grid = [run(*cell, 0) for cell in product((16, 32, 64, 128, 256), (8, 16, 32, 64, 128), (1, 2, 3, 4))]
    whole = measure(law, truth, grid, seed)
    enough = 1.1 * half_width(type(law)().fit(whole), TARGET)
    order = np.random.default_rng([seed, 1]).permutation(len(grid))
    expected = float(capacity(law, truth, TARGET)[0])

    def until(runs: list[capax.Run], counts: Table, order: np.ndarray | None) -> Reached:
        seconds = np.array([cost(one) for one in runs])
        return reach(lambda: type(law)(), runs, counts, seconds, TARGET, expected, enough, order)

    plain = until(grid, whole, order)
    seeds = [one.replace(seed=number) for number in range(5) for one in grid]
    repeated = measure(law, truth, seeds, seed)
    repeated[COUNTS][: len(grid)] = whole[COUNTS]
    return plain, until(grid, whole, None), until(seeds, repeated, None)


def replay(runs: list[Measurement], target: Measurement) -> tuple[Reached, list[Reached]]:
    """Measurements taken again as `next_runs` chooses them, and in several random orders."""
    table, seconds = stored.table(runs), np.array([run.seconds for run in runs])
    goal = candidate_table([target.spec])
    counts = {name: np.array(stored.values(table, name), dtype=object) for name in table.columns}
    counts |= {name: stored.numbers(table, name) for name in ("capacity_bits", "capacity_reached")}
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDomainWarning)
        enough = 1.1 * half_width(law_of_capacity().fit(counts), goal)
        for order in (None, *(np.random.default_rng(seed).permutation(len(runs)) for seed in range(ORDERS))):
            specs = [run.spec for run in runs]
            held = target.capacity.extrapolated
            found.append(reach(law_of_capacity, specs, counts, seconds, goal, held, enough, order))
    return found[0], found[1:]


def law_of_capacity() -> capax.CapacityLaw:
    return capax.CapacityLaw(n_bootstrap=DRAWS)


def reach(
    law: Callable[[], Law],
    runs: list[capax.Run],
    counts: Table,
    seconds: np.ndarray,
    target: Any,
    expected: float,
    enough: float,
    order: np.ndarray | None,
) -> Reached:
    """Measure in the given order, or as `next_runs` says, until the half width is reached."""
    done: list[int] = []
    while len(done) < len(runs):
        if order is None:
            left = [place for place in range(len(runs)) if place not in set(done)]
            told = {name: column[done] for name, column in counts.items()} if done else None
            chosen = next_runs(law(), told, [runs[place] for place in left], seconds[left], target, ROUND)
            batch = [left[place] for place in chosen]
        else:
            batch = order[len(done) : len(done) + ROUND].tolist()
        if not batch:
            break
        done += batch
        try:
            fitted = law().fit({name: column[done] for name, column in counts.items()})
        except LawError:
            continue
        width = half_width(fitted, target)
        if (width <= enough and (fitted.travels or fitted.inside_domain(target).all())) or len(done) == len(runs):
            error = abs(float(np.log(fitted.predict(target)[0] / expected)))
            return Reached(float(seconds[done].sum()), len(done), error, width)
    raise RuntimeError(f"{law().name}: {len(done)} runs did not reach a half width of {enough:.3g}")


def run(d_model: int, seq_len: int, n_heads: int, seed: int) -> capax.Run:
    return capax.Run(
        task=capax.Sequences(seq_len=seq_len, vocab_size=100, library_size=LIBRARY),
        model=capax.Transformer(d_model=d_model, n_heads=n_heads),
        seed=seed,
    )


def cost(run: capax.Run) -> float:
    """Seconds, up to a factor: products of an FFN and of 64 channels a head, per token."""
    width, heads = run.model.d_model, run.model.n_heads
    return run.task.seq_len * (12 * width**2 + 256 * heads * width) * 1e-6


def measure(law: Law, truth: dict[str, float], runs: list[capax.Run], seed: int) -> Table:
    columns = {
        "seq_len": np.array([one.task.seq_len for one in runs], dtype=float),
        "n_heads": np.array([one.model.n_heads for one in runs], dtype=float),
        "d_model": np.array([one.model.d_model for one in runs], dtype=float),
    }
    noise = np.exp(NOISE * np.random.default_rng([seed, len(runs)]).standard_normal(len(runs)))
    counts = np.minimum(capacity(law, truth, columns) * noise, LIBRARY)
    return {**columns, "library_size": np.full(len(runs), float(LIBRARY)), COUNTS: counts}


def capacity(law: Law, truth: dict[str, float], columns: Table) -> np.ndarray:
    return law._capacity(np.array(list(truth.values())), columns)[0]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else STUDIES)
