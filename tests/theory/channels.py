"""Graphs with their items, and the key-query channel computed pair by pair."""

from __future__ import annotations

import numpy as np

from capax.specs.relations import Relations
from capax.tasks import embeddings, graphs
from capax.theory.construct.relations import RelationConstruction, build


def library(
    n_items: int, d_model: int, seed: int = 0, **fields: object
) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Edges, items, and the generator that goes on from there."""
    generator = np.random.default_rng(seed)
    spec = Relations(n_items=n_items, **fields)
    return graphs.draw(spec, generator), embeddings.draw(spec, d_model, generator), generator


def built(n_items: int, d_model: int, seed: int = 0, *, fields: dict[str, object] | None = None, **options: object):
    """Items, edges, and weights made for them."""
    edges, items, generator = library(n_items, d_model, seed, **(fields or {}))
    return edges, items, build(edges, items, generator=generator, **options)


def onehot(n_items: int, d_head: int, seed: int) -> tuple[np.ndarray, np.ndarray, RelationConstruction]:
    return built(n_items, n_items, seed, fields={"embeddings": "onehot"}, method="onehot", d_head=d_head)


def by_loops(query: np.ndarray, key: np.ndarray, items: np.ndarray, aggregate: str = "max") -> np.ndarray:
    """S of each ordered pair, one pair and head at a time."""
    scores = np.zeros((len(items), len(items)))
    for i, x in enumerate(items):
        for j, y in enumerate(items):
            heads = [float((x @ ask) @ (y @ answer)) for ask, answer in zip(query, key, strict=True)]
            scores[i, j] = max(heads) if aggregate == "max" else sum(heads)
    return scores


def counts(scores: np.ndarray, edges: np.ndarray, threshold: float) -> tuple[int, int, int]:
    """Edges above the threshold, non-edges above it, edges that are not; pair by pair."""
    wanted = {(int(i), int(j)) for i, j in edges}
    hits = false = missed = 0
    for i in range(len(scores)):
        for j in range(len(scores)):
            if i != j:
                fires, is_edge = scores[i, j] > threshold, (i, j) in wanted
                hits += fires and is_edge
                false += fires and not is_edge
                missed += is_edge and not fires
    return hits, false, missed


def f1_of(hits: int, false: int, missed: int) -> float:
    return 2 * hits / (2 * hits + false + missed)
