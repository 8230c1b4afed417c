"""Linear independence of vectors and of their subsets, in float arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import lapack, qr, solve_triangular
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import binomtest

from capax import working

EXACT_SUBSETS = 20_000
"""Up to this many subsets all are tested; of more, a sample."""
ENOUGH_DEPENDENT = 50
"""Sampling ends after this many dependent subsets."""
CIRCUITS = 10
"""At most this many of the dependent sets found by testing are named."""
DIRECTIONS = 8
"""Random directions on which vectors are compared before all their channels are."""
COMPARED = 300_000
"""Pairs of vectors that are compared in all channels."""
CLOSE = 10.0
"""A decision is close when the smallest singular value is within this factor of the tolerance."""
UNIT = float(np.finfo(np.float64).eps)

Rows = Float[np.ndarray, "vectors channels"]


@dataclass(frozen=True)
class Rank:
    """A numerical rank, and whether the decision on full rank was close."""

    rank: int
    close: bool


def rank(rows: Rows, eps: float) -> Rank:
    """Numerical rank of k vectors: how many singular values are above s_max · max(k, d) · eps.

    That is the default of `numpy.linalg.matrix_rank` for an array of the precision `eps`, with singular values that are
    computed in float64. The singular values are computed only where cheaper ways leave the decision open: a Cholesky
    factor of G − c·I, G = rows · rowsᵀ, certifies s_min² > c; the eigenvalues of G decide when none is as near to the
    squared tolerance as G's rounding reaches.
    """
    count, channels = rows.shape
    relative = max(count, channels) * eps
    gram = rows @ rows.T
    trace = float(np.trace(gram))
    noise = (count + channels) * UNIT * trace
    shifted = gram.copy()
    shifted.flat[:: count + 1] -= (CLOSE * relative) ** 2 * trace + 2 * noise  # s_max² is at most the trace
    if lapack.dpotrf(shifted, overwrite_a=1)[1] == 0:
        return Rank(count, close=False)
    unsettled = True
    if relative**2 * trace > noise:
        squares = np.linalg.eigvalsh(gram)
        values = np.sqrt(np.maximum(squares, 0.0))
        unsettled = bool((np.abs(squares - (relative * values[-1]) ** 2) <= noise).any())
    if unsettled:
        values = np.linalg.svd(rows, compute_uv=False)[::-1]
    tolerance = relative * values[-1]
    smallest = values[0] if count <= channels else 0.0
    return Rank(int((values > tolerance).sum()), close=bool(tolerance / CLOSE < smallest < tolerance * CLOSE))


def scaled(rows: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The vectors in float64, each times a power of two so that its norm is .5 to 1; zero vectors stay.

    Whether vectors are independent does not depend on their lengths, but a tolerance that is relative to the longest
    would take short ones for none.
    """
    rows = np.asarray(rows, np.float64)
    for order in (np.inf, 2):  # by the largest number first: no square overflows
        rows = np.ldexp(rows, -np.frexp(np.linalg.norm(rows, order, axis=-1, keepdims=True))[1])
    return rows


def parallel_pairs(rows: Rows, eps: float) -> list[tuple[int, int]]:
    """Each vector that is parallel to an earlier one in a certain order, with that one: (smaller, larger) index.

    Parallel: their unit vectors u, v have |u ∓ v| ≤ d · eps, which makes every set that holds both dependent by `rank`.
    Zero vectors are left out. Vectors are compared only when their projections on a few directions are as near as that,
    and the search ends after `COMPARED` comparisons: where so many are nearly parallel, subsets will tell.
    """
    lengths = np.linalg.norm(rows, axis=1)
    index = np.flatnonzero(lengths)
    units = rows[index] / lengths[index, None]
    allowed = max(2, rows.shape[1]) * eps
    reach = allowed + 2 * rows.shape[1] * UNIT
    directions = np.random.default_rng(0).standard_normal((rows.shape[1], DIRECTIONS))
    places = np.abs(units @ (directions / np.linalg.norm(directions, axis=0)))
    order = np.argsort(places[:, 0], kind="stable")
    places, single = places[order], np.ones(len(order), bool)
    pairs: list[tuple[int, int]] = []
    compared = 0
    for step in range(1, len(order)):
        if compared > COMPARED:
            break
        near = places[step:, 0] - places[:-step, 0] <= reach
        if not near.any():
            break
        later = np.flatnonzero(near & single[step:]) + step
        apart = np.abs(places[later] - places[later - step]).max(1, initial=0.0)
        later = later[apart <= reach]
        compared += len(later)
        first, second = units[order[later - step]], units[order[later]]
        signs = np.where((first * second).sum(1) < 0, -1.0, 1.0)[:, None]
        same = np.linalg.norm(first - signs * second, axis=1) <= allowed
        single[later[same]] = False
        for at in later[same]:
            one, other = int(index[order[at - step]]), int(index[order[at]])
            pairs.append((min(one, other), max(one, other)))
    return sorted(pairs)


def circuit(rows: Rows, eps: float) -> list[int]:
    """The indices of a smallest dependent set within dependent vectors, or of all where rounding hides it."""
    triangle, order = qr(rows.T, mode="r", pivoting=True)
    independent = rank(rows, eps).rank
    if independent < min(triangle.shape):
        weights = solve_triangular(triangle[:independent, :independent], triangle[:independent, independent])
    else:
        return list(range(len(rows)))
    for share in (1e-3, 1e-6, 1e-9):
        members = [*order[:independent][np.abs(weights) > share * np.abs(weights).max(initial=0.0)], order[independent]]
        if rank(rows[members], eps).rank < len(members):
            return sorted(int(member) for member in members)
    return list(range(len(rows)))


