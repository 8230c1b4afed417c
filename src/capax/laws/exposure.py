"""Bits known after so many exposures: capacity, rate and shape of the curves that every training keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import polars as pl
from scipy.stats import t as student

from capax.errors import LawError
from capax.laws.censored import SMALLEST_SPREAD, Observed, Solution, Vector
from capax.laws.law import Law, Structure, tails
from capax.laws.rows import Columns, Rows
from capax.specs.spec import positive, proper_share
from capax.store import curves

SIZE, SEEN = "effective_parameters", "exposures"
FEWEST = 4
"""Architectures: fewer do not tell of what is between them."""
LESS = 0.95
"""What the error on architectures that are left out has to be of that without s, for s to be fitted."""
ONE_RATE = ("k", "a", "tau", "beta")
UNIT = float(np.log(1000.0))
"""Logarithm of the size that tau is of."""
SHARES = (0.5, 0.9, 0.95)
"""Of what is held: the exposures that they take are said of every fit."""


class ExposureLaw(Law):
    """C = k · P^a / (1 + (τ/E)^β), τ = tau · (P/1000)^s: bits known after each item of a library was seen E times.

    P is `effective_parameters`, E `exposures` (epochs). k · P^a is what a training tends to, τ the exposures after
    which half of it is known, β the shape: how slowly the rest comes. Rows are points of curves (`capax.curves`),
    several of each training: ends of cycles of a learning rate, where it is 0, or of a constant rate all evaluations. A
    curve belongs to its recipe: optimizer, rate, schedule and batch have to be the same, and are the domain's.

    Whole architectures were left out to compare forms (docs/exposures.py): in four recipes this one was the best or
    within half a percent of it, both in what is known and in how far a training that ended early falls short;
    1 − exp(−(E/τ)^β) and exp(−(τ/E)^β) were behind it for Adam. 1 − exp(−E/τ), which Lu et al. 2024 report (secondary),
    ends too soon: how far a training falls short it misses by a fifth more in all four, or worse.
    Whether τ depends on the size differs from study to study, so each fit decides: s is fitted where it makes
    predictions of architectures that are left out better by 5 %, else it is 0.

    Residuals within an architecture are alike, so rows are no independent measurements. Intervals of parameters are
    those of the jackknife over whole architectures (those of equal P count as one; Student's t with two degrees of
    freedom fewer than there are); draws behind prediction intervals multiply the residuals of each architecture by one
    normal number (a wild cluster bootstrap), and the spread has the degrees of freedom of architectures.

    Args:
        target: column of bits that is fitted when `fit` gets a table without y.
        n_bootstrap: refits behind `predict_interval`.
        random_state: seed of those.
    """

    name: ClassVar[str] = "exposure"
    columns: ClassVar[tuple[str, ...]] = (SIZE, SEEN)
    names = ("k", "a", "tau", "s", "beta")
    along: ClassVar[str | None] = SEEN
    counts: ClassVar[tuple[str, ...]] = ("bits",)
    found: ClassVar[tuple[str, ...]] = curves.LATER
    mixed: ClassVar[tuple[str, ...]] = ("vocab_size", "loss", "n_layers", "d_head", "ffn", "embeddings")

    def __init__(self, *, target: str = curves.KNOWN, n_bootstrap: int = 1000, random_state: int = 0) -> None:
        super().__init__(target=target, n_bootstrap=n_bootstrap, random_state=random_state)

    # What it says

    def _capacity(self, theta: Vector, columns: Columns) -> tuple[Vector, np.ndarray]:
        k, a, tau, s, beta = theta
        size, seen = np.log(columns[SIZE]), np.log(columns[SEEN])
        with np.errstate(all="ignore"):
            behind = np.log(np.abs(tau)) + s * (size - UNIT) - seen
            share = 1 / (1 + np.exp(np.clip(beta * behind, -600, 600)))
            power = np.exp(np.clip(a * size, -600, 600))
        value, left = k * power * share, 1 - share
        by_tau = -value * left * beta
        by = [power * share, value * size, by_tau / tau, by_tau * (size - UNIT), -value * left * behind]
        return value, np.column_stack(by)

    def known_share(self, X: Any) -> np.ndarray:
        """`(rows,)` the share of what a training tends to that is known after so many exposures.

        Raises:
            TableError: when a column is missing or a value is not a positive number.
        """
        return np.asarray(_share(self._theta(), self._columns_of(X)))

    def share_spread(self, X: Any) -> np.ndarray:
        """`(rows,)` the standard deviation of the logarithm of `known_share`, of a new training.

        It has two parts: that of the law, over the draws of `bootstrap`, and that of points of a training about its own
        curve. How much is held is another thing: architectures differ in that without differing in the share.

        Raises:
            TableError: when a column is missing or a value is not a positive number.
        """
        columns, rows = self._columns_of(X), self.measurements()
        residuals = self._scale(rows.counts) - self._scale(self._predict(rows.columns))
        _, within = _variances(residuals, _architectures(rows))
        logs = np.log(_share(self.bootstrap()[:, :-1].T[..., None], columns))
        return np.asarray(np.hypot(logs.std(axis=0, ddof=1), np.sqrt(within)))

    def exposures_for(self, share: float, effective_parameters: float) -> float:
        """After how many exposures a share of what a training tends to is known.

        Raises:
            LawError: for a share that is not above 0 and below 1, or a size that is not positive.
        """
        proper_share("share", share, LawError)
        positive(SIZE, effective_parameters, error=LawError)
        _, _, tau, s, beta = self._theta()
        rate = tau * np.exp(s * (np.log(effective_parameters) - UNIT))
        return float(rate * (share / (1 - share)) ** (1 / beta))

    def remarks(self, columns: Columns) -> list[str]:
        """What a training that ends there falls short of."""
        return [
            f"after {seen:g} exposures {share:.0%} of what the training tends to is known"
            for seen, share in zip(columns[SEEN], self.known_share(columns), strict=True)
        ]

    # How it is fitted

    def usable(self, table: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
        """As for every law; and without trainings that knew most of their library, and the first points of others."""
        table, notes = super().usable(table)
        table, whole = curves.below_their_library(table)
        table, early = curves.begun(table)
        return table, (*notes, *whole, *early)

    def _structures(self, rows: Rows) -> list[Structure]:
        sizes, seen = np.unique(rows.columns[SIZE]), np.unique(rows.columns[SEEN])
        if len(sizes) < FEWEST:
            raise LawError(f"{SIZE}: at least {FEWEST} architectures of different size are needed, got {len(sizes)}")
        if len(seen) < 3:
            raise LawError(f"{SEEN}: at least 3 different ones are needed, got {', '.join(f'{one:g}' for one in seen)}")
        others = len(rows.counts) - int(np.bincount(_architectures(rows)).max())
        if others < (fewest := len(self.names)):
            raise LawError(f"{SEEN}: at least {fewest} rows beside those of any one size are needed, got {others}")
        logs = np.column_stack([np.ones_like(rows.counts), np.log(rows.columns[SIZE])])
        starts = []
        for tau in np.geomspace(seen[0], seen[-1], 5):
            (level, a), *_ = np.linalg.lstsq(logs, np.log(rows.counts * (1 + tau / rows.columns[SEEN])))
            starts.append({"k": float(np.exp(level)), "a": float(a), "tau": float(tau), "s": 0.0, "beta": 1.0})
        without, with_ = (self._left_out_error(rows, starts, free) for free in (ONE_RATE, self.names))
        if with_ < LESS * without:
            return [Structure({}, starts)]
        reason = (
            f"held at 0: with it the error on architectures that are left out is {with_:.2%}, without it {without:.2%}"
        )
        return [Structure({"s": (0.0, reason)}, starts)]

    def _left_out_error(self, rows: Rows, starts: list[dict[str, float]], free: tuple[str, ...]) -> float:
        """Mean absolute error of logarithms, each architecture predicted from the others."""
        observed = self._observed(rows)
        whole = min((self._solve(start, free, rows, observed) for start in starts), key=lambda found: found.criterion)
        errors = []
        for kept, found in self._without_one(rows, whole):
            left_out = rows.take(~kept)
            said, _ = self._capacity(np.array(list(found.values.values())), left_out.columns)
            errors.append(np.abs(self._scale(said) - self._scale(left_out.counts)))
        return float(np.mean(np.concatenate(errors)))

    def _without_one(self, rows: Rows, whole: Solution) -> Iterator[tuple[np.ndarray, Solution]]:
        """For each architecture the rows of the others, and what is fitted to these."""
        group, observed = _architectures(rows), self._observed(rows)
        for left_out in range(int(group.max()) + 1):
            kept = group != left_out
            seen = Observed(observed.values[kept], observed.censored[kept])
            yield kept, self._solve(whole.values, whole.free, rows.take(kept), seen)

    def _solve(self, start: dict[str, float], free: tuple[str, ...], rows: Rows, observed: Observed) -> Solution:
        """The best parameters, with the spread of a new training: its architecture's part, and that within one."""
        found = super()._solve(start, free, rows, observed)
        found = dataclasses.replace(found, values=found.values | {"tau": abs(found.values["tau"])})
        residuals = observed.values - self._scale(
            self._capacity(np.array(list(found.values.values())), rows.columns)[0]
        )
        between, within = _variances(residuals, group := _architectures(rows))
        sigma = max(float(np.sqrt(between + within * (1 - np.mean(1 / np.bincount(group))))), SMALLEST_SPREAD)
        return dataclasses.replace(found, sigma=sigma, deviance=float(residuals @ residuals) / sigma**2)

    def _not_told(self, solution: Solution) -> dict[str, str]:
        """Also what is held, and how long it takes, where no training came half of the way."""
        found = super()._not_told(solution)
        if solution.values["tau"] > (latest := self.rows_.columns[SEEN].max()):
            why = f"no row knows half of what its training tends to: the latest is after {latest:g} exposures"
            found |= {name: why for name in ("k", "tau")}
        return found

    def _describe(self) -> None:
        super()._describe()
        sizes, last = np.unique(self.rows_.columns[SIZE]), self.rows_.columns[SEEN].max()
        self.source_ = f"{len(self.rows_.counts)} points of curves"
        if "tau" not in self.undetermined_:
            ends = sizes[[0]] if self.solution_.values["s"] == 0 else sizes[[0, -1]]
            took = ", ".join(
                f"{share:.0%} after {' to '.join(f'{self.exposures_for(share, size):.3g}' for size in ends)}"
                for share in SHARES
            )
            self.notes_.append(f"of what a training tends to, {took} exposures are known")
        self.notes_.append(
            f"what is known after more than {last:g} exposures, the most of any row, is extrapolated; rows of "
            f"{len(sizes)} sizes of architectures: intervals leave out or resample whole ones"
        )

    def _repeated(self) -> int:
        return 0  # rows are no measurements of their own, and no interval takes them for such

    # Intervals

    def parameter_intervals(self, level: float = 0.95) -> dict[str, tuple[float | None, float | None]]:
        """Jackknife over architectures, of logarithms of k, τ and β; a parameter in `undetermined_` has no end."""
        fits = [
            _straight(np.array(list(found.values.values())))
            for _, found in self._without_one(self.measurements(), self.solution_)
        ]
        count = len(fits)
        best, others = _straight(self._theta()), np.array(fits)
        error = np.sqrt((count - 1) / count * ((others - others.mean(axis=0)) ** 2).sum(axis=0))
        reach = float(student.ppf(tails(level)[1], count - 2)) * error
        low, high = (_bent(best + sign * reach) for sign in (-1, 1))
        return {
            name: (None, None) if name in self.undetermined_ else (float(low[place]), float(high[place]))
            for place, name in enumerate(self.names)
        }

    def _refit(self, rng: np.random.Generator) -> Vector:
        """The law fitted anew where the residuals of each architecture are multiplied by one normal number."""
        rows = self.measurements()
        group = _architectures(rows)
        center = self._scale(self._predict(rows.columns))
        residuals = self._scale(rows.counts) - center
        count = int(group.max()) + 1
        drawn = center + np.sqrt(count / (count - 2)) * rng.standard_normal(count)[group] * residuals
        observed = Observed(drawn, np.zeros(len(drawn), dtype=bool))
        found = self._solve(self.solution_.values, self.solution_.free, rows, observed)
        return np.append(list(found.values.values()), found.sigma)


