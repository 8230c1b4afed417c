"""The empirical capacity model of Härmä et al. 2024 (arXiv 2407.15425), eq. 10 and 11."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.optimize import nnls

from capax.errors import LawError
from capax.laws.censored import SMALLEST_SPREAD, Observed, Solution, Vector, solve
from capax.laws.law import Law, Structure
from capax.laws.published import adopt
from capax.laws.rows import Columns, Rows

PRINTED_NOTE = (
    "as printed: C = max(f·B, αH + β) cannot be meant, since no model could then memorize fewer than αH + β sequences, "
    "however small, while the paper says that counts rise linearly with the width and then saturate; min is what fits"
)
FLATTENED = 0.7
"""A series has saturated where its slope from the origin falls below this share of its largest."""
STARTS = 4


class ECM(Law):
    """Empirical capacity model: C = min(f(N, H)·B, αH + β) with f(N, H) = a / (N^(bH + c) + d) + e.

    N is `seq_len`, H `n_heads`, B `d_model`. The count grows linearly with the width until it saturates.

    Differs from the paper: it prints max for min (`as_printed` gives that form); `method="joint"` fits all parameters
    at once, by relative residuals, with complete libraries as lower bounds, and decides by BIC whether the data show a
    plateau. `method="stages"` is the paper's: the slope of each (N, H) from the origin to the last point before
    saturation, then f to the slopes, then α and β to the saturated points (how the paper tells
    saturation is not stated; ours: the slope from the origin falls below 0.7 of its largest).

    Args:
        method: `joint` or `stages`.
        as_printed: C = max(f·B, αH + β), eq. 11 as printed.
        target: column of counts that is fitted when `fit` gets a table without y.
        n_bootstrap: refits behind `predict_interval`.
        random_state: seed of those.
    """

    name: ClassVar[str] = "ecm"
    columns: ClassVar[tuple[str, ...]] = ("seq_len", "n_heads", "d_model")
    names = ("a", "b", "c", "d", "e", "alpha", "beta")

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
        self.target = target
        self.n_bootstrap = n_bootstrap
        self.random_state = random_state

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
        n, h = np.asarray(seq_len, dtype=np.float64), np.asarray(n_heads, dtype=np.float64)
        return _slope(tuple(values[name] for name in "abcde"), n, h)

    def reading_notes(self) -> list[str]:
        """Why the printed form cannot be meant, when it was chosen."""
        return [PRINTED_NOTE] if self.as_printed else []

    # What the law says

    def _capacity(self, theta: Vector, columns: Columns) -> tuple[Vector, np.ndarray]:
        n, h, width = columns["seq_len"], columns["n_heads"], columns["d_model"]
        a, b, c, d, _, alpha, beta = theta
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            power = n ** (b * h + c)
            share = 1 / (power + d)
            linear = _slope(theta[:5], n, h) * width
            by_power = -a * share**2 * power * np.log(n)
            rising = np.stack([share, by_power * h, by_power, -a * share**2, np.ones_like(n)], axis=1) * width[:, None]
        plateau = alpha * h + beta
        saturated = plateau > linear if self.as_printed else plateau < linear
        derivatives = np.zeros((len(n), 7))
        derivatives[~saturated, :5] = rising[~saturated]
        derivatives[saturated, 5] = h[saturated]
        derivatives[saturated, 6] = 1.0
        return np.nan_to_num(np.where(saturated, plateau, linear), nan=0.0), np.nan_to_num(derivatives)

    def _refuse(self, columns: Columns) -> None:
        values = self.solution_.values
        exponent = values["b"] * columns["n_heads"] + values["c"]
        known = self.domain_.ranges["n_heads"]
        beyond = (exponent <= 0) & ((columns["n_heads"] > known[1]) | (columns["n_heads"] < known[0]))
        if beyond.any():
            row = int(np.flatnonzero(beyond)[0])
            raise LawError(
                f"n_heads: {columns['n_heads'][row]:g}: the exponent bH + c is {exponent[row]:.3g} there (it changes "
                f"sign at {-values['c'] / values['b']:.3g} heads), so capacity would grow with seq_len; "
                f"the law is known for {known[0]:g} to {known[1]:g} heads"
            )
        capacity = self._predict(columns)
        if (capacity <= 0).any():
            row = int(np.flatnonzero(capacity <= 0)[0])
            place = ", ".join(f"{name} {values[row]:g}" for name, values in columns.items())
            raise LawError(f"the law gives {capacity[row]:.3g} sequences at {place}: it does not hold there")

    # How it is fitted

    def _structures(self, rows: Rows) -> list[Structure]:
        if self.method not in ("joint", "stages"):
            raise LawError(f"method: 'joint' or 'stages', got {self.method!r}")
        series = slopes_from_origin(rows)
        lengths, heads = np.unique(rows.columns["seq_len"]), np.unique(rows.columns["n_heads"])
        needed = 4 if len(heads) == 1 else 5
        if len(lengths) < 2 or len(series.slopes) < needed:
            raise LawError(
                f"seq_len: the ecm needs two lengths and {needed} different (seq_len, n_heads) with counts below the "
                f"library's size, got {len(lengths)} and {len(series.slopes)}; the power law needs fewer"
            )
        one_head = {"b": (0.0, f"one head count only ({heads[0]:g}): c stands for bH + c")} if len(heads) == 1 else {}
        slopes = _slope_starts(series, fixed_b=0.0 if one_head else None)
        none = self._no_level()
        held = {name: (value, "no count shows a plateau") for name, value in none.items()}
        structures = [Structure(one_head | held, [start | none for start in slopes])]
        level = self._level(rows, series)
        if level is not None:
            held, start = level
            with_level = Structure(one_head | held, [slope | start for slope in slopes])
            structures = [with_level] if self.method == "stages" else [*structures, with_level]
        return structures

    def _level(self, rows: Rows, series: Series) -> tuple[dict[str, tuple[float, str]], dict[str, float]] | None:
        """What is held of α and β, and where they start; None where no row can tell of them."""
        if self.as_printed and self.method == "joint":
            return {}, {"alpha": 0.0, "beta": float(rows.counts.min())}
        if not series.saturated.any():
            return None
        heads, counts = rows.columns["n_heads"][series.saturated], rows.counts[series.saturated]
        if len(seen := np.unique(heads)) == 1:
            return _one_level(rows, float(seen[0]), float(counts.mean()))
        alpha, beta = np.linalg.lstsq(np.stack([heads, np.ones_like(heads)], axis=1), counts)[0]
        return {}, {"alpha": float(alpha), "beta": float(beta)}

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

    def parameter_intervals(self, level: float = 0.95) -> dict[str, tuple[float | None, float | None]]:
        """As for every law; with `method="stages"` the range of the bootstrap's refits, since no one sum is least."""
        if self.method == "joint":
            return super().parameter_intervals(level)
        draws = self.bootstrap()
        tails = [(1 - level) / 2, (1 + level) / 2]
        return {
            name: (None, None) if name in self.undetermined_ else tuple(np.quantile(draws[:, place], tails).tolist())
            for place, name in enumerate(self.names)
        }


