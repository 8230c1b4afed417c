"""The paper's baseline: a polynomial in length, heads and width."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.preprocessing import PolynomialFeatures

from capax.errors import LawError
from capax.laws.censored import Vector
from capax.laws.law import Law, Structure
from capax.laws.rows import Columns, Rows

LARGEST_DEGREE = 20
"""Of a polynomial in three columns: 1771 coefficients."""


class Polynomial(Law):
    """A polynomial in `seq_len`, `n_heads` and `d_model`: 56 coefficients at degree 5, the paper's rival of the ECM.

    Fitted by least squares on the counts themselves, so its interval is as wide for a small count as for a large one
    and it may predict less than nothing, which `capax.predict` refuses and `capax.compare` tells. Columns are first
    brought to −1 to 1. How it was fitted there, and what became of complete libraries, is not known; here they are
    lower bounds, as for every law.

    Args:
        degree: largest total degree.
        target: column of counts that is fitted when `fit` gets a table without y.
        n_bootstrap: refits behind `predict_interval`.
        random_state: seed of those.
    """

    name: ClassVar[str] = "polynomial"
    columns: ClassVar[tuple[str, ...]] = ("seq_len", "n_heads", "d_model")

    def __init__(
        self,
        *,
        degree: int = 5,
        target: str = "memorized_above_chance",
        n_bootstrap: int = 1000,
        random_state: int = 0,
    ) -> None:
        self.degree = degree
        super().__init__(target=target, n_bootstrap=n_bootstrap, random_state=random_state)

    @property
    def names(self) -> tuple[str, ...]:
        """One coefficient per monomial: c210 is that of seq_len²·n_heads, each column brought to −1 to 1."""
        self._check_degree()
        features = PolynomialFeatures(self.degree).fit(np.zeros((1, len(self.columns))))
        return tuple("c" + "".join(map(str, powers)) for powers in features.powers_)

    def _check_degree(self) -> None:
        if not isinstance(self.degree, int) or not 1 <= self.degree <= LARGEST_DEGREE:
            raise LawError(f"degree: at least 1 and at most {LARGEST_DEGREE}, got {self.degree!r:.80}")

    def _capacity(self, theta: Vector, columns: Columns) -> tuple[Vector, np.ndarray]:
        features = self._features(columns)
        return features @ theta, features

    def _features(self, columns: Columns) -> np.ndarray:
        scaled = []
        for name in self.columns:
            low, high = self.domain_.ranges[name]
            scaled.append((2 * columns[name] - low - high) / (high - low) if high > low else columns[name] * 0.0)
        return np.asarray(PolynomialFeatures(self.degree).fit_transform(np.column_stack(scaled)))

    def _structures(self, rows: Rows) -> list[Structure]:
        self._check_degree()
        theta, *_ = np.linalg.lstsq(self._features(rows.columns), rows.counts)
        return [Structure({}, [dict(zip(self.names, theta.tolist(), strict=True))])]

    def _model(self, columns: Columns) -> Any:
        features = self._features(columns)
        return lambda theta: (features @ theta, features)

    def _scale(self, counts: Vector) -> Vector:
        return counts

    def _unscale(self, values: Vector) -> Vector:
        return values

    def _log_slope(self, counts: Vector) -> Vector:
        return np.zeros_like(counts)
