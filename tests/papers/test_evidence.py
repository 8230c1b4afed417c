"""The tests behind verdicts, against scipy and known truths; each can answer in all three ways."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize
from versions import pinned

from capax.papers import evidence as ev
from capax.papers.recipe import Unjudged


@settings(derandomize=True, deadline=None, max_examples=8)
@given(st.permutations(range(6)))
def test_trend_is_the_exact_permutation_test(order: list[int]) -> None:
    found = stats.kendalltau(range(6), order, method="exact", alternative="greater")
    assert ev.kendall(range(6), order) == pytest.approx(found.statistic)
    assert ev.trend_p(range(6), order) == pytest.approx(found.pvalue)


@pytest.mark.parametrize(
    ("x", "y", "up", "down"),
    [
        ([1, 2, 2, 4], [1, 3, 2, 2], 5 / 12, 11 / 12),
        (range(9), [3, 1, 4, 1, 5, 9, 2, 6, 5], 0.0865, 0.9391),
    ],
)
def test_trends_with_ties_are_those_of_all_orders_or_of_seeded_ones(
    x: list[float], y: list[float], up: float, down: float
) -> None:
    """Computed by counting over `itertools.permutations`, and over 9999 shuffles of `numpy.random.default_rng(0)`."""
    assert ev.trend_p(x, y) == pytest.approx(up, abs=1e-15)
    assert ev.trend_p(x, -np.array(y)) == pytest.approx(down, abs=1e-15)


def test_a_long_trend_has_a_small_p() -> None:
    assert ev.trend_p(range(12), range(12)) == pytest.approx(1e-4)
    assert ev.trend_p(range(12), range(12, 0, -1)) == 1.0


@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.integers(0, 1000))
def test_intervals_are_scipys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=5), rng.normal(1, 3, size=8)
    gap = ev.difference(a, b)
    known = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (gap.low, gap.high) == pytest.approx((known.low, known.high))
    one = ev.mean(a)
    assert (one.low, one.high) == pytest.approx(stats.t.interval(0.95, 4, a.mean(), stats.sem(a)))
    y = 2 * b + rng.normal(size=8)
    known = stats.pearsonr(b, y).confidence_interval(0.95)  # by Fisher's z
    r2 = ev.line_r2(b, y)
    if known.low > 0:
        assert (r2.low, r2.high) == pytest.approx((known.low**2, known.high**2))


def test_slope_and_interval_are_those_of_linregress() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=9)
    y = 3 * x + rng.normal(size=9)
    known, (found,) = stats.linregress(x, y), ev.slopes([x], y)
    half = stats.t.ppf(0.975, 7) * known.stderr
    assert (found.value, found.low, found.high) == pytest.approx((known.slope, known.slope - half, known.slope + half))


def test_estimates_are_those_of_the_formulas_written_out() -> None:
    """Numbers of an earlier version, which had Welch's, Student's and Fisher's formulas written by hand."""
    rng = np.random.default_rng(3)
    a, b, y = rng.normal(size=5), rng.normal(1, 3, size=8), rng.normal(size=8)
    found = [ev.difference(a, b), ev.mean(a), ev.line_r2(b, y), ev.slopes([b], y)[0], ev.difference([1] * 3, [2, 3])]
    numbers = [number for one in found for number in (one.value, one.low, one.high)]
    assert numbers == pytest.approx(
        [
            *(-1.0667153814972106, -5.053961750325268, 2.920530987330847),
            *(-0.2234131922883192, -2.2964034679439855, 1.849577083367347),
            *(0.04176817820885315, 0.0, 0.6314038337799929),
            *(0.02837523782902527, -0.10739192342945206, 0.16414239908750258),
            *(-1.5, -7.853102368087347, 4.853102368087347),
        ],
        rel=2e-15 if pinned("scipy") else 1e-9,
    )


def test_slopes_give_each_group_its_level() -> None:
    x = np.tile([1.0, 2.0, 3.0], 2)
    y = 2 * x + np.repeat([0.0, 100.0], 3)
    assert ev.slopes([x], y, list("aaabbb"))[0].value == pytest.approx(2)


def test_fisher_interval_covers() -> None:
    """The interval of R² holds the true one in about 95 % of draws."""
    rng, rho = np.random.default_rng(0), 0.9
    held = 0
    for _ in range(1000):
        x = rng.normal(size=8)
        r2 = ev.line_r2(x, rho * x + np.sqrt(1 - rho**2) * rng.normal(size=8))
        held += r2.low <= rho**2 <= r2.high
    assert 0.92 <= held / 1000 <= 0.98


LINE = np.arange(1.0, 8.0)


@pytest.mark.parametrize(
    ("values", "answer"),
    [(LINE, "agrees"), (-LINE, "differs"), ([1, 2, 1, 2, 1, 2, 1], "cannot be judged")],
)
def test_rises(values: list[float], answer: str) -> None:
    assert ev.rises(LINE, values, "y", "x").answer == answer


