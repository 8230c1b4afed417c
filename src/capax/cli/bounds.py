"""`capax bounds`: what theory says about one transformer, in every unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from capax.cli import output
from capax.cli.flags import Json, Part, command, every_model, made
from capax.figures.drawing import check_writable, draw
from capax.figures.theory import chart
from capax.specs import Model, Transformer
from capax.theory.bounds import catalogue
from capax.theory.bounds.bound import LEAST, Bound
from capax.theory.bounds.catalogue import Catalogue
from capax.theory.bounds.facts import Sizes

TITLES = {
    "examples": "examples with real labels, exact",
    "associations": "associations, the right arg-max",
    "accuracy": "share of the library",
    "contexts": "contexts with next-token distributions, exact",
    "total_key_dim": "total key dimension for the graph",
    "items": "items of a random library",
    "bits": "bits",
    "patterns": "patterns that are fixed points",
    "points": "points of two classes",
}
"""What is counted, by unit."""

STANDINGS = {"read": "r", "secondary": "s", "derived": "d"}
WIDTHS = {"bound": 26, "kind": 12, "of": 9, "value": 9, "bits": 9, "assumed": 8, "standing": 1, "source": 16}
"""Columns, and how wide they are at least."""
SPARE = ("source", "of", "kind", "bits")
"""What a narrow terminal is not shown, the first of them first."""


def _bounds(model: Model, sizes: Sizes, *, bits: int = 32, figure: Path | None = None, as_json: Json = False) -> None:
    """List the known bounds on what a model remembers: proved, measured elsewhere, or of memories of its size.

    Sizes that are not given leave some without a value; the reasons are printed. What counts different things is not
    made one number: values are in their own units, and in bits where they have any.

    Parameters
    ----------
    bits
        Bits of a weight.
    figure
        Where to draw those that have a value in bits (.png, .pdf or .svg).
    """
    if figure is not None:
        check_writable(figure, "figure")
    found = catalogue.bounds(model, bits=bits, **sizes.model_dump(exclude_none=True))
    if figure is not None:
        draw(chart(found, {}), figure, "figure")
    output.emit(found, _show, as_json=as_json, figure=figure)


_SIZES = Part("Task", {"": Sizes}, only=tuple(one for one in Sizes.model_fields if one in LEAST))
__getattr__ = made(bounds=lambda: command(_bounds, Part.models(every_model(), Transformer), _SIZES))


def _show(found: Catalogue) -> None:
    screen = output.console()
    screen.print(f"{_setting(found)}\n")
    kept = _kept(screen.width)
    screen.print(_table([], kept))
    valued = [one for one in found.bounds if one.value is not None]
    for unit, title in TITLES.items():
        rows = [one for one in valued if one.unit == unit]
        if rows:
            screen.print(f"\n{title}", style="bold")
            screen.print(_table(rows, kept))
    screen.print(
        "\n+ assumptions met, − unmet (the value is another model's, or another training's), ? unknown; r read in the "
        "source, s secondary, d derived by us. docs/bounds.md says what each counts."
    )
    _list(screen, "Orders, without constants", [(one.name, one.formula) for one in found.bounds if one.kind == "order"])
    output.tell_narrow(WIDTHS, kept)
    unmet = [(one.name, each.text) for one in valued for each in one.assumptions if each.met is False]
    _list(screen, "Not met (−)", _merged(unmet))
    none = [(one.name, str(one.reason)) for one in found.bounds if one.value is None and one.kind != "order"]
    _list(screen, "No value", _merged(none))
    _list(screen, "No bits", _merged([(one.name, str(one.bits_reason)) for one in valued if one.bits is None]))


def _table(rows: list[Bound], kept: Sequence[str]) -> Table:
    """Columns as wide for every unit; their names where there are no rows."""
    table = Table(box=None, show_header=not rows, pad_edge=False, padding=(0, 1, 0, 0))
    for name in kept:
        number = name in ("value", "bits")
        heading = "" if name == "standing" else name
        table.add_column(heading, min_width=WIDTHS[name], justify="right" if number else "left", no_wrap=True)
    for one in rows:
        assert one.value is not None
        cells = {
            "bound": one.name,
            "kind": one.kind,
            "of": one.scope,
            "value": _number(one.value),
            "bits": "–" if one.bits is None else _number(one.bits),
            "assumed": _met(one),
            "standing": STANDINGS[one.standing],
            "source": _cite(one.source),
        }
        table.add_row(*(cells[name] for name in kept))
    return table


def _kept(width: int) -> list[str]:
    """The columns that a terminal has room for."""
    kept = list(WIDTHS)
    for name in SPARE:
        if sum(WIDTHS[one] + 1 for one in kept) - 1 > width:
            kept.remove(name)
    return kept


def _setting(found: Catalogue) -> str:
    parameters = found.parameters
    known = [f"{name} {size}" for name in _SIZES.only if (size := getattr(found.sizes, name)) is not None]
    counts = [
        f"{number} {name}"
        for name, number in (("trainable", parameters.trainable), ("in all", parameters.total))
        if number is not None
    ]
    return (
        f"{found.model.words()}; {', '.join(known) or 'no sizes of a task'}; "
        f"parameters: {', '.join(counts) or 'depend on the task'}"
    )


def _list(screen: Console, title: str, lines: Sequence[tuple[str, str]]) -> None:
    """A title and lines of names and texts, if there are any."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(max_width=min(screen.width // 2, 44))
    table.add_column()
    for line in lines:
        table.add_row(*line)
    if lines:
        screen.print(f"\n{title}", style="bold")
        screen.print(table, highlight=False)


def _merged(lines: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Names with the same text in one line."""
    names: dict[str, list[str]] = {}
    for name, text in lines:
        names.setdefault(text, []).append(name)
    return [(", ".join(named), text) for text, named in names.items()]


def _met(one: Bound) -> str:
    met = [assumption.met for assumption in one.assumptions]
    return " ".join(f"{sign}{met.count(state)}" for sign, state in (("+", True), ("−", False), ("?", None)))


def _cite(source: str) -> str:
    """First author and year, or what comes first."""
    found = re.match(r"([A-Z][\w-]+)[^(:;]*? (\d{4})\b", source)
    return f"{found[1]} {found[2]}" if found else re.split(r"[:;,(]", source)[0].strip()


def _number(value: float) -> str:
    whole = value == int(value) or abs(value) >= 1000
    return f"{value:.0f}" if whole and abs(value) < 1e7 else f"{value:.4g}"
