"""The key-query channel in numpy: scores of all ordered pairs of items, and how well a threshold tells edges apart.

S_ij = max_k ⟨x_i W_Q,k, x_j W_K,k⟩ over the heads; (i, j) counts as an edge where S_ij > τ, i ≠ j
(Adler 2025, arXiv 2509.22840). Scores are made in blocks of rows, each head's in turn: memory is a block's, and that of
all queries and keys. It serves weights that are built; those of a file are checked by `claims.recompute`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from capax.tasks.graphs import check_edges

BLOCK = 2**17
"""Scores in a block of rows (1 MB): all heads go over it while it is in the cache."""
RESOLUTION = 1e-9
"""Scores nearer than this share of the largest edge's are one score: a threshold between them would be rounding's."""


@dataclass(frozen=True)
class ChannelWeights:
    """Query and key matrices, heads apart."""

    query: Float[np.ndarray, "heads channels d_head"]
    key: Float[np.ndarray, "heads channels d_head"]

    @property
    def total_key_dim(self) -> int:
        """D_K = n_heads · d_head."""
        return self.query.shape[0] * self.query.shape[2]


@dataclass(frozen=True)
class Recognition:
    """How well a threshold on the scores tells edges from other ordered pairs of different items.

    Attributes:
        threshold: τ; a pair is taken for an edge where its score is above it.
        f1: 2 TP / (2 TP + FP + FN).
        precision: TP / (TP + FP); 0 where no pair is above the threshold.
        recall: TP / (TP + FN).
        margin: smallest score of an edge minus the largest of a non-edge, 0 within rounding; None where every pair is
            an edge.
        true_positives: edges above the threshold.
        false_positives: non-edges above it.
    """

    threshold: float
    f1: float
    precision: float
    recall: float
    margin: float | None
    true_positives: int
    false_positives: int


def score_blocks(
    query: Float[np.ndarray, "heads channels d_head"],
    key: Float[np.ndarray, "heads channels d_head"],
    items: Float[np.ndarray, "items channels"],
) -> Iterator[tuple[int, Float[np.ndarray, "rows items"]]]:
    """First row and scores of each block of rows, in order; a block is overwritten by the next."""
    queries, keys = _projected(query, key, items)
    if queries.shape[2] == 1:  # by numpy a product over one channel takes three times as long as over two
        queries, keys = (np.pad(side, ((0, 0), (0, 0), (0, 1))) for side in (queries, keys))
    n_items = len(items)
    rows = max(1, min(n_items, BLOCK // n_items))
    total, one = np.empty((rows, n_items)), np.empty((rows, n_items))
    for first in range(0, n_items, rows):
        size = min(rows, n_items - first)
        block, head_scores = total[:size], one[:size]
        np.matmul(queries[0, first : first + size], keys[0].T, out=block)
        for ask, answer in zip(queries[1:], keys[1:], strict=True):
            np.matmul(ask[first : first + size], answer.T, out=head_scores)
            np.maximum(block, head_scores, out=block)
        yield first, block


def pair_scores(
    query: Float[np.ndarray, "heads channels d_head"],
    key: Float[np.ndarray, "heads channels d_head"],
    items: Float[np.ndarray, "items channels"],
    pairs: Int[np.ndarray, "pairs 2"],
) -> Float[np.ndarray, " pairs"]:
    """Scores of the given ordered pairs only."""
    queries, keys = _projected(query, key, items)
    per_head = (np.einsum("pc,pc->p", q[pairs[:, 0]], k[pairs[:, 1]]) for q, k in zip(queries, keys, strict=True))
    total = next(per_head)
    for scores in per_head:
        total = np.maximum(total, scores)
    return total


def recognize(
    query: Float[np.ndarray, "heads channels d_head"],
    key: Float[np.ndarray, "heads channels d_head"],
    items: Float[np.ndarray, "items channels"],
    edges: Int[np.ndarray, "edges 2"],
    *,
    threshold: float | None = None,
) -> Recognition:
    """F1, precision, recall and margin over all ordered pairs of different items, in float64.

    Without a threshold, the best: the middle of the margin where there is one, else one of largest F1. That is found
    exactly, as best is always just below the score of an edge: non-edges are counted between scores of edges, block by
    block, so memory grows with the edges and not with the pairs. The threshold is then the middle between that edge's
    score and the next lower one of any pair.

    Args:
        query: W_Q of each head.
        key: W_K of each head.
        items: vectors x.
        edges: rows of source and target, different pairs, no self-loops.
        threshold: τ, where it is given.

    Raises:
        LibraryError: for edges that are none, twice, self-loops or without item; the message names the edge.
    """
    found = _recognition(query, key, items, edges, threshold)
    assert found is not None
    return found


def recognizes(
    query: Float[np.ndarray, "heads channels d_head"],
    key: Float[np.ndarray, "heads channels d_head"],
    items: Float[np.ndarray, "items channels"],
    edges: Int[np.ndarray, "edges 2"],
    target_f1: float,
) -> Recognition | None:
    """What `recognize` finds, or None where that is an F1 below the target: rows are scored until it is certain."""
    return _recognition(query, key, items, edges, None, target_f1)


def _recognition(
    query: Float[np.ndarray, "heads channels d_head"],
    key: Float[np.ndarray, "heads channels d_head"],
    items: Float[np.ndarray, "items channels"],
    edges: Int[np.ndarray, "edges 2"],
    threshold: float | None,
    target_f1: float = 0.0,
) -> Recognition | None:
    check_edges(edges, len(items))
    of_edges = np.sort(pair_scores(query, key, items, edges))
    least = max(RESOLUTION * float(abs(of_edges).max()), float(np.finfo(np.float64).tiny))
    levels = np.unique(of_edges - least) if threshold is None else np.array([threshold])
    missed = np.searchsorted(of_edges, levels, side="right")
    found = len(of_edges) - missed
    others = _non_edges(query, key, items, edges, levels, found, target_f1)
    if others is None:
        return None
    above, below, highest = others
    best = int(np.argmax(_f1(found, above, len(edges))))
    if threshold is None:
        threshold = float(levels[best])
        next_lower = max(float(below[best]), float(of_edges[missed[best] - 1]) if missed[best] else -np.inf)
        if np.isfinite(next_lower):
            threshold = (threshold + next_lower) / 2
    true, false = int(found[best]), int(above[best])
    margin = float(of_edges[0]) - highest
    return Recognition(
        threshold=threshold,
        f1=2 * true / (true + false + len(of_edges)),
        precision=true / (true + false) if true + false else 0.0,
        recall=true / len(of_edges),
        margin=None if np.isinf(margin) else margin if abs(margin) > least else 0.0,
        true_positives=true,
        false_positives=false,
    )


def square_norm(
    query: Float[np.ndarray, "heads channels d_head"],
    key: Float[np.ndarray, "heads channels d_head"],
    items: Float[np.ndarray, "items channels"],
) -> float:
    """R²: largest norm of a query times largest norm of a key in one head, the largest of the heads."""
    queries, keys = (np.linalg.norm(side, axis=2).max(1) for side in _projected(query, key, items))
    return float((queries * keys).max())


def _projected(
    query: Float[np.ndarray, "heads channels d_head"],
    key: Float[np.ndarray, "heads channels d_head"],
    items: Float[np.ndarray, "items channels"],
) -> tuple[Float[np.ndarray, "heads items d_head"], Float[np.ndarray, "heads items d_head"]]:
    vectors = items.astype(np.float64)
    return vectors @ query.astype(np.float64), vectors @ key.astype(np.float64)


def _f1(
    found: Int[np.ndarray, " levels"], above: Int[np.ndarray, " levels"], n_edges: int
) -> Float[np.ndarray, " levels"]:
    """F1 of each level, by the edges and the non-edges above it."""
    return 2 * found / (found + above + n_edges)


def _non_edges(
    query: Float[np.ndarray, "heads channels d_head"],
    key: Float[np.ndarray, "heads channels d_head"],
    items: Float[np.ndarray, "items channels"],
    edges: Int[np.ndarray, "edges 2"],
    levels: Float[np.ndarray, " levels"],
    found: Int[np.ndarray, " levels"],
    target_f1: float,
) -> tuple[Int[np.ndarray, " levels"], Float[np.ndarray, " levels"], float] | None:
    """Non-edges above each level, the largest of their scores that is not above it, and the largest of all.

    None as soon as no level can reach the target any more: edges above it are known, and non-edges only come to them.
    """
    ordered = edges[np.argsort(edges[:, 0], kind="stable")]
    between = np.zeros(len(levels) + 1, np.int64)
    above = between[1:]
    largest = np.full(len(levels) + 1, -np.inf)
    for first, block in score_blocks(query, key, items):
        start, end = np.searchsorted(ordered[:, 0], [first, first + len(block)])
        block[ordered[start:end, 0] - first, ordered[start:end, 1]] = -np.inf
        block[np.arange(len(block)), np.arange(first, first + len(block))] = -np.inf
        top = float(block.max())
        if top <= levels[0]:
            largest[0] = max(largest[0], top)
            continue
        is_high = block > levels[0]
        high = block[is_high]
        bins = np.searchsorted(levels, high, side="left")
        between += np.bincount(bins, minlength=len(between))
        np.maximum.at(largest, bins, high)
        largest[0] = max(largest[0], float(block.max(where=~is_high, initial=-np.inf)))
        above = np.cumsum(between[::-1])[::-1][1:]
        if _f1(found, above, len(edges)).max() < target_f1:
            return None
    return above, np.maximum.accumulate(largest)[:-1], float(largest.max())
