"""Columns: what is known of a run by name, whatever its task and model are, and how it is said and drawn."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from capax.figures.chart import Axis
from capax.results import Measurement

Of = Callable[[Any], Any]
"""From a row (a run, or what several runs found together) to a number or a word; None where it has none."""
Scale = Callable[[str, Sequence[float]], Axis]
"""From a label and the values to an axis."""

APART = 0.04
"""Of a linear axis: marks that are nearer would run into each other."""


def at_each(label: str, values: Sequence[float]) -> Axis:
    """A logarithmic axis with a mark at each value."""
    return Axis(label=label, log=2, ticks=tuple(sorted({float(value) for value in values})))


def decades(label: str, values: Sequence[float]) -> Axis:
    """A logarithmic axis with marks at decades."""
    return Axis(label=label, log=10)


def powers(label: str, values: Sequence[float]) -> Axis:
    """A logarithmic axis with marks at powers of two; at its ends where fewer than two of these lie between them."""
    first, last = min(values), max(values)
    low, high = math.floor(math.log2(first)), math.ceil(math.log2(last))
    ticks = [2.0**power for power in range(low, high + 1)]
    if first < last and sum(first <= tick <= last for tick in ticks) < 2:
        ticks = [float(f"{end:.3g}") for end in (first, last)]
    return Axis(label=label, log=2, ticks=tuple(ticks))


def linear(label: str, values: Sequence[float]) -> Axis:
    """A linear axis with marks at the values, as far as there is room."""
    sizes = sorted({float(value) for value in values})
    gap = APART * (sizes[-1] - sizes[0])
    ticks = [size for place, size in enumerate(sizes) if place == 0 or size - sizes[place - 1] >= gap]
    return Axis(label=label, ticks=tuple(ticks))


def free(label: str, values: Sequence[float]) -> Axis:
    """A linear axis."""
    return Axis(label=label)


def from_zero(label: str, values: Sequence[float]) -> Axis:
    """A linear axis that begins at zero."""
    return Axis(label=label, from_zero=True)


@dataclass(frozen=True)
class Column:
    """Something that is known of rows.

    Attributes:
        name: a field of a run's task, model, training or protocol, a numeric argument of a module, or a result.
        label: on an axis; the name when not given.
        said: of one value, in a legend or a title, such as "{} head{s}"; name and value when not given.
        scale: the axis that it is drawn along.
        of: how it is read, where it is none of the fields above.
        fields: the fields that differ where it does; its name when not given.
        unknown: what is said where a row has no value.
    """

    name: str
    label: str = ""
    said: str = ""
    scale: Scale = at_each
    of: Of | None = None
    fields: tuple[str, ...] = ()
    unknown: str = ""

    def __call__(self, row: Any) -> Any:
        """Its value; None where the row has none."""
        return value(row, self.name) if self.of is None else self.of(row)

    def words(self, value: Any) -> str:
        """One of its values in words."""
        shown = f"{value:g}" if isinstance(value, float) else value
        return (self.said or f"{self.name} {{}}").format(shown, s="" if value == 1 else "s")

    @property
    def varied(self) -> tuple[str, ...]:
        """The fields that differ where it does."""
        return self.fields or (self.name,)


def value(row: Any, name: str) -> Any:
    """A column of a row; of a search what it found, where it was given a start."""
    found = getattr(row, name, None)
    if found is not None or not isinstance(row, Measurement):
        return found
    spec = row.spec
    for columns in (spec.task.columns(), spec.model.columns()):
        if name in columns:
            return columns[name]
    return next(
        (getattr(part, name) for part in (spec.training, spec.protocol) if name in type(part).model_fields), None
    )


def by(rows: Iterable[Any], *columns: Of) -> dict[tuple[Any, ...], list[Any]]:
    """Rows by some of their columns, in the order of these; what is not known comes last."""
    found: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for row in rows:
        found[tuple(column(row) for column in columns)].append(row)
    return dict(sorted(found.items(), key=lambda item: [(one is None, one or 0) for one in item[0]]))


def in_words(columns: Iterable[Column], values: Iterable[Any]) -> str:
    """Values of columns in words; of one that is not known what its column says, if anything."""
    pairs = zip(columns, values, strict=True)
    told = (column.unknown if value is None else column.words(value) for column, value in pairs)
    return ", ".join(words for words in told if words)


SEQ_LEN = Column("seq_len", "tokens seq_len", "{} tokens")
CONTEXT = Column("context_size", "context size n", "context {}", linear)
ITEMS = Column("n_items", "items m", "{} items")
EDGES = Column("n_edges", "edges m'", "{} edges")
LAYERS = Column("n_layers", "layers", "{} layer{s}")
HEADS = Column("n_heads", "heads n_heads", "{} head{s}", linear)
HEAD_SIZE = Column("d_head", "head size d_head", "head size {}", linear)
WIDTH = Column("d_model", "width d_model", "width {}")
LIBRARY = Column("library_size", "library size", "library of {}")
SIZES = (SEQ_LEN, CONTEXT, ITEMS, EDGES, LAYERS, HEADS, HEAD_SIZE, WIDTH)
"""What runs of one kind may differ in, in the order in which it is said."""
TASK_SIZES = (SEQ_LEN, CONTEXT, ITEMS)
"""How large one item is, or where it is from."""


def sizes(runs: Sequence[Measurement]) -> tuple[Column, ...]:
    """The sizes in which some runs differ; all that they have where they differ in none."""
    known = [column for column in SIZES if column(runs[0]) is not None]
    return tuple(column for column in known if len(set(map(column, runs))) > 1) or tuple(known)
