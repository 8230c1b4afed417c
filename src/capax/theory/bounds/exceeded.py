"""Whether a measurement is above a bound that it cannot be above."""

from __future__ import annotations

from math import log, log2

from capax import errors
from capax.results import Measurement
from capax.specs import Budget, Task
from capax.theory.bounds.bound import Bound
from capax.theory.bounds.catalogue import WEIGHT_BITS
from capax.theory.bounds.facts import CONSTANTS
from capax.theory.bounds.relations import quantised
from capax.theory.bounds.stored_bits import (
    SLACK,
    distinct_information,
    f1_information,
    graph_information,
    recall_information,
    stored_bits,
)


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
    if not isinstance(measurement, Measurement):
        raise errors.SpecError(f"measurement: of capax.measure or a store, got {errors.shown(measurement)}")
    run = measurement.spec
    task, bits = run.task, WEIGHT_BITS[run.training.precision]
    if not task.targets_drawn:
        return ()
    if task.guess_probability() is None:
        least = task.least_graph_bits()
        if least is None:
            return ()
        if isinstance(run.protocol, Budget):
            return _budget_exceeded(measurement, run.protocol.target_f1, least)
        shown = max(
            graph_information(*_graph(task), least, member.memorized, round(member.metrics["predicted_pairs"]))
            for member in measurement.members
        )
        spare = SLACK + log2(task.library_size + 1)  # of any number of its edges
    else:
        counts = [(member.memorized, member.library_size) for member in measurement.members]
        size = measurement.library_size
        if run.protocol.counts_sizes:
            size = max(measurement.memorized, 1)
            counts.append((measurement.memorized, size))
        lucky = measurement.chance if measurement.chance_uniform is None else measurement.chance_uniform
        shown = max(recall_information(*count, lucky / size) for count in counts)
        spare = float(SLACK)
        if task.scored("recall") == "all":
            sizes = task.sizes()
            prefixes = sizes["context"] * log(sizes["vocab_size"])
            spare += distinct_information(max(size for _, size in counts), prefixes)
    if shown <= bits * measurement.parameters.trainable + spare:
        return ()
    return (stored_bits(measurement.parameters.trainable, shown / measurement.library_size, bits),)


def _budget_exceeded(measurement: Measurement, target_f1: float, least: float) -> tuple[Bound, ...]:
    """The lower bound on D_K of each number of heads whose range ends below it."""
    run, search = measurement.spec, measurement.key_search
    if search is None or not run.task.bound_facts().get("whole_graph"):
        return ()
    shown = f1_information(*_graph(run.task), least, target_f1) - SLACK - log2(run.task.library_size + 1)
    bits = WEIGHT_BITS[run.training.precision]
    found = quantised(**run.model.architecture() | {"graph_bits": shown, "bits": bits, "constants": CONSTANTS})
    if found.value is None:
        return ()
    ends = [count.interval.high for count in search.per_heads]
    return tuple(found for high in ends if high is not None and high < found.value)


def _graph(task: Task) -> tuple[int, int]:
    """Items and edges."""
    return task.sizes()["n_items"], task.library_size
