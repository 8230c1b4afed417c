"""The negative binomial fit against brute force, closed forms, scipy and simulated truth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, nbinom

import capax
from capax.errors import SpecError
from capax.protocols.shatter import distance_of_fit, fit_negative_binomial, shatter
from capax.training.pack import Outcome

epochs = st.lists(st.integers(3, 40), min_size=2, max_size=12)


def log_likelihood(r, p, completed, censored):
    """Independent of the package: scipy's distribution, moved so that it counts epochs."""
    values = nbinom.logpmf(completed, r, p, loc=r).sum()
    return values + (np.log(nbinom.sf(censored, r, p, loc=r)).sum() if len(censored) else 0.0)


def simulate(rng, r, p, trials, last_epoch=None):
    drawn = rng.negative_binomial(r, p, size=trials) + r
    if last_epoch is None:
        return drawn, np.zeros(0, dtype=int)
    return drawn[drawn <= last_epoch], np.full((drawn > last_epoch).sum(), last_epoch)


@pytest.mark.slow
@settings(max_examples=8, deadline=None, derandomize=True)
@given(epochs, st.lists(st.integers(1, 60), max_size=6))
def test_no_r_and_p_of_a_fine_grid_do_better(completed, censored):
    fit = fit_negative_binomial(completed, censored)
    grid = np.linspace(0.002, 0.998, 120)
    for r in range(1, min(completed) + 1):
        values = nbinom.logpmf(completed, r, grid[:, None], loc=r).sum(1)
        if censored:
            values = values + np.log(np.maximum(nbinom.sf(censored, r, grid[:, None], loc=r), 1e-300)).sum(1)
        assert values.max() <= fit.log_likelihood + 1e-9
    assert fit.log_likelihood == pytest.approx(log_likelihood(fit.r, fit.p, completed, censored), abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("censored", [[], [25, 25, 30]])
def test_the_intervals_are_those_of_a_fine_grid(censored):
    completed = [9, 11, 14, 14, 17, 21, 12, 16, 19, 24]
    fit = fit_negative_binomial(completed, censored)
    grid = np.linspace(0.001, 0.999, 1000)
    values = np.array([[log_likelihood(r, p, completed, censored) for p in grid] for r in range(1, 10)])
    inside = values >= fit.log_likelihood - 3.841458820694124 / 2
    rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
    assert fit.r_interval == (rows[0] + 1, rows[-1] + 1)
    # the interval of p lets r be real: it holds that of whole r, and is little wider
    assert fit.p_interval[0] <= grid[columns[0]]
    assert fit.p_interval[1] >= grid[columns[-1]]
    assert fit.p_interval == pytest.approx((grid[columns[0]], grid[columns[-1]]), abs=0.04)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(epochs)
def test_without_censoring_p_is_r_over_the_mean(completed):
    fit = fit_negative_binomial(completed)
    assert fit.p == pytest.approx(fit.r / np.mean(completed), rel=1e-12)
    assert fit.mean == pytest.approx(np.mean(completed), rel=1e-12)


def test_trials_censored_before_epoch_r_say_nothing():
    completed = [50, 60, 55, 48, 70, 66]
    plain = fit_negative_binomial(completed)
    fit = fit_negative_binomial(completed, [1, 1])
    assert (fit.r, fit.p) == (plain.r, pytest.approx(plain.p, rel=1e-6))


@pytest.mark.parametrize("last_epoch", [None, 75])
@pytest.mark.parametrize("r", [1, 6])
def test_known_parameters_are_recovered(r, last_epoch):
    completed, censored = simulate(np.random.default_rng(r), r, r / 70, 4000, last_epoch)
    fit = fit_negative_binomial(completed, censored)
    assert fit.r_interval[0] <= r <= fit.r_interval[1]
    assert fit.p == pytest.approx(r / 70, rel=0.15)
    assert fit.mean == pytest.approx(70, rel=0.05)
    assert fit.distance < 0.03


def test_leaving_out_the_censored_trials_would_be_wrong():
    completed, censored = simulate(np.random.default_rng(0), 4, 4 / 100, 1000, 100)
    assert fit_negative_binomial(completed).mean < 80
    assert fit_negative_binomial(completed, censored).mean == pytest.approx(100, rel=0.06)


def test_many_slow_trials():
    completed, censored = simulate(np.random.default_rng(5), 40, 40 / 900, 1000, 1200)
    fit = fit_negative_binomial(completed, censored)
    assert fit.r_interval[0] <= 40 <= fit.r_interval[1]
    assert fit.p_interval[0] < fit.p < fit.p_interval[1]


def test_trials_that_all_need_the_same_epochs():
    fit = fit_negative_binomial([7, 7, 7])
    assert (fit.r, fit.p, fit.log_likelihood) == (7, 1.0, 0.0)
    assert fit.p_interval[1] == 1.0
    assert fit.distance == pytest.approx(0.0)


def test_distance_without_censoring_is_that_to_the_empirical_distribution():
    completed = np.array([3, 5, 5, 8, 13, 21])
    fit = fit_negative_binomial(completed)
    at = np.arange(1, 22)
    empirical = (completed[None, :] <= at[:, None]).mean(1)
    assert fit.distance == pytest.approx(np.abs(empirical - nbinom.cdf(at, fit.r, fit.p, loc=fit.r)).max())


def test_distance_with_censoring_by_hand():
    fit = fit_negative_binomial([2, 4, 6], [4])
    # Kaplan-Meier: 1/4 complete at 2, 1 of 3 at 4 (censored at 4 is still at risk there), the last one at 6
    steps = np.array([0, 0.25, 0.25, 0.5, 0.5, 1.0])
    fitted = nbinom.cdf(np.arange(1, 7), fit.r, fit.p, loc=fit.r)
    assert fit.distance == pytest.approx(np.abs(steps - fitted).max())


@pytest.mark.parametrize(
    ("r", "last_epoch", "distance"),
    [
        (6, None, 0.027977586558710632),
        (6, 75, 0.028991834429642316),
    ],
)
def test_distances_are_those_of_kaplan_and_meier_written_out(r, last_epoch, distance):
    """Numbers of an earlier version, which had the product of survivals written by hand."""
    rng = np.random.default_rng(7)
    completed, censored = simulate(rng, 6, r / 70, 200)
    if last_epoch is not None:
        completed, censored = simulate(rng, 6, r / 70, 200, last_epoch)
    assert fit_negative_binomial(completed, censored).distance == pytest.approx(distance, rel=1e-13)
    assert distance_of_fit(completed) == fit_negative_binomial(completed).distance


@pytest.mark.parametrize("completed", [[], [3.5, 4], [0, 3], [float("nan")], ["a"], [True]])
def test_a_bad_completed_epoch_is_refused_in_one_line(completed):
    with pytest.raises(ValueError, match=r"^completed epochs: "):
        fit_negative_binomial(completed)


def test_a_bad_censored_epoch_is_refused():
    with pytest.raises(ValueError, match=r"^censored epochs: .*-1"):
        fit_negative_binomial([3, 4], [-1])


def covered(r, p, trials, last_epoch, studies):
    rng = np.random.default_rng(17)
    of_r = of_p = 0
    for _ in range(studies):
        fit = fit_negative_binomial(*simulate(rng, r, p, trials, last_epoch))
        of_r += fit.r_interval[0] <= r <= fit.r_interval[1]
        of_p += fit.p_interval[0] <= p <= fit.p_interval[1]
    return of_r, of_p


def assert_nominal(hits, studies):
    """The 99 % binomial range of 95 %, from its exact test."""
    assert binomtest(int(hits), studies, 0.95).pvalue > 0.01, f"{hits} of {studies}"


@pytest.mark.slow
@pytest.mark.parametrize(("r", "last_epoch"), [(8, None), (8, 90), (15, None)])
def test_intervals_hold_the_truth_as_often_as_they_say(r, last_epoch):
    for hits in covered(r, r / 80, 60, last_epoch, 30):
        assert_nominal(hits, 30)


@pytest.mark.very_slow
@pytest.mark.parametrize(("r", "last_epoch"), [(8, None), (8, 90), (15, None), (30, 85)])
def test_intervals_hold_the_truth_in_many_studies(r, last_epoch):
    for hits in covered(r, r / 80, 100, last_epoch, 1000):
        assert_nominal(hits, 1000)


def outcome(member, why, epochs, steps):
    return Outcome(0, member, 40, 40, 1, epochs, steps, why, (), (), {})


def test_a_trial_that_completes_within_an_epoch_has_needed_it():
    """A budget of steps may end within an epoch, and its last evaluation with it."""
    run = capax.Run(
        task=capax.Sequences(library_size=40),
        model=capax.Transformer(d_model=8),
        training=capax.Training(batch_size=20, max_steps=7),
        protocol=capax.Shatter(trials=3),
    )

    def ended(members, sizes, keep):
        return [outcome(0, "complete", 2, 4), outcome(1, "complete", 3, 7), outcome(2, "budget", 3, 7)]

    found = shatter(run, run.protocol, ended)
    assert found.shatter.epochs == (2, 4)
    assert found.shatter.censored == (3,)
    assert found.notes == ()


@pytest.mark.parametrize("protocol", ["mls", "shatter"])
def test_protocols_that_ask_when_a_library_is_complete_end_there(protocol):
    training = capax.Training(stop_when_complete=False)
    with pytest.raises(SpecError, match=f"stop_when_complete: True, as protocol '{protocol}' asks when"):
        capax.measure(capax.Sequences(library_size=40), capax.Transformer(d_model=8), training, protocol=protocol)


def test_a_trial_that_ends_within_its_first_epoch_tells_nothing_of_the_others():
    """With steps between evaluations a training may diverge before an epoch is over."""
    run = capax.Run(
        task=capax.Sequences(library_size=40), model=capax.Transformer(d_model=8), protocol=capax.Shatter(trials=4)
    )
    ends = [("complete", 12), ("complete", 9), ("diverged", 0), ("plateau", 20)]

    def ended(members, sizes, keep):
        return [outcome(member, why, epochs, epochs) for member, (why, epochs) in enumerate(ends)]

    found = shatter(run, run.protocol, ended).shatter
    assert found.censored == (0, 20)
    assert found.fit.r == fit_negative_binomial([12, 9], [20]).r
    assert found.fit.p == fit_negative_binomial([12, 9], [20]).p


@pytest.mark.slow
def test_a_library_that_is_whole_at_a_cycle_s_end_is_a_success() -> None:
    """A cycle that adds too little ends a training, too; not one that recalls all."""
    training = capax.Training(
        schedule="cycles", cycle_steps=25, cycle_tolerance=0.4, optimizer="soap", lr=0.05, max_epochs=400, batch_size=16
    )
    task = capax.Sequences(seq_len=4, vocab_size=8, library_size=16)
    run = capax.measure(task, capax.Transformer(d_model=8), training, protocol=capax.Shatter(trials=8))
    assert {member.stop_reason for member in run.members if member.memorized == 16} == {"complete"}
