"""Censored least squares against the likelihood that it maximizes, and against other implementations."""

from __future__ import annotations

import lmfit
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm
from scipy.stats import t as t_distribution

from capax.laws.censored import Observed, profile, solve, standardized


def line(x: np.ndarray) -> object:
    design = np.column_stack([np.ones_like(x), x])
    return lambda theta: (design @ theta, design)


def simulated(bound: float, rows: int = 60, seed: int = 0) -> tuple[np.ndarray, Observed]:
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, rows)
    y = 1 + 2 * x + 0.3 * rng.standard_normal(rows)
    return x, Observed(np.minimum(y, bound), y >= bound)


def minus_log_likelihood(theta: np.ndarray, sigma: float, x: np.ndarray, observed: Observed) -> float:
    """Written from the definition: densities of values, upper tails of bounds."""
    mu = theta[0] + theta[1] * x
    values = norm.logpdf(observed.values, mu, sigma)
    return -float(np.where(observed.censored, norm.logsf(observed.values, mu, sigma), values).sum())


@pytest.mark.parametrize("bound", [2.0, 2.6, np.inf])
def test_is_the_likelihoods_maximum(bound: float) -> None:
    x, observed = simulated(bound)
    assert observed.censored.any() == np.isfinite(bound)
    found = solve(line(x), {"a": 0.0, "b": 0.0}, ("a", "b"), observed)
    direct = minimize(
        minus_log_likelihood,
        [0.0, 0.0],
        args=(found.sigma, x, observed),
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12},
    )
    np.testing.assert_allclose(list(found.values.values()), direct.x, atol=1e-6)


def test_bounds_taken_as_values_would_bend_the_line() -> None:
    x, observed = simulated(2.2, rows=400)
    honest = solve(line(x), {"a": 0.0, "b": 0.0}, ("a", "b"), observed)
    naive = solve(line(x), {"a": 0.0, "b": 0.0}, ("a", "b"), Observed(observed.values, np.zeros(len(x), dtype=bool)))
    assert abs(honest.values["b"] - 2) < 0.15
    assert naive.values["b"] < 1.6
    assert abs(honest.sigma - 0.3) < 0.04


def test_without_bounds_it_is_ordinary_least_squares() -> None:
    x, observed = simulated(np.inf)
    found = solve(line(x), {"a": 0.0, "b": 0.0}, ("a", "b"), observed)
    design = np.column_stack([np.ones_like(x), x])
    theta, squares, *_ = np.linalg.lstsq(design, observed.values)
    np.testing.assert_allclose(list(found.values.values()), theta, rtol=1e-10)
    assert found.sigma == pytest.approx(np.sqrt(squares[0] / (len(x) - 2)), rel=1e-10)
    covariance = found.sigma**2 * np.linalg.inv(design.T @ design)
    low, high = profile(line(x), found, observed, "b", 0.95)
    half = t_distribution.ppf(0.975, len(x) - 2) * np.sqrt(covariance[1, 1])
    np.testing.assert_allclose([low, high], [theta[1] - half, theta[1] + half], rtol=1e-6)


def test_profile_agrees_with_lmfits() -> None:
    rng = np.random.default_rng(1)
    x = np.linspace(0.1, 4, 40)
    y = 3 * np.exp(-0.7 * x) + 0.05 * rng.standard_normal(len(x))
    observed = Observed(y, np.zeros(len(x), dtype=bool))

    def decay(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        power = np.exp(-theta[1] * x)
        return theta[0] * power, np.column_stack([power, -theta[0] * x * power])

    found = solve(decay, {"a": 1.0, "b": 1.0}, ("a", "b"), observed)
    parameters = lmfit.create_params(a=1.0, b=1.0)
    minimizer = lmfit.Minimizer(lambda p: p["a"] * np.exp(-p["b"] * x) - y, parameters)
    theirs = lmfit.conf_interval(minimizer, minimizer.minimize(), sigmas=[0.95])
    for name in ("a", "b"):
        low, high = profile(decay, found, observed, name, 0.95)
        np.testing.assert_allclose([low, high], [theirs[name][0][1], theirs[name][-1][1]], rtol=2e-4)


def test_a_parameter_without_a_limit_has_no_end() -> None:
    """1 − exp(−b·x) with b so large that the data are flat: any larger b fits as well."""
    x = np.linspace(1, 2, 30)
    observed = Observed(1 + 0.01 * np.random.default_rng(0).standard_normal(30), np.zeros(30, dtype=bool))

    def flat(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        power = np.exp(-np.clip(theta[1] * x, 0, 700))
        return theta[0] * (1 - power), np.column_stack([1 - power, theta[0] * x * power])

    found = solve(flat, {"a": 1.0, "b": 4.0}, ("a", "b"), observed)
    low, high = profile(flat, found, observed, "b", 0.95)
    assert high is None
    assert low is not None
    assert 2 < low < found.values["b"]


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    mu=st.floats(-50, 50),
    value=st.floats(-50, 50),
    sigma=st.floats(1e-3, 10),
)
def test_residuals_square_to_the_deviance_and_have_its_derivative(mu: float, value: float, sigma: float) -> None:
    for censored in (False, True):
        observed = Observed(np.array([value]), np.array([censored]))
        (residual,), (slope,) = standardized(np.array([mu]), observed, sigma)
        expected = -2 * norm.logsf(value, mu, sigma) if censored else ((mu - value) / sigma) ** 2
        assert residual**2 == pytest.approx(expected, rel=1e-9, abs=1e-290)
        step = 1e-4 * sigma
        (after,), _ = standardized(np.array([mu + step]), observed, sigma)
        (before,), _ = standardized(np.array([mu - step]), observed, sigma)
        assert slope == pytest.approx((after - before) / (2 * step), rel=1e-3, abs=1e-6 / sigma)


def test_bounds_that_are_nearly_reached_tell_of_the_spread() -> None:
    """The score of the Tobit likelihood for the spread is 0 there, with degrees of freedom for the number of values."""

    rng = np.random.default_rng(0)
    latent = rng.normal(0.0, 1.0, 60)
    observed = Observed(np.minimum(latent, 0.3), latent >= 0.3)
    found = solve(lambda theta: (np.full(60, theta[0]), np.ones((60, 1))), {"k": 0.0}, ("k",), observed)
    z = (found.values["k"] - observed.values) / found.sigma
    values, bounds = z[~observed.censored], z[observed.censored]
    told = (bounds * norm.pdf(bounds) / norm.cdf(bounds)).sum()
    assert values @ values == pytest.approx(found.dof + told, rel=1e-4)
