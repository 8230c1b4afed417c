"""How laws predict: counts, intervals of new ones by draws, and whether a row lies where the law is known to hold."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from capax.errors import LawError
from capax.laws.domain import OutsideDomainWarning
from capax.laws.reading import Reader
from capax.laws.rows import Columns, Rows, Vector
from capax.results import LEVEL
from capax.specs.spec import proper_share
from capax.store import frames, tables

FEWEST_DRAWS = 10
LEAST = 0.01
"""Counts below this differ by so little that their logarithms need not be told apart."""


def tails(level: float) -> tuple[float, float]:
    """The probabilities below which the ends of an interval lie.

    Raises:
        LawError: for a level that is none.
    """
    proper_share("level", level, LawError)
    return (1 - level) / 2, (1 + level) / 2


class Predictor(Reader, ABC):
    """A law that has its parameters: what it says of rows, and where a new measurement falls."""

    draws_: np.ndarray | None

    @abstractmethod
    def _capacity(self, theta: Vector, columns: Columns) -> tuple[Vector, np.ndarray]:
        """Capacity `(rows,)` and its derivatives `(rows, parameters)`; both may be anything where there is none."""

    @abstractmethod
    def _drawn(self, rng: np.random.Generator) -> np.ndarray:
        """`n_bootstrap` draws of the parameters, and sigma last."""

    def _refuse(self, columns: Columns) -> None:
        """Raise where the law has no meaning."""

    def bounded(self, columns: Mapping[str, Any]) -> Mapping[str, Any]:
        """The columns whose ranges are the domain: the law's own, and what else it takes from them."""
        return columns

    @property
    def measured(self) -> Rows | None:
        """The rows that it was fitted to; None for a published law, and for one of a file that leaves them out."""
        return getattr(self, "rows_", None)

    def measurements(self) -> Rows:
        """The rows that it was fitted to.

        Raises:
            LawError: where there are none.
        """
        if self.measured is None:
            raise LawError(f"{self.name}: was not fitted to measurements ({self.source_})")
        return self.measured

    def _capacities(self, columns: Columns) -> Callable[[Vector], tuple[Vector, np.ndarray]]:
        """`_capacity` of the same columns for one theta after another."""
        return lambda theta: self._capacity(theta, columns)

    def _scale(self, counts: Vector) -> Vector:
        """Counts on the scale on which residuals are alike: logarithms.

        Below `LEAST` the line that touches there goes on, so that a fit that strays below zero finds its way back.
        """
        return np.log(np.maximum(counts, LEAST)) + np.minimum(counts / LEAST - 1, 0.0)

    def _unscale(self, values: Vector) -> Vector:
        with np.errstate(over="ignore"):  # beyond all numbers there is no end
            return np.exp(values)

    # Predicting

    def predict(self, X: Any) -> Vector:
        """Capacity of each row; not capped by a library. Warns of rows outside the domain (`inside_domain`).

        Raises:
            TableError: when a column is missing or a value is not a positive number.
            LawError: where the law has no meaning.
        """
        X = frames.taken(X)
        columns = self._columns_of(X)
        self._refuse(columns)
        outside = int((~self.domain_.inside(self.bounded(columns), X if tables.is_table(X) else {})).sum())
        if outside:
            warnings.warn(
                f"{outside} of {len(next(iter(columns.values())))} rows lie outside the domain of this law "
                f"({self.domain_.in_words()})",
                OutsideDomainWarning,
                stacklevel=2,
            )
        return self._predict(columns)

    def _predict(self, columns: Columns) -> Vector:
        return self._capacity(self._theta(), columns)[0]

    def _theta(self) -> Vector:
        return self.solution_.theta

    def inside_domain(self, X: Any) -> np.ndarray:
        """Which rows lie where the law was fitted: in the range of every column, and measured in the same way."""
        X = frames.taken(X)
        columns = self._columns_of(X)
        return self.domain_.inside(self.bounded(columns), X if tables.is_table(X) else {})

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R² of the counts; a prediction above the library's size counts as the whole library."""
        check_is_fitted(self, "solution_")
        rows = self.read(frames.taken(X), y, reset=False)
        self._refuse(rows.columns)
        predicted = np.minimum(self._predict(rows.columns), rows.library)
        return float(r2_score(rows.counts, predicted, sample_weight=sample_weight))

    # Intervals

    def predict_interval(self, X: Any, level: float = LEVEL) -> tuple[Vector, Vector]:
        """Where a new count of the same protocol falls with probability `level`: low and high, `(rows,)` each.

        A parametric bootstrap (`n_bootstrap` refits, computed once): counts are drawn from the fitted law with its
        spread and censored as the data were, the law is fitted anew, and the error of its prediction of a new count is
        measured in units of its own spread. (Resampling the restarts of a best-of-restarts count could only lower it.)

        Raises:
            LawError: for a level that is none.
        """
        low, high = self.quantiles(X, tails(level))
        return low, high

    def quantile(self, X: Any, probability: float) -> Vector:
        """The count below which a new measurement falls with this probability."""
        return self.quantiles(X, (probability,))[0]

    def quantiles(self, X: Any, probabilities: Sequence[float]) -> list[Vector]:
        """The counts below which a new measurement falls with these probabilities, `(rows,)` each.

        Raises:
            LawError: for one that is none, or that is too near to 0 or 1 for the law's draws to tell.
        """
        self.refuse_beyond_draws(probabilities)
        center, errors = self._errors_of_new(X)
        found = np.quantile(errors, probabilities, axis=0, method="weibull")
        return [self._unscale(center + self.sigma_ * error) for error in found]

    def refuse_beyond_draws(self, probabilities: Sequence[float]) -> None:
        """Raise LawError for a probability beyond the first and the last draw, where there is nothing to tell it by."""
        for probability in probabilities:
            proper_share("probability", probability, LawError)
        draws = len(self.bootstrap())
        for probability in probabilities:
            if (draws + 1) * min(probability, 1 - probability) < 1 - 1e-9:
                end = 1 / (draws + 1)
                raise LawError(
                    f"probability: {end:.3g} to {1 - end:.6g} can be told by the law's {draws} draws (n_bootstrap), "
                    f"got {probability:g}"
                )

    def new_measurements(self, X: Any) -> np.ndarray:
        """Draws of a new measurement of each row, `(draws, rows)`, whose quantiles are `quantiles`."""
        center, errors = self._errors_of_new(X)
        return np.asarray(self._unscale(center + self.sigma_ * errors))

    def _errors_of_new(self, X: Any) -> tuple[Vector, np.ndarray]:
        """What the law says of rows, scaled, and how far draws of a new measurement are from there, in spreads."""
        columns = self._columns_of(frames.taken(X))
        self._refuse(columns)
        center, draws = self._scale(self._predict(columns)), self.bootstrap()
        drawn = self._said(draws[:, :-1], columns)
        spread = draws[:, -1:] * self._unevenness(columns)
        return center, self._errors(center, drawn, spread, self.noise()[:, None])

    def drivers(self, X: Any) -> dict[str, float]:
        """What makes the interval of one row wide, as shares of its variance; empty where a law does not say."""
        return {}

    def _said(self, draws: np.ndarray, columns: Columns) -> np.ndarray:
        """What parameters `(draws, parameters)` say of rows, scaled, `(draws, rows)`."""
        capacities = self._capacities(columns)
        return np.stack([self._scale(capacities(theta)[0]) for theta in draws])

    def _errors(self, center: Vector, drawn: np.ndarray, spread: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """How far new counts are from the center, `(draws, rows)`, in units of the spread."""
        return np.asarray((center + self.sigma_ * noise - drawn) / spread)

    def _unevenness(self, columns: Columns) -> Vector:
        """How many times sigma measurements of rows spread."""
        return np.ones(len(next(iter(columns.values()))))

    def noise(self) -> np.ndarray:
        """The error of the new count beside each draw of `bootstrap`, in units of the spread: normal quantiles."""
        draws = len(self.bootstrap())
        normal = ndtri((np.arange(draws) + 0.5) / draws)
        return np.asarray(np.random.default_rng([self.random_state, 1]).permutation(normal))

    def bootstrap(self) -> np.ndarray:
        """Parameters, and sigma last, of `n_bootstrap` refits to data drawn from the fitted law."""
        check_is_fitted(self, "solution_")
        if self.n_bootstrap < FEWEST_DRAWS:
            raise LawError(f"n_bootstrap: at least {FEWEST_DRAWS}, got {self.n_bootstrap}")
        if self.draws_ is None:
            rng = np.random.default_rng([self.random_state, 0])
            self.draws_ = self._drawn(rng)
        return self.draws_

    def _ends_of_draws(self, level: float) -> dict[str, tuple[float | None, float | None]]:
        """Quantiles of the draws of each parameter; one in `undetermined_` has neither end.

        Raises:
            LawError: for a level that the law's draws do not tell.
        """
        count = len(self.bootstrap())
        if level > (most := 1 - 2 / (count + 1)) + 1e-9:
            raise LawError(f"level: at most {most:.6g}, as the law has {count} draws (n_bootstrap), got {level:g}")
        ends = {
            name: np.quantile(draws, tails(level)).tolist()
            for name, draws in zip(self.names, self.bootstrap()[:, :-1].T, strict=True)
            if name not in self.undetermined_
        }
        return {name: (ends[name][0], ends[name][1]) if name in ends else (None, None) for name in self.names}