def _slope(f: Any, n: np.ndarray, h: np.ndarray) -> np.ndarray:
    a, b, c, d, e = f
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(a / (n ** (b * h + c) + d) + e)


def _one_level(rows: Rows, heads: float, level: float) -> tuple[dict[str, tuple[float, str]], dict[str, float]] | None:
    """A plateau at one head count: α is held, at zero or as near as the counts of the other head counts allow."""
    low, high = -np.inf, np.inf
    for other in np.unique(rows.columns["n_heads"]):
        most = 1.2 * rows.counts[rows.columns["n_heads"] == other].max()
        if other > heads:
            low = max(low, (most - level) / (other - heads))
        elif other < heads:
            high = min(high, (most - level) / (other - heads))
    if low > high:
        return None
    alpha = float(np.clip(0.0, low, high))
    reason = f"a plateau shows at one head count only ({heads:g}); held at {alpha:.4g}, which the others allow"
    return {"alpha": (alpha, reason)}, {"alpha": alpha, "beta": level - alpha * heads}


@dataclass(frozen=True)
class Series:
    """Counts against width, for each (seq_len, n_heads): slopes from the origin to the last point before saturation.

    Attributes:
        seq_len: `(series,)`
        n_heads: `(series,)`
        slopes: `(series,)` counts per channel of width.
        last: `(rows,)` the rows at that point, whose counts the slopes are of.
        saturated: `(rows,)` the rows beyond that point whose library was not memorized whole.
    """

    seq_len: np.ndarray
    n_heads: np.ndarray
    slopes: np.ndarray
    last: np.ndarray
    saturated: np.ndarray


def slopes_from_origin(rows: Rows) -> Series:
    """The slopes of the paper's method in stages; a series of whole libraries alone has none."""
    seq_len, n_heads, width = (rows.columns[name] for name in ECM.columns)
    below, found = ~rows.complete, []
    last, saturated = np.zeros((2, len(width)), dtype=bool)
    for length, heads in sorted({*zip(seq_len, n_heads, strict=True)}):
        here = np.flatnonzero((seq_len == length) & (n_heads == heads) & below)
        if not len(here):
            continue
        here = here[np.argsort(width[here], kind="stable")]
        slopes = rows.counts[here] / width[here]
        flat = slopes < FLATTENED * np.maximum.accumulate(slopes)
        first = int(np.argmax(flat)) if flat.any() else len(here)
        saturated[here[first:]] = True
        at = width[here] == width[here[first - 1]]
        last[here[at]] = True
        found.append((length, heads, slopes[at].mean()))
    table = np.array(found).reshape(-1, 3)
    return Series(table[:, 0], table[:, 1], table[:, 2], last, saturated)


def _slope_starts(series: Series, fixed_b: float | None) -> list[dict[str, float]]:
    """The best few of a grid over b, c and d, with a and e by least squares on relative residuals."""
    n, h, slopes = series.seq_len, series.n_heads, series.slopes
    tried = []
    for b, c, d in itertools.product(
        np.linspace(-0.4, 0.2, 13) if fixed_b is None else (fixed_b,), np.linspace(0.2, 2.6, 13), (-0.5, 0.0, 1.0, 5.0)
    ):
        if (b * h + c <= 0).any():
            continue
        parts = np.stack([1 / (n ** (b * h + c) + d), np.ones_like(n)], axis=1) / slopes[:, None]
        (a, e), *_ = np.linalg.lstsq(parts, np.ones_like(n))
        if (parts @ (a, e) <= 0).any():
            (a, e), _ = nnls(parts, np.ones_like(n))
        misfit = parts @ (a, e) - 1
        tried.append((float(misfit @ misfit), {"a": a, "b": b, "c": c, "d": d, "e": e}))
    tried.sort(key=lambda pair: pair[0])
    return [start for _, start in tried[:STARTS]]
