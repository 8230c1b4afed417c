"""Power laws: capacity as a product of powers of length, heads, width, and depth."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from capax.laws.censored import Vector
from capax.laws.law import Law, Structure
from capax.laws.rows import Columns, Rows


class PowerLaw(Law):
    """C = k · (N − 1)^(−p) · H^q · B^r: the fewest parameters that bend in each direction.

    N is `seq_len`, H `n_heads`, B `d_model`. p = 1 means that a number of tokens is remembered, however they are cut
    into sequences; r > 1 that capacity grows faster than linearly with the width. Ours: the paper has no such law.

    Args:
        target: column of counts that is fitted when `fit` gets a table without y.
        n_bootstrap: refits behind `predict_interval`.
        random_state: seed of those.
    """

    name: ClassVar[str] = "power"
    columns: ClassVar[tuple[str, ...]] = ("seq_len", "n_heads", "d_model")
    names: tuple[str, ...] = ("k", "p", "q", "r")
    constant: ClassVar[tuple[float, ...]] = (1.0, 0.0, 1.0)
    """Exponents that are held where a column has one value only: tokens are constant, heads add nothing, width counts
    linearly."""

    def __init__(
        self, *, target: str = "memorized_above_chance", n_bootstrap: int = 1000, random_state: int = 0
    ) -> None:
        self.target = target
        self.n_bootstrap = n_bootstrap
        self.random_state = random_state

    def _capacity(self, theta: Vector, columns: Columns) -> tuple[Vector, np.ndarray]:
        logs = _logs(columns)
        with np.errstate(over="ignore"):
            product = np.exp(np.clip(logs @ theta[1:], -600, 600))
        capacity = theta[0] * product
        return capacity, np.column_stack([product, capacity[:, None] * logs])

    def _structures(self, rows: Rows) -> list[Structure]:
        exponents = self.names[1:]
        held = {
            exponent: (usual, f"one value of {column} only ({rows.columns[column][0]:g}); held at {usual:g}")
            for exponent, column, usual in zip(exponents, self.columns, self.constant, strict=True)
            if np.ptp(rows.columns[column]) == 0
        }
        logs, values = _logs(rows.columns), np.log(rows.counts)
        free = [place for place, exponent in enumerate(exponents) if exponent not in held]
        fixed = np.array([held[exponent][0] if exponent in held else 0.0 for exponent in exponents])
        found, *_ = np.linalg.lstsq(np.column_stack([np.ones(len(logs)), logs[:, free]]), values - logs @ fixed)
        start = fixed.copy()
        start[free] = found[1:]
        return [Structure(held, [dict(zip(self.names, (float(np.exp(found[0])), *start.tolist()), strict=True))])]


class DepthLaw(PowerLaw):
    """C = k · (N − 1)^(−p) · H^q · B^r · L^s: the power law with depth L (`n_layers`).

    The paper fits one and two layers apart and leaves depth open; s says how much of a layer's capacity another adds.
    """

    name: ClassVar[str] = "depth"
    columns: ClassVar[tuple[str, ...]] = ("seq_len", "n_heads", "d_model", "n_layers")
    names: tuple[str, ...] = ("k", "p", "q", "r", "s")
    constant: ClassVar[tuple[float, ...]] = (1.0, 0.0, 1.0, 0.0)


def _logs(columns: Columns) -> np.ndarray:
    """−log(N − 1), then the logarithms of the other columns, `(rows, exponents)`."""
    first = -np.log(np.maximum(columns["seq_len"] - 1, np.finfo(float).tiny))
    return np.column_stack([first, *(np.log(values) for name, values in columns.items() if name != "seq_len")])
