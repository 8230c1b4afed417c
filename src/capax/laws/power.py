"""Power laws: capacity as a product of powers of the columns."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from capax.errors import LawError
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
        logs = self._logs(columns)
        with np.errstate(over="ignore"):
            product = np.exp(np.clip(logs @ theta[1:], -600, 600))
        capacity = theta[0] * product
        return capacity, np.column_stack([product, capacity[:, None] * logs])

    def _structures(self, rows: Rows) -> list[Structure]:
        exponents, logs, values = self.names[1:], self._logs(rows.columns), np.log(rows.counts)
        held = {}
        for exponent, base, usual, column in zip(exponents, self.bases, self.constant, logs.T, strict=True):
            if np.ptp(column) == 0:
                value = f" ({rows.columns[base][0]:g})" if base in rows.columns else ""
                held[exponent] = (usual, f"one value of {base} only{value}; held at {usual:g}")
        free = [place for place, exponent in enumerate(exponents) if exponent not in held]
        fixed = np.array([held[exponent][0] if exponent in held else 0.0 for exponent in exponents])
        found, *_ = np.linalg.lstsq(np.column_stack([np.ones(len(logs)), logs[:, free]]), values - logs @ fixed)
        start = fixed.copy()
        start[free] = found[1:]
        return [Structure(held, [dict(zip(self.names, (float(np.exp(found[0])), *start.tolist()), strict=True))])]

    @property
    def bases(self) -> tuple[str, ...]:
        """What the exponents are of."""
        return self.columns

    def _logs(self, columns: Columns) -> np.ndarray:
        """−log(N − 1), then the logarithms of the other columns, `(rows, exponents)`."""
        first = -np.log(np.maximum(columns["seq_len"] - 1, np.finfo(float).tiny))
        return np.column_stack([first, *(np.log(values) for name, values in columns.items() if name != "seq_len")])


class DepthLaw(PowerLaw):
    """C = k · (N − 1)^(−p) · H^q · B^r · L^s: the power law with depth L (`n_layers`).

    The paper fits one and two layers apart and leaves depth open; s says how much of a layer's capacity another adds.
    """

    name: ClassVar[str] = "depth"
    columns: ClassVar[tuple[str, ...]] = ("seq_len", "n_heads", "d_model", "n_layers")
    names: tuple[str, ...] = ("k", "p", "q", "r", "s")
    constant: ClassVar[tuple[float, ...]] = (1.0, 0.0, 1.0, 0.0)


class AssociationLaw(PowerLaw):
    """C = k · H^a · (n − 1)^b · min(d_head, n)^c · d^g: what a trained attention layer remembers of associations.

    H is `n_heads`, n `context_size`, d `d_model`. The bound of Mahdavi et al. 2024, H (min(n, d_head) − 1) + 1, grows
    with H and min(n, d_head) alone; here the data decide. As in the paper a head size beyond n adds nothing. One token
    takes all attention: nothing depends on the query, and the law has no value there. The form is ours.
    """

    name: ClassVar[str] = "association"
    task: ClassVar[str] = "associations"
    columns: ClassVar[tuple[str, ...]] = ("n_heads", "context_size", "d_head", "d_model")
    names: tuple[str, ...] = ("k", "a", "b", "c", "g")
    constant: ClassVar[tuple[float, ...]] = (1.0, 1.0, 0.0, 0.0)

    @property
    def bases(self) -> tuple[str, ...]:
        """What the exponents are of."""
        return ("n_heads", "context_size", "min(d_head, context_size)", "d_model")

    def _structures(self, rows: Rows) -> list[Structure]:
        self._refuse(rows.columns)
        return super()._structures(rows)

    def _refuse(self, columns: Columns) -> None:
        if (columns["context_size"] <= 1).any():
            raise LawError("context_size: above 1 for this law (one token takes all attention), got 1")

    def _logs(self, columns: Columns) -> np.ndarray:
        heads, context, head, width = (columns[name] for name in self.columns)
        several = np.maximum(context - 1, np.finfo(float).tiny)
        return np.log(np.column_stack([heads, several, np.minimum(head, context), width]))
