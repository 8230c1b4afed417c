"""The empirical capacity model of Härmä et al. 2024 (arXiv 2407.15425), eq. 10 and 11."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np

from capax.errors import LawError
from capax.laws.censored import SMALLEST_SPREAD, Observed, Solution, Vector, solve
from capax.laws.law import Structure
from capax.laws.printed import adopt
from capax.laws.rows import Rows
from capax.laws.slopes import Series, SlopeLaw, best_starts, slopes_from_origin
from capax.results import LEVEL
from capax.specs.spec import truth

PRINTED_NOTE = (
    "C = max(f·B, αH + β), as summaries of the paper print eq. 11, cannot be meant, since no model could then memorize "
    "fewer than αH + β sequences, however small, while the paper says that counts rise linearly with the width and "
    "then saturate; min is what fits"
)


class ECM(SlopeLaw):
    """Empirical capacity model: C = min(f(N, H)·B, αH + β) with f(N, H) = a / (N^(bH + c) + d) + e.

    N is `seq_len`, H `n_heads`, B `d_model`. The count grows linearly with the width until it saturates.

    Differs from the paper, whose eq. 10 and 11 we know from summaries (secondary): these have max for min (`as_printed`
    gives that form). `method="joint"` fits all parameters
    at once, by relative residuals, with complete libraries as lower bounds, and decides by BIC whether the data show a
    plateau. `method="stages"` is the paper's as far as it is known: the slope of each (N, H) from the origin to the
    last point before saturation, then f to the slopes. Ours: α and β, last, from the saturated points, and what tells
    saturation (the slope from the origin falls below 0.7 of its largest).

    Args:
        method: `joint` or `stages`.
        as_printed: C = max(f·B, αH + β), eq. 11 as summaries of the paper print it.
        target: column of counts that is fitted when `fit` gets a table without y.
        n_bootstrap: refits behind `predict_interval`.
        random_state: seed of those.
    """

    name: ClassVar[str] = "ecm"
    rising: ClassVar[tuple[str, ...]] = ("a", "b", "c", "d", "e")

    def __init__(
        self,
        *,
        method: Literal["joint", "stages"] = "joint",
        as_printed: bool = False,
        target: str = "memorized_above_chance",
        n_bootstrap: int = 1000,
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.as_printed = as_printed
        super().__init__(target=target, n_bootstrap=n_bootstrap, random_state=random_state)

    @classmethod
    def published(cls, source: str = "harma2024", n_layers: int = 1, as_printed: bool = False) -> Self:
        """The law with the parameters that a paper prints (Table 1), as data with their standing.

        Raises:
            LawError: for another source or depth.
        """
        return adopt(cls(as_printed=as_printed), source, n_layers)

    def slope(self, seq_len: Any, n_heads: Any) -> np.ndarray:
        """f(N, H): sequences per channel of width (eq. 10)."""
        values = self.solution_.values
        n, h = np.broadcast_arrays(np.asarray(seq_len, dtype=np.float64), np.asarray(n_heads, dtype=np.float64))
        slopes, _ = eq_10(np.array([values[name] for name in self.rising]), n.ravel(), h.ravel())
        return slopes.reshape(n.shape)

    def reading_notes(self) -> list[str]:
        """Why the printed form cannot be meant, when it was chosen."""
        return [PRINTED_NOTE] if self.as_printed else []

    @property
    def form(self) -> str | None:
        """What it says in symbols: the larger of the two as printed, else the smaller."""
        form = super().form
        return form.replace("min(", "max(") if form is not None and self.as_printed else form

    def _slopes(self, theta: Vector, n: Vector, h: Vector) -> tuple[Vector, np.ndarray]:
        return eq_10(theta, n, h)

    def _saturated(self, linear: Vector, level: Vector) -> np.ndarray:
        return level > linear if self.as_printed else level < linear

    # How it is fitted

    def _slope_starts(self, series: Series, b: float | None) -> list[dict[str, float]]:
        return eq_10_starts(series, b)

    def _structures(self, rows: Rows) -> list[Structure]:
        truth("as_printed", self.as_printed, LawError)
        if self.method not in ("joint", "stages"):
            raise LawError(f"method: 'joint' or 'stages', got {self.method!r}")
        structures = super()._structures(rows)
        return structures[-1:] if self.method == "stages" else structures

    def _level(self, rows: Rows, series: Series) -> tuple[dict[str, tuple[float, str]], dict[str, float]] | None:
        if self.as_printed and self.method == "joint":
            return {}, {"alpha": 0.0, "beta": float(rows.counts.min())}
        return super()._level(rows, series)

    def _no_level(self) -> dict[str, float]:
        return {"alpha": 0.0, "beta": -np.inf if self.as_printed else np.inf}

    def _solve(self, start: dict[str, float], free: tuple[str, ...], rows: Rows, observed: Observed) -> Solution:
        if self.method == "stages":
            return self._stages(start, free, rows, observed)
        return super()._solve(start, free, rows, observed)

    def _stages(self, start: dict[str, float], free: tuple[str, ...], rows: Rows, observed: Observed) -> Solution:
        """The slopes' f, then α and β to the saturated points; the spread is that of all counts about the law."""
        series = slopes_from_origin(rows)
        columns = {"seq_len": series.seq_len, "n_heads": series.n_heads, "d_model": np.ones_like(series.slopes)}
        slopes = Observed(np.log(series.slopes), np.zeros(len(series.slopes), dtype=bool))
        of_f = tuple(name for name in free if name in "abcde")
        rising = solve(self._model(columns), start | self._no_level(), of_f, slopes).values
        level = self._level(rows, series)
        plateau = level[1] if level else {name: start[name] for name in ("alpha", "beta")}
        values = rising | plateau
        mu, _ = self._model(rows.columns)(np.array(list(values.values())))
        residuals = (mu - observed.values)[~observed.censored]
        dof = max(len(residuals) - len(free), 1)
        sigma = max(float(np.sqrt(residuals @ residuals / dof)), SMALLEST_SPREAD)
        return Solution(values, free, sigma, dof, float(residuals @ residuals) / sigma**2)

    def parameter_intervals(self, level: float = LEVEL) -> dict[str, tuple[float | None, float | None]]:
        """As for every law; with `method="stages"` the range of the bootstrap's refits, since no one sum is least.

        Raises:
            LawError: with `method="stages"`, for a level that the refits do not tell: 39 are needed for 95 %.
        """
        if self.method == "joint":
            return super().parameter_intervals(level)
        return self._ends_of_draws(level)


