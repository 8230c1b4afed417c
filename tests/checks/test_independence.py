"""Independence against plain singular values, brute force, and known shares."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binomtest

from capax.checks.independence import (
    CLOSE,
    ENOUGH_DEPENDENT,
    EXACT_SUBSETS,
    parallel_pairs,
    probe_subsets,
    rank,
    scaled,
    share_below,
)

EPS64, EPS32 = (float(np.finfo(kind).eps) for kind in (np.float64, np.float32))


def gaussian(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@settings(derandomize=True, deadline=None, max_examples=70)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 12),
    channels=st.integers(1, 16),
    power=st.floats(-4, 14),
    dropped=st.integers(0, 3),
    eps=st.sampled_from([EPS32, EPS64]),
)
def test_rank_is_that_of_the_singular_values(
    seed: int, count: int, channels: int, power: float, dropped: int, eps: float
) -> None:
    """From exactly dependent over near the tolerance to safely independent, whichever way decides."""
    draws = np.random.default_rng(seed)
    least = min(count, channels)
    left, right = (np.linalg.qr(draws.standard_normal((side, least)))[0] for side in (count, channels))
    values = np.geomspace(1, min(10**power * max(count, channels) * eps, 1), least)
    values[least - min(dropped, least - 1) :] = 0
    rows = (left * values) @ right.T
    found = np.linalg.svd(rows, compute_uv=False)
    tolerance = found[0] * max(count, channels) * eps
    decided = rank(rows, eps)
    assert decided.rank == (found > tolerance).sum()
    if count <= channels and not 0.5 < found[-1] / tolerance / CLOSE < 2:
        assert decided.close == (tolerance / CLOSE < found[-1] < tolerance * CLOSE)
    assert (rank(rows, EPS64).rank == np.linalg.matrix_rank(rows)) or eps == EPS32


@pytest.mark.parametrize("eps", [EPS32, EPS64])
@pytest.mark.parametrize("offset", [0.0, 3.0, 1e3, 1e6])
def test_rank_of_vectors_with_a_large_common_part(eps: float, offset: float) -> None:
    """Where the Cholesky factor says nothing any more, the singular values decide."""
    rows = gaussian(60, 128) + offset
    values = np.linalg.svd(rows, compute_uv=False)
    assert rank(rows, eps).rank == (values > values[0] * 128 * eps).sum()


def test_float64_rank_is_numpys() -> None:
    rows = gaussian(20, 32)
    rows[7] = rows[:3].sum(0)
    assert rank(rows, EPS64).rank == np.linalg.matrix_rank(rows) == 19


@settings(derandomize=True, deadline=None, max_examples=60)
@given(data=st.data(), count=st.integers(2, 7), channels=st.integers(2, 5))
def test_small_sets_exactly_as_brute_force(data: st.DataObject, count: int, channels: int) -> None:
    rows = data.draw(arrays(np.int64, (count, channels), elements=st.integers(-2, 2))).astype(float)
    size = data.draw(st.integers(1, min(count, channels)))
    if not rows.any():
        return
    dependent = [
        subset for subset in combinations(range(count), size) if np.linalg.matrix_rank(rows[list(subset)]) < size
    ]
    found = probe_subsets(rows, size, EPS64, samples=1, seed=0)
    assert found.every
    assert bool(found.sets) == bool(dependent)
    if found.span is None:
        assert (found.tested, found.dependent) == (comb(count, size), len(dependent))
    else:
        assert len(dependent) == comb(count, size)
        assert found.span == np.linalg.matrix_rank(rows) < size
    for one in found.sets:
        members = rows[list(one)]
        assert np.linalg.matrix_rank(members) == len(one) - 1
        for left_out in range(len(one) if len(one) > 1 else 0):
            assert np.linalg.matrix_rank(np.delete(members, left_out, 0)) == len(one) - 1, "not a smallest set"


def test_gaussian_vectors_are_independent() -> None:
    found = probe_subsets(gaussian(200, 24), 8, EPS64, samples=500, seed=0)
    assert (found.every, found.tested, found.dependent, found.close, found.sets) == (False, 500, 0, 0, [])


def test_three_coplanar_vectors_are_named() -> None:
    rows = gaussian(12, 9)
    rows[10] = 2 * rows[3] - 0.5 * rows[7]
    found = probe_subsets(rows, 5, EPS64, samples=1, seed=0)
    assert found.sets == [(3, 7, 10)]
    assert found.dependent == comb(9, 2)
    assert found.smallest_rank == 4


def test_a_span_too_small_settles_it() -> None:
    rows = gaussian(500, 6) @ gaussian(6, 40, seed=1)
    found = probe_subsets(rows, 7, EPS64, samples=100, seed=0)
    assert (found.span, found.tested, len(found.sets)) == (6, 0, 1)
    assert len(found.sets[0]) == 7
    assert probe_subsets(rows, 6, EPS64, samples=100, seed=0).dependent == 0


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 1000),
    groups=st.lists(st.integers(0, 6), min_size=2, max_size=25),
    kind=st.sampled_from([np.float32, np.float64]),
)
def test_parallel_vectors_are_found(seed: int, groups: list[int], kind: type) -> None:
    draws = np.random.default_rng(seed)
    factors = draws.choice([-3.0, -1.0, 0.1, 1.0, 7.0], len(groups))
    rows = (draws.standard_normal((7, 10))[groups] * factors[:, None]).astype(kind)
    pairs = parallel_pairs(scaled(rows), float(np.finfo(kind).eps))
    assert len(pairs) == len(groups) - len(set(groups))
    assert all(groups[one] == groups[other] and one < other for one, other in pairs)


def test_parallel_vectors_among_many() -> None:
    rows = gaussian(3000, 32)
    rows[2900], rows[17] = -rows[5], 0
    assert parallel_pairs(rows, EPS64) == parallel_pairs(rows, EPS32) == [(5, 2900)]
    found = probe_subsets(rows, 4, EPS64, samples=10, seed=0)
    assert found.sets[:2] == [(17,), (5, 2900)]


@pytest.mark.parametrize("factor", [2.0**-664, 2.0**-100, 2.0**100, 2.0**664])
def test_scale_does_not_matter(factor: float) -> None:
    """By powers of two: others round the numbers, and with them a sum that is exact here."""
    rows = gaussian(12, 9)
    rows[4] = rows[1] + rows[2]
    one, other = (probe_subsets(rows * scale, 4, EPS64, samples=1, seed=0) for scale in (1.0, factor))
    assert one == other


def test_a_sample_ends_with_enough_dependent_subsets() -> None:
    rows = np.repeat(gaussian(20, 12), 3, axis=0)
    found = probe_subsets(rows, 8, EPS64, samples=5000, seed=0)
    assert found.dependent == ENOUGH_DEPENDENT
    assert found.tested < 5000


def test_the_sample_follows_the_seed() -> None:
    rows = gaussian(60, 12)
    rows[:30] = rows[:30, :3] @ gaussian(3, 12, seed=1)
    counts = [probe_subsets(rows, 6, EPS64, samples=60, seed=seed).dependent for seed in (0, 0, 1, 2)]
    assert counts[0] == counts[1]
    assert len(set(counts)) > 1


def test_share_below() -> None:
    assert share_below(0, 5000, 0.95) == pytest.approx(1 - 0.05 ** (1 / 5000))
    exact = binomtest(9, 5000, alternative="less").proportion_ci(0.95, method="exact").high
    assert share_below(9, 5000, 0.95) == pytest.approx(exact)
    assert share_below(7, 7, 0.95) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("samples", [60, 600])
def test_the_confidence_is_kept(samples: int) -> None:
    """The limit covers a known share in at least 95 % of studies, for samples that end early, too (600)."""
    count, size, studies = 30, 5, 80
    rows = gaussian(count, 6)
    rows[:9] = rows[0]
    share = 1 - (comb(21, 5) + 9 * comb(21, 4)) / comb(count, size)
    assert comb(count, size) > EXACT_SUBSETS
    probes = [probe_subsets(rows, size, EPS64, samples=samples, seed=seed) for seed in range(studies)]
    assert any(found.tested < samples for found in probes) == (samples == 600)
    covered = sum(share_below(found.dependent, found.tested, 0.95) >= share for found in probes)
    assert covered >= 0.95 * studies - 2.5 * (0.95 * 0.05 * studies) ** 0.5
