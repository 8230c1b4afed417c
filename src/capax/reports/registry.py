"""The figures that capax draws, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capax.errors import ReportError
from capax.laws.law import Law
from capax.reports import harma
from capax.reports.chart import Chart
from capax.results import Measurement

Shown = Callable[[Sequence[Measurement], Law | None], list[Chart]]
"""From runs to charts, one for each kind of runs, the largest first; raises `ReportError` that says what it lacks."""


@dataclass(frozen=True)
class Figure:
    """A figure that runs may be shown in.

    Attributes:
        of: whose figure it is, in words; "capax" for ours.
    """

    title: str
    of: str
    shown: Shown


FIGURES: dict[str, Figure] = {
    "width": Figure("memorized against width", "Härmä et al. 2024, Fig. 7", harma.memorized_against_width),
}


def charts(name: str, runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """The charts of a figure.

    Raises:
        ReportError: for an unknown figure, or when the runs cannot be shown in it.
    """
    if name not in FIGURES:
        raise ReportError(f"figure: one of {', '.join(FIGURES)}, got {name!r}")
    return FIGURES[name].shown(runs, law)
