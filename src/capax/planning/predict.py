"""Predictions: what a law says of one architecture."""

from __future__ import annotations

from typing import Any

import numpy as np

from capax.errors import LawError, OutsideDomain, shown
from capax.laws.files import DEFAULT, load_law
from capax.laws.law import Law
from capax.planning.answers import SUREST, about_law, of_kinds, of_new_measurement, predicted, refuse_early
from capax.planning.fill import Fill
from capax.planning.known import Seen
from capax.planning.question import Question
from capax.planning.results import (
    Prediction,
)
from capax.results import LEVEL
from capax.specs.spec import positive, truth, whole
from capax.store.tables import IN_BITS


def predict(
    law: Law | str = DEFAULT, *, level: float = LEVEL, extrapolate: bool | None = None, **sizes: int | None
) -> Prediction:
    """What a law predicts for one architecture.

    Args:
        law: a fitted law, or its name (`load_law`).
        level: probability with which a new measurement falls into the interval.
        extrapolate: answer outside the law's domain, too; by default only a law that travels does (`Law.travels`), such
            as capacity.
        sizes: those of the task and of the model by name: `seq_len=8, n_heads=2, d_model=32`. What all the law's data
            had in common may be left out. Beside a law in bits also `exposures`: what is known after so many; and
            `task`, the tag of another task whose items are tokens: `task="biographies", reduction=10`. Its items follow
            by their information.

    Raises:
        LawError: for a size that is missing or not allowed, outside the domain without `extrapolate`, or where the law
            has no meaning.
    """
    law = load_law(law)
    if extrapolate is not None:
        truth("extrapolate", extrapolate, LawError)
    early = None if law.along == "exposures" else sizes.pop("exposures", None)
    refuse_early(law, early)
    if early is not None:
        early = whole("exposures", early, error=LawError)
    question = Question(law, sizes)
    positive("level", level, 2 * SUREST - 1, LawError)
    grid = question.grid()
    several = [name for name, values in grid.items() if len(values) > 1]
    for name in several:
        if sizes.get(name) is not None:
            raise LawError(f"{name}: one value, got {shown(sizes[name])}")
    question.refuse_missing(several)
    (model,) = question.models(grid)
    table = question.table([model])
    row = {name: values[0].item() for name, values in table.items() if name not in law.found}
    outside = question.outside([row], extrapolate)
    seen = Seen.of(table, early)
    if (beyond := tuple(seen.why(0, outside))) and extrapolate is False:
        raise OutsideDomain(f"outside the domain: {'; '.join(beyond)}; extrapolate all the same")
    items, every = 1 / question.per_item, Fill()
    expected = predicted(law, table) if early is None else every.widened(law, table, (0.5,), seen.shares)[0]
    value = float(expected[0]) * items
    if value < 0:
        raise LawError(f"{law.name}: predicts {value:.4g} items; no count is below zero, so it does not hold here")
    most = question.most if law.needed_for is None else np.inf
    levels = (1 - level) / 2, (1 + level) / 2
    ends = law.predict_interval(table, level) if early is None else every.widened(law, table, levels, seen.shares)
    low, high = (min(float(end[0]) * items, most) for end in ends)
    told: dict[str, Any] = {name: table[name][0].item() for name in (*question.asked, *question.axes, *question.along)}
    told |= question.named | question.kinds | ({} if early is None else {"exposures": early})
    told["trainable_parameters"] = row["trainable_parameters"]
    if law.target in IN_BITS:
        told["bits"] = value * question.per_item
    if law.needed_for is not None:
        told["rule"] = _rule(question, model, value)
    remarks = [*seen.remarks(0), *law.remarks({name: table[name] for name in law.columns})]
    remarks += [*of_kinds(law, outside), *question.untold()]
    if value > most:
        remarks.append(f"it could hold more, but only {most} {question.kind.unit} ask distinct questions")
    return Prediction(
        value=min(value, most),
        interval=of_new_measurement(low, high, level),
        inside_domain=not (outside or beyond),
        outside=(*outside, *beyond),
        **told,
        **about_law(law, remarks=remarks),
    )


def _rule(question: Question, model: Any, needed: float) -> str:
    """How heads and their size were chosen that make up what is needed."""
    if not all(name in question.sizes for name in question.law.found):
        return "as many as given, their size by what is needed" if "n_heads" in question.sizes else str(model.rule)
    enough = "enough" if model.total_key_dim >= needed else "too few"
    return f"as given; {model.total_key_dim} in all, {enough} for what is expected to be needed"
