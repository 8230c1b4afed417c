"""The architectures that an adaptive sweep is to predict, and what is known of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capax.errors import SpecError, shown
from capax.laws.law import Law
from capax.results import LEVEL, Interval, LawAtTarget
from capax.specs import Run
from capax.store import Store, tables
from capax.sweeps.informative import candidate_table, columns_of, fitted_to, half_width
from capax.text import listed


def known_at_target(
    runs: Sequence[Run],
    store: Store | Path | str,
    *,
    law: Law,
    target: Mapping[str, Sequence[float | str]] | None = None,
    level: float = LEVEL,
) -> LawAtTarget:
    """What a law, fitted to the runs of a study that a store holds, says of a target of one architecture.

    Args:
        law, target: as in `sweep_adaptively`.
        level: of the interval, which is that of `half_width`.

    Raises:
        SpecError: for a target that is no architecture, or several.
        StoreError: when there is no such store.
    """
    goal = columns_of_target(law, runs, candidate_table(runs), {} if target is None else target)
    if (count := len(goal[law.columns[0]])) > 1:
        raise SpecError(f"target: one architecture, got {count}")
    with Store(store, create=False) as opened:
        known = [found for run in runs if (found := opened.get(run.key())) is not None]
    fitted = fitted_to(law, tables.table(known)) if known else None
    value, interval = None, None
    if fitted is not None:
        value = float(fitted._predict(columns_of(law, goal))[0])
        if math.isfinite(half := half_width(fitted, goal, level)):
            of = "the law's value; a new measurement spreads more"
            interval = Interval(low=value * math.exp(-half), high=value * math.exp(half), level=level, of=of)
    return LawAtTarget(
        law=law.name,
        measurements=len(known),
        target={name: goal[name][0] for name in dict.fromkeys((*law.columns, *(target or ())))},
        counts="bits" if law.target in tables.IN_BITS else law.items,
        value=value,
        interval=interval,
        inside_domain=fitted is not None and bool(fitted.inside_domain(goal)[0]),
    )


def columns_of_target(
    law: Law, runs: Sequence[Run], offered: Mapping[str, Any], target: Mapping[str, Sequence[float | str]]
) -> dict[str, list[Any]]:
    """The columns of the architectures that are asked for, the law's and those of their protocol.

    Raises:
        SpecError: for one that there cannot be, or that is described by what is no column.
    """
    fields = {name for run in runs for part in (run.task, run.model) for name in type(part).model_fields}
    for name, values in target.items():
        if name not in (*law.columns, *fields):
            raise SpecError(
                f"target: allowed are {', '.join(law.columns)} and other fields of the study's task and model, "
                f"got {shown(name)} = {', '.join(map(str, values))}"
            )
    if len(lengths := {len(values) for values in target.values()}) > 1:
        raise SpecError(f"target: as many values of each column, got {listed(sorted(lengths))}")
    sizes = [columns_of(law, offered)[name] for name in reversed(law.columns)]
    largest = runs[int(np.lexsort([*sizes, offered["trainable_parameters"]])[-1])]
    rows = [dict(zip(target, values, strict=True)) for values in zip(*target.values(), strict=True)]
    if target and not rows:
        raise SpecError("target: at least one architecture, got none")
    goals = [_changed(largest, row) for row in rows or [{}]]
    return {name: [goal[name] for goal in goals] for name in goals[0]}


def _changed(run: Run, changes: Mapping[str, float | str]) -> dict[str, Any]:
    """The columns of a run where some of them, or of its fields, are others."""
    parts, columns = {}, dict(changes)
    try:
        for part in ("task", "model"):
            spec = getattr(run, part)
            given = {name: columns.pop(name) for name in changes if name in type(spec).model_fields}
            parts[part] = spec.replace(**given) if given else spec
        table = candidate_table([run.replace(**parts)])
    except SpecError as error:
        raise SpecError(f"target: {error}") from None
    return {name: values.tolist()[0] for name, values in table.items()} | columns
