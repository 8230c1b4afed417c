"""Least squares in which some values are only lower bounds (a Tobit regression).

Values are y = μ(θ) + σε with ε standard normal; of a censored row only y ≥ bound is known. Given σ, minus twice the log
likelihood is a sum of squares: ((μ − y)/σ)² for a value, −2 log Φ((μ − bound)/σ) for a bound. θ and σ are improved in
turn until σ settles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, leastsq
from scipy.special import erfcx, log_ndtr
from scipy.stats import f as f_distribution

Vector = np.ndarray
Model = Callable[[Vector], tuple[Vector, np.ndarray]]
"""θ (k) → μ (rows) and its derivatives (rows, k)."""

ROUNDS = 25
SMALLEST_SPREAD = 1e-9
FARTHEST = 1e4
"""Where a profile is given up, in units of the parameter's size: no limit on that side."""
NO_LAW = 1e9
"""Stands for the rise of the deviance where the law has no value."""
EVALUATIONS = 120
"""Of the law in one least-squares fit: enough for any that ends, and an end for those that run off along a valley."""


@dataclass(frozen=True)
class Observed:
    """What was seen, on the scale of the residuals.

    Attributes:
        values: `(rows,)` the values; of a censored row its bound.
        censored: `(rows,)` whether the row is only a lower bound.
    """

    values: Vector
    censored: np.ndarray


@dataclass(frozen=True)
class Solution:
    """The parameters that fit best.

    Attributes:
        values: every parameter by name, the fixed ones too.
        free: names of those that were fitted.
        sigma: spread of a value about μ, from uncensored rows less the number of free parameters.
        dof: those degrees of freedom.
        deviance: sum of squares at the solution, in units of σ².
    """

    values: dict[str, float]
    free: tuple[str, ...]
    sigma: float
    dof: int
    deviance: float

    @property
    def theta(self) -> Vector:
        """All parameters, in their order."""
        return np.array(list(self.values.values()))

    @property
    def criterion(self) -> float:
        """Minus twice the log likelihood, up to a constant: the smaller of two solutions fits better."""
        return 2 * (self.dof + len(self.free)) * float(np.log(self.sigma)) + self.deviance


def standardized(mu: Vector, observed: Observed, sigma: float | Vector) -> tuple[Vector, Vector]:
    """Residuals in units of σ, whose squares sum to the deviance, and their derivatives by μ."""
    sigma = np.broadcast_to(sigma, mu.shape)
    residuals, slopes = (mu - observed.values) / sigma, 1 / sigma
    if not observed.censored.any():
        return residuals, slopes
    z = residuals[observed.censored]
    root = np.sqrt(-2 * log_ndtr(z))
    slope = np.divide(-_hazard(z), root, out=np.zeros_like(root), where=root > 1e-150)
    residuals[observed.censored], slopes[observed.censored] = root, slope / sigma[observed.censored]
    return residuals, slopes


def _hazard(z: Vector) -> Vector:
    """φ(z) / Φ(z), which tends to −z far below zero."""
    return np.sqrt(2 / np.pi) / erfcx(-z / np.sqrt(2))


def solve(model: Model, start: dict[str, float], free: tuple[str, ...], observed: Observed) -> Solution:
    """The best θ and σ from a start; parameters that are not free stay."""
    values = start
    dof = int((~observed.censored).sum()) - len(free)
    sigma = _spread(model(_vector(values))[0], observed, max(dof, 1), 1.0)
    for _ in range(ROUNDS):
        values = _minimize(model, values, free, observed, sigma)
        mu, _ = model(_vector(values))
        before, sigma = sigma, _spread(mu, observed, max(dof, 1), sigma)
        if not observed.censored.any() or abs(sigma - before) < 1e-6 * before:
            break
    return Solution(values, free, sigma, dof, deviance(model, values, observed, sigma))


def deviance(model: Model, values: dict[str, float], observed: Observed, sigma: float) -> float:
    """Sum of squares in units of σ²: minus twice the log likelihood, up to terms of σ."""
    with np.errstate(all="ignore"):  # far from the data a law may overflow
        residuals, _ = standardized(model(_vector(values))[0], observed, sigma)
        return float(residuals @ residuals)


def _vector(values: dict[str, float]) -> Vector:
    return np.array(list(values.values()))


