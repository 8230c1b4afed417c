"""Every bound for one architecture."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from capax.errors import SpecError, shown
from capax.results import Result
from capax.specs import Model, Run, Spec
from capax.specs.run import Open
from capax.specs.spec import whole
from capax.theory.bounds import associations, memories, rates, relations, stored_bits, transformers
from capax.theory.bounds.bound import TABLE, Bound, Statement
from capax.theory.bounds.facts import ParameterCounts, Sizes, checked, facts, parameters

WEIGHT_BITS = {"float32": 32, "bfloat16": 32, "tf32": 32, "float64": 64}
"""Bits of a weight by the arithmetic of a training; bfloat16 multiplies roundings of float32 weights."""

CHAPTERS = (associations, transformers, relations, stored_bits, rates, memories)
"""Modules that declare bounds, in the order in which they are listed."""


class Catalogue(Result):
    """Every bound for one architecture."""

    model: Annotated[Model, Open()]
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
    spec: Model | Run,
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

    Every bound is listed. One that does not apply to the model, or needs a size that is not given, has no value, and
    says why. A run brings its own sizes.

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
    for part in (spec.task, spec.model) if isinstance(spec, Run) else (spec,):
        if isinstance(part, Spec):
            type(part).refuse_unregistered()
    if isinstance(spec, Run):
        if given:
            raise SpecError(f"{next(iter(given))}: a run brings its own, got {next(iter(given.values()))}")
        model, sizes, more = spec.model, Sizes(**spec.task.bound_sizes()), _of_run(spec)
        built: dict[str, int] | None = spec.task.sizes()
    elif isinstance(spec, Model):
        model, sizes, more = spec, checked(spec, given), {}
        built = None
    else:
        raise SpecError(f"model: a model or a run, got {shown(spec)}")
    if bits is None:
        bits = WEIGHT_BITS[more.get("precision", "float32")]
    known = facts(model, sizes, whole("bits", bits), built, **more)
    return Catalogue(
        model=model,
        sizes=sizes,
        bits_per_weight=bits,
        parameters=parameters(known),
        bounds=tuple(statement(**known) for statement in listed()),
    )


def listed() -> list[Statement]:
    """Every declared bound in the order of the chapters; those declared elsewhere come last."""
    order = {module.__name__: place for place, module in enumerate(CHAPTERS)}
    return sorted(TABLE.values(), key=lambda one: order.get(one.compute.__module__, len(order)))


def _of_run(run: Run) -> dict[str, Any]:
    """Facts of a run beyond its model and the sizes of its task; `n_heads` is the largest of a search."""
    heads = getattr(run.protocol, "head_counts", None)
    searched = {} if heads is None else {"n_heads": max(heads)}
    return {"precision": run.training.precision, **run.task.bound_facts(), **searched}
