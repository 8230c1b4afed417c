"""The best that one head of any size can do in the key-query channel.

Its scores x_i A x_jᵀ, with A = W_Q W_Kᵀ of any rank, are linear in A. So its loss is convex: whatever the optimizer, no
training of one head ends below this optimum. And whether some A and threshold have every pair right is whether two sets
of points can be separated by a plane, which the optimum tells: where it does not separate them, its own gradient, which
is 0, is the proof that nothing does (Gordan's theorem).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import LinAlgWarning
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from capax.errors import LibraryError
from capax.tasks.graphs import check_edges
from capax.theory.construct.channel import ChannelWeights, Recognition, recognize

STEPS = 100
"""Of Newton's method: two dozen are enough where there is an optimum; without one they go on."""


@dataclass(frozen=True)
class BestHead:
    """The optimum of the loss that trainings of the channel have, for one head.

    Attributes:
        weights: one head as large as the vectors, W_Q = A and W_K = I.
        recognition: what it recognizes, by the best threshold.
        separates: whether it has every pair on its side of the threshold.
        largest_margin: where it does not, no A and τ do so by more than this share of their norm, √(|A|² + τ²).
    """

    weights: ChannelWeights
    recognition: Recognition
    separates: bool
    largest_margin: float


def best_head(items: Float[np.ndarray, "items channels"], edges: Int[np.ndarray, "edges 2"]) -> BestHead:
    """Minimize the loss of one head of any size over all ordered pairs.

    The loss is that of trainings: cross-entropy, in which an edge counts √(non-edges / edges) times.

    Args:
        items: vectors x.
        edges: rows of source and target.

    Raises:
        LibraryError: for edges that are none, twice, self-loops or without item, and for a graph of all pairs, which
            any scores above the threshold tell.
    """
    check_edges(edges, len(items))
    if len(edges) == (pairs := len(items) * (len(items) - 1)):
        raise LibraryError(f"edges: fewer than all {pairs} pairs, got {len(edges)}")
    related = np.zeros((len(items), len(items)), bool)
    related[tuple(edges.T)] = True
    source, target = np.nonzero(~np.eye(len(items), dtype=bool))
    sides = related[source, target]
    products = np.einsum("pa,pb->pab", items[source], items[target]).reshape(len(sides), -1)
    worth = np.where(sides, np.sqrt((~sides).sum() / sides.sum()), 1.0)
    with warnings.catch_warnings():  # of sets that can be separated, where there is no optimum
        for kind in (ConvergenceWarning, LinAlgWarning):
            warnings.simplefilter("ignore", kind)
        fitted = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=STEPS).fit(
            products, sides, sample_weight=worth
        )
    width = items.shape[1]
    weights = ChannelWeights(fitted.coef_.reshape(1, width, width), np.eye(width)[None])
    scores = fitted.decision_function(products)
    signs = np.where(sides, 1.0, -1.0)
    share = worth * expit(-signs * scores)
    pull = np.append((share * signs) @ products, share @ signs)
    found = recognize(weights.query, weights.key, items, edges)
    separates = found.f1 == 1  # by whatever threshold: where there is no optimum, the steps end at none
    return BestHead(weights, found, separates, 0.0 if separates else float(np.linalg.norm(pull) / share.sum()))
