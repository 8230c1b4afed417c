"""Facts as JSON objects, one a line (JSONL, also called NDJSON)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NoReturn

from capax.tasks.facts.fact import Fact, FactsError
from capax.tasks.facts.files.columns import Columns, Names, facts, find
from capax.tasks.facts.files.lines import lines


def read_jsonl(path: Path, named: Names) -> Iterator[Fact]:
    """The facts of a file with a JSON object a line: its fields are the columns, those of the first line their names.

    Numbers are taken as they are written; fields that hold no part of a fact may hold anything.

    Raises:
        FactsError: as `lines`, `find` and `facts`; for a line that is no JSON object, lacks a field, has one that holds
            a part of the fact and that the first line lacks, or holds something other than a string or a number in it.
    """
    rows = _objects(path)
    number, first = next(rows, (0, {}))
    if not number:
        raise FactsError(f"facts: {path} is empty")
    header = list(first)
    columns = find(header, named, str(path))
    seen = {tuple(header)}

    def cells() -> Iterator[tuple[int, list[object]]]:
        for at, row in chain([(number, first)], rows):
            if (names := tuple(row)) not in seen:
                seen.add(names)
                for name in row:
                    if name not in header and _has_a_role(name, header, columns, named):
                        raise FactsError(f"facts: {path}, line {at}: {name!r:.80}, which the first line lacks")
            yield at, [row.get(name) for name in header]

    yield from facts(cells(), columns, str(path))


def _has_a_role(name: str, header: list[str], columns: Columns, named: Names) -> bool:
    """Whether a column beside those of the first line would hold a part of the fact."""
    try:
        return find([*header, name], named, "") != columns
    except FactsError:
        return True


def _objects(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in enumerate(lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = DECODER.decode(line)
        except (ValueError, RecursionError) as problem:
            reason = "nested too deeply" if isinstance(problem, RecursionError) else str(problem)
            raise FactsError(f"facts: {path}, line {number}: broken JSON ({reason})") from None
        if not isinstance(row, dict):
            raise FactsError(f"facts: {path}, line {number}: should be a JSON object, got {line.strip()!r:.80}")
        yield number, row


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The object; a name that is there twice would silently lose a value."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r:.80} is there twice")
        found[name] = value
    return found


DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse, object_pairs_hook=_once)
