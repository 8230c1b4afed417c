"""Architectures to choose from, as the rows that a law is asked about, and which of them hold a target."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from capax.errors import LawError, OutsideDomain, shown
from capax.laws.domain import OutsideDomainWarning
from capax.laws.law import Law
from capax.results import Interval
from capax.specs import Sequences, Transformer
from capax.specs.spec import LARGEST, whole

Table = dict[str, Any]
Grid = Mapping[str, Sequence[int]]
Precision = Literal["float32", "float64", "bfloat16"]
MOST_CHOICES = 10_000
"""Values that a law's domain may offer along one axis."""
BYTES: dict[str, int] = {"float32": 4, "float64": 8, "bfloat16": 2}


@dataclass(frozen=True)
class Choice:
    """The architectures of a grid that hold a target.

    Attributes:
        table: one row per architecture of the grid; its last axis varies fastest.
        places: rows of those that hold it, smallest first; of each combination of the other axes the smallest of the
            last axis.
        nearest: when none holds it, the row that comes nearest.
        memorized, at_least: what each row is expected to hold, and holds with the probability.
        outside: why some of the grid lies outside the law's domain.
    """

    grid: Grid
    table: Table
    places: list[int]
    nearest: int | None
    memorized: np.ndarray
    at_least: np.ndarray
    outside: tuple[str, ...]

    def sizes(self, place: int, names: Iterable[str]) -> dict[str, int]:
        """Some columns of a row."""
        return {name: int(values[place]) for name, values in self.table.items() if name in names}

    def gain(self, place: int, axis: str) -> float | None:
        """Items per 1000 trainable parameters by the next step along an axis of the grid; None at its end."""
        shape, number = [len(values) for values in self.grid.values()], list(self.grid).index(axis)
        at = list(np.unravel_index(place, shape))
        if at[number] + 1 == shape[number]:
            return None
        at[number] += 1
        step = int(np.ravel_multi_index(at, shape))
        size = self.table["trainable_parameters"]
        return 1000 * float((self.memorized[step] - self.memorized[place]) / (size[step] - size[place]))

    def efficient(self, place: int) -> bool:
        """Whether no other that holds the target has fewer trainable and fewer total parameters."""
        size, total = self.table["trainable_parameters"], self.table["total_parameters"]
        return not any(
            (size[other], total[other]) != (size[place], total[place])
            and size[other] <= size[place]
            and total[other] <= total[place]
            for other in self.places
        )


def choose(
    law: Law,
    target: int,
    asked: Mapping[str, Any],
    grid: Grid,
    table: Table,
    *,
    probability: float,
    max_parameters: int | None,
    extrapolate: bool,
) -> Choice:
    """The architectures of a grid that hold so many items with a probability.

    Args:
        asked: what the law is asked about beside the grid: the columns of the task.
        table: one row per combination of the grid, in its order.

    Raises:
        OutsideDomain: outside the domain without `extrapolate`.
        LawError: when `max_parameters` leaves nothing to choose from.
    """
    ends = [{**asked, **{name: end(values) for name, values in grid.items()}} for end in (min, max)]
    outside = tuple(dict.fromkeys(reason for end in ends for reason in law.domain_.outside_in_words(end)))
    if outside and not extrapolate:
        raise OutsideDomain(outside_message(law, outside))
    size, total = table["trainable_parameters"], table["total_parameters"]
    kept = np.full(len(size), True) if extrapolate else law.inside_domain(table)
    if max_parameters is not None:
        kept &= size <= max_parameters
    if not kept.any():
        raise LawError(
            f"max_parameters: at least {size.min()} for the smallest architecture to choose from, got {max_parameters}"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDomainWarning)
        memorized = law.predict(table)
    at_least = law.quantile(table, 1 - probability)
    last = len(list(grid.values())[-1])
    holds = (kept & (at_least >= target)).reshape(-1, last)
    first = [row * last + int(np.flatnonzero(line)[0]) for row, line in enumerate(holds) if line.any()]
    places = sorted(first, key=lambda place: (size[place], total[place]))
    nearest = None if places else int(np.flatnonzero(kept)[np.argmax(at_least[kept])])
    return Choice(grid, table, places, nearest, memorized, at_least, outside)


@dataclass(frozen=True)
class Answer:
    """What a law says of one row: its prediction, where a new measurement falls, and why it lies outside the domain."""

    value: float
    interval: Interval
    outside: tuple[str, ...]


