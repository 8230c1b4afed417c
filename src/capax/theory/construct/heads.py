"""Query and key matrices of heads that tell their own examples apart and saturate on all others (construction ours)."""

from __future__ import annotations

from math import log

import numpy as np
from jaxtyping import Float, Int

from capax.tasks.association_files import Examples
from capax.theory.construct.factors import factor_contexts, factor_queries
from capax.theory.construct.layer import times_tokens

OWN_WEIGHT = 0.9
"""Weight that an own example puts on its token, but for noise: the nearer to 1, the better conditioned the features;
it stays below what counts as saturated."""

NOISE = 0.3
"""Standard deviation of the noise on own logits: features are independent for almost all logits, not for all."""

OTHER_WEIGHT = 0.999
"""Weight that another head's example puts on its token, at least."""

QUERY_DRAWS, KEY_DRAWS = 200, 20


def query_and_key(
    examples: Examples, n_heads: int, d_head: int, generator: np.random.Generator
) -> tuple[
    Float[np.ndarray, "heads channels d_head"], Float[np.ndarray, "heads channels d_head"], Int[np.ndarray, " items"]
]:
    """W_Q and W_K in float64, and the head (from 0) that tells each example apart.

    W_K,h W_Q,hᵀ = Σ_t k_t p_tᵀ + k qᵀ over the head's own examples t: p_t · e_s is 1 for s = t and 0 for other own s,
    E_t k_t are the logits wanted; q is orthogonal to the own queries, and k large.

    Raises:
        AssumptionError: names the examples that are not independent.
    """
    queries, query_unit = _scaled(examples.queries)
    contexts, context_unit = _scaled(examples.contexts)
    n, d_model = contexts.shape[1:]
    shared = len(contexts) == 1
    factors = factor_contexts(contexts, _eps(examples.contexts))
    query, key = np.zeros((2, n_heads, d_model, d_head))
    owner = np.empty(len(queries), np.int64)
    everyone = np.arange(len(queries))
    for head, own in enumerate(np.array_split(everyone, n_heads)):
        owner[own] = head
        others = np.delete(everyone, own)
        dual, basis = factor_queries(queries, own, others, _eps(examples.queries))
        order = generator.permutation(n)
        left, sizes, right = factors if shared else (factor[own] for factor in factors)
        keys = _vectors(left, sizes, right, _own_logits(len(own), order, generator))
        query[head, :, : len(own)], key[head, :, : len(own)] = dual, keys.T
        if len(own) < min(n, d_head) and len(others) and n > 1:
            theirs = contexts if shared else contexts[others]
            logits = times_tokens(theirs, (queries[others] @ dual) @ keys)
            draws = _orthogonal(generator.standard_normal((QUERY_DRAWS, d_model)), basis)
            directions = (
                _vectors(*factors, _one_up_one_down(order))
                if shared
                else generator.standard_normal((KEY_DRAWS, d_model))
            )
            query[head, :, len(own)], key[head, :, len(own)] = _saturating(
                queries[others], theirs, logits, draws, directions
            )
    return query / query_unit, key / context_unit, owner


def _scaled(given: np.ndarray) -> tuple[np.ndarray, float]:
    """An array over the power of two next to its largest number, and that power: no square of it overflows."""
    array = given.astype(np.float64)
    unit = float(np.exp2(np.frexp(np.abs(array).max())[1] - 1))
    return array / unit, unit


def _eps(given: np.ndarray) -> float:
    return float(np.finfo(given.dtype).eps)


def _own_logits(
    own: int, order: Int[np.ndarray, " context_size"], generator: np.random.Generator
) -> Float[np.ndarray, "own context_size"]:
    """A token each: the last two in `order` are those that the others saturate on, so they come last."""
    n = len(order)
    logits = NOISE * generator.standard_normal((own, n))
    logits[np.arange(own), order[:own]] += log(max(n - 1, 1) * OWN_WEIGHT / (1 - OWN_WEIGHT))
    return logits


def _one_up_one_down(order: Int[np.ndarray, " context_size"]) -> Float[np.ndarray, "1 context_size"]:
    """Logits whose largest and smallest stand apart from the others: no draw leaves wider gaps in one context."""
    logits = np.zeros((1, len(order)))
    logits[0, order[-2:]] = 1, -1
    return logits


def _vectors(
    left: Float[np.ndarray, "g n n"],
    sizes: Float[np.ndarray, "g n"],
    right: Float[np.ndarray, "g n channels"],
    logits: Float[np.ndarray, "some n"],
) -> Float[np.ndarray, "some channels"]:
    """Vectors k with E k = logits, for contexts E = left · diag(sizes) · right."""
    inner = (left.transpose(0, 2, 1) @ logits[:, :, None])[:, :, 0] / sizes
    return (inner[:, None] @ right)[:, 0]


def _orthogonal(
    draws: Float[np.ndarray, "draws channels"], basis: Float[np.ndarray, "own channels"]
) -> Float[np.ndarray, "draws channels"]:
    for _ in range(2):  # once leaves a rounding error that a large key would show
        draws = draws - (draws @ basis.T) @ basis
    return draws / np.linalg.norm(draws, axis=1, keepdims=True)


def _saturating(
    queries: Float[np.ndarray, "others channels"],
    contexts: Float[np.ndarray, "g context_size channels"],
    logits: Float[np.ndarray, "others context_size"],
    draws: Float[np.ndarray, "draws channels"],
    directions: Float[np.ndarray, "keys channels"],
) -> tuple[Float[np.ndarray, " channels"], Float[np.ndarray, " channels"]]:
    """A q of `draws` and a k along one of `directions` that saturate every one of these examples, with |k| about least.

    The token of an example is the one with the largest E k, or the smallest when q · e is negative. The smaller k, the
    less is left on own examples of a product q · e that is zero but for rounding.
    """
    projected = queries @ draws.T
    best, least, scores = (0, 0), -1.0, np.empty(0)
    for number, direction in enumerate(directions):
        along = contexts @ direction  # g context_size
        ordered = np.sort(along, axis=1)
        up, down = ordered[:, -1] - ordered[:, -2], ordered[:, 1] - ordered[:, 0]
        gaps = np.abs(projected) * np.where(projected > 0, up[:, None], down[:, None])
        smallest = gaps.min(0) / (ordered[:, -1] - ordered[:, 0]).max()
        if smallest.max() > least:
            best, least, scores = (int(smallest.argmax()), number), float(smallest.max()), along
    draw, number = best
    moved = projected[:, draw, None] * scores  # others context_size
    token = moved.argmax(1)[:, None]
    behind = np.take_along_axis(moved, token, 1) - moved
    lead = np.take_along_axis(logits, token, 1) - logits
    np.put_along_axis(behind, token, np.inf, 1)
    needed = log((len(scores.T) - 1) * OTHER_WEIGHT / (1 - OTHER_WEIGHT))
    scale = max(float(((needed - lead) / behind).max()), 0.0)
    return draws[draw], scale * directions[number]
