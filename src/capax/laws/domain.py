"""Where a law is known to hold: the ranges and the protocol of the data that it was fitted to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from capax.errors import LawError, SpecError
from capax.laws.protocol_columns import PROTOCOL, protocol_values
from capax.specs import Model, Task
from capax.specs.plugins import Registry
from capax.specs.spec import later_fields
from capax.store import tables
from capax.text import amount

ARCHITECTURE = ("seq_len", "n_heads", "d_model")
"""Columns whose ranges are kept even where the law does not look at them."""

FREE = (
    *("seq_len", "context_size", "n_items", "n_edges", "degree", "n_heads", "d_model"),
    *("library_size", "library_sha256", "duplicates", "strict"),
    "key",  # a column of facts' file, but in a table of runs it is the run's
)
"""Fields of tasks and models that may differ where the protocol is the same."""

SIZED: dict[str, tuple[str, ...] | None] = {
    **dict.fromkeys(("n_layers", "d_head", "d_value", "ffn", "embeddings", "readout")),
    "positions": ("trained", "frozen"),
}
"""Fields of a model that its effective parameters are counted from, and those of their values that differ in nothing
else (None: all): a law of these parameters need not have them, too."""

Value = bool | int | float | str | None


class OutsideDomainWarning(UserWarning):
    """A law was asked about architectures that it was not fitted to."""


class Domain(BaseModel):
    """Ranges of a law's columns, and how its data were measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ranges: Annotated[dict[str, tuple[float, float]], Field(description="Smallest and largest value by column.")]
    protocol: Annotated[dict[str, Value], Field(description="What was the same for all rows.")] = {}
    kinds: Annotated[
        dict[str, tuple[str, ...]], Field(description="What there was in columns that hold no numbers.")
    ] = {}
    within: Annotated[
        dict[str, dict[str, tuple[float, float]]],
        Field(
            description="Of rows of one kind, `column=kind`, the ranges that are narrower than those of all; and of "
            "every combination of kinds that there was, `column=kind,column=kind`, those that are narrower still."
        ),
    ] = {}
    largest_library: Annotated[float | None, Field(description="Largest library_size, where it is known.")] = None
    usable: Annotated[bool, Field(description="False for a law that holds nowhere as it was published.")] = True

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        columns: Mapping[str, np.ndarray],
        table: Any,
        library: np.ndarray,
        skip: Sequence[str] = (),
        coded: Mapping[str, Sequence[str]] | None = None,
        mixed: Sequence[str] = (),
    ) -> Self:
        """The domain of a table.

        Args:
            skip: columns that are not part of it.
            mixed: columns of the protocol that may differ; then all of their values are the domain's.
            coded: the kinds of those columns that hold no numbers, but codes: 1 is the first.

        Raises:
            LawError: when rows were measured in different ways: one law describes one protocol.
        """
        protocol: dict[str, Value] = {}
        sized = counted(table) if "effective_parameters" in names else ()
        skip = (*skip, *(name for name in sized if name not in mixed))
        ranges, kinds = dict[str, tuple[float, float]](), dict[str, tuple[str, ...]]()
        for name in PROTOCOL:
            told = protocol_values(table, name)
            if name in names or name in skip or told is None:
                continue
            values = list(dict.fromkeys(told))
            if len(values) > 1 and name in mixed:
                if all(isinstance(value, int | float) for value in values):
                    ranges[name] = (float(min(values)), float(max(values)))
                else:
                    kinds[name] = tuple(sorted(map(str, values)))
                continue
            if len(values) > 1:
                shown = ", ".join(map(str, values[:5]))
                raise LawError(
                    f"{name}: the rows mix {shown}; a law describes one: choose, say where {_choice(table, name)}"
                )
            protocol[name] = values[0]
        protocol |= _further(table, names, skip)
        further = [name for name in ARCHITECTURE if name in tables.names(table) and name not in (*names, *skip)]
        known = {**columns, **{name: tables.numbers(table, name) for name in further}}
        kinds |= {
            name: tuple(kind for code, kind in enumerate(every, 1) if code in known[name])
            for name, every in (coded or {}).items()
            if name in known
        }
        ranges = {
            name: (float(values.min()), float(values.max())) for name, values in known.items() if name not in kinds
        } | ranges
        within = _within(known, coded or {}, ranges)
        largest = float(library.max()) if np.isfinite(library.max()) else None
        return cls(ranges=ranges, protocol=protocol, kinds=kinds, within=within, largest_library=largest)

    def task_class(self, unit: str) -> type[Task]:
        """The task of the data, or where they do not name one, the one whose items are called so.

        Raises:
            LawError: when it is of a plugin that is not there.
        """
        named: type[Task] | None = _registered(Task.registry, self.protocol.get("task"))
        return named or next(kind for kind in Task.registry.values() if kind.unit == unit)

    def model_class(self, unit: str) -> type[Model]:
        """The model of the data, or where they do not name one, the usual one of the task.

        Raises:
            LawError: when it is of a plugin that is not there, or does not learn the task.
        """
        task = self.task_class(unit)
        named: type[Model] = _registered(Model.registry, self.protocol.get("model")) or task.learner
        if named not in (known := task.learners()):
            allowed = ", ".join(str(model.tag()) for model in known)
            raise LawError(f"model: those of {task.unit} are {allowed}, got {named.tag()!r}")
        return named

    def inside(self, columns: Mapping[str, np.ndarray], table: Any = None) -> np.ndarray:
        """Which rows lie inside: in every range, and of the same protocol where the table says it."""
        rows = len(next(iter(columns.values())))
        result = np.full(rows, self.usable)
        for name, (low, high) in self.ranges.items():
            if name in columns or (table is not None and name in tables.names(table)):
                values = columns[name] if name in columns else tables.numbers(table, name)
                result &= (values >= low) & (values <= high)
        for name, value in self.protocol.items():
            told = None if table is None else protocol_values(table, name)
            if told is not None:
                result &= np.array([given == value for given in told], dtype=bool)
        for name, kinds in self.kinds.items():
            if table is not None and name in tables.names(table):
                result &= np.isin(tables.values(table, name), kinds)
        named = () if table is None else tables.names(table)

        def are(kind: str) -> np.ndarray | None:
            """Which rows are of a kind, such as ffn=mlp; None where that is not told of them."""
            name, _, value = kind.partition("=")
            if name in named:
                return np.asarray(tables.values(table, name)) == value
            return columns[name] == 1 + self.kinds[name].index(value) if name in columns else None

        measured, joint = np.full(rows, False), False
        for kinds_of, ranges in self.within.items():
            own = [are(kind) for kind in kinds_of.split(JOINED)]
            if any(one is None for one in own):
                continue
            these = np.logical_and.reduce(np.array(own, dtype=bool))
            joint, measured = joint or JOINED in kinds_of, measured | (these & (JOINED in kinds_of))
            for column, (low, high) in ranges.items():
                if column in columns or column in named:
                    values = columns[column] if column in columns else tables.numbers(table, column)
                    result &= ~these | ((values >= low) & (values <= high))
        return result & measured if joint else result

    def outside_in_words(self, row: Mapping[str, Any]) -> list[str]:
        """Why one configuration lies outside; empty when it does not."""
        reasons = [] if self.usable else ["this law is not usable as published"]
        for name, (low, high) in self.ranges.items():
            if name in row and not low <= row[name] <= high:
                reasons.append(f"{name} {_number(row[name])} is outside {_range(low, high)}")
        for name, value in self.protocol.items():
            if name in row and row[name] != value:
                reasons.append(f"{name} {row[name]} is {'not in the data' if value is None else f'not {value}'}")
        for name, kinds in self.kinds.items():
            if name in row and row[name] not in kinds:
                reasons.append(f"{name} {row[name]} is not {' or '.join(kinds)}")
        narrowest = dict[str, tuple[float, float, str]]()
        for kinds_of, of_kind in self._ranges_of(row).items():
            for column, (low, high) in of_kind.items():
                own = low, high, _in_words(kinds_of)
                if column in row and not low <= row[column] <= high:
                    narrowest[column] = min(narrowest.get(column, own), own, key=lambda one: one[1] - one[0])
        for name, (low, high, kinds_in_words) in narrowest.items():
            told, of_kinds = next(((at, one) for at, one in enumerate(reasons) if one.split()[0] == name), (None, ""))
            if told is None:
                reasons.append(f"{name} {_number(row[name])} is outside {_range(low, high)} with {kinds_in_words}")
            else:
                reasons[told] = f"{of_kinds} ({_range(low, high)} with {kinds_in_words})"
        joint = [kinds_of for kinds_of in self.within if JOINED in kinds_of]
        asked = [name.partition("=")[0] for name in joint[0].split(JOINED)] if joint else []
        if joint and all(name in row for name in asked):
            cell = JOINED.join(f"{name}={row[name]}" for name in asked)
            if cell not in joint and all(row[name] in self.kinds.get(name, ()) for name in asked):
                reasons.append(f"none with {_in_words(cell)} was measured")
        return reasons

    def _ranges_of(self, row: Mapping[str, Any]) -> dict[str, dict[str, tuple[float, float]]]:
        """The ranges within the kinds that one configuration is of."""
        own = {f"{name}={value}" for name, value in row.items()}
        return {kinds_of: ranges for kinds_of, ranges in self.within.items() if own.issuperset(kinds_of.split(JOINED))}

    def largest(self, column: str, kinds: Mapping[str, str]) -> float:
        """The largest value of a column among rows of some kinds; infinite where nothing is known of it."""
        every = [self.ranges, *self._ranges_of(kinds).values()]
        return float(min(ranges.get(column, (-np.inf, np.inf))[1] for ranges in every))

    def in_words(self) -> str:
        """The ranges, and the protocol's most telling fields, on one line."""
        ranges = [f"{name} {_range(low, high)}" for name, (low, high) in self.ranges.items()]
        told = [
            f"{name} {self.protocol[name]}"
            for name in ("vocab_size", "loss", "recall", "n_layers", "d_head")
            if self.protocol.get(name) is not None
        ]
        told += [f"{name} {' or '.join(kinds)}" for name, kinds in self.kinds.items()]
        library = [] if self.largest_library is None else [f"libraries up to {_number(self.largest_library)}"]
        return ", ".join([*ranges, *told, *library])


