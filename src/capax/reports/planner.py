"""The planner of the report's page: what `capax plan` says on a grid, from which the page chooses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from capax.errors import CapaxError
from capax.figures.interactive import GREY, SYMBOLS
from capax.figures.looks import COLORS
from capax.laws import published
from capax.laws.files import load_law
from capax.laws.law import Law
from capax.laws.polynomial import Polynomial
from capax.laws.report import FittedParameter, report
from capax.planning.question import Columns, Question, predicted
from capax.results import Result
from capax.store.tables import IN_BITS

LEVEL = 0.95
USUAL = "reference:power"
"""The law of a page without one: what networks recall after 600 steps, of which a table can be made."""

PROBABILITIES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
START = 0.9
MOST_VALUES = 16
"""Of one size of the task: if the law's domain has more, they are chosen evenly on a logarithmic scale."""
BEYOND = (0.5, 2, 4)
"""Of the ends of the law's domain: sizes that the page offers when it may extrapolate."""
MOST_ROWS = 20_000
"""Of the table: some 2 MB of the page."""

Sizes = dict[str, list[int]]


class Planner(Result):
    """The planner's section of a report.

    Attributes:
        given: whether the report was asked to use this law; else it is the one that ships with capax.
        formula: what the law says, in a sentence.
        parameters: with profile intervals, where the law has rows that it was fitted to.
        reason: why the page cannot plan with this law; None where it can.
        carried: what planner.js reads, see `carried`.
    """

    law: str
    source: str
    given: bool
    formula: str
    domain: str
    notes: tuple[str, ...]
    errata: tuple[str, ...]
    parameters: tuple[FittedParameter, ...]
    level: float
    reason: str | None
    carried: dict[str, Any] | None


def planner(given: Law | None) -> Planner:
    """The planner with a law, or with the one that ships with capax."""
    law = load_law(USUAL) if given is None else given
    reason, table = None, None
    try:
        table = carried(law)
    except CapaxError as error:
        reason = str(error)
    assert law.__doc__ is not None
    return Planner(
        law=law.name,
        source=law.source_,
        given=given is not None,
        formula=law.__doc__.splitlines()[0],
        domain=law.domain_.in_words(),
        notes=tuple(law.notes_),
        errata=_errata(law),
        parameters=_parameters(law),
        level=LEVEL,
        reason=reason,
        carried=table,
    )


def carried(law: Law) -> dict[str, Any]:
    """What planner.js chooses from: the architectures of `capax plan` in the law's domain, and what each holds.

    Returns:
        `rows`, one for each value of the sizes in `asked` and each architecture, in the order of `columns`: those
        sizes, the `axes`, and what follows; `at_least` is what the architecture holds with each of the
        `probabilities`, `outside` says why it lies outside the law's domain.

    Raises:
        CapaxError: when nothing can be planned with the law.
    """
    kind = law.domain_.task_class(law.items)
    if law.needed_for is not None:
        raise CapaxError(f"the law {law.name} says what {kind.unit} need; capax plan asks it")
    if law.target in IN_BITS:
        raise CapaxError(f"the law {law.name} counts bits, of networks of any size; capax plan asks it")
    if not law.domain_.usable:
        raise CapaxError(f"the law {law.name} ({law.source_}) is not usable as published")
    asked = {name: _values(law, name) for name in kind.size_axes() if name in law.domain_.ranges}
    question = Question(law, {name: values[0] for name, values in asked.items()})
    grid = question.grid()
    try:
        asked, grid, rows = _table(law, _wider(law, asked), _wider(law, grid, question.model.steps))
    except CapaxError:  # some laws have no meaning beyond their domain, and some tables are too large
        asked, grid, rows = _table(law, asked, grid)
    inside = [row for row in rows if not row[-1]]
    if not inside:
        raise CapaxError(f"the domain of the law {law.name} holds no architecture")
    return {
        "items": kind.unit,
        "fixed": {name: value for name, value in question.asked.items() if name not in asked},
        "asked": asked,
        "axes": list(question.axes),
        "grid": grid,
        "gains": question.gains,
        "extrapolates": len(inside) < len(rows),
        "columns": [*question.asked, *question.axes, *FOLLOWS],
        "rows": rows,
        "probabilities": PROBABILITIES,
        "start": {
            "target": _round(float(np.median([row[-2][PROBABILITIES.index(START)] for row in inside]))),
            "probability": START,
        },
        "domain": law.domain_.in_words(),
        "looks": {"colors": COLORS, "symbols": SYMBOLS, "grey": GREY},
    }


FOLLOWS = (
    "trainable_parameters",
    "total_parameters",
    "memorized",
    "size",
    "tokens_per_parameter",
    "at_least",
    "outside",
)


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
        raise CapaxError(f"the domain of the law {law.name} is too large for a page; capax plan --law asks it")
    models = questions[0].models(grid)
    tables = [question.table(models) for question in questions]
    whole = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return asked, grid, _rows(questions[0], whole)


def _rows(question: Question, table: Columns) -> list[list[Any]]:
    """Architectures, what they hold, and why they lie outside the law's domain."""
    law, names = question.law, (*question.asked, *question.axes, "trainable_parameters", "total_parameters")
    places = [dict(zip(table, row, strict=True)) for row in zip(*(v.tolist() for v in table.values()), strict=True)]
    at_least = np.transpose(law.quantiles(table, [1 - probability for probability in PROBABILITIES]))
    held = predicted(law, table)
    tokens = seq_len * held / table["trainable_parameters"] if (seq_len := table.get("seq_len")) is not None else None
    numbers = zip(*(table[name].tolist() for name in names), strict=True)
    return [
        [
            *row,
            _short(value),
            size_in_words(4 * row[-1]),
            None if tokens is None else _short(tokens[place]),
            list(map(_short, at_least[place])),
            law.domain_.outside_in_words(places[place]),
        ]
        for place, (row, value) in enumerate(zip(numbers, held, strict=True))
    ]


def size_in_words(count: int) -> str:
    """Bytes to three digits."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} B"


def _short(value: float) -> float:
    """To nine digits."""
    return float(f"{value:.9g}")


def _parameters(law: Law) -> tuple[FittedParameter, ...]:
    """Those of a law with names that mean something; without intervals where it was not fitted to rows."""
    if isinstance(law, Polynomial):
        return ()
    if hasattr(law, "rows_"):
        return report(law, LEVEL).parameters
    return tuple(
        FittedParameter(name=name, value=value, low=None, high=None, reason=law.undetermined_.get(name))
        for name, value in law.parameters_.items()
    )


def _errata(law: Law) -> tuple[str, ...]:
    """What is wrong in the paper whose parameters a law has."""
    kind, _, source = law.source_.partition(":")
    return tuple(published.data(source.partition(":")[0])["errata"]) if kind == "published" else ()


def _round(value: float) -> int:
    """To one digit, at least 1."""
    if value < 1:
        return 1
    unit = 10 ** math.floor(math.log10(value))
    return int(max(value // unit, 1) * unit)
