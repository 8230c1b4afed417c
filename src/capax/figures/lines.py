"""What the figures of sequences have in common: measured lines, the law beside them, the library and luck."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from capax.errors import CapaxError, ReportError
from capax.figures import words
from capax.figures.chart import Axis, Chart, Panel, Series
from capax.figures.expectations import expected
from capax.figures.groups import Group
from capax.laws.law import Law
from capax.results import Interval, Measurement
from capax.specs import Mac, Sequences, Transformer

Of = Callable[[Measurement], float]

MEMORIZED = Axis(label="memorized sequences", from_zero=True)
GREY = 13
"""Group of what belongs to no line: entries of the legend that stand for all of them."""
FEWEST_RESTARTS = 3
"""Restarts from which an interval is drawn: that of two, with one degree of freedom, is as wide as the axis."""


def of_transformers(runs: Sequence[Measurement], *protocols: type) -> list[Measurement]:
    """The runs of transformers on sequences by some protocols.

    Raises:
        ReportError: when there is none.
    """
    found = [
        run
        for run in runs
        if isinstance(run.spec.task, Sequences)
        and isinstance(run.spec.model, Transformer)
        and isinstance(run.spec.protocol, protocols)
    ]
    if not found:
        raise ReportError(
            f"no run of transformers on sequences by protocol {' or '.join(one.__name__.lower() for one in protocols)}"
        )
    return found


def seq_len(run: Measurement) -> int:
    """Tokens in a sequence."""
    assert isinstance(run.spec.task, Sequences)
    return run.spec.task.seq_len


def n_heads(run: Measurement) -> int:
    """Heads per block."""
    assert isinstance(run.spec.model, Transformer)
    return run.spec.model.n_heads


def d_model(run: Measurement) -> int:
    """Width."""
    assert isinstance(run.spec.model, Transformer)
    return run.spec.model.d_model


def by(
    runs: Iterable[Measurement], *fields: Callable[[Measurement], int | str]
) -> dict[tuple[int | str, ...], list[Measurement]]:
    """Runs by some of their fields, in the order of these."""
    found: dict[tuple[int | str, ...], list[Measurement]] = defaultdict(list)
    for run in runs:
        found[tuple(field(run) for field in fields)].append(run)
    return dict(sorted(found.items()))


def measured(
    runs: Sequence[Measurement],
    x: Of,
    name: str,
    group: int,
    y: Of | None = None,
    interval: Callable[[Measurement], Interval | None] | None = None,
) -> list[Series]:
    """A line through the best restarts, and a faint dot for each restart where there are several.

    Args:
        y: what is shown, of counts that are no restarts'; the dots are left out. `memorized` when not given.
        interval: of y; without it y has no bars.
    """
    places: dict[float, list[Measurement]] = defaultdict(list)
    for run in runs:
        places[float(x(run))].append(run)
    here = sorted(places.items())
    value: Of = (lambda run: run.memorized) if y is None else y
    bars = (lambda run: run.interval) if y is None else interval
    ends = [None if bars is None else _ends(members, bars) for _, members in here]
    line = Series(
        name=name,
        kind="line",
        x=tuple(place for place, _ in here),
        y=tuple(fmean(value(run) for run in members) for _, members in here),
        low=tuple(None if end is None else end[0] for end in ends) if any(ends) else None,
        high=tuple(None if end is None else end[1] for end in ends) if any(ends) else None,
        texts=tuple(_said(members, value) for _, members in here),
        group=group,
    )
    dots = [
        (place, count)
        for place, members in here
        for run in members
        if isinstance(run.spec.protocol, Mac)
        for count in run.memorized_per_restart
    ]
    if y is not None or len(dots) <= len(here):
        return [line]
    restarts = Series(
        name=f"{name}, each restart",
        kind="points",
        x=tuple(place for place, _ in dots),
        y=tuple(count for _, count in dots),
        group=group,
        faint=True,
    )
    return [line, restarts]


def _ends(members: list[Measurement], interval: Callable[[Measurement], Interval | None]) -> tuple[float, float] | None:
    (run, *others) = members
    if others or (isinstance(run.spec.protocol, Mac) and len(run.memorized_per_restart) < FEWEST_RESTARTS):
        return None
    found = interval(run)
    return None if found is None or found.high is None else (found.low, found.high)


def _said(members: list[Measurement], value: Of) -> str:
    (run, *others) = members
    if others:
        return f"mean of {len(members)} seeds, libraries of {run.library_size}"
    shown = value(run)
    other = "" if shown == run.memorized else f"{shown:.4g}: "
    size = f"{run.parameters.trainable} trainable parameters"
    return f"{other}{run.memorized} of {run.library_size}, {size} ({run.key[:12]})"


def law_line(
    law: Law | None, runs: Sequence[Measurement], x: Of, name: str, group: int, everywhere: bool = False
) -> list[Series]:
    """What a law expects of runs along an axis, with its band; nothing where fewer than two lie in its domain.

    Args:
        everywhere: ask it outside its domain, too.
    """
    first = {float(x(run)): run for run in reversed(runs)}
    places = sorted(first)
    found = expected(law, [first[place] for place in places], everywhere=everywhere)
    if found.known < 2:
        return []
    return [
        Series(
            name=f"law, {name}",
            kind="band",
            x=tuple(places),
            y=found.values,
            low=found.low,
            high=found.high,
            group=group,
            faint=True,
        )
    ]


def has_law(panels: Iterable[Panel]) -> bool:
    """Whether a law is drawn in any panel."""
    return any(series.kind == "band" for panel in panels for series in panel.series)


def keys(panels: Sequence[Panel]) -> tuple[Panel, ...]:
    """Panels, the first with entries of the legend for dots and laws where there are any."""
    shown = [series for panel in panels for series in panel.series if series.faint]
    found = []
    if any(series.kind == "points" for series in shown):
        found.append(Series(name="each restart", kind="points", x=(), y=(), group=GREY))
    if any(series.kind == "band" for series in shown):
        found.append(Series(name="law", kind="band", x=(), y=(), group=GREY + 7))
    first = panels[0].model_copy(update={"series": (*panels[0].series, *found)})
    return (first, *panels[1:])


def said_of_lines(runs: Sequence[Measurement], panels: Iterable[Panel]) -> str:
    """How counts were made, and what lines, dots, bars and limits are, of those that are drawn."""
    panels = list(panels)
    alone = len({run.spec.replace(seed=0).key() for run in runs}) == len(runs)
    told = [
        f"Count: {words.protocol(runs[0].spec)}{'' if alone else ', the mean of several seeds'}; dots: each restart."
    ]
    if bars := said_of_bars(panels):
        told.append(bars.strip())
    elif alone:
        told.append(f"Of fewer than {FEWEST_RESTARTS} restarts no interval is drawn.")
    beyond = f"the library of {_sizes(runs)} is beyond the axis"
    whole = "dashed: the whole library" if _reached(runs) else beyond
    return " ".join([*told, f"Dotted grey: what luck alone recalls; {whole}."])


def said_of_bars(panels: Iterable[Panel]) -> str:
    """What bars are, where any are drawn, with a space before it."""
    if not any(series.low for panel in panels for series in panel.series if series.kind == "line"):
        return ""
    return " Bars: where the best of as many new restarts on the same library falls with probability 95 %."


def _reached(runs: Iterable[Measurement]) -> bool:
    """Whether a run came so near to its library that it shows how much there was to memorize."""
    return any(run.memorized >= run.library_size / 2 for run in runs)


def _sizes(runs: Iterable[Measurement]) -> str:
    sizes = sorted({run.library_size for run in runs})
    return f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def limits(runs: Sequence[Measurement], shown: Sequence[Measurement], x: Of, ends: tuple[float, float]) -> list[Series]:
    """The library's size and what luck recalls, of one panel: across the axis where they are the same for all its runs.

    Args:
        shown: the runs of all panels; the library is left out where none of them reached half of it.
    """
    whole = [("library", 0, _library)] if _reached(shown) else []
    return [
        part
        for name, group, value in [*whole, ("by luck", 1, _chance)]
        for part in _limit(name, group, [(float(x(run)), value(run)) for run in runs], ends)
    ]


def _library(run: Measurement) -> float:
    return run.library_size


def _chance(run: Measurement) -> float:
    return run.chance


def _limit(name: str, group: int, points: list[tuple[float, float]], ends: tuple[float, float]) -> list[Series]:
    levels = sorted({y for _, y in points})
    if len(levels) == 1:
        lines = [[(end, levels[0]) for end in ends]]
    elif len(set(points)) == len({x for x, _ in points}):  # one level at each place: it follows them
        lines = [sorted(set(points))]
    else:
        lines = [sorted({point for point in points if point[1] == level}) for level in levels]
    return [
        Series(name=name, kind="reference", x=tuple(x for x, _ in line), y=tuple(y for _, y in line), group=group)
        for line in lines
    ]


def log_axis(label: str, values: Iterable[float], base: int = 2) -> Axis:
    """A logarithmic axis with a mark at each value."""
    return Axis(label=label, log=2 if base == 2 else 10, ticks=tuple(sorted({float(value) for value in values})))


def ends_of(axis: Axis) -> tuple[float, float]:
    """The outermost marks of an axis."""
    assert axis.ticks
    return axis.ticks[0], axis.ticks[-1]


def or_error(charts: list[Chart], reason: str) -> list[Chart]:
    """The charts.

    Raises:
        ReportError: with the reason, when there is none.
    """
    if not charts:
        raise ReportError(reason)
    return charts


def each(groups: Iterable[Group], chart: Callable[[Group], Chart], reason: str = "no runs") -> list[Chart]:
    """A chart of each group that it can be made of.

    Raises:
        ReportError: where it can be made of none: why not of the first, or the reason given where there is no group.
    """
    charts, reasons = [], []
    for group in groups:
        try:
            charts.append(chart(group))
        except CapaxError as error:
            reasons.append(str(error))
    return or_error(charts, [*reasons, reason][0])


def titled(title: str, group: Group) -> str:
    """A title, with what tells a group from the others."""
    words = group.apart
    return f"{title} ({words})" if words else title
