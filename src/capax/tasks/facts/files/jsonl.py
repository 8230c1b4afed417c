"""Facts as JSON objects, one a line (JSONL, also called NDJSON)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NoReturn

from capax.inputs import once
from capax.tasks.facts.fact import Fact, FactsError
from capax.tasks.facts.files.columns import Names, by_name, facts, find
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
        raise FactsError(f"library: {path} is empty")
    header = list(first)
    columns = find(header, named, f"library: {path}")
    cells = by_name(chain([(number, first)], rows), header, columns, named, f"library: {path}, line", "the first line")
    yield from facts(cells, columns, f"library: {path}")


def _objects(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in enumerate(lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = DECODER.decode(line)
        except (ValueError, RecursionError) as problem:
            reason = "nested too deeply" if isinstance(problem, RecursionError) else str(problem)
            raise FactsError(f"library: {path}, line {number}: broken JSON ({reason})") from None
        if not isinstance(row, dict):
            raise FactsError(f"library: {path}, line {number}: should be a JSON object, got {line.strip()!r:.80}")
        yield number, row


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse, object_pairs_hook=once)
