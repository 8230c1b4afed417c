"""`capax measure … --sensitivity`: how far the number moves with each choice that the papers make differently."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

import capax
from capax.cli import measurement, output, progress
from capax.errors import SpecError
from capax.probes.choices import Source, Value, text
from capax.specs import Model, Task, Training
from capax.specs.plugins import resolve

if TYPE_CHECKING:
    from capax.probes.sensitivity import Alternative, Sensitivity


def parse(words: str) -> dict[str, list[Value] | None]:
    """The choices of "lr,batch_size=64:full": names with the values given, or None for the papers'.

    Raises:
        SpecError: for an empty choice, or one that is given twice.
    """
    choices: dict[str, list[Value] | None] = {}
    for part in words.split(","):
        name, equals, values = (side.strip() for side in part.partition("="))
        name = name.replace("-", "_")
        if not name:
            raise SpecError(f"sensitivity: choices as in lr,batch_size=64:128, got {words!r}")
        if name in choices:
            raise SpecError(f"sensitivity: each choice once, got {name!r} twice")
        choices[name] = _values(name, values) if equals else None
    return choices


def _values(name: str, values: str) -> list[Value]:
    found = [word.strip() for word in values.split(":")]
    if not all(found):
        raise SpecError(f"{name}: values separated by colons, as in {name}=64:128, got {values!r}")
    return [None if word == "none" else word for word in found]


def run(
    specs: tuple[Task, Model, Training],
    words: str,
    options: Mapping[str, Any],
    *,
    figure: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Measure base and variations, print them, and draw the figure if one is asked for.

    Args:
        words: the choices to vary.
        options: of `capax.sensitivity`.

    Raises:
        SpecError: for choices that are not allowed.
        ReportError: for a figure that cannot be written, before anything is trained.
    """
    choices = parse(words)
    if figure is not None:
        resolve("capax.figures.drawing:check_writable")(figure, "figure")
    found = capax.sensitivity(
        *specs, choices=choices, announce=lambda name: progress.training(hidden=quiet, label=name), **options
    )
    if figure is not None:
        _draw(found, figure)
    output.emit(found, show, as_json=as_json, quiet=quiet, figure=figure)


def _draw(found: Sensitivity, path: Path) -> None:
    size = f"protocol {found.spec.protocol.protocol}, library of {found.library_size}, seed {found.spec.seed}"
    resolve("capax.figures.tornado:draw_tornado")(found, path, f"{measurement.setting(found.spec)}; {size}")


def show(found: Sensitivity) -> None:
    """Print the base, a block of lines per choice, and when a change counts."""
    budget = found.compared == "total_key_dim"
    what = "D_K*" if budget else "above chance"
    screen = output.console()
    protocol = found.spec.protocol
    screen.print(f"{measurement.setting(found.spec)}; protocol {protocol.protocol}, seed {found.spec.seed}")
    if budget:
        base = f"{what} {_number(found.number)}"
    else:
        base = f"{_number(found.number)} {what} ({found.memorized} of {found.library_size}, {found.chance:.4g} by luck)"
    screen.print(f"base: {base}{_range(found)}")
    if protocol.one_library:
        screen.print(
            f"{measurement.ended(found.stop_reason, found.spec.training)}; an alternative that ended otherwise says so"
        )
    screen.print()
    table = Table(box=None, pad_edge=False)
    table.add_column("choice", overflow="fold")
    for name in (what, "change"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("noise", no_wrap=True)
    table.add_column("used by")
    for one in found.choices:
        table.add_row(one.choice, style="bold")
        table.add_row(f"  {text(one.base_value)}", _number(found.number), "", "base", _sources(one.base_sources))
        for other in one.alternatives:
            otherwise = protocol.one_library and other.stop_reason != found.stop_reason
            ended = f"; {other.stop_reason}" if otherwise else ""
            table.add_row(
                f"  {text(other.value)}",
                _number(other.number),
                _change(other),
                f"{_verdict(other)}{ended}",
                _sources(other.sources),
            )
    screen.print(table)
    screen.print(f"\n{found.noise}")
    output.show_notes(found.notes)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _range(found: Sensitivity) -> str:
    if found.interval is None:
        return ""
    return f"; {found.interval.level:.0%} interval {found.interval.ends()}"


def _change(other: Alternative) -> str:
    if other.change is None:
        return ""
    share = "" if other.relative_change is None else f" ({other.relative_change:+.0%})"
    return f"{other.change:+.4g}{share}"


def _verdict(other: Alternative) -> str:
    if other.same_training:
        return "same training"
    return {True: "beyond", False: "within", None: "unknown"}[other.beyond_noise]


def _sources(sources: tuple[Source, ...]) -> str:
    """First authors; the papers are in docs/sensitivity.md."""
    named = [
        one.paper.split()[0] + ("" if one.standing == "read" else f" ({one.standing})") for one in sources if one.paper
    ]
    return ", ".join(named) or ("ours" if sources else "")