JOINED = ","
"""Between the kinds of rows that are of several, in keys of `Domain.within`."""


def of_all_kinds(reason: str) -> str:
    """Why a configuration lies outside, without the narrower range of its kinds."""
    return re.sub(r" \([^()]* with [^()]*\)$", "", reason)


def _in_words(kinds_of: str) -> str:
    """Such as "embeddings trained and ffn mlp"."""
    *most, last = (kind.replace("=", " ") for kind in kinds_of.split(JOINED))
    return f"{', '.join(most)} and {last}" if most else last


def _within(
    known: Mapping[str, np.ndarray], coded: Mapping[str, Sequence[str]], ranges: Mapping[str, tuple[float, float]]
) -> dict[str, dict[str, tuple[float, float]]]:
    """The narrower ranges of rows of one kind, and of every combination of kinds that was measured."""

    def ends(rows: np.ndarray) -> dict[str, tuple[float, float]]:
        found = {name: known[name][rows] for name in ranges if name in known}
        return {name: (float(values.min()), float(values.max())) for name, values in found.items()}

    names = [name for name in coded if name in known]
    found = dict[str, dict[str, tuple[float, float]]]()
    for name in names:
        for code in np.unique(known[name]).astype(int):
            own = {column: pair for column, pair in ends(known[name] == code).items() if pair != ranges[column]}
            if own:
                found[f"{name}={coded[name][code - 1]}"] = own
    if len(names) < 2:
        return found
    codes = np.column_stack([known[name] for name in names])
    for cell in np.unique(codes, axis=0).astype(int):
        kinds = [f"{name}={coded[name][code - 1]}" for name, code in zip(names, cell, strict=True)]
        told = [ranges, *(found[kind] for kind in kinds if kind in found)]
        own = ends((codes == cell).all(axis=1))
        found[JOINED.join(kinds)] = {
            column: (low, high)
            for column, (low, high) in own.items()
            if low > max(one[column][0] for one in told if column in one)
            or high < min(one[column][1] for one in told if column in one)
        }
    return found


