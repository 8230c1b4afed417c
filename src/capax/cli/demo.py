"""`capax demo`: a small real study, trained on the spot."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Annotated

import capax
from capax import machine
from capax.cli import output
from capax.cli.flags import Flag
from capax.errors import printable
from capax.figures.declared import WIDTH_FIGURE
from capax.figures.drawing import check_writable, draw
from capax.store.schema import Summary
from capax.training.workers import Workers


def demo(
    *,
    quick: Annotated[bool, Flag] = False,
    store: Path = Path("capax-demo.db"),
    figure: Path = Path("capax-demo.png"),
    fresh: Annotated[bool, Flag] = False,
) -> None:
    """Measure a small grid over heads, width and length; print the table and draw it (under 3 minutes on two cores).

    Parameters
    ----------
    quick
        A smaller grid, in seconds.
    store
        SQLite file of finished runs; a cell that is there is not trained again.
    figure
        Where to draw memorized against width (PNG).
    fresh
        Train every cell again.
    """
    lengths, heads, widths = ((8,), (1, 2), (8, 16)) if quick else ((4, 8, 16), (1, 2), (16, 32, 64))
    library_size = 200 if quick else 1000
    training = capax.Training(max_epochs=60 if quick else 120)
    check_writable(figure, "figure")
    runs = []
    cells = list(product(lengths, heads, widths))
    with capax.Store(store) as opened, Workers(min(machine.cores(), 2)) as workers:
        for number, (seq_len, n_heads, d_model) in enumerate(cells, start=1):
            label = f"{number}/{len(cells)}: {n_heads} head{'s' * (n_heads > 1)}, width {d_model}, {seq_len} tokens"
            with output.progress_bar(label=label) as progress:
                run = capax.measure(
                    capax.Sequences(seq_len=seq_len, library_size=library_size),
                    capax.Transformer(n_heads=n_heads, d_model=d_model),
                    training,
                    restarts=2,
                    store=opened,
                    fresh=fresh,
                    device="cpu",
                    workers=workers,
                    progress=progress,
                )
            runs.append(run)
    output.show_runs([Summary.of(run) for run in runs])
    title = (
        f"Sequences memorized of {library_size}: one layer, vocabulary 100, loss on all positions, "
        f"best of 2 restarts, {training.max_epochs} epochs at most"
    )
    (chart,) = WIDTH_FIGURE.shown(runs)
    draw(chart.model_copy(update={"title": title}), figure, "figure")
    print(f"\n{title}.\nRuns: {printable(store)}. Figure: {printable(figure)}.")
