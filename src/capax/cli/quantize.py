"""`capax quantize`: what kept weights remember when they are rounded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import capax
from capax.cli import measurement, output
from capax.cli.flags import Flag, Json
from capax.cli.numbers import integers
from capax.cli.path import search_here
from capax.figures.drawing import check_writable, draw
from capax.figures.quantization import quantization
from capax.probes.quantization import Mean, Precision, Quantization
from capax.store import DEFAULT
from capax.text import amount


def quantize(
    *keys: str,
    bits: str = "8,7,6,5,4,3,2",
    group: int = 32,
    store: Path = DEFAULT,
    trust: Annotated[bool, Flag] = False,
    figure: Path | None = None,
    as_json: Json = False,
) -> None:
    """Round kept weights to few bits, count again what they remember, and say what a byte of their file holds.

    Parameters
    ----------
    keys
        Keys of runs that were measured with --keep-weights and differ in their seed alone, or their beginnings. All
        restarts count.
    bits
        Bits of an integer, 2 to 16, separated by commas; each is tried with one step for a tensor and with one for
        each group.
    group
        Consecutive weights along the inputs that share a step.
    store
        SQLite file that the runs were stored in.
    trust
        Of runs of a module: import it, which runs its code, if its source is the one that was measured.
    figure
        Where to draw it (.png, .svg, .pdf).
    """
    if figure is not None:
        check_writable(figure, "figure")
    if trust:
        search_here()
    found = capax.quantize(keys, bits=integers("bits", bits), group=group, store=store, trust=trust)
    if figure is not None:
        draw(quantization([found]), figure, "figure")
    output.emit(found, _show, as_json=as_json, figure=figure)


def _show(found: Quantization) -> None:
    screen = output.console()
    keys = ", ".join(key[:12] for key in found.keys)
    screen.print(f"{measurement.setting(found.spec)}; run{'s' * (len(found.keys) > 1)} {keys}")
    networks = f"mean of {found.networks} networks" if found.networks > 1 else "one network"
    screen.print(
        f"{networks}, {found.library_size} items, {found.trainable_parameters} trained numbers; intervals: "
        f"{found.level:.0%}"
    )
    rows = found.precisions
    columns = {
        "weights": [row.name for row in rows],
        "step for": [_steps(row) for row in rows],
        "bytes": [str(row.file_bytes) for row in rows],
        "bits/number": [f"{row.file_bits_per_parameter:.2f}" for row in rows],
        "items": [f"{row.items.value:.4g}" for row in rows],
        "bits": [amount(row.bits.value) for row in rows],
        "left": ["–" if row.left is None else f"{row.left.value:.1%}" for row in rows],
        "left interval": [_ends(row.left, ".1%") for row in rows],
        "bits/byte": [f"{row.bits_per_byte.value:.3f}" for row in rows],
        "byte interval": [_ends(row.bits_per_byte, ".3f") for row in rows],
    }
    spare = ("left interval", "items", "bits/number", "byte interval")
    kept = output.show_lines(columns, words=("weights", "step for"), spare=spare)
    output.tell_narrow(columns, kept)
    screen.print(
        f"bytes: of all that was trained, each step in {found.step_bits} bits; vectors (gains, biases) stay as they are"
    )
    screen.print(_verdict(found))
    output.show_notes(found.notes)


def _verdict(found: Quantization) -> str:
    """At which precision a byte holds most."""
    best = found.precisions[found.most]
    said = f"A byte of the file holds most as {_named(best)}: {best.bits_per_byte.value:.3g} bits"
    if not best.bits_per_byte.value:
        return "Nothing is known, whatever the weights are written in."
    if found.alike:
        said += f"; not significantly less: {', '.join(_named(found.precisions[place]) for place in found.alike)}"
    return f"{said}."


def _named(row: Precision) -> str:
    return row.name if row.bits_per_weight >= 16 and row.group is None else f"{row.name} ({_steps(row)})"


def _steps(row: Precision) -> str:
    if not row.name.startswith("int"):
        return "–"
    return "a tensor" if row.group is None else f"{row.group} weights"


def _ends(found: Mean | None, form: str) -> str:
    if found is None or found.interval is None:
        return "–"
    return found.interval.ends(lambda end: format(end, form))
