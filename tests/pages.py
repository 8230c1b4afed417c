"""Pages of the documentation as what a reader runs: files to write, commands, Python, and what they print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

FENCE = re.compile(r"```(\w*)$")
NOT_RUN = re.compile(r"<!-- not run: (.+) -->$")
GENERATED = re.compile(r"<!-- (\w+: python docs/\w+\.py|end of \w+) -->$")
FILE = re.compile(r"# (\S+\.(?:py|toml))$")
"""The first line of a block that is a file, to be written under that name."""

Kind = Literal["sh", "python", "file", "text"]


@dataclass(frozen=True)
class Block:
    """One block of a page.

    Attributes:
        line: where it stands, from 1.
        kind: commands, Python, a file, or what the block before prints.
        name: of the file.
        reason: why it is not run; None when it is.
    """

    line: int
    kind: Kind
    text: str
    name: str = ""
    reason: str | None = None


def all_pages() -> list[Path]:
    """The pages, without those that the site generates."""
    return sorted(DOCS.rglob("*.md"))


def blocks(markdown: str) -> list[Block]:
    """The blocks of a page in their order; blocks of other languages (json, ...) are left out."""
    found: list[Block] = []
    lines = markdown.splitlines()
    place, reason = 0, None
    while place < len(lines):
        line, start = lines[place], place
        place += 1
        if marked := NOT_RUN.match(line):
            reason = marked[1]
        elif fence := FENCE.match(line):
            end = lines.index("```", place)
            body, place = lines[place:end], end + 1
            if block := _fenced(fence[1], body, start + 1, reason):
                found.append(block)
            reason = None
        elif line.startswith("    capax "):
            while lines[place - 1].endswith("\\"):
                place += 1
            found.append(Block(start + 1, "sh", "\n".join(lines[start:place]), reason=reason))
            reason = None
        elif line:
            assert reason is None, f"line {start + 1}: 'not run' should stand before a block"
    return found


def _fenced(language: str, body: list[str], line: int, reason: str | None) -> Block | None:
    text = "\n".join(body)
    named = FILE.match(body[0]) if body and language in ("python", "toml") else None
    if named:
        return Block(line, "file", text + "\n", named[1], reason)
    kinds: dict[str, Kind] = {"sh": "sh", "python": "python", "text": "text"}
    return Block(line, kinds[language], text, reason=reason) if language in kinds else None


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a block of shell, quotes and continued lines respected."""
    whole = ""
    for line in text.splitlines():
        whole += line
        if whole.endswith("\\"):
            whole = whole[:-1]
            continue
        try:
            command = shlex.split(whole, comments=True)
        except ValueError:  # a quote goes on in the next line
            whole += "\n"
            continue
        whole = ""
        if command:
            yield command
    assert whole == "", f"unfinished: {whole}"


NUMBER = re.compile(r"\(?(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)[%),;]*$")
UNITS = ("s", "s;", "s)", "min", "min;", "h")


def far_off(printed: str, shown: str) -> list[tuple[str, str]]:
    """Numbers of a page that are not what is printed, but for a factor of two; times may be."""
    pairs = list(zip(printed.split(), shown.split(), strict=True))
    found = []
    for (here, there), (following, _) in zip(pairs, [*pairs[1:], ("", "")], strict=True):
        numbers = [NUMBER.match(word) for word in (here, there)]
        if following not in UNITS and all(numbers):
            one, other = (float(number[1]) for number in numbers if number)
            if not (one == other or 0.5 <= one / (other or 1e-300) <= 2):
                found.append((here, there))
    return found


def wordless(text: str) -> list[str]:
    """Words without numbers: times, and the last digits of results, differ between machines."""
    return re.sub(r"[\d.e+]+", "#", text).split()
