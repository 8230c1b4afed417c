"""Bits known after so many exposures: capacity, rate and shape of the curves that every training keeps."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import polars as pl
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.stats import t as student

from capax.errors import LawError
from capax.laws.censored import SMALLEST_SPREAD, Observed, Solution, Vector, solve
from capax.laws.law import Law, Structure
from capax.laws.predictor import tails
from capax.laws.rows import Columns, Rows, left_out
from capax.results import LEVEL
from capax.specs.spec import positive, proper_share
from capax.store import curves
from capax.text import whole_percent

SIZE, SEEN, DEPTH = "effective_parameters", "exposures", "n_layers"
FOLDS = 20
FURTHER = 3
"""Points that are no architecture's only one: of fewer, how they spread about their curves is not known."""
FEWEST = 4
"""Architectures: fewer do not tell of what is between them."""
LESS, SURE = 0.95, 2.0
"""What the error of curves of architectures that are left out has to be of that without a term, for it to be fitted,
and by how many standard errors less."""
PLAIN = ("k", "a", "tau", "beta")
TERMS = (("delta", "p"), ("s",))
"""What may be added to that, the one that predicts best first."""
UNIT = float(np.log(1000.0))
"""Logarithm of the size that tau and delta are of."""
CLOSEST = 1e-6
"""Of the variance of architectures that of points about their curves, at least: else levels would not count at all."""
SHARES = (0.5, 0.9, 0.95)
"""Of what is held: the exposures that they take are said of every fit."""


