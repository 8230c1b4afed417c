"""What a law says of attention layers that learn associations: one of them, or those that hold a target."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from capax.laws.domain import Domain
from capax.laws.files import load_law
from capax.laws.law import Law
from capax.planning.candidates import BYTES, Choice, Precision, Table, ask, check, choices, choose
from capax.results import Interval, Result
from capax.specs import Associations, AssociativeAttention

DEFAULT = "reference:association"


class AttentionLayer(Result):
    """An attention layer and what it is expected to hold."""

    n_heads: int
    d_model: int
    d_head: int
    trainable_parameters: int
    bytes: Annotated[int, Field(description="Of all parameters at the plan's precision.")]
    memorized: Annotated[float, Field(description="Associations that it is expected to memorize.")]
    at_least: Annotated[float, Field(description="Associations that it memorizes with the plan's probability.")]
    gain_of_head: Annotated[
        float | None,
        Field(description="Associations gained per 1000 trainable parameters by one more head, in the domain."),
    ]
    gain_of_head_size: Annotated[
        float | None,
        Field(description="Associations gained per 1000 trainable parameters by the next head size, in the domain."),
    ]


class AssociationFrontier(Result):
    """Of each number of heads and width the smallest head size that holds the target, smallest layer first."""

    associations: Annotated[int, Field(description="The target.")]
    context_size: int
    probability: Annotated[float, Field(description="With which each layer holds the target.")]
    precision: Precision
    layers: tuple[AttentionLayer, ...]
    nearest: Annotated[
        AttentionLayer | None, Field(description="When none holds the target: the one that comes nearest.")
    ]
    law: str
    source: Annotated[str, Field(description="What the law was fitted to, or who published it.")]
    domain: Domain
    notes: tuple[str, ...]
    schema_version: int = 1


class AssociationPrediction(Result):
    """A predicted count of associations with its interval."""

    value: Annotated[float, Field(description="Associations that the layer is expected to memorize.")]
    interval: Interval
    inside_domain: bool
    outside: Annotated[tuple[str, ...], Field(description="Why it lies outside the domain of the law.")]
    context_size: int
    n_heads: int
    d_model: int
    d_head: int
    trainable_parameters: int
    law: str
    source: Annotated[str, Field(description="What the law was fitted to, or who published it.")]
    domain: Domain
    notes: tuple[str, ...]
    schema_version: int = 1


def plan_associations(
    associations: int,
    context_size: int,
    law: Law | str | None = None,
    *,
    probability: float = 0.9,
    n_heads: Sequence[int] | None = None,
    d_model: Sequence[int] | None = None,
    d_head: Sequence[int] | None = None,
    size_multiple: int = 4,
    max_parameters: int | None = None,
    precision: Precision = "float32",
    extrapolate: bool = False,
) -> AssociationFrontier:
    """The attention layers that hold so many associations with a probability, smallest first.

    Args:
        associations: how many are to be memorized.
        context_size: tokens in a context.
        law: a fitted law, or its name (`load_law`); `reference:association` when not given.
        probability: that a new measurement of the layer reaches the target: its prediction interval is open above and
            of this level.
        n_heads: head counts to choose from; those of the law's domain when not given.
        d_model: widths of queries and tokens to choose from; the multiples of 32 in the law's domain when not given.
        d_head: head sizes to choose from; the multiples of `size_multiple` in the law's domain when not given.
        size_multiple: what head sizes are multiples of.
        max_parameters: most trainable parameters.
        precision: in which the bytes are counted.
        extrapolate: go outside the law's domain, where sizes that are given lead there.

    Raises:
        LawError: for a value that is not allowed, outside the domain without `extrapolate`, or when `max_parameters`
            leaves no candidate.
    """
    law = law if isinstance(law, Law) else load_law(law or DEFAULT)
    check(
        probability,
        precision,
        associations=(associations, 1),
        context_size=(context_size, 1),
        size_multiple=(size_multiple, 1),
        max_parameters=(max_parameters, 1),
    )
    grid = {
        "n_heads": choices("n_heads", n_heads, law),
        "d_model": choices("d_model", d_model, law, 32),
        "d_head": choices("d_head", d_head, law, size_multiple),
    }
    found = choose(
        law,
        associations,
        {"context_size": context_size},
        grid,
        rows(law, [dict(zip(grid, sizes, strict=True)) for sizes in itertools.product(*grid.values())], context_size),
        probability=probability,
        max_parameters=max_parameters,
        extrapolate=extrapolate,
    )
    return AssociationFrontier(
        associations=associations,
        context_size=context_size,
        probability=probability,
        precision=precision,
        layers=tuple(_layer(found, place, precision) for place in found.places),
        nearest=None if found.nearest is None else _layer(found, found.nearest, precision),
        law=law.name,
        source=law.source_,
        domain=law.domain_,
        notes=(*law.notes_, *(f"outside the domain of the law: {reason}" for reason in found.outside)),
    )


def predict_associations(
    law: Law,
    context_size: int,
    *,
    n_heads: int,
    d_model: int,
    d_head: int,
    level: float = 0.95,
    extrapolate: bool = False,
) -> AssociationPrediction:
    """Ask a law about one attention layer.

    Args:
        law: a fitted law.
        context_size: tokens in a context.
        level: probability with which a new measurement falls into the interval.
        extrapolate: answer outside the law's domain, too.

    Raises:
        LawError: outside the domain without `extrapolate`, or where the law has no meaning.
    """
    table = rows(law, [{"n_heads": n_heads, "d_model": d_model, "d_head": d_head}], context_size)
    row = {name: values[0].item() for name, values in table.items()}
    found = ask(law, row, table, level, extrapolate)
    return AssociationPrediction(
        value=found.value,
        interval=found.interval,
        inside_domain=not found.outside,
        outside=found.outside,
        context_size=context_size,
        n_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        trainable_parameters=row["trainable_parameters"],
        law=law.name,
        source=law.source_,
        domain=law.domain_,
        notes=tuple(law.notes_),
    )


def rows(law: Law, layers: Sequence[dict[str, int]], context_size: int) -> Table:
    """One row per layer, of the kind that the law was fitted to, with every column that a law may want."""
    told = {name: value for name, value in law.domain_.protocol.items() if value is not None}

    def of(spec: type[Associations] | type[AssociativeAttention]) -> dict[str, Any]:
        return {name: value for name, value in told.items() if name in spec.model_fields}

    task = Associations(**{**of(Associations), "context_size": context_size, "library_size": 1})
    models = [AssociativeAttention(**{**of(AssociativeAttention), **sizes}) for sizes in layers]
    counts = [model.parameter_counts(**task.sizes()) for model in models]
    names = ("n_heads", "d_model", "d_head")
    return {
        "context_size": np.full(len(models), context_size),
        **{name: np.array([getattr(model, name) for model in models]) for name in names},
        "trainable_parameters": np.array([count["trainable"] for count in counts]),
        "total_parameters": np.array([count["total"] for count in counts]),
    }


def _layer(found: Choice, place: int, precision: Precision) -> AttentionLayer:
    sizes = found.sizes(place, AttentionLayer.model_fields)
    return AttentionLayer(
        **sizes,
        bytes=sizes["trainable_parameters"] * BYTES[precision],
        memorized=float(found.memorized[place]),
        at_least=float(found.at_least[place]),
        gain_of_head=found.gain(place, "n_heads"),
        gain_of_head_size=found.gain(place, "d_head"),
    )
