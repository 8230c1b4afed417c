"""A run's amounts by every definition (`protocols.units`), as columns beside those of `tables.table`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from capax.results import Amount, Measurement

TABLED = {"bits", "morris_bits", "allen_zhu_bits"}
"""Units whose amount is a column of `tables.table`."""
AS = {"items": "memorized", "items_above_chance": "memorized_above_chance"}
"""The names by which the table knows counts."""
PER_TABLED = {"bits_per_parameter"}
HELD = {
    "capacity_last_gain": "last_gain",
    "capacity_per_effective_parameter": "per_effective_parameter",
    "capacity_per_parameter": "per_trainable_parameter",
    "capacity_per_any_parameter": "per_parameter",
}
"""Columns of what a run by protocol capacity can hold, and the fields that they show."""


def columns(runs: Sequence[Measurement]) -> dict[str, list[float | None]]:
    """What `tables.table` lacks: amounts, the ends of their intervals, and what they are per parameter.

    Names are those of the table: `memorized_low` and `memorized_high` are the interval of `memorized`. `_per_parameter`
    is per trainable parameter, as the table's is; `_per_any_parameter` counts the frozen ones, too.
    """
    units = [{unit.name: unit for unit in run.units} for run in runs]
    found: dict[str, list[float | None]] = {}
    for unit in dict.fromkeys(name for run in units for name in run):
        name = AS.get(unit, unit)
        of = [run.get(unit) for run in units]
        if unit not in TABLED and unit not in AS:
            found[name] = [None if one is None else one.amount for one in of]
        found[f"{name}_low"] = [_end(one, "low") for one in of]
        found[f"{name}_high"] = [_end(one, "high") for one in of]
        if (per := f"{name}_per_parameter") not in PER_TABLED:
            found[per] = [None if one is None else one.per_trainable_parameter for one in of]
        found[f"{name}_per_any_parameter"] = [None if one is None else one.per_parameter for one in of]
    held = [run.capacity for run in runs]
    if any(one is not None for one in held):
        found |= {name: [None if one is None else getattr(one, field) for one in held] for name, field in HELD.items()}
    return found


def beside(table: dict[str, list[Any]], found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """A table with these columns: the ends of an interval behind what it is of, all else last."""
    ordered: dict[str, list[Any]] = {}
    for name, values in table.items():
        ordered[name] = values
        ordered |= {end: found[end] for end in (f"{name}_low", f"{name}_high") if end in found}
    return ordered | found


def _end(unit: Amount | None, end: str) -> float | None:
    return None if unit is None or unit.interval is None else getattr(unit.interval, end)
