"""What a figure shows, as plain data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from capax.results import Measurement


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
    """One line per (seq_len, n_heads), in that order. The runs are to differ in nothing else but d_model."""
    lines: dict[tuple[int, int], list[Measurement]] = defaultdict(list)
    for run in runs:
        lines[run.spec.task.seq_len, run.spec.model.n_heads].append(run)
    result = []
    for (seq_len, n_heads), group in sorted(lines.items()):
        points = sorted(group, key=lambda run: run.spec.model.d_model)
        result.append(
            WidthLine(
                seq_len,
                n_heads,
                tuple(run.spec.model.d_model for run in points),
                tuple(run.memorized for run in points),
                tuple(run.memorized_per_restart for run in points),
                tuple(run.chance for run in points),
                tuple(run.library_size for run in points),
            )
        )
    return result
