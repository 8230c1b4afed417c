"""What a law says along an axis, at the sizes that were measured and between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from capax.errors import CapaxError
from capax.figures.chart import Series
from capax.figures.columns import Column, value
from capax.figures.expectations import expected, speaks_of
from capax.laws.law import Law
from capax.results import Measurement
from capax.specs import Model

LAW_POINTS = 100


def law_line(
    law: Law | None, runs: Sequence[Measurement], x: Column, name: str, group: int, everywhere: bool = False
) -> list[Series]:
    """What a law expects along an axis, with its band; nothing where fewer than two places lie in its domain.

    Args:
        everywhere: ask it outside its domain, too.
    """
    if not speaks_of(law, runs):
        return []
    asked = {float(x(run)): run for run in [*reversed(runs), *between(runs, x)]}
    places = sorted(asked)
    found = expected(law, [asked[place] for place in places], everywhere=everywhere)
    if found.known < 2:
        return []
    return [
        Series(
            name=f"law, {name}",
            kind="band",
            x=tuple(places),
            y=found.values,
            low=found.low,
            high=found.high,
            group=group,
            faint=True,
        )
    ]


def between(runs: Sequence[Measurement], x: Column) -> list[Measurement]:
    """Runs as they would be at sizes between those that were measured, for a law to be asked of.

    Sizes are log-spaced integers; all else is that of the next larger run. There are none where x does not follow from
    one size that is known beforehand: of a user's module, parameters are counted once it is built.
    """
    (size,), found = x.varied, []
    measured = sorted(runs, key=x)
    known = [value(run, size) for run in measured]
    if len(set(known)) < 2 or not all(isinstance(one, int) and one > 0 for one in known):
        return []
    for one in sorted({round(one) for one in np.geomspace(known[0], known[-1], LAW_POINTS)} - set(known)):
        run = next(run for run, least in zip(measured, known, strict=True) if least > one)
        model = run.spec.model
        field, set_to = (size, one) if size in type(model).model_fields else _option(model, size, one)
        model = model.model_copy(update={field: set_to})
        if model.columns().get(size) != one:
            return []
        counts = {} if x.of is None else _counts(run, model)
        if counts is None:
            return []
        parameters = run.parameters.model_copy(update=counts)
        spec = run.spec.model_copy(update={"model": model})
        found.append(run.model_copy(update={"spec": spec, "parameters": parameters}))
    return found


def _counts(run: Measurement, model: Model) -> dict[str, int] | None:
    """The parameters of a model of another size; None where they do not follow from it as those of the run do."""
    sizes = run.spec.task.sizes()
    try:
        same = run.spec.model.parameter_counts(**sizes)["trainable"] == run.parameters.trainable
        return model.parameter_counts(**sizes) if same else None
    except CapaxError:
        return None


def _option(model: Model, size: str, one: int) -> tuple[str, Any]:
    """The field that holds a model's options, and these with one changed."""
    field = model.options or ""
    return field, {**getattr(model, field, {}), size: one}