def _variances(residuals: Vector, group: np.ndarray) -> tuple[float, float]:
    """Of the residuals of architectures on average, and of points about the average of their own."""
    members = np.bincount(group)
    means = np.bincount(group, residuals) / members
    architectures, points = len(members), len(group)
    apart = residuals - means[group]
    # k and a are told by architectures
    return float(means @ means) / max(architectures - 2, 1), float(apart @ apart) / max(points - architectures - 2, 1)


def _architectures(rows: Rows) -> np.ndarray:
    """Which architecture each row is of: those of equal size count as one."""
    return np.unique(rows.columns[SIZE], return_inverse=True)[1].ravel()


def _share(theta: np.ndarray, columns: Columns) -> np.ndarray:
    """The share that is known of some rows; parameters may have more axes."""
    _, _, tau, s, beta = theta
    return np.asarray(1 / (1 + (tau * np.exp(s * (np.log(columns[SIZE]) - UNIT)) / columns[SEEN]) ** beta))


LOGARITHMIC = np.array([True, False, True, False, True])
"""Which parameters are positive, so that their logarithms have no end."""


def _straight(theta: Vector) -> Vector:
    """Parameters on scales without an end."""
    return np.where(LOGARITHMIC, np.log(np.maximum(theta, 1e-12)), theta)


def _bent(values: Vector) -> Vector:
    """Back from `_straight`."""
    return np.where(LOGARITHMIC, np.exp(np.where(LOGARITHMIC, values, 0.0)), values)
