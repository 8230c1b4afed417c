"""Vectors by their directions."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

DIGITS = 12
"""To which equal directions agree."""


def repeats(vectors: Float[np.ndarray, "items channels"]) -> Int[np.ndarray, " again"]:
    """The vectors that have the direction of an earlier one, but for rounding; none may be zero."""
    _, first, which = np.unique(np.round(unit(vectors), DIGITS), axis=0, return_index=True, return_inverse=True)
    return np.flatnonzero(first[which.ravel()] != np.arange(len(vectors)))


def unit(vectors: Float[np.ndarray, "items channels"]) -> Float[np.ndarray, "items channels"]:
    """Each row over its norm, in float64; none may be zero."""
    vectors = vectors / np.abs(vectors).max(axis=1, keepdims=True)  # else the squares can overflow, or vanish
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
