"""The theory's attention layer in numpy: one query attends to one context; no bias, scale, skip or FFN.

f(E, e) = Σ_h W_O,hᵀ W_V,hᵀ Eᵀ softmax(E W_K,h W_Q,hᵀ e) (Mahdavi et al. 2024; the query is not among the keys).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import softmax

from capax.tasks.association_files import Examples


@dataclass(frozen=True)
class Weights:
    """The layer's matrices, heads apart, in float64 or float32; what is computed with them has their precision."""

    query: Float[np.ndarray, "heads channels d_head"]
    key: Float[np.ndarray, "heads channels d_head"]
    value: Float[np.ndarray, "heads channels d_value"]
    out: Float[np.ndarray, "heads d_value d_out"]

    @property
    def n_parameters(self) -> int:
        """H(2 d d_head + d d_value + d_value d_out)."""
        return self.query.size + self.key.size + self.value.size + self.out.size


def attention(
    query: Float[np.ndarray, "heads channels d_head"],
    key: Float[np.ndarray, "heads channels d_head"],
    examples: Examples,
) -> Float[np.ndarray, "heads items context_size"]:
    """a_h = softmax(E W_K,h W_Q,hᵀ e) of each head and example, in the precision of the matrices."""
    queries, contexts = examples.queries.astype(query.dtype), examples.contexts.astype(query.dtype)
    weights = np.empty((len(query), len(queries), contexts.shape[1]), query.dtype)
    for head, (ask, answer) in enumerate(zip(query, key, strict=True)):
        logits = times_tokens(contexts, (queries @ ask) @ answer.T)
        weights[head] = softmax(logits, axis=1)
    return weights


def times_tokens(
    contexts: Float[np.ndarray, "g context_size channels"], vectors: Float[np.ndarray, "items channels"]
) -> Float[np.ndarray, "items context_size"]:
    """E v of each example's context and vector."""
    if len(contexts) == 1:
        return vectors @ contexts[0].T
    return (contexts @ vectors[:, :, None])[:, :, 0]


def features(
    attention: Float[np.ndarray, "heads items context_size"], contexts: Float[np.ndarray, "g context_size channels"]
) -> Float[np.ndarray, "items heads_channels"]:
    """Z: the mixed tokens Eᵀ a_h of all heads side by side, on which the layer's output is linear."""
    contexts = contexts.astype(attention.dtype)
    if len(contexts) == 1:
        mixed = attention @ contexts[0]
    else:
        mixed = (attention.transpose(1, 0, 2) @ contexts).transpose(1, 0, 2)
    return mixed.transpose(1, 0, 2).reshape(attention.shape[1], -1)


def outputs(weights: Weights, examples: Examples) -> Float[np.ndarray, "items d_out"]:
    """f(E, e) of each example."""
    attended = attention(weights.query, weights.key, examples)
    return features(attended, examples.contexts) @ (weights.value @ weights.out).reshape(-1, weights.out.shape[2])
