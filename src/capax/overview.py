"""How a result shows itself: in a few lines at a prompt, as a small table in a notebook."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from capax.errors import printable

LONGEST = 120
"""Characters of a line; what is longer is cut."""
MOST_ROWS = 6
"""Rows of a table that are shown."""


@dataclass(frozen=True)
class Overview:
    """The few lines.

    Attributes:
        title: what it is.
        rows: names and values; those without a value are left out.
        table: columns of equal length by their headings.
        notes: what must be known to read it.
    """

    title: str
    rows: Mapping[str, str] = field(default_factory=dict)
    table: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Iterable[str] = ()

    def text(self) -> str:
        """As text, each line of at most `LONGEST` characters."""
        named = {name: value for name, value in self.rows.items() if value}
        wide = max(map(len, named), default=0)
        lines = [self.title, *(f"{name:{wide}}  {value}" for name, value in named.items())]
        shown, left = self._shown()
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines += ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in shown]
        lines += [left] * bool(left)
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(_cut(printable(line)).rstrip() for line in lines)

    def html(self) -> str:
        """As HTML, in the colours of the page that it stands in."""
        left_aligned = ' style="text-align: left"'
        named = "".join(
            f"<tr><th{left_aligned}>{_html(name)}</th><td{left_aligned}>{_html(value)}</td></tr>"
            for name, value in self.rows.items()
            if value
        )
        shown, left = self._shown()
        kinds = ["th", *["td"] * len(shown)]
        cells = "".join(
            f"<tr>{''.join(f'<{kind}>{_html(cell)}</{kind}>' for cell in row)}</tr>"
            for kind, row in zip(kinds, shown, strict=False)
        )
        parts = [f"<p><strong>{_html(self.title)}</strong></p>"]
        parts += [f"<table>{rows}</table>" for rows in (named, cells) if rows]
        parts += [f"<p>{_html(text)}</p>" for text in (left, *(f"note: {note}" for note in self.notes)) if text]
        return f"<div>{''.join(parts)}</div>"

    def _shown(self) -> tuple[list[list[str]], str]:
        """The headings and first rows of the table, and how many there are more."""
        rows = list(zip(*self.table.values(), strict=True))
        if not rows:
            return [], ""
        more = len(rows) - MOST_ROWS
        return [list(self.table), *map(list, rows[:MOST_ROWS])], f"… and {more} more" if more > 0 else ""


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _html(text: str) -> str:
    return escape(printable(text))


class Displayed:
    """What shows its overview at a prompt and in a notebook."""

    @abstractmethod
    def overview(self) -> Overview:
        """What is shown."""

    def __repr__(self) -> str:
        return self.overview().text()

    def __str__(self) -> str:
        return self.overview().text()

    def _repr_html_(self) -> str:
        return self.overview().html()
