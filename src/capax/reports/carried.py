"""What the page's planner chooses from: the networks of `capax plan` on a grid of sizes, and what each holds."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from capax.errors import CapaxError
from capax.figures.interactive import GREY, SYMBOLS
from capax.figures.looks import COLORS
from capax.laws.law import Law
from capax.planning.answers import Columns, predicted
from capax.planning.families import families, usual_widths
from capax.planning.question import Question
from capax.results import Measurement
from capax.specs.apart import fields_of
from capax.store.tables import IN_BITS
from capax.text import amount

PROBABILITIES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
START = 0.9
MOST_VALUES = 16
"""Of one size of the task: if the law's domain has more, they are chosen evenly on a logarithmic scale."""
BEYOND = (0.5, 2, 4)
"""Of the ends of the law's domain: sizes that the page offers when it may extrapolate."""
FEW_VALUES, FARTHEST = 7, 8
"""Of one size of the task, of a law in bits: powers of two apart, up to so many times the largest of the domain."""
DEEPEST, WIDEST = 8, 2048
"""Of the networks by a law in bits."""
MOST_ROWS = 20_000
"""Of the table: some 2 MB of the page."""
FOLLOWS = (
    "trainable_parameters",
    "total_parameters",
    "memorized",
    "size",
    "tokens_per_parameter",
    "at_least",
    "outside",
)

Sizes = dict[str, list[Any]]


class Grid(NamedTuple):
    """Networks to choose from.

    Attributes:
        asked: values of what the page asks about, the task's sizes among them.
        fixed: sizes of the task that it does not ask about.
        axes: sizes of the model to choose from, of which the last is the smallest possible.
        grid: their values.
        shown: sizes of the model that the page shows.
        gains: see `Question.gains`.
        rows: of each network what was asked, the sizes shown, and what `FOLLOWS`.
    """

    asked: Sizes
    fixed: dict[str, Any]
    axes: Sequence[str]
    grid: Sizes
    shown: Sequence[str]
    gains: dict[str, str]
    rows: list[list[Any]]


