"""What built weights reach, as one JSON object."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from capax import machine
from capax.checks.saturation import Saturation, saturation
from capax.results import Result
from capax.specs import Associations, AssociativeAttention, KeyQueryChannel, Relations
from capax.tasks import relation_files
from capax.tasks.graph_classes import GraphClass, class_of
from capax.theory.bounds.bound import Bound
from capax.theory.bounds.relations import OF_WEIGHTS
from capax.theory.construct.associations import Construction, Precision, largest_library
from capax.theory.construct.channel import square_norm
from capax.theory.construct.relations import Method, RelationConstruction

FLOAT_BITS = 64


class ConstructionReport(Result):
    """Weights of one attention layer that were built, not trained, to memorize a library."""

    library_size: Annotated[int, Field(description="Examples in the library.")]
    bound: Annotated[int, Field(description="T = H(min(n, d_head) − 1) + 1, the most that the construction holds.")]
    max_error: Annotated[
        float, Field(description="Largest distance of an output from its label, in two orders of additions.")
    ]
    relative_error: Annotated[float, Field(description="The same over the largest absolute number of a label.")]
    recalled: Annotated[int | None, Field(description="Examples whose arg-max is their class; None for real labels.")]
    condition_number: Annotated[float, Field(description="Of the features on which the read-out is solved.")]
    saturation: Saturation
    parameters: Annotated[int, Field(description="H(2 d d_head + d d_value + d_value d_out).")]
    dtype: Precision
    seed: int
    task: Associations
    model: AssociativeAttention
    versions: dict[str, str]
    schema_version: Literal[1] = 1


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


def of_layer(
    built: Construction, task: Associations, model: AssociativeAttention, dtype: Precision, seed: int
) -> ConstructionReport:
    """A construction as a report."""
    return ConstructionReport(
        library_size=len(built.owner),
        bound=largest_library(model.n_heads, task.context_size, model.d_model, model.d_head),
        max_error=built.max_error,
        relative_error=built.max_error / built.max_label if built.max_label else built.max_error,
        recalled=built.recalled,
        condition_number=built.condition_number,
        saturation=saturation(built.attention, built.owner),
        parameters=built.weights.n_parameters,
        dtype=dtype,
        seed=seed,
        task=task,
        model=model.replace(d_value=built.weights.value.shape[2]),
        versions=machine.versions(),
    )


def of_channel(
    built: RelationConstruction,
    edges: Int[np.ndarray, "edges 2"],
    items: Float[np.ndarray, "items channels"],
    task: Relations,
    *,
    method: Method,
    bits: int | None,
    seed: int,
) -> RelationReport:
    """A construction as a report."""
    weights, found = built.weights, built.recognition
    n_heads, d_model, d_head = weights.query.shape
    graphs = class_of(task.graph, len(items), edges)
    known = {
        "graph_bits": graphs.bits,
        "n_items": len(items),
        "n_edges": len(edges),
        "n_heads": n_heads,
        "d_model": d_model,
        "bits": bits or FLOAT_BITS,
        "square_norm": square_norm(weights.query, weights.key, items),
        "margin": found.margin,
    }
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
        # one head is a bound for a single head, beside which the others are held
        bounds=tuple(one(**known | ({"n_heads": 1} if one.name == "one_head" else {})) for one in OF_WEIGHTS),
        notes=relation_files.notes(task),
        seed=seed,
        task=task,
        model=KeyQueryChannel(n_heads=n_heads, d_model=d_model, d_head=d_head),
        versions=machine.versions(),
    )
