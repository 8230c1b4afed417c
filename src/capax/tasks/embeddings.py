"""The items' vectors: one of unit norm an item, in float64."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from capax.errors import LibraryError
from capax.specs.relations import Relations
from capax.tasks import relation_files
from capax.tasks.directions import repeats, unit

STEPS = 200
SHRINK = 0.9
"""How much of its coherence a step of `low_coherence` aims at."""


def draw(spec: Relations, d_model: int, generator: np.random.Generator) -> Float[np.ndarray, "items channels"]:
    """The vectors of a spec: Gaussian directions, one-hot, of low coherence (see `low_coherence`), or the user's.

    Of a model's table of tokens, which are as likely but for those whose vector is zero.

    Raises:
        LibraryError: when d_model does not fit (one-hot: n_items; a file: its channels), the file cannot be used, or
            a table has fewer tokens than there are items.
    """
    assert spec.n_items is not None
    match spec.embeddings:
        case "gaussian":
            return gaussian(spec.n_items, d_model, generator)
        case "onehot":
            if d_model != spec.n_items:
                raise LibraryError(f"d_model: one-hot items need d_model = n_items = {spec.n_items}, got {d_model}")
            return np.eye(d_model)
        case "low_coherence":
            return low_coherence(spec.n_items, d_model, generator)
        case _:
            files = relation_files.load(spec)
            vectors = files.vectors if files.table is None else files.table
            assert vectors is not None
            if vectors.shape[1] != d_model:
                raise LibraryError(
                    f"d_model: the vectors of {spec.embeddings} have {vectors.shape[1]} channels, got {d_model}"
                )
            return unit(vectors if files.table is None else _some(files.table, spec, generator))


def _some(
    table: Float[np.ndarray, "tokens channels"], spec: Relations, generator: np.random.Generator
) -> Float[np.ndarray, "items channels"]:
    """Vectors of tokens, drawn without repeats, of tokens or of directions."""
    usable = np.flatnonzero(table.any(axis=1))
    assert spec.n_items is not None
    if spec.n_items > len(usable):
        raise LibraryError(f"n_items: {spec.embeddings} has {len(usable)} tokens, got {spec.n_items}")
    chosen = generator.choice(usable, spec.n_items, replace=False)
    while len(again := repeats(table[chosen].astype(np.float64))):
        others = np.setdiff1d(usable, chosen)
        if len(others) < len(again):
            raise LibraryError(
                f"n_items: {spec.embeddings} has fewer tokens of different directions, got {spec.n_items}"
            )
        chosen[again] = generator.choice(others, len(again), replace=False)
    return table[chosen].astype(np.float64)


def gaussian(n_items: int, d_model: int, generator: np.random.Generator) -> Float[np.ndarray, "items channels"]:
    """Uniform directions: x = g/‖g‖, g standard normal."""
    return unit(generator.standard_normal((n_items, d_model)))


def low_coherence(n_items: int, d_model: int, generator: np.random.Generator) -> Float[np.ndarray, "items channels"]:
    """Vectors whose largest inner product is small: orthonormal up to d_model items, above it near the Welch bound.

    Ours: Gaussian directions are moved against their excess inner products, X ← unit(X − R X), where R is what of
    XXᵀ off its diagonal exceeds ±max(Welch bound, SHRINK · coherence); the best of STEPS steps is returned. Memory
    items², time STEPS · items² · channels.
    """
    vectors = gaussian(n_items, d_model, generator)
    if n_items <= d_model:
        return np.ascontiguousarray(np.linalg.qr(vectors.T)[0].T)
    bound, best, least = welch_bound(n_items, d_model), vectors, math.inf
    for _ in range(STEPS):
        products = vectors @ vectors.T
        np.fill_diagonal(products, 0)
        largest = float(np.abs(products).max())
        if largest < least:
            best, least = vectors, largest
        allowed = max(bound, SHRINK * largest)
        products -= np.clip(products, -allowed, allowed)
        vectors = unit(vectors - products @ vectors)
    return best


def welch_bound(n_items: int, d_model: int) -> float:
    """No n unit vectors of d channels have a coherence below √((n − d)/(d(n − 1))) (Welch 1974); 0 where n ≤ d."""
    return math.sqrt(max(0, n_items - d_model) / (d_model * (n_items - 1)))