def counted(table: Any) -> tuple[str, ...]:
    """Fields of a model that its effective parameters are counted from, where a table's rows differ in no more.

    `d_value` is not among them where all rows have the same, or none: then it is part of the protocol.
    """
    values = {name: set(protocol_values(table, name) or ()) for name in SIZED}
    known = (name for name, allowed in SIZED.items() if allowed is None or values[name] - {None} <= set(allowed))
    return tuple(name for name in known if name != "d_value" or len(values[name]) > 1)


def _further(table: Any, names: Sequence[str], skip: Sequence[str]) -> dict[str, Value]:
    """The model, where it is not the usual one of its task, and its and the task's fields that not all models have.

    Runs of an earlier version, which lack a field, have the value that they were measured with.

    Raises:
        LawError: when rows differ in them, but for the law's columns.
    """
    known = tables.names(table)
    if "task" not in known or "model" not in known:
        return {}
    tags = {name: {tag for tag in tables.values(table, name) if tag is not None} for name in ("task", "model")}
    if len(tags["model"]) > 1:
        raise LawError(
            f"model: the rows mix {', '.join(sorted(tags['model']))}; a law describes one: choose, say where "
            f"model={min(tags['model'])}"
        )
    kinds = [
        *(Task.registry.get(tag) for tag in tags["task"]),
        *(Model.registry.get(tag) for tag in tags["model"]),
    ]
    task, model = kinds if len(kinds) == 2 else (None, None)
    if task is None or model is None:  # somebody's table
        return {}
    before = {name: kind.model_fields[name].default for kind in (task, model) for name in later_fields(kind)}
    found: dict[str, Value] = {} if model is task.learner else {"model": model.tag()}
    for name in dict.fromkeys(name for kind in (task, model) for name in kind.model_fields):
        if name not in known or name in (*FREE, *PROTOCOL, *names, *skip, "model"):
            continue
        values = (before.get(name) if value is None else value for value in tables.values(table, name))
        told = {_without(value, names) for value in values}
        if len(told) > 1:
            shown = ", ".join(map(str, sorted(told, key=str)[:5]))
            axes = [axis for axis in _numbers(name, told) if axis not in names]
            other = f", or has {' and '.join(axes)} as one of its axes" if axes else ""
            raise LawError(f"{name}: the rows mix {shown}; a law describes one{other}")
        found[name] = told.pop()
    return found


