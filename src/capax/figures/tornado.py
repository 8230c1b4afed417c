"""What the figure of a sensitivity study shows, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from capax.errors import ReportError
from capax.measures.choices import text
from capax.measures.sensitivity import Compared, Sensitivity
from capax.results import Interval
from capax.specs import Mac


@dataclass(frozen=True)
class TornadoBar:
    """One choice: the alternatives that have a number.

    Attributes:
        base_value: what the base has, in words.
        values: of the alternatives, in words.
        numbers: theirs.
        beyond_noise: whether each differs from the base's by more than noise; None where that is not known.
        without_number: alternatives where no head size is enough.
        intervals: the alternatives' own, where verdicts rest on them (searches); None for an end that is not known.
    """

    choice: str
    base_value: str
    values: tuple[str, ...]
    numbers: tuple[float, ...]
    beyond_noise: tuple[bool | None, ...]
    without_number: tuple[str, ...] = ()
    intervals: tuple[tuple[float, float | None] | None, ...] = ()


@dataclass(frozen=True)
class Tornado:
    """How far a number moves with each choice, the widest first.

    Attributes:
        base: the number that is moved.
        band: the base's interval; its upper end is None where the data set none.
        level: of the interval.
    """

    compared: Compared
    base: float
    band: tuple[float, float | None] | None
    level: float | None
    bars: tuple[TornadoBar, ...]


def tornado(found: Sensitivity) -> Tornado:
    """The figure of a sensitivity study.

    Raises:
        ReportError: when the base has no number.
    """
    if found.number is None:
        raise ReportError("figure: nothing to draw, no head size is enough for the base")
    restarts = isinstance(found.spec.protocol, Mac)
    bars = []
    for one in found.choices:
        shown = [other for other in one.alternatives if other.number is not None]
        bars.append(
            TornadoBar(
                one.choice,
                text(one.base_value),
                tuple(text(other.value) for other in shown),
                tuple(other.number for other in shown if other.number is not None),
                tuple(other.beyond_noise for other in shown),
                tuple(text(other.value) for other in one.alternatives if other.number is None),
                () if restarts else tuple(_ends(other.interval) for other in shown),
            )
        )
    level = None if found.interval is None else found.interval.level
    return Tornado(found.compared, found.number, _ends(found.interval), level, tuple(bars))


def _ends(interval: Interval | None) -> tuple[float, float | None] | None:
    return None if interval is None else (interval.low, interval.high)
