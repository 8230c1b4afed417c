"""Rows of cells become facts: which column holds what, and what a cell may hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import NamedTuple
from unicodedata import normalize

from capax.tasks.facts.fact import Fact, FactsError

LONGEST_CELL = 10_000
"""Characters of a key, a relation or an answer."""
PAIRS = (("key", "answer"), ("subject", "object"))
RELATIONS = ("relation", "predicate")
WEIGHTS = ("weight", "count")
NOTHING = ("nan", "<NA>", "NaT")
"""How an empty cell of a data frame is printed."""
DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
SURROGATE = re.compile("[\ud800-\udfff]")


class Names(NamedTuple):
    """The columns that the user names; None for those that are found."""

    key: str | None = None
    answer: str | None = None
    relation: str | None = None
    weight: str | None = None


class Columns(NamedTuple):
    """Where a row holds what; None for what it does not hold."""

    key: int
    relation: int | None
    answer: int
    weight: int | None = None


TRIPLES = Columns(0, 1, 2)


def find(header: Sequence[str], named: Names, source: str) -> Columns:
    """The columns that hold the facts: those that are named, else those that can only be meant.

    Keys and answers are in columns called key and answer, or subject and object, or there are, beside a weight, two
    columns (key, answer) or three (subject, relation, object) in this order. A relation is called relation or
    predicate, or, where none of the three is named, is the one column beside subject and object. A weight is named, or
    called weight or count.

    Raises:
        FactsError: for a name that is missing or there twice, for one column with two roles, and where nothing tells
            which column holds what.
    """
    lower = [name.casefold() for name in header]
    key, answer, relation, weight = (
        _named(header, name, role, source) for name, role in zip(named, Names._fields, strict=True)
    )
    if weight is None:
        weight = _called(lower, WEIGHTS, (key, answer, relation), "weight", source)
    rest = [place for place in range(len(header)) if place != weight]

    def column(name: str) -> int:
        return header.index(name) if name in header else lower.index(name)

    pairs = [(column(one), column(two)) for one, two in PAIRS if one in lower and two in lower]
    none_named = named[:3] == (None, None, None)
    if len(pairs) == 1:
        if none_named and "subject" in lower and len(rest) > 2 and not set(RELATIONS) & set(lower):
            others = [place for place in rest if place not in pairs[0]]
            if len(others) > 1:
                raise _unclear(header, source)
            relation = others[0]
        key, answer = (found if place is None else place for place, found in zip((key, answer), pairs[0], strict=True))
    elif none_named and not pairs and len(rest) in (2, 3):
        key, *between, answer = rest
        relation = between[0] if between else None
    if key is None or answer is None:
        raise _unclear(header, source)
    if relation is None:
        relation = _called(lower, RELATIONS, (key, answer, weight), "relation", source)
    found = Columns(key, relation, answer, weight)
    for place in (place for place in found if place is not None):
        if found.count(place) > 1:
            raise FactsError(f"{source}: column {header[place]!r:.80} cannot have two roles")
        if header.count(header[place]) > 1:
            raise FactsError(f"{source} has two columns {header[place]!r:.80}")
    return found


def known_by_name(header: Sequence[str], named: Names) -> bool:
    """Whether something else than their place says which columns hold keys and answers."""
    lower = {name.casefold() for name in header}
    return named[:3] != (None, None, None) or any({*pair} <= lower for pair in PAIRS)


def by_name(
    rows: Iterable[tuple[int, Mapping[str, object]]],
    header: Sequence[str],
    columns: Columns,
    named: Names,
    source: str,
    first: str,
) -> Iterator[tuple[int, list[object]]]:
    """The cells of rows that name them, in the order of the first one's names.

    Args:
        source: what messages begin with: the field, and which file or object, before the number of a row.
        first: what the first row is called.

    Raises:
        FactsError: for a part of a fact that the first row lacks.
    """
    seen = {tuple(header)}
    for number, row in rows:
        if (names := tuple(row)) not in seen:
            seen.add(names)
            for name in row:
                if name not in header and _has_a_role(name, header, columns, named):
                    raise FactsError(f"{source} {number}: {name!r:.80}, which {first} lacks")
        yield number, [row.get(name) for name in header]


def _has_a_role(name: str, header: Sequence[str], columns: Columns, named: Names) -> bool:
    """Whether a column beside those of the first row would hold a part of the fact."""
    try:
        return find([*header, name], named, "") != columns
    except FactsError:
        return True


def _called(
    lower: Sequence[str], names: Sequence[str], taken: Sequence[int | None], role: str, source: str
) -> int | None:
    """The only column that is called so, if there is one that has no other role."""
    found = [place for place, name in enumerate(lower) if name in names and place not in taken]
    if len(found) > 1:
        called = " and ".join(repr(lower[place]) for place in found)
        raise FactsError(f"{source} has columns {called}; name one with --{role}")
    return found[0] if found else None


def _unclear(header: Sequence[str], source: str) -> FactsError:
    return FactsError(
        f"{source} has {_list(header)}; which holds what? Name them with --key, --answer and, where there is "
        "one, --relation"
    )


def _named(header: Sequence[str], name: str | None, role: str, source: str) -> int | None:
    if name is None:
        return None
    if name not in header:
        raise FactsError(f"{source} has no column {name!r:.80} (--{role}); it has {_list(header)}")
    return header.index(name)


def _list(header: Sequence[str]) -> str:
    shown = ", ".join(f"{name!r:.40}" for name in header[:10])
    more = f" and {len(header) - 10} more" if len(header) > 10 else ""
    return f"the column{'s' if len(header) > 1 else ''} {shown}{more}"


def facts(
    rows: Iterable[tuple[int, Sequence[object]]], columns: Columns, source: str, unit: str = "line"
) -> Iterator[Fact]:
    """The facts of rows.

    Whitespace at the ends of a cell is left out, and Unicode is normalised to NFC: what looks the same is the same.
    What stands inside a cell stays, quotes too.

    Args:
        rows: the number of each and its cells: strings, or numbers, which are taken as they are printed.
        source: what messages begin with: the field, and which file or object.
        unit: what the numbers count.

    Raises:
        FactsError: for a key, a relation or an answer that is missing, empty or longer than `LONGEST_CELL` characters,
            and for a weight that is no positive number; it names the row.
    """
    key_at, relation_at, answer_at, weight_at = columns
    for number, cells in rows:
        try:
            fact = Fact(
                clean(cells[key_at], "key"),
                "" if relation_at is None else clean(cells[relation_at], "relation"),
                clean(cells[answer_at], "answer"),
                1.0 if weight_at is None else positive(cells[weight_at]),
            )
        except ValueError as problem:
            raise FactsError(f"{source}, {unit} {number}: {problem}") from None
        yield fact


def clean(cell: object, role: str) -> str:
    """The text of a cell, without whitespace at its ends, in NFC.

    Raises:
        ValueError: for one that is missing, empty, too long, neither text nor number, or holds half a character (a lone
            surrogate).
    """
    text = (cell if isinstance(cell, str) else _number(cell, role)).strip()
    if not text:
        raise ValueError(f"the {role} is empty")
    if not text.isascii():
        text = normalize("NFC", text)
        if SURROGATE.search(text):
            raise ValueError(f"the {role} {text!r:.80} holds a lone surrogate, which is no character")
    if len(text) > LONGEST_CELL:
        raise ValueError(f"the {role} has {len(text)} characters; at most {LONGEST_CELL} are read")
    return text


def _number(cell: object, role: str) -> str:
    if cell is None or str(cell) in NOTHING:
        raise ValueError(f"the {role} is missing")
    if isinstance(cell, bool) or not isinstance(cell, Real):
        raise ValueError(f"the {role} should be a string or a number, got {cell!r:.80}")
    return str(cell)


def positive(cell: object) -> float:
    """A weight.

    Raises:
        ValueError: for what is no positive number.
    """
    try:
        if isinstance(cell, str) and not DECIMAL.fullmatch(cell.strip()):
            raise ValueError  # float() would take 1_000, and digits of any script
        weight = float(cell)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        weight = math.nan
    if not 0 < weight < math.inf:
        raise ValueError(f"the weight should be a positive number, got {cell!r:.80}")
    return weight
