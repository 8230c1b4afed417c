"""Forms that Härmä et al. 2024 name beside the ECM and reject (secondary), to judge that choice on measurements.

Their formulas were not found in any source: these are readings of ours (reconstructed). Each differs from the ECM in
what the paper chose against, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from capax.laws.censored import Vector
from capax.laws.ecm import eq_10, eq_10_starts
from capax.laws.law import Structure
from capax.laws.rows import Columns, Rows
from capax.laws.slopes import Series, SlopeLaw, best_starts

LENGTHS = 4
"""That a, the exponent, d and e of eq. 10 need."""
READING = "the paper's own formula of this form was not found: the reading is ours (reconstructed)"


class ExponentialLaw(SlopeLaw):
    """C = min(f(N, H)·B, αH + β) with f(N, H) = a·exp(−(bH + c)·N) + e: the ECM with exponential decay in N.

    N is `seq_len`, H `n_heads`, B `d_model`. Eq. 10 has a / (N^(bH + c) + d) in its place, a power law; exponential
    decay was considered and rejected (secondary). The formula is a reading of ours (`capax.laws.rejected`).

    Args:
        target: column of counts that is fitted when `fit` gets a table without y.
        n_bootstrap: refits behind `predict_interval`.
        random_state: seed of those.
    """

    name: ClassVar[str] = "exponential"
    rising: ClassVar[tuple[str, ...]] = ("a", "b", "c", "e")

    def reading_notes(self) -> list[str]:
        """That the formula is ours."""
        return [READING]

    def _slopes(self, theta: Vector, n: Vector, h: Vector) -> tuple[Vector, np.ndarray]:
        a, b, c, e = theta
        decay = np.exp(np.clip(-(b * h + c) * n, -600, 600))
        return a * decay + e, np.stack([decay, -a * decay * n * h, -a * decay * n, np.ones_like(n)], axis=1)

    def _slope_starts(self, series: Series, b: float | None) -> list[dict[str, float]]:
        n, h = series.seq_len, series.n_heads

        def tried() -> Iterator[tuple[dict[str, float], Vector]]:
            for c in np.geomspace(0.1 / n.max(), 3 / n.min(), 25):
                for share in np.linspace(-0.2, 0.2, 9) if b is None else (0.0,):
                    if (1 + share * h > 0).all():
                        yield {"b": float(share * c), "c": float(c)}, np.exp(-c * (1 + share * h) * n)

        return best_starts(series, tried())


class LogisticLaw(SlopeLaw):
    """C = (αH + β) / (1 + exp(m − 4·f(N, H)·B / (αH + β))): the ECM with a logistic curve in B.

    N is `seq_len`, H `n_heads`, B `d_model`, and f that of eq. 10: sequences per channel of width where the curve is
    steepest, at half of αH + β. m says where that is, at B = m·(αH + β) / (4f). The ECM has min(f·B, αH + β) in its
    place. The formula, and m, are a reading of ours (`capax.laws.rejected`).

    Args:
        target: column of counts that is fitted when `fit` gets a table without y.
        n_bootstrap: refits behind `predict_interval`.
        random_state: seed of those.
    """

    name: ClassVar[str] = "logistic"
    rising: ClassVar[tuple[str, ...]] = ("a", "b", "c", "d", "e")

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the ECM, and m."""
        return (*self.rising, "alpha", "beta", "m")

    def reading_notes(self) -> list[str]:
        """That the formula is ours."""
        return [READING]

    def _slopes(self, theta: Vector, n: Vector, h: Vector) -> tuple[Vector, np.ndarray]:
        return eq_10(theta, n, h)

    def _slope_starts(self, series: Series, b: float | None) -> list[dict[str, float]]:
        few = len(np.unique(series.seq_len)) < LENGTHS
        return eq_10_starts(series, b, (0.0,)) if few else eq_10_starts(series, b)

    def _capacity(self, theta: Vector, columns: Columns) -> tuple[Vector, np.ndarray]:
        h, width = columns["n_heads"], columns["d_model"]
        slope, by_parameter = self._slopes(theta[:5], columns["seq_len"], h)
        *_, alpha, beta, m = theta
        level = alpha * h + beta
        with np.errstate(all="ignore"):
            steep = 4 * slope * width / level
            share = 1 / (1 + np.exp(np.clip(m - steep, -600, 600)))
            by_steep = level * share * (1 - share)
            by_level = share - (1 - share) * share * steep
            by_slope = by_steep * 4 * width / level
        value = level * share
        by = np.column_stack([by_slope[:, None] * by_parameter, by_level * h, by_level, -by_steep])
        return np.nan_to_num(value, nan=0.0), np.nan_to_num(by)

    def _structures(self, rows: Rows) -> list[Structure]:
        """A logistic curve has a level in any case: it begins at multiples of the largest count."""
        series, one_head = self._checked(rows)
        most, starts = float(rows.counts.max()), []
        for slopes in self._slope_starts(series, 0.0 if one_head else None)[:2]:
            for above, m in ((1.1, 2.0), (2.0, 2.0), (10.0, 3.0)):
                steeper = {name: 1.5 * slopes[name] for name in ("a", "e")}
                starts.append(slopes | steeper | {"alpha": 0.0, "beta": above * most, "m": m})
        held = dict(one_head)
        if one_head:
            held["alpha"] = (0.0, "one head count only: beta stands for alpha·H + beta")
        if len(np.unique(series.seq_len)) < LENGTHS:
            held["d"] = (0.0, f"fewer than {LENGTHS} lengths do not tell it from a and c; held at 0")
        return [Structure(held, starts)]