def ask(law: Law, row: Mapping[str, Any], table: Table, level: float, extrapolate: bool) -> Answer:
    """Ask a law about one row.

    Args:
        row: what is known of it, for the domain.
        table: the row with every column that the law may want.

    Raises:
        LawError: for a level that is none, outside the domain without `extrapolate`, or where the law has no meaning.
    """
    if not 0 < level < 1:
        raise LawError(f"level: between 0 and 1, got {shown(level)}")
    outside = tuple(law.domain_.outside_in_words(row))
    if outside and not extrapolate:
        raise OutsideDomain(outside_message(law, outside))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDomainWarning)
        value = float(law.predict(table)[0])
        if value < 0:
            raise LawError(f"{law.name}: predicts {value:.4g} items; no count is below zero, so it does not hold here")
        low, high = law.predict_interval(table, level)
    return Answer(value, Interval(low=float(low[0]), high=float(high[0]), level=level, of="a new measurement"), outside)


def check(probability: float, precision: str, **counts: tuple[int | None, int]) -> None:
    """Refuse what no plan can be asked for.

    Args:
        counts: values by name, and the least that is allowed.

    Raises:
        LawError: that names the field.
    """
    for name, (value, least) in counts.items():
        if value is not None:
            whole(name, value, least, LawError)
    if not 0 < probability < 1:
        raise LawError(f"probability: between 0 and 1, got {shown(probability)}")
    if precision not in BYTES:
        raise LawError(f"precision: {', '.join(BYTES)}, got {precision!r}")


def model(law: Law, n_layers: int | None, n_heads: int, d_model: int, d_head: int | None = None) -> Transformer:
    """A transformer of the kind that the law was fitted to, where the law says it; else of the default kind."""
    told: dict[str, Any] = {
        name: value
        for name, value in law.domain_.protocol.items()
        if name in Transformer.model_fields and value is not None
    }
    given = {"n_layers": n_layers, "n_heads": n_heads, "d_model": d_model, "d_head": d_head}
    return Transformer(**{**told, **{name: value for name, value in given.items() if value is not None}})


def vocabulary(law: Law, vocab_size: int | None) -> int:
    """The vocabulary that was asked for, else the law's, else the default of `Sequences`."""
    told: Any = vocab_size
    if told is None:
        told = law.domain_.protocol.get("vocab_size", law.domain_.ranges.get("vocab_size", (None,))[0])
    return Sequences(library_size=1, **({} if told is None else {"vocab_size": told})).vocab_size


def rows(models: list[Transformer], seq_len: int, vocab_size: int) -> Table:
    """One row per model, with every column that a law of sequences may want."""
    counts = [spec.parameter_counts(vocab_size=vocab_size, context=seq_len - 1) for spec in models]
    if max(count["total"] for count in counts) > LARGEST:
        raise LawError("d_model, n_heads, n_layers, d_head: at most 2^63 - 1 parameters, got more")
    return {
        "seq_len": np.full(len(models), seq_len),
        "vocab_size": np.full(len(models), vocab_size),
        **{
            name: np.array([getattr(spec, name) for spec in models])
            for name in ("n_layers", "n_heads", "d_model", "d_head")
        },
        "trainable_parameters": np.array([count["trainable"] for count in counts]),
        "total_parameters": np.array([count["total"] for count in counts]),
    }


def outside_message(law: Law, reasons: Iterable[str]) -> str:
    """One line: why a law is not asked."""
    return (
        f"outside the domain of {law.name} ({law.source_}): {'; '.join(reasons)}; "
        f"choose another law, or extrapolate all the same"
    )


def choices(name: str, given: Sequence[int] | None, law: Law, multiple: int = 1) -> list[int]:
    """What was given, or what the law's domain holds, rising."""
    if given is not None:
        if not len(given):
            raise LawError(f"{name}: positive integers, got none")
        return sorted({whole(name, value, error=LawError) for value in given})
    if name in law.domain_.ranges:
        low, high = law.domain_.ranges[name]
        if (high - low) / multiple > MOST_CHOICES:
            raise LawError(f"{name}: {low:g} to {high:g} are too many to choose from; give the values")
        found = list(range(math.ceil(low / multiple) * multiple, math.floor(high) + 1, multiple))
        if found:
            return found
    elif isinstance(told := law.domain_.protocol.get(name), int):
        return [told]
    elif name == "n_layers":
        return [1]
    raise LawError(f"{name}: the law's domain ({law.domain_.in_words()}) offers none; give the values to choose from")
