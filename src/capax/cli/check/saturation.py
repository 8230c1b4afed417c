"""`capax check saturation`: which heads of a kept attention layer attend to one token alone, on which examples."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter
from rich.table import Table

from capax import outputs
from capax.checks.saturation import Saturation, saturated
from capax.checks.saturation import saturation as split
from capax.cli import output
from capax.cli.flags import Json
from capax.errors import CapaxError
from capax.figures.drawing import check_writable, draw
from capax.figures.saturation import chart
from capax.memory import load


def saturation(
    key: str,
    *,
    store: Path = Path("capax.db"),
    threshold: float = 0.99,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    figure: Path | None = None,
    as_json: Json = False,
) -> None:
    """How the examples that a layer learned split among its heads (measured with --keep-weights).

    Parameters
    ----------
    key
        Key of the run on associations, or its beginning.
    store
        SQLite file that the run was stored in.
    threshold
        A head saturates on an example where its largest weight is above this.
    out
        Where to write the map: a .npy array of heads x examples, true where a head saturates.
    figure
        Where to draw it (.png, .pdf or .svg).
    """
    if out is not None:
        if out.suffix != ".npy":
            raise CapaxError(f"out: a .npy file, got {out}")
        outputs.check(out, ours=(b"\x93NUMPY", "array"))
    if figure is not None:
        check_writable(figure, "figure")
    memory = load(key, store)
    attend = getattr(memory, "attention", None)
    if attend is None:
        raise CapaxError(f"key: run {memory.run.key[:12]} learned {memory.run.spec.task.task}, not associations")
    attention = attend()
    found = split(attention, threshold=threshold)
    if out is not None:
        content = BytesIO()
        np.save(content, saturated(attention, threshold))
        outputs.write(out, content.getvalue())
    if figure is not None:
        draw(chart(found, saturated(attention, threshold), memory.run), figure, "figure")
    output.emit(found, _show, as_json=as_json, figure=figure, map=out)


def _show(found: Saturation) -> None:
    screen = output.console()
    screen.print(f"{found.n_examples} examples; a head saturates where its largest weight is above {found.threshold:g}")
    table = Table(box=None, pad_edge=False)
    for name in ("head", "saturates on", "share", "alone unsaturated"):
        table.add_column(name, justify="right", no_wrap=True)
    for head in found.heads:
        table.add_row(str(head.head), str(head.saturated), f"{head.share:.0%}", str(head.alone))
    screen.print(table)
    each = ", ".join(f"{heads}: {count}" for heads, count in enumerate(found.examples_by_heads) if count)
    screen.print(f"examples by the number of heads that saturate: {each}")
