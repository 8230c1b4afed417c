"""The figure of a memory's probes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from capax.figures.chart import Axis, Chart, Panel, Place, Series
from capax.probes.probe import Probes
from capax.probes.shares import Share

NAMED_HEADS = 16
"""Heads that have room for their names."""
CHANCE = "by chance"


def probes(found: Probes) -> Chart:
    """Recall against cue and corruption, symmetry of heads, recall without each head and token, gradient noise."""
    panels = (_cue, _corruption, _symmetry, _heads, _positions, *([_noise] if found.gradient_noise else []))
    return Chart(
        name="probes",
        title=f"Run {found.key[:12]}: {found.recalled} of {found.library_size} {found.spec.task.unit} recalled",
        caption=f"What each probe is: docs/probes.md. Bars: {found.level:.0%} intervals. Symmetry η: 1 where W_Q W_Kᵀ "
        "is symmetric, −1 where it is antisymmetric; of random matrices the mean and two standard deviations.",
        panels=tuple(panel(found) for panel in panels),
        share_y=False,
    )


def _cue(found: Probes) -> Panel:
    points, items = found.cue.points, found.cue.items
    lengths = tuple(point.length for point in points)

    def line(name: str, kind: str, of: Callable[..., float], group: int) -> Series:
        return Series(name=name, kind=kind, x=lengths, y=tuple(map(of, points)), group=group)  # type: ignore[arg-type]

    return Panel(
        title="cue",
        x=Axis(label="first tokens given"),
        y=Axis(label=f"share of {items} items, of tokens", from_zero=True),
        series=(
            _shares("whole rest right", lengths, [point.recalled for point in points], 0),
            line("wrong tokens in the rest", "line", lambda point: point.error, 1),
            line("possible for any predictor", "reference", lambda point: point.possible / items, 0),
            line(CHANCE, "reference", lambda point: point.chance, 1),
            *_upright("median minimum cue", found.cue.median),
        ),
    )


def _corruption(found: Probes) -> Panel:
    points = found.basin.points
    places = tuple(point.corrupted for point in points)
    whole = [point.whole for point in points if point.whole is not None]
    return Panel(
        title="corruption",
        x=Axis(label="corrupted tokens of the prefix"),
        y=Axis(label="share of trials", from_zero=True),
        series=(
            _shares("last token right", places, [point.last for point in points], 2),
            *([_shares("every token right", places, whole, 3)] if whole else []),
            _across(CHANCE, places, found.basin.chance),
            *_upright("radius", found.basin.radius),
        ),
    )


def _symmetry(found: Probes) -> Panel:
    symmetry = found.symmetry
    x, places = _named([(head.layer, head.head) for head in symmetry.heads])
    number, spread = len(places), 2 * symmetry.random_deviation
    return Panel(
        title="symmetry of W_Q W_Kᵀ",
        x=x,
        y=Axis(label="symmetry η"),
        series=(
            Series(
                name="random",
                kind="band",
                x=places,
                y=(symmetry.random,) * number,
                low=(max(symmetry.random - spread, -1.0),) * number,
                high=(min(symmetry.random + spread, 1.0),) * number,
                group=6,
            ),
            Series(name="untrained", kind="points", x=places, y=tuple(h.initial for h in symmetry.heads), group=4),
            Series(name="trained", kind="points", x=places, y=tuple(h.eta for h in symmetry.heads), group=5),
        ),
    )


def _heads(found: Probes) -> Panel:
    heads = found.ablation.heads
    x, places = _named([(head.layer, head.head) for head in heads])
    return _ablation(found, "one head removed", x, places, [head.kept for head in heads], "items")


def _positions(found: Probes) -> Panel:
    positions = found.ablation.positions
    places = tuple(one.position for one in positions)
    return _ablation(
        found, "one token replaced", Axis(label="position"), places, [one.kept for one in positions], "trials"
    )


def _noise(found: Probes) -> Panel:
    noise = found.gradient_noise
    assert noise is not None
    states = {"untrained": noise.initial, "trained": noise.trained}
    known = {name: one for name, one in states.items() if one is not None and one.scale is not None}
    return Panel(
        title="gradient noise",
        x=Axis(label="weights"),
        y=Axis(label="noise scale tr(Σ)/|G|², items", log=10),
        series=(
            Series(
                name="noise scale",
                kind="points",
                x=tuple(known),
                y=tuple(one.scale for one in known.values()),
                low=tuple(one.low or None for one in known.values()),
                high=tuple(one.high for one in known.values()),
                group=3,
            ),
            Series(
                name=f"batch of the training: {noise.batch_size}",
                kind="reference",
                x=tuple(known),
                y=(float(noise.batch_size),) * len(known),
                group=3,
            ),
        ),
    )


def _ablation(found: Probes, title: str, x: Axis, places: Sequence[Place], shares: Sequence[Share], of: str) -> Panel:
    kept = _shares("still recalled", places, shares, 6, "points")
    y = Axis(label=f"share of {of} still recalled", from_zero=True)
    return Panel(title=title, x=x, y=y, series=(kept, _across(CHANCE, places, found.ablation.chance)))


def _shares(name: str, x: Sequence[Place], shares: Sequence[Share], group: int, kind: str = "line") -> Series:
    return Series(
        name=name,
        kind=kind,  # type: ignore[arg-type]
        x=tuple(x),
        y=tuple(one.rate for one in shares),
        low=tuple(one.low for one in shares),
        high=tuple(one.high for one in shares),
        group=group,
    )


def _across(name: str, x: Sequence[Place], level: float) -> Series:
    return Series(name=name, kind="reference", x=tuple(x), y=(level,) * len(x), group=1)


def _upright(name: str, x: float | None) -> list[Series]:
    """A line at a place, where there is one."""
    return [] if x is None else [Series(name=f"{name}: {x:g}", kind="reference", x=(x, x), y=(0, 1), group=2)]


def _named(heads: Sequence[tuple[int, int]]) -> tuple[Axis, tuple[Place, ...]]:
    """The axis of heads and their places on it: their names, as far as there is room."""
    if len(heads) > NAMED_HEADS:
        return Axis(label="heads, layer by layer"), tuple(range(1, len(heads) + 1))
    return Axis(label="layer.head"), tuple(f"{layer}.{head}" for layer, head in heads)
