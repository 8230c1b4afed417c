"""Architectures to choose from by a law of counts: inside its domain and beyond, and what each of them holds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from capax.errors import LawError
from capax.laws.law import Law
from capax.planning import bits
from capax.planning.answers import Columns, predicted
from capax.planning.options import Options
from capax.planning.question import Question
from capax.planning.results import (
    BYTES,
    Architecture,
    Precision,
)

REACHES = tuple(2**power for power in range(8))
"""How many times beyond the domain's end sizes go, in turn, until the smallest that is enough is found."""
PARTS = 8
"""Into which a gap between a size that is too small and the next one is cut, again and again."""


def _candidates(
    question: Question, options: Options, reach: int, between: Collection[int]
) -> tuple[Columns, np.ndarray, tuple[str, ...]]:
    """The architectures to choose from, which of them count, and why some lie outside the law's domain.

    Raises:
        OutsideDomain: where all of them do, and none may.
    """
    grid, extrapolate = question.grid(options.multiple, reach, between), options.extrapolate
    given = question.given | question.kinds
    ends = [{**given, **{name: end(values) for name, values in grid.items()}} for end in (min, max)]
    outside = question.outside(ends, extrapolate, derived=bool(extrapolate))  # else some architectures may be inside
    models = question.models(grid, options.probability)
    table = question.table(models)
    kept = np.full(len(models), True) if outside or extrapolate else question.law.inside_domain(table)
    if not kept.any():  # by what follows from the sizes, such as parameters
        rows = [{name: values[at].item() for name, values in table.items()} for at in (0, -1)]
        question.outside(rows, extrapolate=False)
    return table, kept, outside


class Tried(NamedTuple):
    """Architectures to choose from.

    Attributes:
        table: their columns.
        keys: their values along each axis.
        allowed: which may be chosen as the law goes; `kept` within the budget, too.
        outside: why some lie outside the law's domain.
        margin: how many times the target each surely holds.
        enough: places of those within the budget that hold it.
    """

    table: Columns
    keys: list[tuple[int, ...]]
    allowed: np.ndarray
    kept: np.ndarray
    outside: tuple[str, ...]
    margin: np.ndarray
    enough: list[int]


def try_all(question: Question, target: int, options: Options, reach: int, between: Collection[int] = ()) -> Tried:
    """Architectures to a reach beyond the domain.

    Args:
        between: further values of the axis that the law raises beyond it.

    Raises:
        LawError: when the budget leaves none.
    """
    table, allowed, outside = _candidates(question, options, reach, between)
    size, most = table["trainable_parameters"], options.budget.parameters
    kept = allowed if most is None else allowed & (size <= most)
    if not kept.any():
        raise LawError(
            f"budget_parameters: at least {size[allowed].min()} for the smallest architecture to choose from, got "
            f"{most}"
        )
    margin = _margin(question.law, table, target, 1 - options.probability)
    keys = list(zip(*(table[name].tolist() for name in question.axes), strict=True))
    return Tried(table, keys, allowed, kept, outside, margin, np.flatnonzero(kept & (margin >= 1)).tolist())


def in_between(question: Question, tried: Tried) -> set[int]:
    """Of the axis that is doubled beyond the domain, values between the last that is too small and the next one.

    Some to each gap, of all series of architectures that have one; none where values are given, or follow each other.
    """
    name = question.law.beyond
    if name not in question.axes[:-1] or name in question.sizes:
        return set()
    place, found = question.axes.index(name), set[int]()
    series: dict[tuple[int, ...], list[tuple[int, bool]]] = {}
    for key, margin, allowed in zip(tried.keys, tried.margin, tried.allowed, strict=True):
        if allowed:
            series.setdefault((*key[:place], *key[place + 1 :]), []).append((key[place], margin >= 1))
    for values in series.values():
        enough = min((value for value, holds in values if holds), default=None)
        below = max((value for value, holds in values if enough is not None and value < enough), default=None)
        if enough is not None and below is not None:
            found |= set(np.linspace(below, enough, PARTS + 1).round().astype(int).tolist()) - {below, enough}
    return found


def smaller_beyond(tried: Tried) -> bool:
    """Whether values of the other axes that hold too little so far are still smaller than all that hold enough."""
    size, keys = tried.table["trainable_parameters"], tried.keys
    smallest, answered = size[tried.enough].min(), {keys[place][:-1] for place in tried.enough}
    widest: dict[tuple[int, ...], int] = {}
    for place in np.flatnonzero(tried.kept).tolist():
        if (others := keys[place][:-1]) not in answered:
            widest[others] = max(widest.get(others, 0), size[place])
    return any(one < smallest for one in widest.values())


