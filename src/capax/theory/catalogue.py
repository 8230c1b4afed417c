"""Every bound for one architecture, and whether a measurement is above one that it cannot be above."""

from __future__ import annotations

from math import log, log2
from typing import Annotated, Literal

from pydantic import Field

from capax.errors import SpecError
from capax.results import Measurement, Result
from capax.specs import (
    Associations,
    AssociativeAttention,
    Budget,
    KeyQueryChannel,
    Mls,
    Relations,
    Run,
    Sequences,
    Task,
    Transformer,
)
from capax.specs.spec import whole
from capax.tasks import graph_classes
from capax.theory import relation_bounds as relations
from capax.theory.association_bounds import association_bounds
from capax.theory.bounds import Assumption, Bound, assuming
from capax.theory.memories import memory_bounds
from capax.theory.rates import NO_PARAMETERS, rate_bounds
from capax.theory.sizes import Known, ParameterCounts, Sizes, checked, graph_size, of_task, parameters
from capax.theory.stored_bits import (
    SLACK,
    distinct_information,
    f1_information,
    graph_information,
    recall_information,
    recursive_tree_bits,
    stored_bits,
)
from capax.theory.transformer_bounds import alone, transformer_bounds

WEIGHT_BITS = {"float32": 32, "bfloat16": 32, "float64": 64}
"""Bits of a weight by the arithmetic of a training; bfloat16 multiplies roundings of float32 weights."""

CHANNEL_CONSTANTS = 2
"""Numbers that a trained channel has beside its matrices: threshold and scale."""


class Catalogue(Result):
    """Every bound for one architecture."""

    model: Annotated[Known, Field(discriminator="model")]
    sizes: Sizes
    bits_per_weight: int
    parameters: ParameterCounts
    bounds: tuple[Bound, ...]
    schema_version: Literal[1] = 1

    def __getitem__(self, name: str) -> Bound:
        """The bound of that name.

        Raises:
            KeyError: when there is none.
        """
        for found in self.bounds:
            if found.name == name:
                return found
        raise KeyError(name)


def bounds(
    spec: Transformer | AssociativeAttention | KeyQueryChannel | Run,
    *,
    seq_len: int | None = None,
    vocab_size: int | None = None,
    context_size: int | None = None,
    n_items: int | None = None,
    n_edges: int | None = None,
    library_size: int | None = None,
    n_classes: int | None = None,
    d_out: int | None = None,
    bits: int | None = None,
) -> Catalogue:
    """Every bound for one architecture: what theory proves, what was measured elsewhere, memories of the same size.

    Sizes that are not given leave bounds without a value, and say so. A run brings its own.

    Args:
        spec: a model, or a whole run.
        seq_len: tokens in a sequence, the last one is the target.
        vocab_size: different tokens.
        context_size: n, tokens in a context. [default: seq_len − 1]
        n_items: m, items of a graph of relations.
        n_edges: m', its edges.
        library_size: items to memorize, for the accuracy that a capacity implies.
        n_classes: different classes, of associations.
        d_out: numbers in a real label, of associations.
        bits: of a weight. [default: 32; those of the run's arithmetic]

    Raises:
        SpecError: for a size that is not allowed, or that means nothing for this model.
    """
    every = {
        "seq_len": seq_len,
        "vocab_size": vocab_size,
        "context_size": context_size,
        "n_items": n_items,
        "n_edges": n_edges,
        "library_size": library_size,
        "n_classes": n_classes,
        "d_out": d_out,
    }
    given = {name: size for name, size in every.items() if size is not None}
    if isinstance(spec, Run):
        if given:
            raise SpecError(f"{next(iter(given))}: a run brings its own, got {next(iter(given.values()))}")
        type(spec.task).refuse_unregistered()
        model, precision = _known(spec.model), spec.training.precision
        sizes = of_task(spec.task)
    else:
        model, precision = _known(spec), None
        sizes = checked(model, given)
    if bits is None:
        bits = WEIGHT_BITS[precision or "float32"]
    bits = whole("bits", bits)
    task = spec.task if isinstance(spec, Run) else None
    counts = parameters(model, sizes)
    match model:
        case Transformer():
            rows = _of_transformer(model, sizes, counts, bits, precision)
        case AssociativeAttention():
            rows = _of_layer(model, sizes, counts, bits, task)
        case KeyQueryChannel():
            n_heads = model.n_heads
            if isinstance(spec, Run) and isinstance(spec.protocol, Budget):
                n_heads = max(spec.protocol.head_counts)
            rows = _of_channel(model, n_heads, sizes, counts, bits)
    return Catalogue(model=model, sizes=sizes, bits_per_weight=bits, parameters=counts, bounds=rows)