def span_too_small(rows: Rows, size: int, eps: float) -> int | None:
    """Numerical rank of all vectors if their span is so small that every subset of `size` is dependent by `rank`.

    s_size of a subset is at most that of all, and its s_max at least the size-th smallest length.
    """
    values = np.linalg.svd(rows, compute_uv=False)
    threshold = np.sort(np.linalg.norm(rows, axis=1))[size - 1] * rows.shape[1] * eps
    if len(values) >= size and values[size - 1] > threshold:
        return None
    return int((values > values[0] * max(rows.shape) * eps).sum())


def share_below(dependent: int, tested: int, level: float) -> float:
    """Upper end of the one-sided Clopper-Pearson interval of a share; 1 − (1 − level)^(1/m) when 0 of m are dependent.

    It stays valid, on the safe side, for samples that end early with a number of dependent subsets.
    """
    return float(binomtest(dependent, tested, alternative="less").proportion_ci(level).high)


@dataclass(frozen=True)
class Tested:
    """How many subsets of one size were tested, and how many of them are dependent."""

    tested: int
    dependent: int
    every: bool
    """Whether it is known of every subset of that size; else of a random sample."""


def count_dependent(rows: Rows, size: int, eps: float, samples: int, seed: int) -> Tested:
    """How many subsets of `size` vectors are linearly dependent: of all where they are few, else of `samples` draws.

    Unlike `probe_subsets` it neither looks for small dependent sets nor ends early: the share is not biased.
    """
    total = comb(len(rows), size)
    every = total <= samples
    count = total if every else samples
    if span_too_small(rows, size, eps) is not None:
        return Tested(count, count, every=True)
    subsets = combinations(range(len(rows)), size) if every else _drawn(len(rows), size, samples, seed)
    chosen = working.through(list(subsets), f"subsets of {size} tested")
    return Tested(count, sum(rank(rows[list(one)], eps).rank < size for one in chosen), every)


@dataclass
class Probe:
    """What tests of subsets of one size found; indices from 0."""

    size: int
    every: bool
    """Whether it is known of every subset; else of a random sample."""
    tested: int = 0
    dependent: int = 0
    close: int = 0
    """Decisions in which the smallest singular value was near the tolerance."""
    dependent_close: int = 0
    """Those of them that came out as dependent."""
    smallest_rank: int | None = None
    span: int | None = None
    """Numerical rank of all vectors, if that already makes every subset dependent."""
    sets: list[tuple[int, ...]] = field(default_factory=list)
    """Dependent sets: zero vectors, parallel pairs, then small ones found while testing."""


def probe_subsets(rows: Rows, size: int, eps: float, samples: int, seed: int) -> Probe:
    """Are any `size` of the vectors linearly independent (Kruskal rank ≥ size)?

    Zero and parallel vectors are looked for first, and a span of fewer than `size` dimensions, which settles it without
    tests. Up to `EXACT_SUBSETS` subsets are all tested; of more, `samples` drawn uniformly, or fewer when
    `ENOUGH_DEPENDENT` were found. Sampling is optimistic: a dependent set of a few vectors is in few subsets, and the
    exact Kruskal rank is NP-hard.
    """
    rows = scaled(rows)
    total = comb(len(rows), size)
    found = Probe(size, every=total <= EXACT_SUBSETS)
    found.sets = [(int(at),) for at in np.flatnonzero(~rows.any(1))]
    if size > 1:
        found.sets += parallel_pairs(rows, eps)
    found.span = span_too_small(rows, size, eps)
    if found.span is not None:
        found.every = True
        if not found.sets:
            found.sets = [tuple(circuit(rows[:size], eps))]
        return found
    known = [set(one) for one in found.sets if len(one) == 1]
    group = _groups(len(rows), found.sets)
    named = 0
    subsets = combinations(range(len(rows)), size) if found.every else _drawn(len(rows), size, samples, seed)
    for subset in subsets:
        working.say("subsets tested", found.tested, total if found.every else samples)
        chosen = list(subset)
        decided = rank(rows[chosen], eps)
        found.tested += 1
        found.close += decided.close
        if decided.rank == size:
            continue
        found.dependent += 1
        found.dependent_close += decided.close
        found.smallest_rank = min(decided.rank, size if found.smallest_rank is None else found.smallest_rank)
        explained = len(np.unique(group[chosen])) < size or any(one.issubset(chosen) for one in known)
        if named < CIRCUITS and not explained:
            smallest = tuple(chosen[at] for at in circuit(rows[chosen], eps))
            named += 1
            found.sets.append(smallest)
            known.append(set(smallest))
        if not found.every and found.dependent == ENOUGH_DEPENDENT:
            break
    return found


def _groups(count: int, sets: list[tuple[int, ...]]) -> np.ndarray:
    """For each of the vectors the number of its class of parallel ones, as the pairs among the sets say."""
    pairs = np.array([one for one in sets if len(one) == 2], int).reshape(-1, 2)
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    return connected_components(links, directed=False)[1]


def _drawn(count: int, size: int, samples: int, seed: int) -> Iterator[Any]:
    generator = np.random.default_rng(seed)
    for _ in range(samples):
        yield np.sort(generator.choice(count, size, replace=False, shuffle=False)).tolist()
