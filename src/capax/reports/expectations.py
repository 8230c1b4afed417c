"""What a law says of runs that were measured, where it may say anything."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capax import tables
from capax.laws.domain import OutsideDomainWarning
from capax.laws.law import Law
from capax.results import Measurement
from capax.specs import Mac, Training

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


def speaks_of(law: Law | None) -> bool:
    """Whether a law counts memorized sequences."""
    return law is not None and law.task == "sequences" and law.target in COUNTS


def expected(law: Law | None, runs: Sequence[Measurement], band: bool = True) -> Expected:
    """What a law expects of runs on sequences, as raw counts no larger than the library.

    A law of counts above chance is turned into raw counts by (1 - chance / library_size) · count + chance.
    """
    nothing = (None,) * len(runs)
    if law is None or not speaks_of(law) or not runs:
        return Expected(nothing, nothing, nothing)
    places = np.flatnonzero(_inside(law, runs))
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
    return domain.inside({name: tables.numbers(table, name) for name in law.columns}, table)


def _raw(value: float, run: Measurement, law: Law) -> float:
    if law.target == "memorized_above_chance":
        value = value * (1 - run.chance / run.library_size) + run.chance
    return min(float(run.library_size), value)


def about(law: Law | None, runs: Sequence[Measurement], drawn: bool, band: bool = True) -> str:
    """A sentence for a caption: what the law's line is, and how its data were trained otherwise than these runs."""
    if law is None:
        return ""
    if not speaks_of(law):
        return f" The law {law.name} ({law.source_}) is not drawn: it is not of memorized sequences."
    if not drawn:
        return f" The law {law.name} ({law.source_}) is not drawn: these runs lie outside its domain."
    is_band = ", band: where it expects 95 % of new measurements" if band else ""
    return f" Dashed: the law {law.name} ({law.source_}){is_band}.{unlike(law, runs)}"


def unlike(law: Law, runs: Sequence[Measurement]) -> str:
    """How a law's data were trained otherwise than some runs; empty where they were not, or where it is not known."""
    table = tables.table(runs)
    differences = []
    for name, value in law.domain_.protocol.items():
        told = tables.protocol_values(table, name) if name in TRAINED else None
        if told is not None and set(told) != {value}:
            here = ", ".join(str(one) for one in dict.fromkeys(told))
            differences.append(f"{name} {value}, not {here}")
    return f" It is of runs with {'; '.join(differences)}." if differences else ""