def eq_10(theta: Vector, n: Vector, h: Vector) -> tuple[Vector, np.ndarray]:
    """f(N, H) = a / (N^(bH + c) + d) + e `(rows,)` and its derivatives `(rows, 5)`."""
    a, b, c, d, e = theta
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        power = n ** (b * h + c)
        share = 1 / (power + d)
        by_power = -a * share**2 * power * np.log(n)
        by = np.stack([share, by_power * h, by_power, -a * share**2, np.ones_like(n)], axis=1)
        return a / (power + d) + e, by


def eq_10_starts(
    series: Series, b: float | None, every_d: Sequence[float] = (-0.5, 0.0, 1.0, 5.0)
) -> list[dict[str, float]]:
    """Where a fit of eq. 10 to slopes begins: the best few of a grid over b, c and d."""

    def tried() -> Iterator[tuple[dict[str, float], Vector]]:
        grid = (np.linspace(-0.4, 0.2, 13) if b is None else (b,), np.linspace(0.2, 2.6, 13), every_d)
        for of_heads, c, d in itertools.product(*grid):
            exponent = of_heads * series.n_heads + c
            if (exponent > 0).all():
                yield {"b": of_heads, "c": c, "d": d}, 1 / (series.seq_len**exponent + d)

    return best_starts(series, tried())
