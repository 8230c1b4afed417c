"""`capax verify`: whether what a file claims of its weights holds."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from capax.cli import output
from capax.cli.flags import Json
from capax.errors import ClaimFailed
from capax.text import counted
from capax.theory.claims.verify import Check, Verified
from capax.theory.claims.verify import verify as verified


def verify(file: Path, /, *, as_json: Json = False) -> None:
    """Recompute what a file claims of its weights, from the data and the weights in it.

    Exits with 1 if the claim does not hold. Outputs and scores are those of the plain definition, in float64;
    docs/verify.md has the same in twenty lines of numpy.

    Parameters
    ----------
    file
        A .safetensors file of `capax construct … --save` or `capax runs save`.
    """
    found = verified(file)
    output.emit(found, _show, as_json=as_json)
    if not found.holds:
        raise ClaimFailed(f"verify: the claim does not hold: {'; '.join(map(_said, found.failed))}")


def _said(check: Check) -> str:
    return f"{check.name} {_number(check.claimed)} is claimed, and is {_number(check.recomputed)}"


def _show(found: Verified) -> None:
    screen, sizes = output.console(), found.sizes
    heads = f"{counted(sizes['n_heads'], 'head')} of {sizes['d_head']}, width {sizes['d_model']}"
    data = (
        f"{sizes['n_items']} items, {counted(sizes['n_edges'], 'edge')}"
        if found.task == "relations"
        else f"{sizes['library_size']} examples, contexts of {sizes['context_size']} tokens"
    )
    screen.print(f"{found.task}: {data}; {heads}")
    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in ("claimed", "recomputed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for check in found.checks:
        verdict = "holds" if check.holds else "does not hold"
        verdict += f" (allowed: {_number(check.allowed)})" if check.allowed is not None else ""
        table.add_row(check.name, _number(check.claimed), _number(check.recomputed), verdict)
    screen.print(table)
    if any(check.name == "tolerance" for check in found.checks):
        screen.print(
            "tolerance: within it each number of a recalled label lies; recomputed is that of one answer for all"
        )
    screen.print("The claim holds." if found.holds else "The claim does not hold.")


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
