"""Sentences of captions, from what a chart shows."""

from __future__ import annotations

from collections.abc import Sequence

from capax.figures.expectations import about
from capax.figures.lines import FEWEST_RESTARTS, Shown, reached
from capax.results import Measurement
from capax.text import counted


def counts(shown: Shown) -> str:
    """How counts were made, and what dots are."""
    mean = "" if _alone(shown) else f", the mean of {_seeds(shown)}"
    dots = any(series.kind == "points" and series.faint for panel in shown.panels for series in panel.series)
    how = shown.group.runs[0].spec.protocol.words()
    return f"Count: {how}{mean}{'; dots: each restart' if dots else ''}.{at_their_budget(shown.group.runs)}"


def at_their_budget(runs: Sequence[Measurement]) -> str:
    """How many runs are no capacities since their trainings ended, with a space before it; empty where none is."""
    ended = sum(
        run.stop_reason == "budget" and run.capacity is None and run.spec.protocol.one_library and not run.whole
        for run in runs
    )
    if not ended:
        return ""
    which = (
        f"{ended} of {counted(len(runs), 'run')} ended at a budget" if len(runs) > 1 else "The run ended at its budget"
    )
    return f" {which}: longer training may recall more."


def exhausted(shown: Shown) -> str:
    """How many runs recalled all that there was, so that what they could hold is not shown; empty where none did."""
    runs = shown.group.runs
    whole = sum(run.whole for run in runs)
    return (
        f"{whole} of {counted(len(runs), 'run')} recalled all there was: a lower bound of what they hold."
        if whole
        else ""
    )


def means(shown: Shown) -> str:
    """Of how many seeds points are the means, where they are."""
    return "" if _alone(shown) else f"Means of {_seeds(shown)}."


def _alone(shown: Shown) -> bool:
    """Whether no two runs differ in their seeds alone."""
    return shown.group.seeds[-1] == 1


def _seeds(shown: Shown) -> str:
    fewest, *_, most = (*shown.group.seeds, shown.group.seeds[-1])
    return f"{most} seeds" if fewest == most else f"{fewest} to {most} seeds"


def bars(shown: Shown) -> str:
    """What bars are, or why there are none."""
    lines = [series for panel in shown.panels for series in panel.series if series.kind == "line"]
    most = shown.group.seeds[-1]
    if not any(end is not None for series in lines for end in series.low or ()):
        return f"No intervals: fewer than {FEWEST_RESTARTS} {'restarts' if most == 1 else 'seeds'}."
    best = "prediction intervals for the best of as many new restarts on the same library"
    if most < FEWEST_RESTARTS:
        return f"Bars: 95 % {best}."
    restarts = any(len(run.memorized_per_restart) >= FEWEST_RESTARTS for run in shown.group.runs)
    alone = f"; of one seed, {best}" if shown.group.seeds[0] == 1 and restarts else ""
    return f"Bars: 95 % intervals of the mean over seeds (Student's t){alone}."


def limited(shown: Shown) -> str:
    """What the lines of `limits` are."""
    sizes = sorted({run.library_size for run in shown.group.runs})
    size = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    whole = "solid grey: the whole library" if reached(shown.rows) else f"the library of {size} is beyond the axis"
    return f"Dotted grey: recalled by chance; {whole}."


def by_law(shown: Shown) -> str:
    """What the law is, and of which lines, or why it is not drawn."""
    bands = [series.name for panel in shown.panels for series in panel.series if series.kind == "band"]
    said = about(shown.law, shown.group.runs, bool(bands))
    lines = [series for panel in shown.panels for series in panel.series if series.kind == "line"]
    long = [line for line in lines if len(set(line.x)) > 1]  # a law is drawn along a line
    without = dict.fromkeys(line.name for line in long if f"law, {line.name}" not in bands)
    return f"{said} Not of {', '.join(without)}, outside its domain." if bands and without else said


def same(shown: Shown) -> str:
    """What all panels have."""
    return f"All have {shown.same}." if shown.same else ""


def left_out(shown: Shown) -> str:
    """Which panels are shown, where there is no room for all."""
    count = len(shown.panels)
    return f"{count} of {count + shown.left_out} panels, those of most points." if shown.left_out else ""
