"""The scaling law of the key-query channel (Adler 2025)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from capax.errors import LawError
from capax.laws.censored import Vector
from capax.laws.law import Law, Structure
from capax.laws.rows import Columns, Rows


class RelationLaw(Law):
    """D_K* = c · (m' log2 m' / d)^s: the total key dimension at which m' relations are recognized in d channels.

    m' is `n_edges`, d `d_model`. The paper's law has s = 1; c and s are fitted here (log residuals). Without the
    logarithm it is c · (m'/d)^s: on small grids the data do not tell the two apart, so compare them.

    Args:
        logarithm: whether m' is multiplied by its logarithm.
        target: column of total key dimensions that is fitted when `fit` gets a table without y.
        n_bootstrap: refits behind `predict_interval`.
        random_state: seed of those.
    """

    name: ClassVar[str] = "relation"
    columns: ClassVar[tuple[str, ...]] = ("n_edges", "d_model")
    names: tuple[str, ...] = ("c", "s")
    task: ClassVar[str] = "relations"
    censored: ClassVar[bool] = False
    found: ClassVar[tuple[str, ...]] = ("n_heads", "d_head")

    def __init__(
        self,
        *,
        logarithm: bool = True,
        target: str = "total_key_dim",
        n_bootstrap: int = 1000,
        random_state: int = 0,
    ) -> None:
        self.logarithm = logarithm
        self.target = target
        self.n_bootstrap = n_bootstrap
        self.random_state = random_state

    def load(self, columns: Columns) -> Vector:
        """The load m' log2 m' / d, or m'/d without the logarithm."""
        edges = columns["n_edges"]
        return edges * (np.log2(edges) if self.logarithm else 1.0) / columns["d_model"]

    def _capacity(self, theta: Vector, columns: Columns) -> tuple[Vector, np.ndarray]:
        logs = np.log(np.maximum(self.load(columns), np.finfo(float).tiny))
        with np.errstate(over="ignore"):
            power = np.exp(np.clip(theta[1] * logs, -600, 600))
        return theta[0] * power, np.column_stack([power, theta[0] * power * logs])

    def _structures(self, rows: Rows) -> list[Structure]:
        self._refuse(rows.columns)
        logs, values = np.log(self.load(rows.columns)), np.log(rows.counts)
        if np.ptp(logs) == 0:
            held = {"s": (1.0, "one value of the load only; held at 1")}
            return [Structure(held, [{"c": float(np.exp((values - logs).mean())), "s": 1.0}])]
        slope, intercept = np.polyfit(logs, values, 1)
        return [Structure({}, [{"c": float(np.exp(intercept)), "s": float(slope)}])]

    def _refuse(self, columns: Columns) -> None:
        if self.logarithm and (columns["n_edges"] < 2).any():
            raise LawError("n_edges: at least 2 for this law (log 1 is 0), got 1")

    def reading_notes(self) -> list[str]:
        """What a reader must know of the options that were chosen."""
        return [] if self.logarithm else ["without the logarithm: D_K* = c (m'/d)^s"]
