"""Whether a measurement is above a bound that it cannot be above."""

from __future__ import annotations

from math import log, log2

from capax.results import Measurement
from capax.specs import Budget, KeyQueryChannel, Mls, Relations, Sequences
from capax.tasks import graph_classes
from capax.theory.bounds.bound import Bound
from capax.theory.bounds.catalogue import WEIGHT_BITS
from capax.theory.bounds.relations import quantised
from capax.theory.bounds.stored_bits import (
    SLACK,
    distinct_information,
    f1_information,
    graph_information,
    recall_information,
    recursive_tree_bits,
    stored_bits,
)

CHANNEL_CONSTANTS = 2
"""Numbers that a trained channel has beside its matrices: threshold and scale."""


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
            graph_information(*_graph(task), least, member.memorized, round(member.metrics["predicted_pairs"]))
            for member in measurement.members
        )
        spare = SLACK + log2(task.library_size + 1)  # of any number of its edges
    elif task.library not in ("random", "all"):
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
            trainable=measurement.parameters.trainable, bits_per_item=shown / measurement.library_size, bits=bits
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
    shown = f1_information(*_graph(task), least, protocol.target_f1) - SLACK - log2(task.library_size + 1)
    found = quantised(shown, model.d_model, bits, CHANNEL_CONSTANTS)
    assert found.value is not None
    highest = [count.interval.high for count in measurement.per_heads or ()]
    return tuple(found for high in highest if high is not None and high < found.value)


def _least_graph_bits(task: Relations) -> float | None:
    """The largest b known such that no graph is drawn with a probability above 2^−b; None where none is."""
    n, edges = _graph(task)
    if task.graph == "permutation" or (task.graph == "regular" and task.degree == 1):
        return graph_classes.derangements(n).bits
    if task.graph == "random":
        return graph_classes.digraphs(n, edges).bits
    return recursive_tree_bits(n) if task.graph == "tree" else None


def _graph(task: Relations) -> tuple[int, int]:
    """Items and edges."""
    assert task.n_items is not None
    return task.n_items, task.library_size
