"""The course of one run: the figure that its protocol fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from capax.figures import capacity, curves, shatter, trainings
from capax.figures.chart import Axis, Chart, Panel, Series
from capax.figures.drawing import drawn
from capax.laws.law import Law
from capax.results import Measurement, Search

SHOWN: dict[str, Callable[[Sequence[Measurement], Law | None], list[Chart]]] = {
    "mac": curves.training_curves,
    "capacity": capacity.convergence,
    "shatter": shatter.epochs_to_shatter,
    "budget": trainings.F1.shown,
    "mls": lambda runs, law: [_search(run, run.search) for run in runs if isinstance(run.search, Search)],
}


def plot(run: Measurement) -> Figure:
    """A run's course, drawn.

    Raises:
        ReportError: where there is none, as of trials of which none completed.
    """
    return drawn(SHOWN[run.spec.protocol.protocol]([run], None)[0])


def _search(run: Measurement, search: Search) -> Chart:
    """How much of libraries of different sizes was recalled, and the largest that is recalled whole."""
    sizes = tuple(float(member.library_size) for member in run.members)
    shares = tuple(member.memorized / member.library_size for member in run.members)
    found = float(run.memorized)
    return Chart(
        name="search",
        title=f"Share recalled of libraries of {len(set(sizes))} sizes",
        caption="Each point is a training on a library of its own. Dashed: the size of which half of the trainings "
        "recall the whole library.",
        panels=(
            Panel(
                x=Axis(label="size of the library"),
                y=Axis(label="share recalled", from_zero=True),
                series=(
                    Series(name="trainings", kind="points", x=sizes, y=shares),
                    Series(name=f"recalled whole: {run.memorized}", kind="reference", x=(found, found), y=(0.0, 1.0)),
                ),
            ),
        ),
    )