def _minimize(
    model: Model, start: dict[str, float], free: tuple[str, ...], observed: Observed, sigma: float
) -> dict[str, float]:
    """One least-squares fit with σ given (Levenberg and Marquardt's method, derivatives given)."""
    if not free:
        return start
    values, varies = _vector(start), np.array([name in free for name in start])
    place = values[varies]
    with np.errstate(all="ignore"):  # as in `deviance`
        found_there = model(values)

    def at(tried: Vector) -> tuple[Vector, np.ndarray]:
        """Once for the residuals and the derivatives, which are asked for in turn."""
        nonlocal found_there
        if (place != tried).any():
            place[:] = values[varies] = tried
            found_there = model(values)
        return found_there

    def residuals(tried: Vector) -> Vector:
        return standardized(at(tried)[0], observed, sigma)[0]

    def derivatives(tried: Vector) -> np.ndarray:
        mu, by_parameter = at(tried)
        return standardized(mu, observed, sigma)[1][:, None] * by_parameter[:, varies]

    with np.errstate(all="ignore"):  # on the way as well
        found, *_ = leastsq(
            residuals, values[varies], Dfun=derivatives, xtol=1e-10, ftol=1e-10, maxfev=EVALUATIONS, full_output=True
        )
    values[varies] = found
    return dict(zip(start, values.tolist(), strict=True))


def _spread(mu: Vector, observed: Observed, dof: int, sigma: float) -> float:
    """The likelihood's σ for given μ, with degrees of freedom in place of the number of values.

    A bound that is nearly reached also tells of σ: Σr²/σ² = dof + Σ z·φ(z)/Φ(z) over censored rows.
    """
    residuals = (mu - observed.values)[~observed.censored]
    z = (mu - observed.values)[observed.censored] / sigma
    told = float((z * _hazard(z)).sum())
    return max(float(np.sqrt(residuals @ residuals / max(dof + told, 0.5 * dof))), SMALLEST_SPREAD)


def profile(
    model: Model, solution: Solution, observed: Observed, name: str, level: float
) -> tuple[float | None, float | None]:
    """The range of one parameter that the data do not contradict, by profile likelihood.

    It ends where the deviance, with the other parameters fitted anew, has risen by the F quantile (1 and dof degrees of
    freedom). None stands for an end that was not found: the data set no limit on that side.
    """
    threshold = float(f_distribution.ppf(level, 1, solution.dof))
    best = solution.values[name]
    step = _standard_error(model, solution, observed, name)
    return tuple(_end(model, solution, observed, name, best, sign * step, threshold) for sign in (-1, 1))  # type: ignore[return-value]


def _standard_error(model: Model, solution: Solution, observed: Observed, name: str) -> float:
    """σ of the linearized fit, within reason: only the first step of a profile."""
    mu, by_parameter = model(solution.theta)
    _, slope = standardized(mu, observed, solution.sigma)
    places = [list(solution.values).index(free) for free in solution.free]
    weighted = slope[:, None] * by_parameter[:, places]
    covariance = np.linalg.pinv(weighted.T @ weighted, hermitian=True)
    found = float(np.sqrt(max(covariance[(at := solution.free.index(name)), at], 0.0)))
    size = max(abs(solution.values[name]), 1.0)
    return float(np.clip(found, 1e-4 * size, size))


def _crossing(rise: Callable[[float], float], inside: tuple[float, float], outside: tuple[float, float]) -> float:
    """Where a function crosses zero between two points, each with its value.

    It is not asked for these again: fitted from elsewhere, both may lie on one side.
    """
    ends = dict((inside, outside))
    return float(brentq(lambda x: ends[x] if x in ends else rise(x), inside[0], outside[0], rtol=1e-6, xtol=1e-12))


def _end(
    model: Model, solution: Solution, observed: Observed, name: str, best: float, step: float, threshold: float
) -> float | None:
    """Walk out from the best value in growing steps, then close in on where the deviance crosses the threshold.

    Every fit of the others starts from theirs at the last value that the data did not contradict: from what was found
    where the law has no meaning there is no way back. A crossing counts when what lies beyond it is contradicted again
    by a fit from there: along a bent valley the first fit of a long step ends too early.
    """
    others = tuple(other for other in solution.free if other != name)
    accepted = solution.values

    def rise(value: float) -> float:
        nonlocal accepted
        fitted = _minimize(model, accepted | {name: value}, others, observed, solution.sigma)
        found = deviance(model, fitted, observed, solution.sigma) - solution.deviance - threshold
        if not np.isfinite(found):
            return NO_LAW
        if found <= 0:
            accepted = fitted
        return found

    inside, within = best, -threshold
    while abs(inside + step - best) <= FARTHEST * max(abs(best), 1.0):
        outside = inside + step
        beyond = rise(outside)
        if beyond > 0:
            crossing = _crossing(rise, (inside, within), (outside, beyond))
            beyond = rise(outside)
            if beyond > 0:
                return crossing
        inside, within, step = outside, beyond, 2 * step
    return None
