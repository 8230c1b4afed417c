"""`capax demo`: what small networks can hold, trained to convergence on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import capax
from capax import machine
from capax.cli import output
from capax.cli.flags import Flag
from capax.cli.sweep import progress_bar
from capax.errors import printable
from capax.figures.capacity import PUBLISHED_IN_WORDS, bits_by_parameters, per_parameter
from capax.figures.drawing import check_writable, draw
from capax.results import Measurement

CELLS = tuple(
    (capax.Sequences(seq_len=length), capax.Transformer(d_model=width, n_heads=heads, d_head=size))
    for width, heads, size, length in (
        (8, 1, 8, 8),
        (8, 4, 8, 8),
        (12, 1, 12, 8),
        (12, 2, 12, 16),
        (16, 1, 16, 8),
        (16, 2, 8, 8),
    )
)
"""Networks that differ in width, heads, head size and length."""
QUICK = tuple(
    (capax.Sequences(seq_len=4, vocab_size=16), capax.Transformer(d_model=width, d_head=4)) for width in (4, 6)
)
QUICK_TRAINING = capax.Training(schedule="cycles", cycle_steps=10, cycle_tolerance=0.3, max_steps=310)


def demo(
    *,
    quick: Annotated[bool, Flag] = False,
    store: Path = Path("capax-demo.db"),
    figure: Path = Path("capax-demo.png"),
    fresh: Annotated[bool, Flag] = False,
) -> None:
    """Measure what six small networks can hold; print the table and draw it (under 3 minutes on two cores).

    Parameters
    ----------
    quick
        Two tiny networks, in seconds.
    store
        SQLite file of finished runs; a network that is there is not trained again.
    figure
        Where to draw bits against effective parameters (PNG).
    fresh
        Train every network again.
    """
    check_writable(figure, "figure")
    training = QUICK_TRAINING if quick else capax.Training()
    asked = [
        capax.Run(task=task, model=model, training=training, protocol=capax.Capacity())
        for task, model in (QUICK if quick else CELLS)
    ]
    # The longest first: then two processes end at about the same time.
    asked.sort(key=lambda run: -run.model.effective_parameters(**run.task.sizes()))
    if fresh:
        with capax.Store(store) as opened:
            for run in asked:
                opened.delete(run.key())
    workers = min(machine.cores(), 2)
    with progress_bar(hidden=False) as (show, _):
        found = capax.sweep(asked, store, workers=workers, device="cpu", keep_going=False, progress=show)
        runs = sorted(found, key=per_parameter)
    _show(runs)
    (chart,) = bits_by_parameters(runs, None)
    draw(chart, figure, "figure")
    print(f"\n{PUBLISHED_IN_WORDS}\nRuns: {printable(store)}. Figure: {printable(figure)}.")


def _show(runs: Sequence[Measurement]) -> None:
    """One line per network: what it is, how many bits it holds, and the bits per effective parameter."""
    found = [(run, run.capacity) for run in runs if run.capacity is not None]
    ends = [(None, None) if held.interval is None else (held.interval.low, held.interval.high) for _, held in found]
    columns = {
        "network": [run.spec.model.words() for run in runs],
        "items": [run.spec.task.items for run in runs],
        "trained": [str(run.parameters.trainable) for run in runs],
        "effective": [str(per_parameter(run)) for run in runs],
        "bits": [
            f"{held.bits:.0f} or more" if held.extrapolated is None else f"{held.extrapolated:.0f}" for _, held in found
        ],
        "bits/eff.": [f"{held.per_effective_parameter:.2f}" for _, held in found],
        "interval": [
            "not converged"
            if low is None or high is None
            else f"{low / per_parameter(run):.2f}–{high / per_parameter(run):.2f}"
            for (run, _), (low, high) in zip(found, ends, strict=True)
        ],
        "seconds": [f"{run.seconds:.1f}" for run in runs],
    }
    output.show_lines(columns, words=("network", "items"), spare=("seconds", "trained", "items"))
