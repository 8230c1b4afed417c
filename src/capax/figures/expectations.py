"""What a law says of runs that were measured, where it may say anything."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capax.laws.domain import OutsideDomainWarning
from capax.laws.law import Law
from capax.laws.protocol_columns import protocol_values
from capax.results import Measurement
from capax.specs import Mac, Training
from capax.store import tables

TRAINED = frozenset((*Training.model_fields, *Mac.model_fields)) - {"protocol"}
"""Fields that say how long and how well runs were trained, not what of: a law may be set beside runs that differ in
them, if it is said."""
COUNTS = ("memorized", "memorized_above_chance")


@dataclass(frozen=True)
class Expected:
    """What a law expects of runs, one value each, None outside its domain; with a band where one was asked for."""

    values: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]

    @property
    def known(self) -> int:
        """How many runs lie inside the law's domain."""
        return sum(value is not None for value in self.values)


def speaks_of(law: Law | None, runs: Sequence[Measurement]) -> bool:
    """Whether a law counts what these runs, which are of one task, memorize."""
    return law is not None and bool(runs) and law.items == runs[0].spec.task.unit and law.target in COUNTS


def expected(law: Law | None, runs: Sequence[Measurement], band: bool = True, everywhere: bool = False) -> Expected:
    """What a law expects of runs of one task, as raw counts from zero to the library.

    A law of counts above chance is turned into raw counts by (1 - chance / library_size) · count + chance.

    Args:
        everywhere: ask it outside its domain, too.
    """
    nothing = (None,) * len(runs)
    if law is None or not speaks_of(law, runs):
        return Expected(nothing, nothing, nothing)
    places = np.arange(len(runs)) if everywhere else np.flatnonzero(_inside(law, runs))
    if not len(places):
        return Expected(nothing, nothing, nothing)
    table = tables.table([runs[place] for place in places.tolist()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDomainWarning)
        found = [law.predict(table), *(law.predict_interval(table) if band else ())]
    columns: list[list[float | None]] = [[None] * len(runs) for _ in range(3)]
    for column, values in zip(columns, found, strict=False):
        for place, value in zip(places.tolist(), values.tolist(), strict=True):
            column[place] = _raw(value, runs[place], law)
    return Expected(*(tuple(column) for column in columns))


def _inside(law: Law, runs: Sequence[Measurement]) -> np.ndarray:
    table = tables.table(runs)
    asked = {name: value for name, value in law.domain_.protocol.items() if name not in TRAINED}
    domain = law.domain_.model_copy(update={"protocol": asked})
    if not set(law.columns) <= set(table.columns):
        return np.zeros(len(runs), dtype=bool)
    return domain.inside({name: tables.numbers(table, name) for name in law.columns}, table)


def _raw(value: float, run: Measurement, law: Law) -> float:
    if law.target == "memorized_above_chance":
        value = value * (1 - run.chance / run.library_size) + run.chance
    return min(float(run.library_size), max(value, 0.0))


def about(
    law: Law | None, runs: Sequence[Measurement], drawn: bool, what: str = "the law {}", band: bool = True
) -> str:
    """A sentence for a caption: what the law's line is, and how its data were trained otherwise than these runs.

    Args:
        what: is drawn of the law, whose name stands for {}.
    """
    if law is None:
        return ""
    named = f"{law.name} ({law.source_})"
    if drawn:
        is_band = ", with its 95 % prediction band" if band else ""
        return f"Dashed: {what.format(named)}{is_band}.{unlike(law, runs)}"
    if law.items != runs[0].spec.task.unit or law.target not in COUNTS:
        return f"The law {named} is not drawn: it is of {law.target}, {law.items}."
    return f"The law {named} is not drawn: these runs lie outside its domain."


def unlike(law: Law, runs: Sequence[Measurement]) -> str:
    """How a law's data were trained otherwise than some runs, with a space before it; empty where they were not."""
    table = tables.table(runs)
    differences = []
    for name, value in law.domain_.protocol.items():
        told = protocol_values(table, name) if name in TRAINED else None
        if told is None or set(told) == {value}:
            continue
        if name == "max_steps":
            differences.append(_budgets(law, runs))
        else:
            differences.append(f"{name} {value}, these {', '.join(str(one) for one in dict.fromkeys(told))}")
    return f" The law's runs had {'; '.join(differences)}." if differences else ""


def _budgets(law: Law, runs: Sequence[Measurement]) -> str:
    """Budgets that differ: in epochs, as runs are given them, beside the steps that they come to."""
    asked, library = law.domain_.protocol, law.domain_.largest_library
    steps, batch = asked["max_steps"], asked.get("batch_size")
    theirs = "no budget" if steps is None else f"a budget of {steps} steps"
    given_epochs = all(run.spec.training.max_steps is None for run in runs)
    if isinstance(steps, int) and isinstance(batch, int) and library is not None and given_epochs:
        theirs = f"a budget of {steps / math.ceil(library / batch):.4g} epochs ({steps} steps)"
    return f"{theirs}, these {', '.join(dict.fromkeys(_budget(run) for run in runs))}"


def _budget(run: Measurement) -> str:
    spec, rows = run.spec.training, run.spec.task.learned_rows(run.library_size, run.spec.model)
    steps = spec.budget(rows)
    if steps is None:
        return "none"
    if spec.max_steps is not None:
        return f"{steps} steps"
    return f"{steps / spec.steps_per_epoch(rows):.4g} epochs ({steps} steps)"
