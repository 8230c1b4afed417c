"""Verification of a plan in bits: the network itself is measured or, where that takes too long, one in its place."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from capax.errors import LawError
from capax.planning.answers import of_new_measurement
from capax.planning.cost import hours, operations
from capax.planning.families import families, usual_widths
from capax.planning.known import EXPOSURES
from capax.planning.question import Question
from capax.planning.results import BitsFrontier, Network, Verification
from capax.protocols.measure import measure
from capax.results import LEVEL
from capax.specs import Capacity
from capax.text import duration

RESTARTS, HOURS = 3, 0.2
"""Of a verification: its trainings, and the most hours that they may take together."""
FEWEST_TOKENS = 256
"""Of a vocabulary that stands in for a larger one."""


class StandIn(NamedTuple):
    """A network that a verification may train, and what the law says of it; the best to train is the largest."""

    itself: bool
    inside: bool
    size: int
    family: Question
    model: Any
    low: float
    at_least: float
    middle: float
    high: float


def _halves(value: int | None, least: int) -> list[int | None]:
    """A size, halved time and again down to the least that it may be."""
    found = [value]
    while value is not None and value >= 2 * least:
        value //= 2
        found.append(value)
    return found


def verify(question: Question, frontier: BitsFrontier, chosen: Network, **how: Any) -> Verification:
    """Measure what a network of a plan holds or, where that takes too long, a narrower one of its family.

    One with fewer layers, or a vocabulary that is halved, down to `FEWEST_TOKENS`, may stand in for it, too: of those
    that take no too long the one with the most parameters, inside the law's domain where there is one. The plan
    promises that the network holds the target, and the law as many bits of a smaller one, with the plan's probability;
    that is what is verified.

    Args:
        question: the one that was planned.
        frontier: the plan.
        chosen: the network.
        how: store, seed, workers and progress of `measure`.

    Raises:
        LawError: where every network that may stand in for it takes too long.
    """
    usual = {name: question.only(name) for name in ("d_head", "n_heads")}
    given = {name: getattr(chosen, name) for name in usual if name in question.sizes}
    filled = question.model.completed({"d_model": chosen.d_model, **usual, **given})
    follow = all(getattr(chosen, name) == filled[name] for name in usual)  # else each of the two would fill the width
    heads = {name: [getattr(chosen, name)] for name in (given if follow else usual)}
    kinds = question.kinds | ({} if question.tables is None else {"embeddings": chosen.embeddings})
    widths = [*(width for width in usual_widths(8) if width < chosen.d_model), chosen.d_model]
    sizes: dict[str, Any] = {**heads, **chosen.further, "n_layers": [chosen.n_layers], "d_model": widths}
    tokens, probabilities = (
        question.named.get("vocab_size"),
        ((1 - LEVEL) / 2, 1 - frontier.probability, 0.5, (1 + LEVEL) / 2),
    )
    stand_ins, least = list[StandIn](), np.inf
    for layers, fewer in itertools.product(_halves(chosen.n_layers, 1), _halves(tokens, FEWEST_TOKENS)):
        named = question.named | ({} if fewer is None else {"vocab_size": fewer})
        family = Question(question.law, {**named, **kinds, **sizes, "n_layers": [layers]})
        tried = families(family, None)
        quantiles = question.law.quantiles(tried.table, probabilities)
        inside = question.law.inside_domain(tried.table)
        for at, model in enumerate(tried.models):
            items = 2 * float(quantiles[2][at]) / family.per_item
            cost = RESTARTS * hours(operations(model, family.task, items, EXPOSURES))
            least = min(least, cost)
            if cost <= HOURS:
                bits = (float(one[at]) for one in quantiles)
                itself = (layers, fewer, at) == (chosen.n_layers, tokens, len(tried.models) - 1)
                size = int(tried.table["trainable_parameters"][at])
                stand_ins.append(StandIn(itself, bool(inside[at]), size, family, model, *bits))
    if not stand_ins:
        raise LawError(
            f"verify: {RESTARTS} trainings of the smallest network that could stand in for this one take "
            f"{duration(3600 * least)} here, and a verification may take {duration(3600 * HOURS)}"
        )
    found = max(stand_ins, key=lambda one: one[:3])
    family, model, whole = found.family, found.model, found.itself
    promised = frontier.bits if whole and frontier.bits is not None else found.at_least
    fields = family.task.model_dump(exclude={"library_size"})
    run = measure(type(family.task)(**fields), model, protocol=Capacity(restarts=RESTARTS), **how)
    assert run.capacity is not None
    worth = family.per_item / family.task.information_per_item()  # of a law of what recall counts
    held = (run.capacity.extrapolated or run.capacity.bits) * worth
    known = run.capacity.converged or held >= promised  # else it is a lower bound, and more may come
    fewer = family.named.get("vocab_size")
    return Verification(
        held=held >= promised if known else None,
        miss_percent=100 * max(1 - held / promised, 0.0) if known else None,
        measurement=run,
        proxy=None if whole else model.d_model,
        proxy_vocab_size=fewer if fewer != tokens else None,
        proxy_n_layers=model.n_layers if model.n_layers != chosen.n_layers else None,
        promised_bits=promised,
        predicted_bits=of_new_measurement(found.low, found.high, LEVEL),
    )
