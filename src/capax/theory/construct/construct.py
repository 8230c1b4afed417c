"""Weights for a task: built, not trained, as large as theory says they can be or as small as it finds them to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

from capax.errors import SpecError, shown
from capax.seeds import numpy_generator
from capax.specs import Associations, AssociativeAttention, KeyQueryChannel, Model, Relations, Spec, Task
from capax.specs.spec import whole
from capax.tasks import association_files, associations, embeddings, graphs, relation_files
from capax.theory.construct.associations import Precision, check_size, largest_library
from capax.theory.construct.associations import build as build_layer
from capax.theory.construct.channel import ChannelWeights
from capax.theory.construct.layer import Weights
from capax.theory.construct.relations import Method
from capax.theory.construct.relations import build as build_channel
from capax.theory.construct.report import ConstructionReport, RelationReport, of_channel, of_layer
from capax.training.room import refuse_too_large_to_build

Sized = TypeVar("Sized", AssociativeAttention, KeyQueryChannel)


@dataclass(frozen=True)
class Constructed:
    """Weights that were built, and what they reach.

    Attributes:
        weights: the matrices, heads apart; `weights.save(path)` writes them (.safetensors).
        report: what they reach on the library that they were built for.
    """

    weights: Weights | ChannelWeights
    report: ConstructionReport | RelationReport


def construct(task: Task, model: Model | None = None, *, seed: int = 0, **options: Any) -> Constructed:
    """Build weights that memorize a task's library: an attention layer for associations, a channel for relations.

    What is not given of the task and of the model follows from the other: of associations `library_size` is as many as
    the layer holds; `d_model` is that of the user's vectors; of a channel `n_heads` is as many as hold d_model/4 edges
    each, and `d_head` the smallest found to reach an F1 of .99.

    Args:
        task: what is to be remembered.
        model: n_heads, d_model and d_head. [default: the usual learner of the task]
        seed: names all random draws; the same seed gives the same library, as for training, and the same weights.
        options: for associations `dtype` (float64, float32), of the weights and of what they are evaluated in; for
            relations `method` (whitened, hebbian, onehot) and `bits` of each weight (1 to 8).

    Raises:
        AssumptionError: when the library is too large, or its vectors are not independent; the message names them.
        LibraryError: for arrays that cannot be used.
        SpecError: for a task or a model that weights are not built for, an option that is not one, or what does not
            fit in memory.
    """
    if not 0 <= whole("seed", seed, 0) < 2**63:
        raise SpecError(f"seed: at least 0 and below 2^63, got {seed}")
    builder = BUILDERS.get(type(task))
    if builder is None:
        raise SpecError(
            f"task: weights are built for {' and '.join(kind.__name__ for kind in BUILDERS)}, got {task!r:.80}"
        )
    allowed = [name for name, one in signature(builder).parameters.items() if one.kind is one.KEYWORD_ONLY]
    for name, value in options.items():
        if name not in allowed:
            raise SpecError(f"{name}: no option of this construction ({', '.join(allowed)}), got {shown(value)}")
    return builder(task, model, seed, **options)


def _layer(task: Associations, model: Model | None, seed: int, *, dtype: Precision = "float64") -> Constructed:
    layer = _plain(model, AssociativeAttention())
    if task.files and "d_model" not in layer.model_fields_set:
        layer = layer.replace(d_model=association_files.read(Path(task.library)).queries.shape[1])
    sizes = layer.n_heads, task.context_size, layer.d_model, layer.d_head
    if "library_size" not in task.model_fields_set:
        task = task.replace(library_size=largest_library(*sizes))
    check_size(task.library_size, *sizes)
    refuse_too_large_to_build(task, layer)
    built = build_layer(
        associations.draw(task, task.library_size, layer.d_model, numpy_generator(seed, "library")),
        n_heads=layer.n_heads,
        d_head=layer.d_head,
        generator=numpy_generator(seed, "construction"),
        dtype=dtype,
        n_classes=task.n_classes if task.labels == "classes" else None,
    )
    return Constructed(built.weights, of_layer(built, task, layer, dtype, seed))


def _channel(
    task: Relations, model: Model | None, seed: int, *, method: Method = "whitened", bits: int | None = None
) -> Constructed:
    channel = _plain(model, KeyQueryChannel())
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
    )
    return Constructed(built.weights, of_channel(built, edges, items, task, method=method, bits=bits, seed=seed))


def _plain(model: Model | None, usual: Sized) -> Sized:
    """The model, of which only the sizes of its heads are free."""
    if model is None:
        return usual
    if not isinstance(model, type(usual)):
        raise SpecError(f"model: weights are built of a {type(usual).__name__}, got a {type(model).__name__}")
    for name in sorted(model.model_fields_set - {"n_heads", "d_model", "d_head"}):
        if getattr(model, name) != getattr(usual, name):
            raise SpecError(f"{name}: weights are built for {getattr(usual, name)!r}, got {getattr(model, name)!r}")
    return model


BUILDERS: dict[type[Spec], Callable[..., Constructed]] = {Associations: _layer, Relations: _channel}
"""Tasks that weights are built for."""
