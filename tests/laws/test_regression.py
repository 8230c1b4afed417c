"""What rows of a group have in common, by plain matrices and by simulated studies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from capax.laws.regression import Common, Regression

PRIOR = np.array([np.inf, 1.0, 1.0])
SIZES = (30, 6, 6, 6, *[3] * 6, *[1] * 8)
GROUPS = np.repeat(np.arange(len(SIZES)), SIZES)


def study(seed: object, share: float, spread: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Groups of unequal size; the second column is of the group, the third of the row; y is noise alone."""
    rng = np.random.default_rng(seed)
    of_group = rng.standard_normal(len(SIZES))[GROUPS]
    design = np.column_stack([np.ones(len(GROUPS)), of_group, rng.standard_normal(len(GROUPS))])
    apart = np.sqrt(1 - share) * rng.standard_normal(len(GROUPS))
    return design, spread * (apart + np.sqrt(share) * rng.standard_normal(len(SIZES))[GROUPS])


def whole(fit: Regression) -> np.ndarray:
    """The covariance of the coefficients where residuals spread by 1."""
    own = fit.root @ fit.root.T
    return np.asarray(own if fit.shared is None else own + fit.shared @ fit.shared.T)


def test_the_share_and_the_covariance_are_those_of_whole_matrices() -> None:
    design, y = study(0, 0.4)
    fit = Regression.of(design, y, PRIOR)
    found = Common.of(design, y, fit, GROUPS)
    alike = (GROUPS[:, None] == GROUPS).astype(float)
    pulled = np.diag((fit.spread / PRIOR) ** 2)
    inverse = np.linalg.inv(design.T @ design + pulled)
    left = np.eye(len(y)) - design @ inverse @ design.T
    residuals = left @ y
    equations = [
        [np.trace(left @ left), np.trace(left @ alike @ left)],
        [np.trace(left @ left @ alike), np.trace(alike @ left @ alike @ left)],
    ]
    rows, shared = np.linalg.solve(equations, [residuals @ residuals, residuals @ alike @ residuals])
    assert found.share == pytest.approx(shared / (rows + shared), abs=1e-10)

    wider = Regression.of(design, y, PRIOR, common=found)
    variance = (1 - found.share) * np.eye(len(y)) + found.share * alike
    covariance = inverse @ (design.T @ variance @ design + pulled) @ inverse
    np.testing.assert_allclose(whole(wider), covariance, atol=1e-12)
    np.testing.assert_array_equal(wider.beta, fit.beta)
    plain = Regression.of(design, y, PRIOR, common=Common(GROUPS, 0.0))
    np.testing.assert_allclose(plain.root @ plain.root.T, fit.root @ fit.root.T, atol=1e-12)


@pytest.mark.parametrize("groups", [np.zeros(len(GROUPS), dtype=int), np.arange(len(GROUPS))])
def test_one_group_or_as_many_as_rows_tell_of_nothing_in_common(groups: np.ndarray) -> None:
    design, y = study(1, 0.0)
    fit = Regression.of(design, y, PRIOR)
    assert Common.of(design, y, fit, groups).share == 0


@pytest.mark.slow
def test_intervals_of_what_differs_among_groups_hold_as_often_as_they_say() -> None:
    """Without what rows have in common, that of the second coefficient would hold far less often."""
    with_, without, shares = [], [], []
    for seed in range(400):
        design, y = study([3, seed], 0.5)
        fit = Regression.of(design, y, PRIOR)
        common = Common.of(design, y, fit, GROUPS)
        shares.append(common.share)
        for held, one in ((without, fit), (with_, Regression.of(design, y, PRIOR, common=common))):
            error = one.spread * np.sqrt(whole(one).diagonal())
            held.append(np.abs(one.beta) < stats.t.ppf(0.975, one.dof) * error)
    assert np.mean(shares) == pytest.approx(0.5, abs=0.1)
    assert np.mean(without, axis=0)[1] < 0.8
    assert (np.mean(with_, axis=0)[1:] > 0.88).all()


@pytest.mark.slow
def test_of_few_groups_draws_are_as_wide_as_few_groups_leave_open() -> None:
    """Of six groups: a row more of each tells nothing of what differs among them."""
    groups, held = np.repeat(np.arange(6), 12), []
    for seed in range(150):
        rng = np.random.default_rng([4, seed])
        design = np.column_stack([np.ones(72), rng.standard_normal(6)[groups]])
        y = 0.1 * (np.sqrt(0.5) * rng.standard_normal(72) + np.sqrt(0.5) * rng.standard_normal(6)[groups])
        fit = Regression.of(design, y, PRIOR[:2])
        wider = Regression.of(design, y, PRIOR[:2], common=Common.of(design, y, fit, groups))
        draws = np.array([wider.drawn(rng)[0][1] for _ in range(300)])
        low, high = np.quantile(draws, [0.025, 0.975])
        held.append(low < 0 < high)
    assert np.mean(held) > 0.86


def test_what_groups_have_in_common_is_known_by_one_degree_of_freedom_fewer_than_there_are() -> None:

    groups = np.repeat(np.arange(3), 4)
    design, y = np.ones((12, 1)), np.random.default_rng(0).normal(size=12)
    fit = Regression.of(design, y, np.array([np.inf]), common=Common(groups, 0.5))
    asked: list[float] = []

    class Told:
        def chisquare(self, dof: float) -> float:
            asked.append(dof)
            return dof

        def standard_normal(self, count: int) -> np.ndarray:
            return np.zeros(count)

    fit.drawn(Told())  # type: ignore[arg-type]
    assert asked == [pytest.approx(fit.spread_dof), 2]
