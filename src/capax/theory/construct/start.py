"""Weights that a training of a key-query channel starts from: those that are built for its graph."""

from __future__ import annotations

from contextlib import suppress

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

    Whitened where a head has half as many edges as channels or fewer. Else by outer products, of equal shares of the
    edges: with nearly as many edges as channels the whitened weights are so large that no training goes on from them
    (64 items in 16 channels, 4 heads: F1 .04 after training, .99 from outer products). Heads beyond one an edge are
    left away.
    """
    n_heads, generator = min(n_heads, len(edges)), np.random.default_rng(seed)
    if 2 * len(edges) <= n_heads * items.shape[1]:
        with suppress(AssumptionError, SpecError):  # a source of more edges than there are heads, for one
            return build(edges, items, generator=generator, n_heads=n_heads, d_head=d_head)
    split = tuple(np.array_split(generator.permutation(len(edges)), n_heads))
    return build(edges, items, generator=generator, method="hebbian", split=split, d_head=d_head)