def test_a_trend_is_found_in_at_most_one_order_of_twenty() -> None:
    """Up or down, of all orders of so many values: as often as a 95 % interval may miss. Of 4 none can be found."""
    answers = [ev.rises(range(5), order, "y", "x").answer for order in itertools.permutations(range(5))]
    up, down = answers.count("agrees"), answers.count("differs")
    assert up == down > 0
    assert up + down <= ev.SIGNIFICANT * len(answers)


def of_seeds(values: np.ndarray, noise: float, seeds: int = 6) -> np.ndarray:
    """A curve as some seeds measure it."""
    rng = np.random.default_rng(2)
    return values * (1 + noise * rng.normal(size=(seeds, len(values))))


@pytest.mark.parametrize(
    ("values", "noise", "answer"),
    [
        (LINE, 0.05, "agrees"),
        (-LINE, 0.05, "differs"),
        (LINE**1.2, 0.05, "agrees"),  # R² .997: a claim of R² does not tell it from a line
        (LINE**2, 0.05, "differs"),
        (LINE**1.5, 0.1, "cannot be judged"),
        (LINE, 0.5, "cannot be judged"),
    ],
)
def test_on_a_line(values: np.ndarray, noise: float, answer: str) -> None:
    assert ev.on_a_line(LINE, of_seeds(values, noise), 0.98, "y").answer == answer


def test_one_or_two_seeds_have_no_interval() -> None:
    for seeds in (1, 2):
        found = ev.on_a_line(LINE, of_seeds(LINE, 0.01, seeds), 0.98, "y")
        assert found.answer == "cannot be judged"
        assert found.measured in ("R² 0.999", "R² 1")


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 6])
@pytest.mark.parametrize("power", [1.4, 2.0])
def test_the_interval_of_a_means_line_covers(seeds: int, power: float) -> None:
    """The interval over seeds holds R² of the true curve in about 95 % of studies."""
    curve = LINE**power
    truth, rng, held = ev.line_r2(LINE, curve).value, np.random.default_rng(0), 0
    for _ in range(600):
        curves = curve * (1 + 0.1 * rng.normal(size=(seeds, len(LINE))))
        held += ev.r2_of_mean(LINE, curves).holds(truth)
    assert 0.91 <= held / 600 <= 0.98


@pytest.mark.parametrize(
    ("power", "noise", "answer"), [(1, 0.01, "agrees"), (2, 0.01, "differs"), (1, 3, "cannot be judged")]
)
def test_exponent(power: float, noise: float, answer: str) -> None:
    x = np.arange(1, 8)
    y = x**power * np.exp(noise * np.array([1, -1, 0.5, -0.5, 1, -1, 0]))
    assert ev.has_exponent(ev.exponent(x, y), 1, "x").answer == answer


def test_an_interval_that_holds_zero_beside_one_agrees_with_neither() -> None:
    assert ev.has_exponent(ev.Estimate(0.1, -0.85, 1.05), 1, "x").answer == "cannot be judged"


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [([5, 6, 7], [1, 2, 3], "agrees"), ([1, 2, 3], [5, 6, 7], "differs"), ([1, 5, 3], [2, 4, 3], "cannot be judged")],
)
def test_larger(first: list[float], second: list[float], answer: str) -> None:
    assert ev.larger(first, second, "a", "b").answer == answer


def test_equal_values_differ_for_sure_but_two_may_be_equal_by_luck() -> None:
    assert ev.larger([3, 3, 3], [1, 1, 1], "a", "b", unit=1).answer == "agrees"
    assert ev.larger([2, 2, 2], [1, 1, 1], "a", "b", unit=1).answer == "cannot be judged"  # one item more or less
    assert ev.larger([0.9, 0.9, 0.9], [0.5, 0.5, 0.5], "a", "b").answer == "agrees"
    with pytest.raises(Unjudged, match="2 values that are alike"):
        ev.mean([100, 100])
    assert ev.larger([1, 1, 1], [1, 1, 1], "a", "b").answer == "cannot be judged"
    with pytest.raises(Unjudged, match="no spread"):
        ev.larger([2, 2], [1, 1], "a", "b")


def test_the_best_of_several_has_a_wider_interval() -> None:
    a, b = [1.0, 1.4, 1.2, 1.3], [0.9, 1.0, 1.1, 0.8]
    assert ev.larger(a, b, "a", "b").answer == "agrees"
    assert ev.larger(a, b, "a", "b", tried=5).answer == "cannot be judged"


def test_noise_does_not_fall() -> None:
    assert "falls" not in ev.on_a_line([1, 2, 3, 4], [[0.50, 0.51, 0.49, 0.499]] * 3, 0.98, "y").reason
    assert "falls" in ev.on_a_line([1, 2, 3, 4], [[4.0, 3.0, 2.1, 0.9]] * 3, 0.98, "y").reason


