"""What a kept layer or channel learned, as a file that can be verified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from capax import outputs
from capax.errors import ClaimError
from capax.memory import AssociativeMemory, RelationMemory, load
from capax.results import Measurement
from capax.store import DEFAULT
from capax.theory.claims import recompute
from capax.theory.claims.file import (
    AssociationClaim,
    AssociationHeader,
    ClaimFile,
    RelationClaim,
    RelationHeader,
    check_path,
    data_of,
)


def save_run(key: str, path: Path | str, store: Path | str = DEFAULT) -> ClaimFile:
    """Write the kept weights of a run on associations or relations with its data and a claim, as one file.

    The claim is what the plain definition gives in float64, which for a pair or an example at its threshold may differ
    from what the training counted in its own precision. `capax.verify` checks it.

    Args:
        key: the run's key, or its beginning.
        path: a .safetensors file.

    Raises:
        StoreError, SpecError, CapaxError: as `load`.
        ClaimError: for a run of another task, a channel that routes values, or more than one layer.
        ReportError: for what is no path, another suffix, and when the file cannot be written.
    """
    path = outputs.path_of(path, "save")
    check_path(path)
    memory: Any = load(key, store)
    if isinstance(memory, RelationMemory):
        file = _channel(memory)
    elif isinstance(memory, AssociativeMemory):
        file = _layer(memory)
    else:
        raise ClaimError(
            f"key: run {memory.run.key[:12]} learned {memory.run.spec.task.task}; only what learned associations or "
            "relations can be verified from one file"
        )
    file.save(path)
    return file


def _about(run: Measurement) -> dict[str, Any]:
    spec = run.spec.model_dump(mode="json")
    counted = {"memorized": run.memorized, **run.metrics}
    return {"key": run.key, "run": spec, "counted_in_training": counted, "versions": run.versions}


def _matrices(memory: AssociativeMemory | RelationMemory) -> dict[str, np.ndarray]:
    return {name: tensor[0].detach().cpu().numpy() for name, tensor in memory.model.parameters.items()}


def _channel(memory: RelationMemory) -> ClaimFile:
    run, model, found = memory.run, memory.model, _matrices(memory)
    channel = model.spec.channel
    if channel != "threshold":
        raise ClaimError(f"key: run {run.key[:12]} has channel {channel!r}; only 'threshold' is a claim on scores")
    shared = model.shared(next(iter(model.parameters.values())).new_zeros((1, 1, model.spec.d_model)))
    scale = float(shared["scale"])
    if scale <= 0:
        raise ClaimError(f"key: run {run.key[:12]} learned a scale of {scale:.3g}: no pair is above a threshold")
    edges = np.argwhere(memory.signs > 0).astype(np.int64)
    tensors = {
        "items": memory.items,
        "edges": edges,
        "threshold": np.array([float(shared["threshold"]) / scale]),
        "query": found["query"],
        "key": found["key"],
    }
    n_heads, _, d_head = found["query"].shape
    claim = RelationClaim(n_items=len(memory.items), n_edges=len(edges), total_key_dim=n_heads * d_head, f1=0.0)
    header = RelationHeader(aggregate=model.spec.aggregate, claim=claim, about=_about(run))
    reached = recompute.recognized(ClaimFile.of(header, tensors))
    claim = claim.model_copy(update={"f1": reached.f1, "margin": reached.margin})
    return ClaimFile.of(header.model_copy(update={"claim": claim}), tensors)


def _layer(memory: AssociativeMemory) -> ClaimFile:
    run, spec, task, library = memory.run, memory.model.spec, memory.run.spec.task, memory.library
    if (layers := getattr(spec, "n_layers", 1)) > 1:
        raise ClaimError(f"key: run {run.key[:12]} has {layers} layers; one is written")
    classes = np.issubdtype(library.labels.dtype, np.integer)
    tensors = {**data_of(library), **_matrices(memory)}
    tolerance = None if classes else getattr(task, "tolerance", None)
    claim = AssociationClaim(library_size=len(library), recalled=0, tolerance=tolerance)
    header = AssociationHeader(profile=spec.profile, claim=claim, about=_about(run))
    reached = recompute.remembered(ClaimFile.of(header, tensors))
    more = {} if classes else {"max_error": reached.max_error}
    claim = claim.model_copy(update={"recalled": reached.recalled, **more})
    return ClaimFile.of(header.model_copy(update={"claim": claim}), tensors)