def _known(model: object) -> Known:
    if not isinstance(model, Known):
        raise SpecError(f"model: a Transformer, AssociativeAttention or KeyQueryChannel, got a {type(model).__name__}")
    type(model).refuse_unregistered()
    return model


def exceeded(measurement: Measurement) -> tuple[Bound, ...]:
    """Bounds proved for what was counted, with trained weights, that a measurement is above: there should be none.

    `stored_bits`: a count shows as many bits as it is unlikely for one fixed way to answer (`recall_information`; of
    relations `graph_information`, from recalled and predicted pairs), and weights of w bits are 2^(wP) ways. Above that
    by 64 bits a count is impossible but for a chance of 2^-64 a training; below, luck is not ruled out, as it cannot
    be: what a part of a library has above the mean of luck alone may well be luck. Every training is checked, and of a
    search for the largest library its answer, which lies between sizes that were tried.

    `quantised` (protocol budget): the same for the upper end of the range of D_K at each number of heads, with the F1
    that counts as success; not for channels that route values, as their weights are more.

    Libraries that are not drawn here (files) cannot be called random, nor graphs whose law has no least number of bits
    (power-law graphs, regular ones of degree 2 and more): there is nothing to check then.
    """
    run = measurement.spec
    task, model, bits = run.task, run.model, WEIGHT_BITS[run.training.precision]
    if isinstance(task, Relations):
        least = _least_graph_bits(task)
        if least is None:
            return ()
        if isinstance(run.protocol, Budget):
            return _budget_exceeded(measurement, task, least)
        assert isinstance(model, KeyQueryChannel)
        shown = max(
            graph_information(*graph_size(task), least, member.memorized, round(member.metrics["predicted_pairs"]))
            for member in measurement.members
        )
        spare = SLACK + log2(task.library_size + 1)  # of any number of its edges
    elif not task.targets_drawn:
        return ()
    else:
        counts = [(member.memorized, member.library_size) for member in measurement.members]
        size = measurement.library_size
        if isinstance(run.protocol, Mls):
            size = max(measurement.memorized, 1)
            counts.append((measurement.memorized, size))
        lucky = measurement.chance if measurement.chance_uniform is None else measurement.chance_uniform
        shown = max(recall_information(*count, lucky / size) for count in counts)
        spare = float(SLACK)
        if isinstance(task, Sequences) and task.recall == "all":
            spare += distinct_information(max(size for _, size in counts), (task.seq_len - 1) * log(task.vocab_size))
    if shown <= bits * measurement.parameters.trainable + spare:
        return ()
    return (
        stored_bits(
            measurement.parameters.trainable,
            shown / measurement.library_size,
            bits=bits,
            missing_parameters=NO_PARAMETERS,
            missing_items="nothing was to be remembered",
        ),
    )


def _budget_exceeded(measurement: Measurement, task: Relations, least: float) -> tuple[Bound, ...]:
    """The lower bound on D_K of each number of heads whose range ends below it."""
    run = measurement.spec
    model, protocol, bits = run.model, run.protocol, WEIGHT_BITS[run.training.precision]
    assert isinstance(model, KeyQueryChannel)
    assert isinstance(protocol, Budget)
    if task.contexts != "whole" or model.channel != "threshold":
        return ()
    shown = f1_information(*graph_size(task), least, protocol.target_f1) - SLACK - log2(task.library_size + 1)
    found = relations.quantised_lower_bound(shown, model.d_model, bits, constants=CHANNEL_CONSTANTS)
    assert found.value is not None
    highest = (
        [] if measurement.key_search is None else [count.interval.high for count in measurement.key_search.per_heads]
    )
    return tuple(found for high in highest if high is not None and high < found.value)