class ExposureLaw(Law):
    """C = k · P^a / (1 + (τ/E)^β + (δ/E)²): bits known after each item of a library was seen E times.

    P is `effective_parameters`, E `exposures` (epochs), L `n_layers`; τ = tau · (P/1000)^s, δ = delta · L · (P/1000)^p.
    k · P^a is what a training tends to, τ the exposures after which half of it is known where δ is 0, β the shape: how
    slowly the rest comes. δ is a delay: deep and large networks take so many exposures to get going, and soon after it
    shows no more. Rows are points of curves (`capax.curves`), several of each training: ends of cycles of a learning
    rate, where it is 0, or of a constant rate all evaluations. A curve belongs to its recipe: optimizer, rate, schedule
    and batch have to be the same, and are the domain's.

    Whole architectures were left out to compare forms (docs/exposures.py). 1 − exp(−E/τ), which Lu et al. 2024 report
    (secondary), ends too soon.
    Whether there is a delay, and whether τ depends on the size, differs from study to study, so each fit decides: a
    term is fitted where it makes predictions of curves of architectures that are left out better, whatever the level of
    each, by 5 % and by two standard errors; else it is 0.

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
    columns: ClassVar[tuple[str, ...]] = (SIZE, SEEN, DEPTH)
    names = ("k", "a", "tau", "s", "beta", "delta", "p")
    along: ClassVar[str | None] = SEEN
    counts: ClassVar[tuple[str, ...]] = ("bits",)
    found: ClassVar[tuple[str, ...]] = curves.LATER
    mixed: ClassVar[tuple[str, ...]] = ("vocab_size", "loss", "d_head", "ffn", "embeddings")

    def __init__(self, *, target: str = curves.KNOWN, n_bootstrap: int = 1000, random_state: int = 0) -> None:
        super().__init__(target=target, n_bootstrap=n_bootstrap, random_state=random_state)

    # What it says

    def _capacity(self, theta: Vector, columns: Columns) -> tuple[Vector, np.ndarray]:
        k, a, tau, s, beta, delta, p = theta
        size, seen = np.log(columns[SIZE]), np.log(columns[SEEN])
        with np.errstate(all="ignore"):
            behind = np.log(np.abs(tau)) + s * (size - UNIT) - seen
            slow = np.exp(np.clip(beta * behind, -600, 600))
            late = np.exp(np.clip(2 * (np.log(columns[DEPTH]) + p * (size - UNIT) - seen), -600, 600))
            share = 1 / (1 + slow + delta**2 * late)
            power = np.exp(np.clip(a * size, -600, 600))
        value = k * power * share
        by_slow, by_late = -value * share * slow, -2 * value * share * delta * late
        by = [power * share, value * size, by_slow * beta / tau, by_slow * beta * (size - UNIT), by_slow * behind]
        return value, np.column_stack([*by, by_late, by_late * delta * (size - UNIT)])

    def known_share(self, X: Any, held: float | None = None) -> np.ndarray:
        """`(rows,)` the share that is known after so many exposures.

        Args:
            held: of what is known after these exposures, and no more than all of it; None: of what a training tends to.

        Raises:
            TableError: when a column is missing or a value is not a positive number.
        """
        return np.asarray(_share_of(self._theta(), self._columns_of(X), held))

    def share_draws(self, X: Any, held: float | None = None) -> np.ndarray:
        """`(draws, rows)` draws of the share that a new training knows, at most 1, about `known_share`.

        Each is of the parameters of one draw of `bootstrap`, and of where points lie about the curve of their own
        training: the variance of that, in logarithms, falls as what is still to be learned. How much is held is another
        thing: architectures differ in that without differing in the share.

        Raises:
            TableError: when a column is missing or a value is not a positive number.
        """
        columns, rows = self._columns_of(X), self.measurements()
        residuals = self._scale(rows.counts) - self._scale(self._predict(rows.columns))
        _, within = _variances(residuals, _architectures(rows))
        shares = _share_of(self.bootstrap()[:, :-1].T[..., None], columns, held)
        spread = np.sqrt(within * (1 - shares) / np.mean(1 - _share(self._theta(), rows.columns)))
        return np.asarray(np.minimum(shares * np.exp(spread * self.noise()[:, None]), 1.0))

    def exposures_for(self, share: float, effective_parameters: float, n_layers: float = 1) -> float:
        """After how many exposures a share of what a training tends to is known.

        Raises:
            LawError: for a share that is not above 0 and below 1, or sizes that are not positive.
        """
        proper_share("share", share, LawError)
        positive(SIZE, effective_parameters, error=LawError)
        positive(DEPTH, n_layers, error=LawError)
        _, _, tau, s, beta, delta, p = self._theta()
        bigger = np.log(effective_parameters) - UNIT
        left, slow, late = np.log((1 - share) / share), np.log(tau) + s * bigger, delta * n_layers * np.exp(p * bigger)
        if late == 0:
            return float(np.exp(slow - left / beta))

        def too_much(seen: float) -> float:
            return float(np.logaddexp(beta * (slow - seen), 2 * (np.log(late) - seen)) - left)

        # of two parts that fall, the larger is at least half of their sum, and no more than all of it
        least, most = (max(slow - part / beta, np.log(late) - part / 2) for part in (left, left - np.log(2)))
        return float(np.exp(brentq(too_much, least - 1e-9, most + 1e-9, xtol=1e-12)))

    def remarks(self, columns: Columns) -> list[str]:
        """What a training that ends there falls short of."""
        return [
            f"after {seen:g} exposures {whole_percent(share)} of what the training tends to is known"
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
        if others < (fewest := len(PLAIN) + 1):
            raise LawError(f"{SEEN}: at least {fewest} rows beside those of any one size are needed, got {others}")
        if (further := len(rows.counts) - len(sizes)) < FURTHER:
            raise LawError(
                f"{SEEN}: at least {FURTHER} rows beside the first of each size are needed, to tell of curves, got "
                f"{further}"
            )
        logs = np.column_stack([np.ones_like(rows.counts), np.log(rows.columns[SIZE])])
        starts = []
        for tau in np.geomspace(seen[0], seen[-1], 5):
            (level, a), *_ = np.linalg.lstsq(logs, np.log(rows.counts * (1 + tau / rows.columns[SEEN])))
            start = {"k": float(np.exp(level)), "a": float(a), "tau": float(tau), "s": 0.0, "beta": 1.0}
            starts.append(start | {"delta": float(tau) / 10, "p": 0.0})
        best = self._best(rows, [start | {"delta": 0.0} for start in starts], PLAIN)
        errors, held, terms = self._left_out_errors(rows, best), dict[str, tuple[float, str]](), list(TERMS)
        while terms:
            tried = {term: self._longer(rows, starts, best, errors, term) for term in terms}
            held = {
                name: (0.0, f"held at 0: {why}") for term, why in tried.items() if isinstance(why, str) for name in term
            }
            better = {term: found for term, found in tried.items() if not isinstance(found, str)}
            if not better:
                break
            term = min(better, key=lambda one: float(better[one][1].mean()))
            best, errors = better[term]
            terms.remove(term)
        return [Structure(held, [best.values])]

    def _longer(
        self, rows: Rows, starts: list[dict[str, float]], best: Solution, errors: Vector, term: tuple[str, ...]
    ) -> tuple[Solution, Vector] | str:
        """What is fitted with a further term, and its errors; or why it is held at 0."""
        others, needed = len(rows.counts) - int(np.bincount(_architectures(rows)).max()), len(best.free) + len(term)
        if needed > others:
            return f"{needed} rows beside those of any one size are needed, got {others}"
        begun = [best.values | {name: start[name] for name in term} for start in starts]
        found = self._best(rows, begun, (*best.free, *term))
        if self._misfit(rows, found) + len(term) * np.log(len(rows.counts)) >= self._misfit(rows, best):
            return "without it the curves are fitted as well"  # by BIC; of a delay that ends at 0, too
        with_ = self._left_out_errors(rows, found)
        gain, less = errors - with_, float(with_.mean()) < LESS * float(errors.mean())
        if less and gain.mean() > SURE * gain.std(ddof=1) / np.sqrt(len(gain)):
            return found, with_
        return (
            f"with it the error of curves of architectures that are left out is {with_.mean():.2%}, without it "
            f"{errors.mean():.2%}"
        )

    def _best(self, rows: Rows, starts: list[dict[str, float]], free: tuple[str, ...]) -> Solution:
        """What fits best from any start; it is solved again, by the variances that it has."""
        observed = self._observed(rows)
        found = [self._solve(start, free, rows, observed) for start in starts]
        best = min(found, key=lambda one: self._misfit(rows, one))
        return self._solve(best.values, free, rows, observed)

    def _misfit(self, rows: Rows, found: Solution) -> float:
        """Minus twice the log likelihood of curves whatever their level, up to a constant."""
        _, within = _variances(self._residuals(rows, found), _architectures(rows))
        return len(rows.counts) * float(np.log(max(within, SMALLEST_SPREAD**2)))

    def _residuals(self, rows: Rows, found: Solution) -> Vector:
        return np.asarray(self._scale(rows.counts) - self._scale(self._capacity(found.theta, rows.columns)[0]))

    def _left_out_errors(self, rows: Rows, whole: Solution) -> Vector:
        """Of each architecture that is left out the mean absolute error of logarithms, less its own."""
        group = _architectures(rows)
        errors = np.zeros(int(group.max()) + 1)
        for held in left_out(group[:, None], FOLDS):
            said, _ = self._capacity(self._without(rows, held, whole).theta, rows.take(held).columns)
            apart = np.abs(_apart(self._scale(said) - self._scale(rows.counts[held]), group[held]))
            errors += np.bincount(group[held], apart, len(errors))
        return errors / np.bincount(group)

    def _without(self, rows: Rows, held: np.ndarray, whole: Solution) -> Solution:
        """What is fitted without some rows."""
        rest = rows.take(~held)
        return self._solve(whole.values, whole.free, rest, self._observed(rest))

    def _solve(self, start: dict[str, float], free: tuple[str, ...], rows: Rows, observed: Observed) -> Solution:
        """The best parameters, with the spread of a new training: its architecture's part, and that within one.

        Architectures differ more in what they hold than points of one in their curve. So all but a part of each one's
        mean is taken out, and points tell of curves by their own spread: generalized least squares, by the variances
        where it starts.
        """
        model, group = self._model(rows.columns), _architectures(rows)
        residuals = observed.values - model(np.array(list(start.values())))[0]
        between, within = _variances(residuals, group)
        members = np.bincount(group)
        part = 1 - np.sqrt(max(within, CLOSEST * between) / np.maximum(members * between, SMALLEST_SPREAD**2))
        part = np.maximum(part, 0.0)
        mean_of = csr_array((np.ones(len(group)), (group, np.arange(len(group))))) / members[:, None]

        def apart(table: np.ndarray) -> np.ndarray:
            return np.asarray(table - ((part * (mean_of @ table).T).T)[group])

        def less_their_own(theta: Vector) -> tuple[Vector, np.ndarray]:
            mu, derivatives = model(theta)
            return apart(mu), apart(derivatives)

        found = solve(less_their_own, start, free, Observed(apart(observed.values), observed.censored))
        found = dataclasses.replace(
            found, values=found.values | {name: abs(found.values[name]) for name in ("tau", "delta")}
        )
        residuals = observed.values - model(found.theta)[0]
        between, within = _variances(residuals, group)
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
        columns = self.rows_.columns
        sizes, last = np.unique(columns[SIZE]), columns[SEEN].max()
        self.source_ = f"{len(self.rows_.counts)} points of curves"
        if "tau" not in self.undetermined_:
            each = np.unique(np.column_stack([columns[SIZE], columns[DEPTH]]), axis=0)
            took = []
            for share in SHARES:
                ends = sorted(self.exposures_for(share, *one) for one in each)[:: max(len(each) - 1, 1)]
                took.append(f"{share:.0%} after {' to '.join(dict.fromkeys(f'{end:.3g}' for end in ends))}")
            self.notes_.append(f"of what a training tends to, {', '.join(took)} exposures are known")
        self.notes_.append(
            f"what is known after more than {last:g} exposures, the most of any row, is extrapolated; rows of "
            f"{len(sizes)} sizes of architectures: intervals leave out or resample whole ones"
        )

    def _note_repeats(self, table: Any) -> None:
        pass  # rows are no measurements of their own, and no interval takes them for such

    # Intervals

    def parameter_intervals(self, level: float = LEVEL) -> dict[str, tuple[float | None, float | None]]:
        """Jackknife over architectures, of logarithms of k, τ, β and δ; a parameter in `undetermined_` has no end."""
        rows = self.measurements()
        group = _architectures(rows)
        count = int(group.max()) + 1
        fits = [_straight(self._without(rows, group == one, self.solution_).theta) for one in range(count)]
        best, others = _straight(self._theta()), np.array(fits)
        error = np.sqrt((count - 1) / count * ((others - others.mean(axis=0)) ** 2).sum(axis=0))
        reach = float(student.ppf(tails(level)[1], count - 2)) * error
        low, high = (_bent(best + sign * reach) for sign in (-1, 1))
        return {
            name: (None, None) if name in self.undetermined_ else (float(low[place]), float(high[place]))
            for place, name in enumerate(self.names)
        }

    def _drawn(self, rng: np.random.Generator) -> np.ndarray:
        rows = self.measurements()
        group, residuals = _architectures(rows), np.empty(len(rows.counts))
        for one in range(int(group.max()) + 1):
            own = group == one
            residuals[own] = self._residuals(rows.take(own), self._without(rows, own, self.solution_))
        self._left_out_ = (rows, group, residuals)
        return super()._drawn(rng)

    def _refit(self, rng: np.random.Generator) -> Vector:
        """The law fitted anew where the residuals of each architecture are multiplied by one normal number.

        They are those of the fit without it: a fit bends towards the few that are deep or large.
        """
        rows, group, residuals = self._left_out_
        drawn = self._scale(self._predict(rows.columns)) + rng.standard_normal(int(group.max()) + 1)[group] * residuals
        observed = Observed(drawn, np.zeros(len(drawn), dtype=bool))
        found = self._solve(self.solution_.values, self.solution_.free, rows, observed)
        return np.append(found.theta, found.sigma)


def _variances(residuals: Vector, group: np.ndarray) -> tuple[float, float]:
    """Of the residuals of architectures on average, and of points about the average of their own."""
    apart = _apart(residuals, group)
    means = np.bincount(group, residuals) / np.bincount(group)
    architectures, points = len(means), len(group)
    # k and a are told by architectures
    return float(means @ means) / max(architectures - 2, 1), float(apart @ apart) / max(points - architectures - 2, 1)


def _apart(values: Vector, group: np.ndarray) -> Vector:
    """Values less the mean of their group."""
    return np.asarray(values - (np.bincount(group, values) / np.maximum(np.bincount(group), 1))[group])


def _architectures(rows: Rows) -> np.ndarray:
    """Which architecture each row is of: those of equal size count as one."""
    return np.unique(rows.columns[SIZE], return_inverse=True)[1].ravel()


def _share(theta: np.ndarray, columns: Columns) -> np.ndarray:
    """The share that is known of some rows; parameters may have more axes."""
    _, _, tau, s, beta, delta, p = theta
    bigger, seen = np.log(columns[SIZE]) - UNIT, columns[SEEN]
    with np.errstate(divide="ignore"):  # of a tau of 0
        slow = np.exp(beta * (np.log(tau) + s * bigger - np.log(seen)))  # a third of the time of a power
    late = delta * columns[DEPTH] / seen * np.exp(p * bigger)
    return np.asarray(1 / (1 + slow + late * late))


def _share_of(theta: np.ndarray, columns: Columns, held: float | None) -> np.ndarray:
    """The share that is known of what is after other exposures; of what a training tends to where there are none."""
    share = _share(theta, columns)
    return share if held is None else np.minimum(share / _share(theta, columns | {SEEN: np.asarray(held, float)}), 1.0)


LOGARITHMIC = np.array([True, False, True, False, True, True, False])
"""Which parameters are positive, so that their logarithms have no end."""


def _straight(theta: Vector) -> Vector:
    """Parameters on scales without an end."""
    return np.where(LOGARITHMIC, np.log(np.maximum(theta, 1e-12)), theta)


def _bent(values: Vector) -> Vector:
    """Back from `_straight`."""
    return np.where(LOGARITHMIC, np.exp(np.where(LOGARITHMIC, values, 0.0)), values)
