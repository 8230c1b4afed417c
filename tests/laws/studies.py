"""Simulated studies of a known law, and a real one."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

TABLE_1 = {"a": 145.27, "b": -0.13, "c": 1.29, "d": 0.13, "e": 0.20, "alpha": 3762.7, "beta": 8741.0}
"""Härmä et al. 2024, one layer."""
WITH_PLATEAU = TABLE_1 | {"alpha": 400.0, "beta": 900.0}
"""The same, saturating where a study can see it."""
REAL = Path(__file__).with_name("data") / "study.csv"
"""Counts of 48 architectures after 600 steps, best of 3 restarts: what capax shipped before it measured capacities."""


def capacity(parameters: dict[str, float], seq_len: np.ndarray, n_heads: np.ndarray, d_model: np.ndarray) -> np.ndarray:
    """Eq. 10 and 11 with min, written down a second time."""
    a, b, c, d, e, alpha, beta = parameters.values()
    f = a / (seq_len ** (b * n_heads + c) + d) + e
    return np.minimum(f * d_model, alpha * n_heads + beta)


def grid(
    lengths: tuple[int, ...] = (8, 16, 32, 64, 128),
    heads: tuple[int, ...] = (1, 2, 3, 4),
    widths: tuple[int, ...] = (16, 64, 256, 512),
) -> dict[str, np.ndarray]:
    cells = np.array(list(product(lengths, heads, widths)), dtype=float)
    return {"seq_len": cells[:, 0], "n_heads": cells[:, 1], "d_model": cells[:, 2]}


def study(
    parameters: dict[str, float] = TABLE_1,
    *,
    sigma: float = 0.05,
    library_size: float = 16_000,
    restarts: int = 1,
    seed: int | list[int] = 0,
    columns: dict[str, np.ndarray] | None = None,
) -> pl.DataFrame:
    """Counts of a known law: the best of some restarts, its logarithm centred on the law's."""
    columns = grid() if columns is None else columns
    counts = capacity(parameters, **columns) * noise(len(columns["seq_len"]), sigma, restarts, seed)
    rows = {**columns, "library_size": library_size, "memorized_above_chance": np.minimum(counts, library_size)}
    return pl.DataFrame(rows)


def noise(rows: int, sigma: float, restarts: int, seed: int | list[int]) -> np.ndarray:
    """Factors: the largest of some lognormal ones, whose mean logarithm is zero and whose spread is sigma."""
    mean, spread = {1: (0.0, 1.0), 5: (1.162964, 0.668980)}[restarts]  # of the largest of 5 standard normal numbers
    best = np.random.default_rng(seed).standard_normal((restarts, rows)).max(axis=0)
    return np.exp(sigma * (best - mean) / spread)
