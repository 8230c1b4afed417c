"""The figures that capax draws, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capax.errors import ReportError
from capax.laws.law import Law
from capax.reports import adler, adler_f1, harma, mahdavi, theory
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
    "f1": Figure("F1 against total key dimension", "Adler 2025, Fig. 1", adler_f1.f1),
    "best-heads": Figure("best number of heads", "Adler 2025, Fig. 2", adler.best_heads),
    "key-dimension": Figure("D_K* against the law", "Adler 2025, Fig. 3", adler.key_dimension),
    "fixed-compression": Figure("D_K* at fixed compression", "Adler 2025, Fig. 4", adler.fixed_compression),
    "key-dimension-map": Figure("map of D_K*", "Adler 2025, Fig. 5", adler.key_dimension_map),
    "accuracy-heads": Figure("share recalled against heads", "Mahdavi et al. 2024, Fig. 2", mahdavi.accuracy_heads),
    "accuracy-context": Figure(
        "share recalled against context size", "Mahdavi et al. 2024, Fig. 2", mahdavi.accuracy_context
    ),
    "accuracy-head-size": Figure(
        "share recalled against head size", "Mahdavi et al. 2024, Fig. 2", mahdavi.accuracy_head_size
    ),
    "bounds": Figure("every bound in bits, beside what was measured", "capax", theory.bounds),
}


def charts(name: str, runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """The charts of a figure.

    Raises:
        ReportError: for an unknown figure, or when the runs cannot be shown in it.
    """
    if name not in FIGURES:
        raise ReportError(f"figure: one of {', '.join(FIGURES)}, got {name!r}")
    return FIGURES[name].shown(runs, law)
