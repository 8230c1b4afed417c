"""What a law says of the key dimension that a graph needs, and how to cut it into heads."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from capax.errors import LawError
from capax.laws.domain import Domain
from capax.laws.law import Law
from capax.planning.candidates import ask
from capax.results import Interval, Result
from capax.specs.spec import whole
from capax.theory.relation_design import channel_design

RULE = "rule of thumb: one head up to 2 items a channel, then one for 1 to 2 of them, and none above half the width"


class RelationPrediction(Result):
    """A predicted total key dimension with its interval, and a rule's heads for it."""

    value: Annotated[float, Field(description="Total key dimension at which the relations are recognized (D_K*).")]
    interval: Interval
    inside_domain: bool
    outside: Annotated[tuple[str, ...], Field(description="Why it lies outside the domain of the law.")]
    n_items: int
    n_edges: int
    d_model: int
    n_heads: Annotated[int, Field(description="Heads by the rule (`capax.theory.relation_design`).")]
    d_head: Annotated[int, Field(description="Their size, so that the total key dimension is the predicted one.")]
    rule: str
    law: str
    source: Annotated[str, Field(description="What the law was fitted to, or who published it.")]
    domain: Domain
    notes: tuple[str, ...]
    schema_version: int = 1


def predict_relations(
    law: Law,
    n_edges: int,
    d_model: int,
    n_items: int | None = None,
    *,
    level: float = 0.95,
    extrapolate: bool = False,
) -> RelationPrediction:
    """Ask a law which total key dimension so many relations need.

    Args:
        law: a fitted law.
        n_edges: relations.
        d_model: channels of an item's vector.
        n_items: items, on which the rule for the heads depends; as many as relations when not given.
        level: probability with which a new measurement falls into the interval.
        extrapolate: answer outside the law's domain, too.

    Raises:
        LawError: for a value that is not allowed, outside the domain without `extrapolate`, or for a law of another
            task.
    """
    if law.task != "relations":
        raise LawError(f"law: of relations, got {law.name!r}, which is of {law.task}")
    items = n_edges if n_items is None else n_items
    for name, value, least in (("n_edges", n_edges, 2), ("d_model", d_model, 1), ("n_items", items, 2)):
        whole(name, value, least, LawError)
    if n_edges > items * (items - 1):
        raise LawError(f"n_edges: at most {items * (items - 1)} (n_items {items}), got {n_edges}")
    row = {"n_edges": n_edges, "d_model": d_model}
    table = {name: np.array([value]) for name, value in row.items()}
    found = ask(law, row, table, level, extrapolate)
    _, trained = channel_design(items, n_edges, d_model)
    usual = min(round(math.sqrt(trained.n_heads[0] * trained.n_heads[1])), max(round(found.value), 1))
    heads = max(usual, math.ceil(2 * found.value / d_model))
    return RelationPrediction(
        value=found.value,
        interval=found.interval,
        inside_domain=not found.outside,
        outside=found.outside,
        n_items=items,
        n_edges=n_edges,
        d_model=d_model,
        n_heads=heads,
        d_head=math.ceil(found.value / heads),
        rule=RULE,
        law=law.name,
        source=law.source_,
        domain=law.domain_,
        notes=tuple(law.notes_),
    )
