"""The lines of a text file of facts, one at a time, whatever its size."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from capax.inputs import regular
from capax.tasks.facts.fact import FactsError

LONGEST_LINE = 4 * 2**20
"""Bytes of a line: hundreds of the longest cells."""


def lines(path: Path) -> Iterator[str]:
    r"""The lines of a file in UTF-8, with their ends, one at a time.

    Lines end where bytes say so (`\n`): a cell may hold what Unicode calls a line separator. A byte order mark is
    left out.

    Raises:
        FactsError: for what is no regular file or cannot be read; for a line that is not UTF-8, holds a null character
            or is longer than `LONGEST_LINE` bytes, whose number it names.
    """
    number = 0
    try:
        with regular(path, "library", FactsError).open("rb") as file:
            while raw := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(raw) > LONGEST_LINE:
                    raise FactsError(f"library: {path}, line {number}: longer than {LONGEST_LINE} bytes")
                if number == 1:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                if b"\0" in raw:
                    raise FactsError(f"library: {path}, line {number}: a null character; is the file UTF-8?")
                yield raw.decode()
    except UnicodeDecodeError as problem:
        wrong = problem.object[problem.start]
        raise FactsError(f"library: {path}, line {number}: not UTF-8 (byte 0x{wrong:02x})") from None
    except OSError as problem:
        raise FactsError(f"library: cannot read {path}: {problem.strerror or problem}") from None
