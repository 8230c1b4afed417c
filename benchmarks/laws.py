"""Laws: a joint fit of 500 rows (goal 1 s), 1000 bootstrap fits or draws (goal 30 s), a plan (goal 0.2 s).

Of the ECM, of the law of capacity, and of the curves of exposures.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import lmfit
import numpy as np
import polars as pl

import capax
from capax.store import table_files

TABLE_1 = {"a": 145.27, "b": -0.13, "c": 1.29, "d": 0.13, "e": 0.20, "alpha": 400.0, "beta": 900.0}
"""The published one-layer law, with a plateau that a library of 16000 can show."""


def study(rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    columns = {
        "seq_len": rng.choice([8.0, 16, 32, 64, 128], rows),
        "n_heads": rng.choice([1.0, 2, 3, 4], rows),
        "d_model": rng.choice([16.0, 32, 64, 128, 256, 512], rows),
    }
    counts = law(TABLE_1, **columns) * np.exp(0.1 * rng.standard_normal(rows))
    return pl.DataFrame({**columns, "memorized_above_chance": np.minimum(counts, 2200), "library_size": 2200.0})


def law(values: dict[str, float], seq_len: np.ndarray, n_heads: np.ndarray, d_model: np.ndarray) -> np.ndarray:
    f = values["a"] / (seq_len ** (values["b"] * n_heads + values["c"]) + values["d"]) + values["e"]
    return np.minimum(f * d_model, values["alpha"] * n_heads + values["beta"])


def plain(rows: pl.DataFrame) -> None:
    """One lmfit fit from the truth: numeric derivatives, bounds taken as values."""
    columns = {name: rows[name].to_numpy() for name in ("seq_len", "n_heads", "d_model")}
    counts = rows["memorized_above_chance"].to_numpy()
    start = lmfit.Parameters()
    for name, value in TABLE_1.items():
        start.add(name, value)
    lmfit.minimize(lambda p: law(p.valuesdict(), **columns) / counts - 1, start)


def seconds(work: Callable[[], object], times: int = 5) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return median(taken)


def main() -> None:
    rows = study(500)
    fit, bare = seconds(lambda: capax.ECM().fit(rows)), seconds(lambda: plain(rows))
    print(
        f"laws  joint ECM fit, 500 rows: {fit * 1e3:.0f} ms (goal 1000), {fit / bare:.0f} times a single "
        f"lmfit fit from the truth that takes bounds as values ({bare * 1e3:.0f} ms)",
        flush=True,
    )
    fitted = capax.ECM().fit(rows)
    bootstrap = seconds(fitted.bootstrap, 1)
    print(f"laws  1000 bootstrap fits, 500 rows: {bootstrap:.1f} s on one core (goal 30 on two)", flush=True)
    intervals = seconds(fitted.parameter_intervals, 1)
    print(f"laws  profile intervals of {len(fitted.solution_.free)} parameters: {intervals:.2f} s", flush=True)
    plan = seconds(lambda: capax.plan(fitted, 2000, seq_len=32))
    print(f"laws  a plan of {4 * 63} candidates: {plan * 1e3:.0f} ms (goal 200)", flush=True)
    in_bits()


def in_bits() -> None:
    """The laws that ship, fitted anew, and plans that `capax plan` answers."""
    shipped = table_files.from_file("reference:capacity")
    rows = pl.concat([shipped] * (-(-500 // len(shipped))))[:500]
    rng = np.random.default_rng(0)  # other sizes and bits: repeats of an architecture would count once
    larger = pl.Series(rng.uniform(0.5, 2, len(rows)))
    rows = rows.with_columns(pl.col("effective_parameters", "capacity_bits", "capacity_reached") * larger)
    fit = seconds(lambda: capax.CapacityLaw().fit(rows))
    drawn = seconds(lambda: capax.CapacityLaw().fit(rows).predict_interval(rows[:1])) - fit
    print(
        f"laws  fit of the law of capacity, 500 rows: {fit * 1e3:.0f} ms (goal 1000), 1000 draws of it: {drawn:.2f} s",
        flush=True,
    )
    curves = table_files.from_file("reference:exposures").filter(pl.col("optimizer") == "soap")
    fit = seconds(lambda: capax.ExposureLaw().fit(curves))
    drawn = seconds(capax.ExposureLaw().fit(curves).bootstrap, 1)
    print(
        f"laws  fit of the law of exposures, {len(curves)} points: {fit * 1e3:.0f} ms (goal 1000), 1000 bootstrap "
        f"fits: {drawn:.1f} s (goal 30)",
        flush=True,
    )
    law = capax.load_law("reference")
    sizes = {"seq_len": 16, "vocab_size": 32_000}
    capax.plan(law, 200_000, **sizes)  # draws the law's parameters and measures the machine, once in a process
    for asked, told in (
        ({}, "at any size"),
        ({"exposures": 1000}, "after 1000 exposures"),
        ({"target": "bytes"}, "by bytes, in six precisions"),
    ):
        capax.plan(law, 200_000, **sizes, **asked)  # reads the curve, or the study of rounding, once in a process
        found = seconds(lambda asked=asked: capax.plan(law, 200_000, **sizes, **asked))
        print(f"laws  a plan of 200,000 sequences {told}: {found * 1e3:.0f} ms (goal 200)", flush=True)


if __name__ == "__main__":
    main()
