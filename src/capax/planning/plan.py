"""Plans for every task whose law names its axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from capax.errors import LawError
from capax.laws.files import load_law
from capax.laws.law import Law
from capax.planning.answers import about_law, refuse_early, refuse_of_bits
from capax.planning.architectures import (
    REACHES,
    described,
    in_between,
    left_out,
    not_tried,
    smaller_beyond,
    try_all,
)
from capax.planning.by_bytes import smallest_networks
from capax.planning.cost import Accelerator
from capax.planning.options import Options
from capax.planning.question import Question
from capax.planning.results import (
    Frontier,
    Precision,
    Target,
)
from capax.specs.spec import whole
from capax.store.tables import IN_BITS

BUILT = "built, not trained, where there are as many heads as edges: one edge a head is always enough"


def plan(
    law: Law | str,
    items: int | None = None,
    *,
    probability: float = 0.9,
    multiple: int | None = None,
    budget_parameters: int | None = None,
    budget_bytes: int | None = None,
    budget_hours: float | None = None,
    precision: Precision = "float32",
    exposures: int | None = None,
    accelerator: Accelerator | None = None,
    target: Target = "parameters",
    extrapolate: bool | None = None,
    **sizes: int | str | Sequence[int] | None,
) -> Frontier:
    """The architectures that hold this many items with a given probability, smallest first.

    A law in bits plans at any size: of every depth and kind of tables the smallest network, inside the law's domain or
    not, with the interval that the law has at that distance, and what its training costs (`BitsFrontier`).

    Args:
        law: a fitted law, or its name (`load_law`).
        items: how many are to be memorized, the target. With a law in bits it may be left out: then of every family the
            network that holds most within the budget is found, and what it holds.
        probability: that a new measurement of the architecture reaches the target: the level of its prediction
            interval, which is open above.
        multiple: what the values of the axis along which the smallest is sought are multiples of, where they follow
            from the law's domain (8 for the width of a transformer, 4 for the head size of an attention layer).
        budget_parameters: most trainable parameters.
        budget_bytes: most bytes of all parameters; of a law in bits, as are those below.
        budget_hours: most hours of one training on this machine.
        precision: in which the bytes are counted.
        exposures: times that a training shows each item; where given, the items have to be known by then, else when
            it has converged.
        accelerator: on which the training is reckoned, too (h100 where none is given); of a law in bits, too.
        target: what is to be small, `parameters` or, of a law in bits, `bytes` of the file: then the precision of
            the weights is chosen, too, by a study of what rounding leaves, and `precision` does not count.
        extrapolate: go outside the law's domain, where the given sizes lead there or nothing in it holds the target; by
            default only a law that travels does, such as capacity.
        sizes: those of the task by name, and values of the model's to choose from: `seq_len=8, n_heads=[1, 2]`; those
            of the law's domain where none are given. Of a law in bits also `task`, as in `predict`.

    Raises:
        LawError: for a value that is not allowed, outside the domain without `extrapolate`, or when the budget leaves
            no candidate.
    """
    law = load_law(law)
    if law.along is not None:
        raise LawError(
            f"law: {law.name} says what is known after so many {law.along}; a plan needs one of what is held"
        )
    in_bits = law.target in IN_BITS
    if items is None and not in_bits:
        raise LawError("items: is required, how many are to be held")
    if items is not None:
        whole("items", items, error=LawError)
    options = Options.checked(
        budget_parameters=budget_parameters,
        budget_bytes=budget_bytes,
        budget_hours=budget_hours,
        probability=probability,
        multiple=multiple,
        precision=precision,
        exposures=exposures,
        accelerator=accelerator if accelerator is not None else "h100",
        target=target,
        extrapolate=extrapolate,
    )
    refuse_of_bits(law, budget_bytes=budget_bytes, budget_hours=budget_hours, accelerator=accelerator)
    refuse_early(law, exposures)
    if target == "bytes" and not in_bits:
        raise LawError(f"target: bytes only for laws in bits, such as capacity; {law.name} is none")
    question = Question(law, sizes, items)
    if in_bits:
        return smallest_networks(question, items, options)
    assert items is not None
    for reach in REACHES if extrapolate else REACHES[:1]:
        tried = try_all(question, items, options, reach)
        given = question.axes[-1] in question.sizes
        if tried.enough and (given or not smaller_beyond(tried)):
            break
    between = set[int]()
    while reach > 1 and (further := in_between(question, tried) - between):
        between |= further
        tried = try_all(question, items, options, reach, between)
    table, kept, margin, keys, enough = tried.table, tried.kept, tried.margin, tried.keys, tried.enough
    size, total, outside = table["trainable_parameters"], table["total_parameters"], tried.outside
    remarks = [*left_out(question, table, tried.allowed), *question.untold()]
    narrowest: dict[tuple[int, ...], int] = {}
    along = {len(question.axes) - 1}
    if reach > 1 and law.beyond in question.axes and law.beyond not in question.sizes:
        along.add(question.axes.index(law.beyond))  # beyond the domain the fewest heads that are enough are shown
    for place in sorted(enough, key=lambda place: size[place]):
        narrowest.setdefault(tuple(value for axis, value in enumerate(keys[place]) if axis not in along), place)
    places = sorted(narrowest.values(), key=lambda place: (size[place], total[place]))
    nearest = [] if places else [int(np.flatnonzero(kept)[np.argmax(margin[kept])])]
    if nearest:
        remarks += not_tried(question, table)
    found = described(question, table, keys, places or nearest, probability, precision)
    if outside:
        known = {name: values for name, values in table.items() if name not in law.found}
        outside = question.outside(
            [{name: values[at].item() for name, values in known.items()} for at in places or nearest], extrapolate
        )
    asked: dict[str, Any] = {name: value for name, value in question.asked.items() if name != law.needed_for}
    if law.needed_for is not None and any(getattr(row, "n_heads", 0) >= items for row in found):
        remarks.append(BUILT)
    return Frontier(
        items=items,
        **asked,
        probability=probability,
        precision=precision,
        architectures=tuple(found if places else ()),
        nearest=found[0] if nearest else None,
        **about_law(law, outside, remarks),
    )
