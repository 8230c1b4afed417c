"""Sizes of the task that a model is for, given or from a run, and parameters as they are counted here and there."""

from __future__ import annotations

from math import log2
from typing import Annotated, Any

from pydantic import Field

from capax.errors import SpecError, shown
from capax.results import Result
from capax.specs import (
    Associations,
    AssociativeAttention,
    KeyQueryChannel,
    Relations,
    Sequences,
    Task,
    Transformer,
)
from capax.specs.spec import whole
from capax.tasks import graph_classes
from capax.theory.bounds.associations import n_parameters
from capax.theory.bounds.rates import gpt2_parameters
from capax.theory.bounds.transformers import madden_parameters

LEAST = {
    "seq_len": 2,
    "vocab_size": 2,
    "context_size": 1,
    "n_items": 2,
    "n_edges": 1,
    "library_size": 1,
    "n_classes": 2,
    "d_out": 1,
}
Known = Transformer | AssociativeAttention | KeyQueryChannel
"""Models whose architecture is known; a module's is not."""

MEANINGFUL = {
    Transformer: ("seq_len", "vocab_size", "context_size", "n_items", "n_edges", "library_size"),
    AssociativeAttention: ("context_size", "n_classes", "d_out", "n_items", "n_edges", "library_size"),
    KeyQueryChannel: ("n_items", "n_edges"),
}
"""Sizes that a model's bounds depend on."""


class Sizes(Result):
    """Sizes of the task that a model is for, as far as they are known."""

    seq_len: int | None = None
    vocab_size: int | None = None
    context_size: Annotated[int | None, Field(description="n; seq_len − 1 where nothing else is given.")] = None
    n_items: int | None = None
    n_edges: int | None = None
    library_size: int | None = None
    n_classes: int | None = None
    d_out: int | None = None
    graph_bits: Annotated[
        float | None, Field(description="log2 of how many graphs there are: with so many edges, or of the run's kind.")
    ] = None
    bits_per_item: Annotated[
        float | None, Field(description="log2 of how many answers an item could have; None for real labels.")
    ] = None


class ParameterCounts(Result):
    """Parameters as they are counted here and there; None where that depends on sizes that were not given."""

    trainable: Annotated[int | None, Field(description="Of the model, counted as its tensors are.")]
    total: int | None
    attention: Annotated[
        int | None, Field(description="Of one attention layer alone: H(2 d d_head + d d_value + d_value d_out).")
    ]
    madden2025: Annotated[
        int | None, Field(description="Of that paper's one-layer decoder with 4 d_model hidden units.")
    ] = None
    morris2025: Annotated[
        int | None,
        Field(description="Of a GPT-2 of this depth, width and vocabulary: 12 d² L + 13 d L + (V + S) d + 2 d."),
    ] = None


def of_task(task: Task) -> Sizes:
    """The sizes of a task."""
    match task:
        case Sequences():
            tokens = 1 if task.recall == "last" else task.seq_len - 1
            return Sizes(
                seq_len=task.seq_len,
                vocab_size=task.vocab_size,
                context_size=task.seq_len - 1,
                library_size=task.library_size,
                bits_per_item=tokens * log2(task.vocab_size),
            )
        case Associations():
            classes = task.labels == "classes"
            return Sizes(
                context_size=task.context_size,
                library_size=task.library_size,
                n_classes=task.n_classes if classes else None,
                d_out=None if classes else task.d_out,
                bits_per_item=log2(task.n_classes) if classes else None,
            )
    assert isinstance(task, Relations)
    n, edges = graph_size(task)
    match task.graph:
        case "permutation":
            graphs = graph_classes.derangements(n)
        case "tree":
            graphs = graph_classes.rooted_trees(n)
        case "regular":
            graphs = graph_classes.regular_digraphs(n, edges // n)
        case _:
            graphs = graph_classes.digraphs(n, edges)
    return Sizes(
        n_items=n, n_edges=edges, library_size=edges, graph_bits=graphs.bits, bits_per_item=graphs.bits / edges
    )


def checked(model: Known, given: dict[str, int]) -> Sizes:
    """The sizes that were given, and what follows from them.

    Raises:
        SpecError: for a size that is not allowed, or that means nothing for this model.
    """
    for name, size in given.items():
        if name not in MEANINGFUL[type(model)]:
            raise SpecError(f"{name}: means nothing for a {type(model).__name__}, got {shown(size)}")
        whole(name, size, LEAST[name])
    if "n_classes" in given and "d_out" in given:
        raise SpecError(f"d_out: labels are classes or real numbers, got n_classes and d_out = {given['d_out']}")
    sizes: dict[str, Any] = dict(given)
    if "seq_len" in given:
        sizes.setdefault("context_size", given["seq_len"] - 1)
    if "n_items" in given and "n_edges" in given:
        sizes["graph_bits"] = graph_classes.digraphs(given["n_items"], given["n_edges"]).bits
    answers = given.get("vocab_size") or given.get("n_classes")
    if answers is not None:
        sizes["bits_per_item"] = log2(answers)
    elif isinstance(model, KeyQueryChannel) and "graph_bits" in sizes:
        sizes["bits_per_item"] = sizes["graph_bits"] / given["n_edges"]
    return Sizes(**sizes)


def parameters(model: Known, sizes: Sizes) -> ParameterCounts:
    """The parameters of a model, as far as the sizes tell."""
    if isinstance(model, Transformer):
        return _transformer_parameters(model, sizes)
    trainable = total = attention = None
    if isinstance(model, AssociativeAttention):
        outputs = sizes.n_classes or sizes.d_out
        if outputs is not None:
            trainable, total = model.parameter_counts(n_outputs=outputs).values()
            value = model.value_size(outputs)
            attention = n_parameters(model.n_heads, model.d_model, model.d_head, value, outputs)
    elif model.d_head is not None:
        trainable, total = model.parameter_counts(n_items=2).values()
    return ParameterCounts(trainable=trainable, total=total, attention=attention)


def _transformer_parameters(model: Transformer, sizes: Sizes) -> ParameterCounts:
    vocab, length = sizes.vocab_size, sizes.context_size if sizes.seq_len is None else sizes.seq_len - 1
    counts = model.parameter_counts(vocab_size=vocab or 0, context=length or 0)
    unknown = (vocab is None and "trained" in (model.embeddings, model.readout)) or (
        length is None and model.positions == "trained"
    )
    d, heads, value = model.d_model, model.n_heads, model.d_value or model.d_head
    return ParameterCounts(
        trainable=None if unknown else counts["trainable"],
        total=None if vocab is None or length is None else counts["total"],
        attention=n_parameters(heads, d, model.d_head, value, d),
        madden2025=madden_parameters(vocab, 4 * d, d, heads, value, model.d_head, length)
        if vocab is not None and length is not None and model.ffn == "mlp"
        else None,
        morris2025=gpt2_parameters(model.n_layers, d, vocab, sizes.seq_len)
        if vocab is not None and sizes.seq_len is not None
        else None,
    )


def graph_size(task: Relations) -> tuple[int, int]:
    """Items and edges."""
    assert task.n_items is not None
    return task.n_items, task.library_size
