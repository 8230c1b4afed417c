"""Weights for the tasks of capax: an attention layer for associations, a key-query channel for relations."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import numpy as np

from capax import machine
from capax.checks.saturation import saturation
from capax.errors import SpecError, shown
from capax.seeds import numpy_generator
from capax.specs import Associations, AssociativeAttention, KeyQueryChannel, Relations
from capax.tasks import association_files, associations, embeddings, graph_classes, graphs, relation_files
from capax.theory.bounds.relations import OF_WEIGHTS
from capax.theory.claims.file import (
    AssociationClaim,
    AssociationHeader,
    ClaimFile,
    RelationClaim,
    RelationHeader,
    data_of,
)
from capax.theory.construct.associations import Precision, check_size, largest_library
from capax.theory.construct.associations import build as build_layer
from capax.theory.construct.channel import square_norm
from capax.theory.construct.construct import Constructed, Constructor, Report
from capax.theory.construct.relations import TARGET_F1, Method
from capax.theory.construct.relations import build as build_channel
from capax.theory.construct.report import ConstructionReport, HeadsTried, RelationReport
from capax.training.room import refuse_too_large_to_build

FLOAT_BITS = 64
EVERY_PAIR = "every pair is an edge: the weights are zero, and every score is above the threshold"


def _layer(task: Associations, layer: AssociativeAttention, seed: int, *, dtype: Precision = "float64") -> Constructed:
    """Build an attention layer that memorizes T = H(min(n, d_head) − 1) + 1 associations exactly.

    The theorem is that of Mahdavi et al. 2024; the construction is ours.

    Args:
        dtype: Type of the weights, and of the arithmetic in which they are evaluated.
    """
    if dtype not in get_args(Precision):
        raise SpecError(f"dtype: {' or '.join(get_args(Precision))}, got {shown(dtype)}")
    if task.files and "d_model" not in layer.model_fields_set:
        layer = layer.replace(d_model=association_files.read(Path(task.library)).queries.shape[1])
    sizes = layer.n_heads, task.context_size, layer.d_model, layer.d_head
    bound = largest_library(*sizes)
    if "library_size" not in task.model_fields_set:
        task = task.replace(library_size=bound)
    check_size(task.library_size, *sizes)
    refuse_too_large_to_build(task, layer)
    examples = associations.draw(task, task.library_size, layer.d_model, numpy_generator(seed, "library"))
    built = build_layer(
        examples,
        n_heads=layer.n_heads,
        d_head=layer.d_head,
        generator=numpy_generator(seed, "construction"),
        dtype=dtype,
        n_classes=task.n_classes if task.labels == "classes" else None,
        tolerance=task.tolerance,
    )
    report = ConstructionReport(
        library_size=len(built.owner),
        bound=bound,
        max_error=built.max_error,
        relative_error=built.max_error / built.max_label if built.max_label else built.max_error,
        recalled=built.recalled,
        condition_number=built.condition_number,
        saturation=saturation(built.attention, built.owner),
        parameters=built.weights.n_parameters,
        dtype=dtype,
        seed=seed,
        task=task,
        model=layer.replace(d_value=built.weights.value.shape[2]),
        versions=machine.versions(),
    )
    claim = AssociationClaim(
        library_size=len(built.owner),
        recalled=built.recalled,
        max_error=built.max_error,
        tolerance=None if task.labels == "classes" else task.tolerance,
    )
    file = ClaimFile.of(
        AssociationHeader(claim=claim, about=_about(report)),
        {**data_of(examples), **asdict(built.weights)},
    )
    return Constructed(built.weights, report, file)


def _channel(
    task: Relations,
    channel: KeyQueryChannel,
    seed: int,
    *,
    method: Method = "whitened",
    bits: int | None = None,
    target_f1: float = TARGET_F1,
) -> Constructed:
    """Build a key-query channel that recognizes a graph: which ordered pairs of items are its edges.

    That D_K = O(m' log m' / d_model) is enough is Adler 2025's; the constructions are ours.

    Args:
        method: whitened (pseudo-inverse), hebbian (outer products), or onehot (one head, one-hot items).
        bits: Bits of each weight, 1 to 8. [default: float64]
        target_f1: F1 that heads and their size are searched for; 1 for every pair right.
    """
    if "d_model" not in channel.model_fields_set:
        vectors = relation_files.load(task).vectors
        width = task.n_items if task.embeddings == "onehot" else None if vectors is None else vectors.shape[1]
        channel = channel if width is None else channel.replace(d_model=width)
    refuse_too_large_to_build(task, channel)
    library = numpy_generator(seed, "library")  # in this order, as for training: the same seed names the same library
    edges = graphs.draw(task, library)
    items = embeddings.draw(task, channel.d_model, library)
    built = build_channel(
        edges,
        items,
        generator=numpy_generator(seed, "construction"),
        method=method,
        n_heads=channel.n_heads if "n_heads" in channel.model_fields_set else None,
        d_head=channel.d_head,
        bits=bits,
        target_f1=target_f1,
    )
    weights, reached = built.weights, built.recognition
    n_heads, d_model, d_head = weights.query.shape
    graph_class = graph_classes.drawn_from(task)
    known = {
        "graph_bits": graph_class.bits,
        "n_items": len(items),
        "n_edges": len(edges),
        "n_heads": n_heads,
        "d_model": d_model,
        "bits": bits or FLOAT_BITS,
        "square_norm": square_norm(weights.query, weights.key, items),
        "margin": reached.margin,
    }
    report = RelationReport(
        total_key_dim=weights.total_key_dim,
        n_heads=n_heads,
        d_head=d_head,
        reverse=built.reverse,
        tried=tuple(HeadsTried(**asdict(one)) for one in built.tried),
        f1=reached.f1,
        precision=reached.precision,
        recall=reached.recall,
        margin=reached.margin,
        threshold=reached.threshold,
        constant=built.constant,
        method=method,
        bits=bits,
        graphs=graph_class,
        # `one_head` is a bound for a single head, which the others are compared with
        bounds=tuple(one(**known | ({"n_heads": 1} if one.name == "one_head" else {})) for one in OF_WEIGHTS),
        notes=(
            *relation_files.notes(task),
            *(() if weights.query.any() else (EVERY_PAIR,)),
            *(() if reached.f1 >= target_f1 else (f"F1 {reached.f1:.3f} is below the target of {target_f1:g}",)),
        ),
        seed=seed,
        task=task,
        model=KeyQueryChannel(n_heads=n_heads, d_model=d_model, d_head=d_head),
        versions=machine.versions(),
    )
    claim = RelationClaim(
        n_items=len(items),
        n_edges=len(edges),
        total_key_dim=weights.total_key_dim,
        f1=reached.f1,
        margin=reached.margin,
    )
    file = ClaimFile.of(
        RelationHeader(claim=claim, about=_about(report)),
        {"items": items, "edges": edges, "threshold": np.array([reached.threshold]), **asdict(weights)},
    )
    return Constructed(weights, report, file)


def _about(report: Report) -> dict[str, Any]:
    """What a file says of where it comes from."""
    kept = {"seed", "task", "model", "method", "bits", "dtype", "versions"}
    return {"built": "capax construct", **report.model_dump(mode="json", include=kept)}


LAYER = Constructor(_layer, follows={"library_size": "as many as the layer holds, T"})
CHANNEL = Constructor(
    _channel,
    fields=("graph", "n_items", "n_edges", "degree", "embeddings", "strict"),
    follows={
        "d_model": "n_items for onehot items, those of the file, else 32",
        "n_heads": "one for onehot, else those of the least total key dimension, with --d-head as many as hold "
        "d_model/4 edges each",
        "d_head": "the smallest found to reach the target",
    },
)
