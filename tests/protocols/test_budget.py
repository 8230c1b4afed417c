"""The search for the smallest key dimension against learners whose threshold is known, and one small real one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import capax
from capax.errors import SpecError
from capax.protocols.budget import budget, smallest
from capax.results import HeadCount
from capax.specs import Budget, KeyQueryChannel, Relations, Run, Training
from capax.training.pack import Outcome

CRITERIA = pytest.mark.parametrize("criterion", ["half", "mean"])
Learner = Callable[[Sequence[tuple[int, int]]], list[float]]


def sharp(threshold: int) -> Learner:
    """F1 of 1 from a head size on, and of .9 below."""
    return lambda pairs: [1.0 if d_head >= threshold else 0.9 for d_head, _ in pairs]


def noisy(threshold: float, slope: float, seed: int) -> Learner:
    """Succeeds half of the time at `threshold`; failures miss the target by much."""
    rng = np.random.default_rng(seed)

    def learn(pairs: Sequence[tuple[int, int]]) -> list[float]:
        return [
            1.0 if rng.random() < 1 / (1 + (threshold / d_head) ** slope) else rng.uniform(0.5, 0.98)
            for d_head, _ in pairs
        ]

    return learn


def search(learn: Learner, n_heads: int = 2, d_model: int = 32, guess: float = 16.0, **fields: Any) -> HeadCount:
    return smallest(learn, Budget(**fields), n_heads, d_model, guess, 0)


def holds(count: HeadCount) -> bool:
    """Whether the interval has the total key dimension inside."""
    assert count.total_key_dim is not None
    return count.interval.low <= count.total_key_dim <= (count.interval.high or math.inf)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    criterion=st.sampled_from(["half", "mean"]),
    threshold=st.integers(1, 32),
    n_heads=st.integers(1, 9),
    guess=st.floats(0.5, 500),
)
def test_a_sharp_threshold_is_found(criterion: Any, threshold: int, n_heads: int, guess: float) -> None:
    tried: list[int] = []

    def learn(pairs: Sequence[tuple[int, int]]) -> list[float]:
        tried.extend(d_head for d_head, _ in pairs)
        return sharp(threshold)(pairs)

    found = search(learn, n_heads, guess=guess, criterion=criterion, max_trainings=60)
    assert (found.d_head, found.total_key_dim) == (threshold, n_heads * threshold)
    assert holds(found)
    assert found.interval.low >= n_heads * max(threshold - 1, 1)
    assert found.f1 == 1
    assert found.n_heads == n_heads
    assert found.trainings == len(tried)
    assert max(tried) <= 32


@CRITERIA
def test_no_head_size_is_enough(criterion: Any) -> None:
    found = search(sharp(33), criterion=criterion)
    assert found.d_head is None
    assert found.total_key_dim is None
    assert found.interval.high is None
    assert found.f1 == 0.9


@pytest.mark.slow
@CRITERIA
def test_the_interval_of_a_noisy_learner_holds_its_threshold(criterion: Any) -> None:
    """In at least 53 of 60 searches (the 1 % point, were it to hold with 95 %); what is reported is always inside."""
    held = 0
    for seed in range(60):
        found = search(noisy(8.5, 12, seed), criterion=criterion, max_trainings=80, restarts=6)
        assert found.d_head is not None
        assert holds(found)
        held += found.interval.low <= 2 * 9 <= (found.interval.high or math.inf)
        assert 6 <= found.d_head <= 32
    assert held >= 53


def test_a_threshold_beyond_the_width_is_none() -> None:
    """A few lucky successes at the largest size do not make it enough."""
    found = search(noisy(60, 3, 5), d_model=32, max_trainings=80)
    assert found.f1 > 0.5
    assert found.d_head is None
    assert found.interval.high is None


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    criterion=st.sampled_from(["half", "mean"]),
    threshold=st.floats(1, 40),
    slope=st.sampled_from([2.0, 6.0, 20.0]),
    seed=st.integers(0, 10_000),
)
def test_what_is_reported_is_a_head_size_that_may_be(criterion: Any, threshold: float, slope: float, seed: int) -> None:
    found = search(noisy(threshold, slope, seed), criterion=criterion)
    if found.d_head is None:
        assert found.interval.high is None
    else:
        assert 1 <= found.d_head <= 32
        assert holds(found)
        assert found.interval.high is None or found.interval.high <= 2 * 32
    assert found.interval.low >= 2


def test_half_of_the_trainings_and_their_mean_are_two_criteria() -> None:
    """Two in three fully succeed: half does, but the mean F1 is short of the target."""

    def learn(pairs: Sequence[tuple[int, int]]) -> list[float]:
        return [1.0 if d_head >= 16 or (d_head >= 8 and number % 3) else 0.9 for d_head, number in pairs]

    assert (search(learn, criterion="mean").d_head or 0) == 16
    assert 7 <= (search(learn, criterion="half", max_trainings=80).d_head or 0) <= 12


def test_the_mean_is_of_the_trainings_asked_for() -> None:
    rounds: list[list[tuple[int, int]]] = []

    def learn(pairs: Sequence[tuple[int, int]]) -> list[float]:
        rounds.append(list(pairs))
        return sharp(5)(pairs)

    search(learn, criterion="mean", restarts=4)
    assert all([number for _, number in pairs] == [0, 1, 2, 3] for pairs in rounds)
    assert len({pairs[0][0] for pairs in rounds}) == len(rounds)


# over head counts


def found_over_heads(thresholds: dict[int, int]) -> Any:
    """What the protocol finds when each head count has a sharp threshold of its own."""
    run = Run(
        task=Relations(n_items=24),
        model=KeyQueryChannel(d_model=12),
        training=Training(),
        protocol=Budget(head_counts=tuple(thresholds), max_trainings=40),
    )

    def train(
        members: Sequence[int], sizes: Sequence[int], one_library: bool, model: Any, d_heads: Sequence[int]
    ) -> list[Outcome]:
        assert not one_library
        assert model.d_head == max(d_heads)
        f1 = [1.0 if d_head >= thresholds[model.n_heads] else 0.8 for d_head in d_heads]
        return [
            Outcome(0, member, 24, 24, 1, 1, 1500, "budget", ((0, 0, None),), (), {}, metrics={"f1": value})
            for member, value in zip(members, f1, strict=True)
        ]

    return budget(run, run.protocol, train)


def test_ties_go_to_fewer_heads() -> None:
    found = found_over_heads({1: 8, 2: 4, 4: 2, 8: 3})
    assert [count.total_key_dim for count in found.search.per_heads] == [8, 8, 8, 24]
    assert found.best.parameters["trainable"] == 2 * 12 * 8 + 2
    assert found.best.metrics["f1"] == 1


def test_the_best_head_count_has_the_smallest_total() -> None:
    found = found_over_heads({1: 13, 2: 7, 4: 3, 8: 2})
    assert [count.total_key_dim for count in found.search.per_heads] == [None, 14, 12, 16]
    assert found.best.parameters["trainable"] == 2 * 12 * 12 + 2


def test_no_head_count_is_enough() -> None:
    found = found_over_heads({1: 13, 2: 13})
    assert [count.total_key_dim for count in found.search.per_heads] == [None, None]
    assert found.best.metrics["f1"] == 0.8


# trained

TASK, MODEL = Relations(n_items=24), KeyQueryChannel(d_model=12)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["half", pytest.param("mean", marks=pytest.mark.very_slow)])
def test_a_small_graph(criterion: Any) -> None:
    """24 items in 12 channels: everything that is reported is that of the best head count."""
    protocol = Budget(head_counts=(1, 2), restarts=2, max_trainings=8, criterion=criterion)
    run = capax.measure(TASK, MODEL, Training(max_steps=200), protocol=protocol)
    search = run.key_search
    assert search is not None
    assert [count.n_heads for count in search.per_heads] == [1, 2]
    assert run.total_key_dim is not None
    assert search.interval is not None
    assert 3 <= run.total_key_dim <= 20
    assert run.total_key_dim == (run.n_heads or 0) * (run.d_head or 0)
    best = min((count for count in search.per_heads if count.total_key_dim), key=lambda count: count.total_key_dim or 0)
    assert run.total_key_dim == best.total_key_dim
    assert search.built is not None
    ends = [end for end in (best.interval.high, search.built.total_key_dim) if end is not None]
    assert (search.interval.low, search.interval.high) == (best.interval.low, min(ends))
    assert run.metrics["f1"] >= 0.99
    assert run.parameters.trainable == 2 * 12 * run.total_key_dim + 2
    assert len(run.members) == sum(count.trainings for count in search.per_heads)
    assert capax.Measurement.from_json(run.to_json()) == run


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [{}, {"schedule": "cycles", "cycle_steps": 20, "cycle_decay": 0.7}])
def test_a_small_graph_by_soap(schedule: dict[str, Any]) -> None:
    """SOAP's bases are of the heads that are padded to the round's largest; it needs no more than Adam's 3 to 20."""
    soap = Training(optimizer="soap", lr=0.2, beta1=0.8, beta2=0.95, basis_every=5, max_steps=140, **schedule)
    protocol = Budget(head_counts=(1,), restarts=2, max_trainings=8)
    run = capax.measure(TASK, MODEL, soap, protocol=protocol)
    assert run.total_key_dim is not None
    assert 3 <= run.total_key_dim <= 8
    assert run.metrics["f1"] >= 0.99


def test_too_short_a_time_limit_is_refused() -> None:
    with pytest.raises(SpecError, match=r"^time_limit: "):
        capax.measure(TASK, MODEL, Training(max_steps=4000, time_limit=0.01), protocol="budget")