def test_a_curve_that_may_rise_on_is_not_flat() -> None:
    sizes = [2, 4, 8, 16, 32, 64, 128]
    assert ev.bends(sizes, [10, 20, 30, 40.1, 40.5, 48, 47], 16, "y", "x").answer == "cannot be judged"
    assert ev.bends(sizes, [10, 20, 30, 40.1, 40.5, 40, 40.3], 16, "y", "x").answer == "agrees"


def test_slopes_with_bounds_are_those_of_an_independent_maximum_likelihood() -> None:
    rng = np.random.default_rng(0)
    x, groups = np.tile(np.arange(8.0), 3), np.repeat([0, 1, 2], 8)
    y = 0.5 * x + groups + 0.2 * rng.normal(size=24)
    bounds = y > 4.0
    y = np.minimum(y, 4.0)

    def loss(tried: np.ndarray) -> float:
        mu, sigma = tried[0] * x + tried[1:4][groups], np.exp(tried[4])
        seen = stats.norm.logpdf(y[~bounds], mu[~bounds], sigma).sum()
        return -float(seen + stats.norm.logsf(4.0, mu[bounds], sigma).sum())

    best = minimize(loss, [0.4, 0, 1, 2, -1], method="Nelder-Mead", options={"maxiter": 20_000, "xatol": 1e-9})
    (found,) = ev.slopes([x], y, groups.tolist(), bounds.tolist())
    assert found.value == pytest.approx(best.x[0], rel=0.02)  # sigma is estimated with degrees of freedom there
    assert found.low < 0.5 < found.high
    plain = ev.slopes([x[~bounds]], y[~bounds], groups[~bounds].tolist())[0]
    assert found.high - found.low < 2 * (plain.high - plain.low)
    alone = ev.slopes([np.append(x, [1, 2])], [*y, 4, 4], [*groups, 3, 3], [*bounds, True, True])[0]
    assert alone.value == pytest.approx(found.value)  # a group of bounds alone tells nothing


@pytest.mark.slow
def test_bounds_take_the_bias_from_a_grid_that_fills_its_library() -> None:
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(200):
        widths, series = np.tile([16, 24, 32, 48, 64], 6), np.repeat(np.arange(6), 5)
        y = np.log(widths * (1.0 + series)) + 0.15 * rng.normal(size=30)
        bounds = y > np.log(150)
        wrong += not ev.exponent(widths, np.exp(np.minimum(y, np.log(150))), series.tolist(), bounds.tolist()).holds(1)
    assert wrong <= 17  # 10 are expected; the upper end of 95 % of a binomial


SIZES = [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ([1, 2, 3, 4, 4.1, 4, 4.05], "agrees"),
        ([1, 2, 3, 4, 5, 6, 7.0], "differs"),
        ([1, 2, 3, 4, 4.2, 4.4, 4.6], "differs"),  # by a fifth of the first slope
        ([1, 2, 3, 4, 4.05, 4.1, 4.15], "agrees"),  # by a twentieth
        ([4, 3.9, 4.1, 4, 4.1, 4, 4], "cannot be judged"),
    ],
)
def test_bends(values: list[float], answer: str) -> None:
    assert ev.bends(SIZES, values, 8, "y", "x").answer == answer


@pytest.mark.parametrize(
    "ask",
    [
        lambda: ev.rises([1, 2, 3, 4], [1, 2, 3, 4], "y", "x"),
        lambda: ev.rises([1, 1, 1, 1, 1], [1, 2, 3, 4, 5], "y", "x"),
        lambda: ev.line_r2([1, 2, 3], [1, 2, 3]),
        lambda: ev.line_r2([1, 2, 3, 4], [1, 1, 1, 1]),
        lambda: ev.slopes([[1, 2]], [1, 2]),
        lambda: ev.slopes([[1, 1, 1, 1]], [1, 2, 3, 4]),
        lambda: ev.exponent([1, 2, 3], [0, 1, 2]),
        lambda: ev.difference([1], [2, 3]),
        lambda: ev.mean([1]),
        lambda: ev.bends([1, 2], [1, 2], 2, "y", "x"),
    ],
)
def test_too_little_is_said(ask) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Unjudged):
        ask()


def test_a_flat_end_is_below_a_quarter_of_the_least_that_the_slope_before_may_be() -> None:
    x, y = [1, 2, 4, 8, 16, 32, 64], [0.0, 0.6, 2.4, 3.0, 3.05, 3.0, 3.1]
    before, after = ev.slopes([np.log2(x[:4])], y[:4])[0], ev.slopes([np.log2(x[3:])], y[3:])[0]
    assert ev.FLAT * before.low < after.high < ev.FLAT * before.value
    assert ev.bends(x, y, 8, "the count", "the batch").answer == "cannot be judged"