def _numbers(name: str, told: Iterable[Any]) -> list[str]:
    """What differs among values of a field and holds numbers, by name: the field, or of its options some."""
    every = [{name: value} if (options := _options(value)) is None else options for value in told]
    found = []
    for one in dict.fromkeys(key for options in every for key in options):
        values = [options.get(one) for options in every]
        if len({*map(str, values)}) > 1 and all(type(value) in (int, float) for value in values):
            found.append(one)
    return found


def _options(value: Any) -> dict[str, Any] | None:
    """What a cell with a JSON object holds; None for any other, such as the template of a sentence."""
    if not isinstance(value, str) or not value.startswith("{"):
        return None
    try:
        found: dict[str, Any] = json.loads(value)
    except ValueError:
        return None
    return found


def _without(value: Any, names: Sequence[str]) -> Any:
    """A cell, of a JSON object without some of its names."""
    found = _options(value)
    if found is None:
        return value
    return json.dumps({name: one for name, one in found.items() if name not in names}, sort_keys=True)


def _choice(table: Any, name: str) -> str:
    """A condition that chooses rows of one kind."""
    column = "max_epochs" if name == "max_steps" and "max_epochs" in tables.names(table) else name
    return f"{column}={tables.values(table, column)[0]}"


def _range(low: float, high: float) -> str:
    return _number(low) if low == high else f"{_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    """A size, of millions in three digits."""
    return f"{value:g}" if value < 1e6 else amount(value)


def _registered(registry: Registry, tag: object) -> Any:
    try:
        return None if tag is None else registry.find(tag)
    except (SpecError, ValueError) as error:
        raise LawError(str(error)) from None
