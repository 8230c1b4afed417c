"""The share of linearly independent subsets of queries against their size (Mahdavi et al. 2024, Fig. 1), as data."""

from __future__ import annotations

from capax.checks.assumptions import AssumptionReport
from capax.figures.chart import Axis, Chart, Panel, Series


def chart(found: AssumptionReport) -> Chart:
    """A line for each representation; the sizes of A1 and of general position are marked."""
    most = min(found.library_size, found.d_model)
    ticks = tuple(float(2**power) for power in range(most.bit_length()))
    lines = tuple(
        Series(
            name=one.name,
            kind="line",
            x=tuple(point.size for point in one.curve),
            y=tuple(point.independent_share for point in one.curve),
            low=tuple(point.interval[0] for point in one.curve),
            high=tuple(point.interval[1] for point in one.curve),
            texts=tuple(f"{point.tested - point.dependent} of {point.tested}" for point in one.curve),
            group=place,
        )
        for place, one in enumerate(found.representations)
    )
    marks = tuple(
        Series(name=f"k = {size} ({of})", kind="reference", x=(size, size), y=(0.0, 1.0), group=len(lines) + place)
        for place, (size, of) in enumerate(
            (
                (min(found.context_size, most), "n: A1"),
                (most, "d: general position" if most == found.d_model else "all"),
            )
        )
    )
    return Chart(
        name="independence",
        title=f"Independent subsets of {found.library_size} queries",
        caption=f"Share of subsets of k queries that are linearly independent, against k; {found.source}. "
        f"n = {found.context_size} tokens in a context, d = {found.d_model} channels. Bars: 95 % of the sampled share "
        f"(Clopper-Pearson); none where every subset is known. {found.tolerance[0].upper()}{found.tolerance[1:]}. "
        "The bound of Mahdavi et al. 2024 needs every subset of n queries to be independent (A1).",
        panels=(
            Panel(
                x=Axis(label="queries in a subset, k", log=2, ticks=ticks),
                y=Axis(label="share of independent subsets", from_zero=True),
                series=(*lines, *marks),
            ),
        ),
    )
