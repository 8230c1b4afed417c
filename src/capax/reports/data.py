"""What a figure shows, as plain data."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from capax.laws.domain import OutsideDomainWarning
from capax.laws.law import Law
from capax.planning.candidates import choices, model, rows, vocabulary
from capax.results import Measurement
from capax.specs import Sequences, Transformer


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