def left_out(question: Question, table: Columns, kept: np.ndarray) -> list[str]:
    """Of the values that were given those that no candidate has, and why."""
    found = []
    for name in (axis for axis in question.axes if axis in question.sizes):
        for value in sorted({*table[name].tolist()} - {*table[name][kept].tolist()}):
            at = int(np.flatnonzero(table[name] == value)[0])
            row = question.law.bounded({column: values[at].item() for column, values in table.items()})
            reasons = "; ".join(question.law.domain_.outside_in_words(row))
            found.append(f"{name} {value} is left out: outside the domain of the law: {reasons}")
    return found


def not_tried(question: Question, table: Columns) -> list[str]:
    """The end of the domain, where the values that were tried stop short of it."""
    name = question.axes[-1]
    _, high = question.law.domain_.ranges.get(name, (None, None))
    widest = int(table[name].max())
    if high is None or name in question.sizes or widest >= math.floor(high):
        return []
    return [f"{name} was tried up to {widest}, and the domain ends at {high:g}: a smaller multiple tries more"]


def described(
    question: Question,
    table: Columns,
    keys: Sequence[tuple[int, ...]],
    places: Sequence[int],
    probability: float,
    precision: Precision,
) -> list[Architecture]:
    """Some rows of a table with what they hold, and what a step along the axes would add."""
    following = {gain: _next(keys, question.axes.index(axis)) for gain, axis in question.gains.items()}
    wanted = sorted({*places, *(after[at] for after in following.values() for at in places if at in after)})
    rows = {name: values[wanted] for name, values in table.items()}
    memorized = dict(zip(wanted, _holds(question.law, rows, None).tolist(), strict=True))
    at_least = dict(zip(wanted, _holds(question.law, rows, 1 - probability).tolist(), strict=True))
    size, total = (table[f"{kind}_parameters"].tolist() for kind in ("trainable", "total"))
    most = question.most if question.law.needed_for is None else np.inf
    tokens, found = question.task.tokens_per_item, []
    for at in places:
        named: dict[str, Any] = {name: int(table[name][at]) for name in question.axes}
        for name, after in following.items():
            named[name] = _gain(memorized, size, at, after.get(at))
        found.append(
            Architecture(
                trainable_parameters=size[at],
                total_parameters=total[at],
                bytes=total[at] * BYTES[precision],
                memorized=min(memorized[at], most),
                at_least=min(at_least[at], most),
                tokens_per_parameter=None if tokens is None else tokens * min(memorized[at], most) / size[at],
                efficient=bits.is_efficient(at, np.array(size), np.array(total), places),
                **named,
            )
        )
    return found


def _gain(memorized: Mapping[int, float], size: Sequence[int], at: int, after: int | None) -> float | None:
    """Items per 1000 trainable parameters from one row to another."""
    if after is None or size[after] == size[at]:
        return None
    return 1000 * (memorized[after] - memorized[at]) / (size[after] - size[at])


def _next(keys: Sequence[tuple[int, ...]], number: int) -> dict[int, int]:
    """For each row the one that differs from it by the next larger value of one size."""
    series: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for place, key in enumerate(keys):
        series.setdefault((*key[:number], *key[number + 1 :]), []).append((key[number], place))
    return {
        place: after for members in series.values() for (_, place), (_, after) in itertools.pairwise(sorted(members))
    }


def _margin(law: Law, table: Columns, target: int, probability: float) -> np.ndarray:
    """What each row holds with a probability, or has of what is needed, as a share of what it should."""
    if law.needed_for is None:
        return law.quantile(table, probability) / target
    return np.maximum(table[law.target] / law.quantile(table, 1 - probability), table["n_heads"] / target)


def _holds(law: Law, table: Columns, probability: float | None) -> np.ndarray:
    """Items that each row is expected to hold, or holds but for a probability."""
    if law.needed_for is None:
        return predicted(law, table) if probability is None else law.quantile(table, probability)
    low, high = np.full((2, len(table[law.target])), [[2.0], [1e12]])
    for _ in range(50):  # of a law of what is needed: the items for which what the row has is enough
        items = np.sqrt(low * high)
        asked = {**table, law.needed_for: items}
        needed = predicted(law, asked) if probability is None else law.quantile(asked, 1 - probability)
        enough = needed <= table[law.target]
        low, high = np.where(enough, items, low), np.where(enough, high, items)
    return np.maximum(low, table["n_heads"])  # weights of one edge a head can be built for any graph