def carried(law: Law) -> dict[str, Any]:
    """What planner.js chooses from: networks of `capax plan`, and what each holds.

    Returns:
        `rows`, one for each value of what is `asked` and each network, in the order of `columns`; `at_least` is what it
        holds with each of the `probabilities`, `outside` says why it lies outside the law's domain, by the places of
        the `reasons`.

    Raises:
        CapaxError: when nothing can be planned with the law.
    """
    kind = law.domain_.task_class(law.items)
    if law.needed_for is not None:
        raise CapaxError(f"the law {law.name} says what {kind.unit} need; capax plan asks it")
    if not law.domain_.usable:
        raise CapaxError(f"the law {law.name} ({law.source_}) is not usable as published")
    found = _of_bits(law) if law.target in IN_BITS else _of_counts(law)
    inside = [row for row in found.rows if not row[-1]]
    if not inside:
        raise CapaxError(f"the domain of the law {law.name} holds no architecture")
    usual = found.rows if law.travels else inside
    reasons = {
        reason: place for place, reason in enumerate(dict.fromkeys(why for row in found.rows for why in row[-1]))
    }
    return {
        "items": kind.unit,
        "fixed": found.fixed,
        "asked": found.asked,
        "axes": list(found.axes),
        "grid": found.grid,
        "shown": list(found.shown),
        "gains": found.gains,
        "extrapolates": len(inside) < len(found.rows),
        "travels": law.travels,
        "columns": [*found.asked, *found.shown, *FOLLOWS],
        "rows": [[*row[:-1], [reasons[why] for why in row[-1]]] for row in found.rows],
        "reasons": list(reasons),
        "probabilities": PROBABILITIES,
        "start": {
            "asked": {name: values[len(values) // 2] for name, values in found.asked.items()},
            "target": _usual(usual),
            "probability": START,
        },
        "domain": law.domain_.in_words(),
        "looks": {"colors": COLORS, "symbols": SYMBOLS, "grey": GREY},
    }


def started(table: dict[str, Any], runs: Sequence[Measurement]) -> dict[str, Any]:
    """The same, for a page that begins with what most runs were asked, and a number that such networks hold.

    Args:
        table: of `carried`.
    """
    specs, asked = [fields_of(run.spec, ()) for run in runs], dict[str, Any]()
    rows = [row for row in table["rows"] if not row[-1]]  # inside the law's domain
    for place, name in enumerate(table["asked"]):
        known = Counter(fields[name] for fields in specs if fields.get(name) is not None)
        wanted = known.most_common(1)[0][0] if known else table["start"]["asked"][name]
        asked[name] = _nearest(list(dict.fromkeys(row[place] for row in rows)), wanted)
        rows = [row for row in rows if row[place] == asked[name]]
    return table | {"start": table["start"] | {"asked": asked, "target": _usual(rows)}}


def _nearest(values: Sequence[Any], wanted: Any) -> Any:
    if isinstance(wanted, str):
        return wanted if wanted in values else values[len(values) // 2]
    return min(values, key=lambda value: abs(math.log(value / wanted)))


def _usual(rows: Sequence[Sequence[Any]]) -> float:
    """What half of some networks hold, with the probability that a page begins with."""
    return _round(float(np.median([row[-2][PROBABILITIES.index(START)] for row in rows])))


def _of_bits(law: Law) -> Grid:
    """Families of networks of any size, as a law in bits plans them.

    Raises:
        CapaxError: when the law's model cannot be planned at any size, or there are too many rows.
    """
    ranges = law.domain_.ranges
    names = [name for name in law.domain_.task_class(law.items).size_fields() if name in ranges]
    asked: Sizes = {name: _apart(*ranges[name]) for name in names if ranges[name][0] < ranges[name][1]}
    first = Question(law, {name: values[0] for name, values in asked.items()})
    kinds = first.tables or (None,)
    depths = [depth for depth in first.model.depths if depth <= DEEPEST]
    grid: Sizes = {"n_layers": depths, "d_model": [width for width in usual_widths(8) if width <= WIDEST]}
    if math.prod(map(len, (*asked.values(), kinds, *grid.values()))) > MOST_ROWS:
        raise _too_large(law)
    shown, rows = ("n_layers", "n_heads", "d_head", "d_model"), []
    tables = {"embeddings": list(kinds)} if first.tables else {}
    for *values, kind in itertools.product(*asked.values(), kinds):
        question = Question(law, {**dict(zip(asked, values, strict=True)), "embeddings": kind, **grid})
        rows += _rows(question, families(question, None).table, (*asked, *tables, *shown), question.most)
    return Grid(
        asked=asked | tables,
        fixed={name: value for name, value in first.asked.items() if name not in asked},
        axes=tuple(grid),
        grid=grid,
        shown=shown,
        gains={},
        rows=rows,
    )


def _apart(low: float, high: float) -> list[int]:
    """A few sizes from the smallest of a domain to beyond its largest, each so many times the one before."""
    most = FARTHEST * high / low
    factor = next(2**power for power in itertools.count(1) if 2 ** (power * FEW_VALUES) > most)
    return [int(low) * factor**place for place in range(FEW_VALUES) if factor**place <= most]


def _of_counts(law: Law) -> Grid:
    """The architectures of the law's domain and around it, where that can be.

    Raises:
        CapaxError: when there are too many rows, or there is no such architecture.
    """
    names = [name for name in law.domain_.task_class(law.items).size_axes() if name in law.domain_.ranges]
    asked = {name: _values(law, name) for name in names}
    question = Question(law, {name: values[0] for name, values in asked.items()})
    grid = question.grid()
    try:
        asked, grid, rows = _table(law, _wider(law, asked), _wider(law, grid, question.model.steps))
    except CapaxError:  # some laws have no meaning beyond their domain, and some tables are too large
        asked, grid, rows = _table(law, asked, grid)
    return Grid(
        asked=asked,
        fixed={name: value for name, value in question.asked.items() if name not in asked},
        axes=question.axes,
        grid=grid,
        shown=question.axes,
        gains=question.gains,
        rows=rows,
    )


def _too_large(law: Law) -> CapaxError:
    return CapaxError(f"the domain of the law {law.name} is too large for a page; capax plan --law asks it")


def _values(law: Law, name: str) -> list[int]:
    """Values of one size of the task that the page offers."""
    low, high = (int(end) for end in law.domain_.ranges[name])
    if high - low < 2 * MOST_VALUES:
        return list(range(low, high + 1))
    return sorted({round(value) for value in np.geomspace(low, high, MOST_VALUES)})


def _wider(law: Law, grid: Sizes, steps: Mapping[str, int] | None = None) -> Sizes:
    """The values of a grid, and some beyond the law's domain."""
    found = {}
    for name, values in grid.items():
        low, high = law.domain_.ranges.get(name, (0, 0))
        by = (steps or {}).get(name, 1)
        beyond = {round(factor * (low if factor < 1 else high) / by) * by for factor in BEYOND}
        found[name] = sorted({*values, *(value for value in beyond if value >= 1)})
    return found


def _table(law: Law, asked: Sizes, grid: Sizes) -> tuple[Sizes, Sizes, list[list[Any]]]:
    """Both grids, and the rows of all their combinations that there can be.

    Raises:
        CapaxError: when there are too many for a page, or the law has no meaning there.
    """
    questions = [Question(law, dict(zip(asked, values, strict=True))) for values in itertools.product(*asked.values())]
    if len(questions) * math.prod(map(len, grid.values())) > MOST_ROWS:
        raise _too_large(law)
    models = questions[0].models(grid)
    tables = [question.table(models) for question in questions]
    whole = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    most = np.repeat([question.most for question in questions], len(models))
    return asked, grid, _rows(questions[0], whole, (*asked, *questions[0].axes), most)


def _rows(question: Question, table: Columns, columns: Sequence[str], most: float | np.ndarray) -> list[list[Any]]:
    """Networks by some columns, what they hold, and why they lie outside the law's domain.

    Args:
        most: items that there are.
    """
    law, names = question.law, (*columns, "trainable_parameters", "total_parameters")
    places = [dict(zip(table, row, strict=True)) for row in zip(*(v.tolist() for v in table.values()), strict=True)]
    least = law.quantiles(table, [1 - probability for probability in PROBABILITIES])
    at_least = np.transpose(np.minimum(np.array(least) / question.per_item, most))
    held = np.minimum(predicted(law, table) / question.per_item, most)
    tokens = seq_len * held / table["trainable_parameters"] if (seq_len := table.get("seq_len")) is not None else None
    numbers = zip(*(table[name].tolist() for name in names), strict=True)
    return [
        [
            *row,
            _short(value),
            amount(4 * row[-1], "B"),
            None if tokens is None else _short(tokens[place]),
            list(map(_short, at_least[place])),
            law.domain_.outside_in_words(places[place]),
        ]
        for place, (row, value) in enumerate(zip(numbers, held, strict=True))
    ]


def _short(value: float) -> float:
    """To nine digits."""
    return float(f"{value:.9g}")


def _round(value: float) -> int:
    """To one digit, at least 1."""
    if value < 1:
        return 1
    unit = 10 ** math.floor(math.log10(value))
    return int(max(value // unit, 1) * unit)