def _least_graph_bits(task: Relations) -> float | None:
    """B such that no graph is drawn with a probability above 2^−b, where that is known."""
    n, edges = graph_size(task)
    if task.graph == "permutation" or (task.graph == "regular" and task.degree == 1):
        return graph_classes.derangements(n).bits
    if task.graph == "random":
        return graph_classes.digraphs(n, edges).bits
    return recursive_tree_bits(n) if task.graph == "tree" else None


def _of_transformer(
    model: Transformer, sizes: Sizes, counts: ParameterCounts, bits: int, precision: str | None
) -> tuple[Bound, ...]:
    d, vocab = model.d_model, sizes.vocab_size
    value = model.d_value or model.d_head
    layer = association_bounds(model.n_heads, sizes.context_size, d, model.d_head, value, d, n_classes=vocab)
    return (
        *(assuming(found, alone(model)) for found in layer),
        *transformer_bounds(model, vocab_size=vocab, library_size=sizes.library_size, trainable=counts.trainable),
        *_relation_rows(model.n_heads, d, model.d_head, sizes, bits),
        _stored(counts, sizes, bits, NO_PARAMETERS, "vocab_size is not given"),
        *rate_bounds(model, trainable=counts.trainable, seq_len=sizes.seq_len, vocab_size=vocab, precision=precision),
        *memory_bounds(d, n_hidden=4 * d if model.ffn == "mlp" else None, trainable=counts.trainable),
    )


def _of_layer(
    model: AssociativeAttention, sizes: Sizes, counts: ParameterCounts, bits: int, task: Task | None
) -> tuple[Bound, ...]:
    d, outputs = model.d_model, sizes.n_classes or sizes.d_out
    value = model.d_value if outputs is None else model.value_size(outputs)
    layer = association_bounds(
        model.n_heads,
        sizes.context_size,
        d,
        model.d_head,
        value,
        outputs,
        n_classes=sizes.n_classes,
        contexts=task.contexts if isinstance(task, Associations) else None,
    )
    plain = Assumption(
        text="nothing but this layer: no embedding, no positions", met=model.profile == "plain", needed=False
    )
    return (
        *(assuming(found, plain) for found in layer),
        *_relation_rows(model.n_heads, d, model.d_head, sizes, bits),
        _stored(counts, sizes, bits, "n_classes or d_out is not given", "labels are real numbers"),
        *memory_bounds(d, n_hidden=None, trainable=counts.trainable),
    )


def _of_channel(
    model: KeyQueryChannel, n_heads: int, sizes: Sizes, counts: ParameterCounts, bits: int
) -> tuple[Bound, ...]:
    """Rows of a channel with so many heads, or up to so many where a run searches for their number."""
    threshold = Assumption(text="scores alone decide: no values, no MLP", met=model.channel == "threshold")
    largest = Assumption(text="heads are joined by their maximum", met=model.aggregate == "max")
    rows = [assuming(found, threshold) for found in _relation_rows(n_heads, model.d_model, model.d_head, sizes, bits)]
    rows = [assuming(found, largest) if found.name in ("adler2025", "one_edge_a_head") else found for found in rows]
    return (
        *rows,
        _stored(counts, sizes, bits, "d_head is not given", relations.NO_GRAPH),
        *memory_bounds(model.d_model, n_hidden=None, trainable=counts.trainable),
    )


def _relation_rows(n_heads: int, d_model: int, d_head: int | None, sizes: Sizes, bits: int) -> tuple[Bound, ...]:
    return (
        relations.adler2025(),
        relations.quantised_lower_bound(sizes.graph_bits, d_model, bits, constants=CHANNEL_CONSTANTS),
        relations.margin_lower_bound(sizes.graph_bits, d_model, None, None),
        relations.real_lower_bound(sizes.graph_bits, sizes.n_items, n_heads, d_model),
        *(() if d_head is None else (relations.sign_patterns(sizes.n_items, n_heads, d_model, d_head),)),
        relations.one_head_bound(sizes.n_items, d_model, n_heads),
        relations.one_edge_a_head(sizes.n_edges),
    )


def _stored(counts: ParameterCounts, sizes: Sizes, bits: int, missing_parameters: str, missing_items: str) -> Bound:
    return stored_bits(
        counts.trainable,
        sizes.bits_per_item,
        bits=bits,
        missing_parameters=missing_parameters,
        missing_items=missing_items,
    )
