"""What a figure shows, as plain data."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from capax.errors import ReportError
from capax.laws.domain import OutsideDomainWarning
from capax.laws.law import Law
from capax.measures.choices import text
from capax.measures.sensitivity import Compared, Sensitivity
from capax.planning.candidates import choices, model, rows, vocabulary
from capax.results import Interval, Measurement
from capax.specs import Mac, Sequences, Transformer


@dataclass(frozen=True)
class WidthLine:
    """Memorized items against width, for one length and one number of heads (Härmä et al. 2024, Fig. 7).

    Attributes:
        widths: d_model, rising; the other columns follow it.
        memorized: best of the restarts.
        restarts: the counts of all restarts.
        chance: lucky guesses to expect.
        library_size: items that were to be remembered: no count can be higher.
    """

    seq_len: int
    n_heads: int
    widths: tuple[int, ...]
    memorized: tuple[int, ...]
    restarts: tuple[tuple[int, ...], ...]
    chance: tuple[float, ...]
    library_size: tuple[int, ...]


def memorized_against_width(runs: Iterable[Measurement]) -> list[WidthLine]:
    """One line per (seq_len, n_heads), in that order. The runs, of sequences, differ in nothing else but d_model."""
    lines: dict[tuple[int, int], list[tuple[int, Measurement]]] = defaultdict(list)
    for run in runs:
        assert isinstance(run.spec.task, Sequences)
        assert isinstance(run.spec.model, Transformer)
        lines[run.spec.task.seq_len, run.spec.model.n_heads].append((run.spec.model.d_model, run))
    result = []
    for (seq_len, n_heads), group in sorted(lines.items()):
        widths, points = zip(*sorted(group, key=lambda point: point[0]), strict=True)
        result.append(
            WidthLine(
                seq_len,
                n_heads,
                widths,
                tuple(run.memorized for run in points),
                tuple(run.memorized_per_restart for run in points),
                tuple(run.chance for run in points),
                tuple(run.library_size for run in points),
            )
        )
    return result


@dataclass(frozen=True)
class ParameterLine:
    """Expected capacity against trainable parameters, for one number of heads (Härmä et al. 2024, Fig. 11).

    Attributes:
        widths: d_model, rising; the other columns follow it.
        trainable_parameters: of the transformer of that width.
        memorized: items that the law expects it to memorize.
        inside_domain: whether the law was fitted there.
    """

    n_heads: int
    widths: tuple[int, ...]
    trainable_parameters: tuple[int, ...]
    memorized: tuple[float, ...]
    inside_domain: tuple[bool, ...]


def capacity_against_parameters(
    law: Law, seq_len: int, n_heads: Sequence[int] | None = None, d_model: Sequence[int] | None = None
) -> list[ParameterLine]:
    """One line per head count: what the law expects of growing widths; heads and widths are the domain's by default."""
    heads, widths = choices("n_heads", n_heads, law), choices("d_model", d_model, law)
    lines = []
    for number in heads:
        table = rows([model(law, None, number, width) for width in widths], seq_len, vocabulary(law, None))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideDomainWarning)
            memorized = law.predict(table)
        lines.append(
            ParameterLine(
                number,
                tuple(widths),
                tuple(table["trainable_parameters"].tolist()),
                tuple(memorized.tolist()),
                tuple(law.inside_domain(table).tolist()),
            )
        )
    return lines


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
