"""`capax runs probe`: what a kept memory of sequences is like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.table import Table

import capax
from capax.cli import measurement, output
from capax.cli.flags import Json
from capax.figures.drawing import check_writable, draw
from capax.figures.probes import probes
from capax.memory import load
from capax.probes.basin import BasinPoint
from capax.probes.probe import Probes
from capax.probes.shares import Share
from capax.store import DEFAULT

ROWS = 12
"""Rows of a table at most: of longer curves it shows some, evenly spread; the JSON holds them all."""
Row = TypeVar("Row")


def probe(
    key: str,
    *,
    store: Path = DEFAULT,
    trials: int = 1000,
    seed: int = 0,
    figure: Path | None = None,
    as_json: Json = False,
) -> None:
    """Probe a kept memory: how much cue it needs, how much corruption it tolerates, and more.

    Parameters
    ----------
    key
        Key of a run on sequences that was measured with --keep-weights, or its beginning.
    store
        SQLite file that the run was stored in.
    trials
        Corrupted prefixes for each number of corrupted tokens, and replaced tokens for each position.
    seed
        Names the random draws of these trials.
    figure
        Where to draw the four probes (.png, .svg, .pdf).
    """
    if figure is not None:
        check_writable(figure, "figure")
    found = capax.probe(load(key, store), trials=trials, seed=seed)
    if figure is not None:
        draw(probes(found), figure, "figure")
    output.emit(found, _show, as_json=as_json, figure=figure)


def _show(found: Probes) -> None:
    screen = output.console()
    screen.print(f"{measurement.setting(found.spec)}; run {found.key[:12]}")
    counted = "" if found.recalled == found.memorized else f" ({found.memorized} when it was measured)"
    screen.print(f"{found.recalled} of {found.library_size} items recalled{counted}; intervals: {found.level:.0%}")
    _show_cue(found, screen)
    _show_basin(found, screen)
    _show_symmetry(found, screen)
    _show_ablation(found, screen)
    _show_noise(found, screen)
    output.show_notes(found.notes)


def _show_cue(found: Probes, screen: Console) -> None:
    cue = found.cue
    rows = [
        (
            str(point.length),
            f"{point.share:.0%}",
            str(point.possible),
            str(point.recalled.recalled),
            *_rate(point.recalled),
            f"{point.error:.1%}",
        )
        for point in _some(cue.points)
    ]
    names = ("cue", "share", "possible", "recalled", "rate", "interval", "wrong tokens")
    _table(
        screen,
        f"Cue: the first tokens given, the rest by the memory alone{_left_out(cue.points, 'lengths')}",
        names,
        rows,
    )
    if cue.median is None:
        screen.print("minimum cue: none, no item is recalled from its whole prefix")
    else:
        tokens = f"{cue.median:g} token{'s' * (cue.median != 1)}"
        screen.print(
            f"minimum cue: median {tokens} ({cue.median_share:.0%} of a sequence), "
            f"over the {cue.recalled} of {cue.items} items recalled from the whole prefix"
        )


def _show_basin(found: Probes, screen: Console) -> None:
    basin = found.basin
    if not basin.points:
        return
    whole = basin.points[0].whole is not None

    def row(point: BasinPoint) -> tuple[str, ...]:
        every = () if point.whole is None else _rate(point.whole)
        return str(point.corrupted), *_rate(point.last), *every

    names = ("corrupted", "last token", "interval", *(("every token", "interval") if whole else ()))
    title = f"Corruption: {found.trials} trials a row on the {basin.items} recalled items"
    _table(screen, title + _left_out(basin.points, "numbers"), names, [row(point) for point in _some(basin.points)])
    lucky = f"{basin.chance:.3g}" + (f" the last, {basin.chance_whole:.3g} every token" if whole else "")
    screen.print(
        f"radius: {'none' if basin.radius is None else basin.radius} of {basin.points[-1].corrupted} tokens, "
        f"the most up to which at least half are recalled; chance {lucky}"
    )


def _show_symmetry(found: Probes, screen: Console) -> None:
    symmetry = found.symmetry
    rows = [
        (str(head.layer), str(head.head), _signed(head.eta), _signed(head.initial), _signed(head.with_gains))
        for head in _some(symmetry.heads)
    ]
    names = ("layer", "head", "η", "before training", "with gains")
    title = "Symmetry: η of W_Q W_Kᵀ, 1 symmetric, -1 antisymmetric"
    _table(screen, title + _left_out(symmetry.heads, "heads"), names, rows)
    screen.print(f"random matrices: {symmetry.random:.3f} ± {symmetry.random_deviation:.3f} (standard deviation)")


def _show_ablation(found: Probes, screen: Console) -> None:
    ablation = found.ablation
    if not ablation.heads:
        return
    heads = [(str(one.layer), str(one.head), str(one.kept.recalled), *_rate(one.kept)) for one in _some(ablation.heads)]
    title = f"Ablation: one head removed, what is left of the {ablation.items} recalled items"
    _table(screen, title + _left_out(ablation.heads, "heads"), ("layer", "head", "left", "rate", "interval"), heads)
    rows = [(str(one.position), *_rate(one.kept)) for one in _some(ablation.positions)]
    title = f"Ablation: one position's token replaced, {found.trials} trials a row"
    _table(screen, title + _left_out(ablation.positions, "positions"), ("position", "rate", "interval"), rows)
    screen.print(f"chance: {ablation.chance:.3g}")


def _show_noise(found: Probes, screen: Console) -> None:
    noise = found.gradient_noise
    if noise is None:
        return
    exact = noise.items == found.library_size
    states = {"before training": noise.initial, "trained": noise.trained}
    rows = [
        (
            name,
            "–" if one.scale is None else f"{one.scale:.3g}",
            "exact" if exact else f"{one.low:.3g} to {'∞' if one.high is None else f'{one.high:.3g}'}",
            f"{one.noise:.3g}",
            f"{one.signal:.3g}",
        )
        for name, one in states.items()
        if one is not None
    ]
    of = f"all {noise.items}" if exact else f"{noise.items} of {found.library_size}"
    title = f"Gradient noise: tr(Σ)/|G|² of single items' gradients, {of} items"
    _table(screen, title, ("weights", "noise scale", "interval", "tr(Σ)", "|G|²"), rows)
    screen.print(f"batches of {noise.batch_size} in training; beyond the noise scale larger ones bring little")


def _table(screen: Console, title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    screen.print(f"\n{title}", style="bold")
    screen.print(table)


def _rate(share: Share) -> tuple[str, str]:
    return f"{share.rate:.1%}", f"{share.low:.1%} to {share.high:.1%}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"


def _some(rows: Sequence[Row]) -> list[Row]:
    """At most so many rows, the first and the last among them."""
    if len(rows) <= ROWS:
        return list(rows)
    return [rows[round(place * (len(rows) - 1) / (ROWS - 1))] for place in range(ROWS)]


def _left_out(rows: Sequence[object], what: str) -> str:
    return f" ({ROWS} of {len(rows)} {what})" if len(rows) > ROWS else ""
