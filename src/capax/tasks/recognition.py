"""What is drawn of relations, and how well they are recognized."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from capax.specs import Relations
from capax.tasks import embeddings, graphs
from capax.tasks.library import Evaluation

CONTEXTS = 256
"""Contexts that pairs are counted in, where they are subsets (ours)."""

COMPLETE_F1 = 0.999
"""Ours: from this F1 on a training counts as complete."""


class Drawn(NamedTuple):
    """A graph and its items' vectors.

    Attributes:
        edges: rows of source and target.
        signs: 1 for each ordered pair that is an edge, −1 for any other.
    """

    items: Float[np.ndarray, "m c"]
    edges: Int[np.ndarray, "edges 2"]
    signs: Float[np.ndarray, "m m"]


def draw(spec: Relations, d_model: int, generator: np.random.Generator) -> Drawn:
    """A graph and its items' vectors."""
    edges = graphs.draw(spec, generator)
    items = embeddings.draw(spec, d_model, generator)
    signs = np.full((len(items), len(items)), -1.0)
    signs[edges[:, 0], edges[:, 1]] = 1.0
    return Drawn(items, edges, signs)


def evaluation(
    recalled: int, *, hits: float, predicted: float, edges: float, lowest: float, highest: float, pairs: float
) -> Evaluation:
    """Micro-F1 over the counted pairs; the margin is what edges' scores are above all others'.

    Where all pairs are edges it is what they are above the threshold.

    Args:
        recalled: edges of the graph that are recalled.
        hits, predicted, edges: pairs that are rightly taken for edges, that are taken for edges, that are edges; each
            as often as it is counted.
        lowest, highest: scores of the edge that scores least, and of another pair that scores most.
        pairs: of the whole graph's pairs, how many are taken for edges.
    """
    f1 = 2 * hits / (predicted + edges)
    metrics = {
        "f1": f1,
        "precision": hits / predicted if predicted else 0.0,
        "recall": hits / edges,
        "margin": lowest if highest == -math.inf else lowest - highest,
        "predicted_pairs": pairs,
    }
    return Evaluation(recalled, metrics, (f1, metrics["margin"]), f1 >= COMPLETE_F1)
