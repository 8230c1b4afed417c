"""What built weights of a key-query channel reach on a graph, as one JSON object."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from capax.results import Result
from capax.specs import KeyQueryChannel, Relations
from capax.tasks import relation_files
from capax.tasks.graph_classes import GraphClass, class_of
from capax.theory.bounds.bound import Bound
from capax.theory.bounds.relations import OF_WEIGHTS
from capax.theory.construct.channel import square_norm
from capax.theory.construct.relations import Method, RelationConstruction

FLOAT_BITS = 64


class RelationReport(Result):
    """Weights of a key-query channel that were built, not trained, to recognize a graph."""

    total_key_dim: Annotated[int, Field(description="D_K = n_heads · d_head.")]
    n_heads: int
    d_head: int
    f1: Annotated[float, Field(description="Over all ordered pairs of different items.")]
    precision: float
    recall: float
    margin: Annotated[
        float | None,
        Field(description="Smallest score of an edge minus the largest of a non-edge; None where there is none."),
    ]
    threshold: Annotated[float, Field(description="A pair whose score is above it counts as an edge.")]
    constant: Annotated[
        float | None, Field(description="c = D_K · d_model / (m' ln m') for m' edges; None for a single edge.")
    ]
    method: Method
    bits: Annotated[int | None, Field(description="Of each weight; None: float64.")]
    graphs: Annotated[GraphClass, Field(description="The class that the bounds speak of.")]
    bounds: tuple[Bound, ...]
    notes: tuple[str, ...]
    seed: int
    task: Relations
    model: KeyQueryChannel
    versions: dict[str, str]
    schema_version: Literal[1] = 1


def report(
    built: RelationConstruction,
    edges: Int[np.ndarray, "edges 2"],
    items: Float[np.ndarray, "items channels"],
    task: Relations,
    *,
    method: Method,
    bits: int | None,
    seed: int,
    versions: dict[str, str],
) -> RelationReport:
    """A construction as a report."""
    weights, found = built.weights, built.recognition
    n_heads, d_model, d_head = weights.query.shape
    graphs = class_of(task.graph, len(items), edges)
    return RelationReport(
        total_key_dim=weights.total_key_dim,
        n_heads=n_heads,
        d_head=d_head,
        f1=found.f1,
        precision=found.precision,
        recall=found.recall,
        margin=found.margin,
        threshold=found.threshold,
        constant=built.constant,
        method=method,
        bits=bits,
        graphs=graphs,
        bounds=tuple(
            bound(
                graph_bits=graphs.bits,
                n_items=len(items),
                n_edges=len(edges),
                n_heads=1 if bound.name == "one_head" else n_heads,
                d_model=d_model,
                bits=bits or FLOAT_BITS,
                square_norm=square_norm(weights.query, weights.key, items),
                margin=found.margin,
            )
            for bound in OF_WEIGHTS
        ),
        notes=relation_files.notes(task),
        seed=seed,
        task=task,
        model=KeyQueryChannel(n_heads=n_heads, d_model=d_model, d_head=d_head),
        versions=versions,
    )
