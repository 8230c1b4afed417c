"""What the ECM and the forms that it was chosen over share: counts grow with the width at a slope, up to a level."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import nnls

from capax.errors import LawError
from capax.laws.censored import Vector
from capax.laws.law import Law, Structure
from capax.laws.rows import Columns, Rows

FLATTENED = 0.7
"""A series has saturated where its slope from the origin falls below this share of its largest."""
STARTS = 4


class SlopeLaw(Law):
    """Base of the laws C = min(f(N, H)·B, αH + β), each with an f of its own whose rate of decay in N is bH + c.

    N is `seq_len`, H `n_heads`, B `d_model`. All parameters are fitted at once, by relative residuals; whether there is
    a level αH + β is decided by BIC.

    Attributes:
        rising: the parameters of f, b and c among them.
    """

    columns: ClassVar[tuple[str, ...]] = ("seq_len", "n_heads", "d_model")
    rising: ClassVar[tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """Those of f, and of the level."""
        return (*self.rising, "alpha", "beta")

    # What a law defines

    @abstractmethod
    def _slopes(self, theta: Vector, n: Vector, h: Vector) -> tuple[Vector, np.ndarray]:
        """f(N, H) `(rows,)` and its derivatives `(rows, rising)`."""

    @abstractmethod
    def _slope_starts(self, series: Series, b: float | None) -> list[dict[str, float]]:
        """Where a fit of f begins; b is held where it is given."""

    # What the law says

    def _capacity(self, theta: Vector, columns: Columns) -> tuple[Vector, np.ndarray]:
        h, width = columns["n_heads"], columns["d_model"]
        slope, by_parameter = self._slopes(theta[: len(self.rising)], columns["seq_len"], h)
        with np.errstate(over="ignore", invalid="ignore"):
            linear, level = slope * width, theta[-2] * h + theta[-1]
        saturated = self._saturated(linear, level)
        derivatives = np.zeros((len(h), len(self.names)))
        derivatives[~saturated, :-2] = (by_parameter * width[:, None])[~saturated]
        derivatives[saturated, -2] = h[saturated]
        derivatives[saturated, -1] = 1.0
        return np.nan_to_num(np.where(saturated, level, linear), nan=0.0), np.nan_to_num(derivatives)

    def _saturated(self, linear: Vector, level: Vector) -> np.ndarray:
        return level < linear

    def _refuse(self, columns: Columns) -> None:
        values = self.solution_.values
        exponent = values["b"] * columns["n_heads"] + values["c"]
        known = self.domain_.ranges["n_heads"]
        beyond = (exponent <= 0) & ((columns["n_heads"] > known[1]) | (columns["n_heads"] < known[0]))
        if beyond.any():
            row = int(np.flatnonzero(beyond)[0])
            changes = f" (it changes sign at {-values['c'] / values['b']:.3g} heads)" if values["b"] else ""
            raise LawError(
                f"n_heads: {columns['n_heads'][row]:g}: the exponent bH + c is {exponent[row]:.3g} there{changes}, "
                "so capacity would grow with seq_len; "
                f"the law is known for {known[0]:g} to {known[1]:g} heads"
            )
        capacity = self._predict(columns)
        if (capacity <= 0).any():
            row = int(np.flatnonzero(capacity <= 0)[0])
            place = ", ".join(f"{name} {values[row]:g}" for name, values in columns.items())
            raise LawError(f"the law gives {capacity[row]:.3g} sequences at {place}: it does not hold there")

    # How it is fitted

    def _structures(self, rows: Rows) -> list[Structure]:
        series, one_head = self._checked(rows)
        slopes = self._slope_starts(series, 0.0 if one_head else None)
        none = self._no_level()
        held = {name: (value, "no count shows a plateau") for name, value in none.items()}
        structures = [Structure(one_head | held, [start | none for start in slopes])]
        level = self._level(rows, series)
        if level is not None:
            held, start = level
            structures.append(Structure(one_head | held, [slope | start for slope in slopes]))
        return structures

    def _checked(self, rows: Rows) -> tuple[Series, dict[str, tuple[float, str]]]:
        """The series of slopes, and b where it is held.

        Raises:
            LawError: when there are too few of them.
        """
        series = slopes_from_origin(rows)
        lengths, heads = np.unique(rows.columns["seq_len"]), np.unique(rows.columns["n_heads"])
        needed = len(self.rising) - (len(heads) == 1)
        if len(lengths) < 2 or len(series.slopes) < needed:
            raise LawError(
                f"seq_len: the {self.name} needs two lengths and {needed} different (seq_len, n_heads) with counts "
                f"below the library's size, got {len(lengths)} and {len(series.slopes)}; the power law needs fewer"
            )
        one_head = {"b": (0.0, f"one head count only ({heads[0]:g}): c stands for bH + c")} if len(heads) == 1 else {}
        return series, one_head

    def _level(self, rows: Rows, series: Series) -> tuple[dict[str, tuple[float, str]], dict[str, float]] | None:
        """What is held of α and β, and where they start; None where no row can tell of them."""
        if not series.saturated.any():
            return None
        heads, counts = rows.columns["n_heads"][series.saturated], rows.counts[series.saturated]
        if len(seen := np.unique(heads)) == 1:
            return _one_level(rows, float(seen[0]), float(counts.mean()))
        alpha, beta = np.linalg.lstsq(np.stack([heads, np.ones_like(heads)], axis=1), counts)[0]
        return {}, {"alpha": float(alpha), "beta": float(beta)}

    def _no_level(self) -> dict[str, float]:
        return {"alpha": 0.0, "beta": np.inf}


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
    seq_len, n_heads, width = (rows.columns[name] for name in SlopeLaw.columns)
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


def best_starts(series: Series, tried: Iterable[tuple[dict[str, float], Vector]]) -> list[dict[str, float]]:
    """The few forms a·g + e that come nearest to the slopes, with a and e by least squares on relative residuals.

    Args:
        tried: the parameters of each g, and its values `(series,)`.
    """
    found = []
    for values, g in tried:
        parts = np.stack([g, np.ones_like(g)], axis=1) / series.slopes[:, None]
        (a, e), *_ = np.linalg.lstsq(parts, np.ones_like(g))
        if (parts @ (a, e) <= 0).any():
            (a, e), _ = nnls(parts, np.ones_like(g))
        misfit = parts @ (a, e) - 1
        found.append((float(misfit @ misfit), {"a": float(a), **values, "e": float(e)}))
    found.sort(key=lambda pair: pair[0])
    return [start for _, start in found[:STARTS]]
