"""Weights that a training of a key-query channel starts from: those that are built for its graph."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from capax.errors import AssumptionError, SpecError
from capax.theory.construct.relations import RelationConstruction, build


def channel(
    edges: Int[np.ndarray, "edges 2"],
    items: Float[np.ndarray, "items channels"],
    n_heads: int,
    d_head: int,
    seed: int,
) -> RelationConstruction:
    """A channel of these heads for a graph, whatever F1 it reaches.

    Whitened where every head's items are independent; else, where a head has more edges than channels or a source in
    several of them, by outer products, of equal shares of the edges. Heads beyond one an edge are left away.
    """
    n_heads, generator = min(n_heads, len(edges)), np.random.default_rng(seed)
    try:
        return build(edges, items, generator=generator, n_heads=n_heads, d_head=d_head)
    except (AssumptionError, SpecError):
        split = tuple(np.array_split(generator.permutation(len(edges)), n_heads))
        return build(edges, items, generator=generator, method="hebbian", split=split, d_head=d_head)
