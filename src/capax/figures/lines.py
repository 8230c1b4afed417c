"""Figures of lines, declared: what is along each axis, which runs it takes, how they are grouped, and what is said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Any, Literal

from capax.errors import CapaxError, ReportError
from capax.figures.chart import Chart, Panel, Series
from capax.figures.columns import Column, Of, Scale, by, from_zero, in_words
from capax.figures.groups import Group, alike
from capax.laws.law import Law
from capax.protocols.means import half_of_mean
from capax.results import Interval, Measurement

GREY = 13
"""Group of what belongs to no line: entries of the legend that stand for all of them."""
LAW = GREY + 7
"""Group of a law that is one for all lines, and of the entry of the legend that stands for those of each."""
FEWEST_RESTARTS = 3
"""Restarts or seeds from which an interval is drawn: that of two, with one degree of freedom, is wide as the axis."""

Ends = tuple[float | None, float | None]


def said_of_runs(runs: Sequence[Measurement], shown: float) -> str:
    """What is said of a point when it is pointed at."""
    (run, *others) = runs
    if others:
        return f"mean of {len(runs)} seeds, libraries of {run.library_size}"
    other = "" if shown == run.memorized else f"{shown:.4g}: "
    size = f"{run.parameters.trainable} trainable parameters"
    return f"{other}{run.memorized} of {run.library_size}, {size} ({run.key[:12]})"


def seeds_apart(rows: Sequence[Any]) -> bool:
    """Whether rows are runs that have a seed each."""
    return all(isinstance(row, Measurement) for row in rows) and len({row.spec.seed for row in rows}) == len(rows)


@dataclass(frozen=True)
class Measure:
    """What is shown of rows, along y.

    Attributes:
        label: on the axis; {unit} stands for what is memorized.
        of: the number of a row; None where it has none, and is not shown.
        interval: of a row; of runs it is drawn from three restarts on. Of three seeds or more it is that of their mean,
            by Student's t.
        name: in the legend, or of its panels.
        most: the most that the number of a row can be, and 0 the least: no interval of a mean goes beyond.
        dots: further numbers of a row, which are faint dots.
        each: whether every row is a point; else rows at one place are their mean.
        said: what is said of a point, from its rows and its number.
        lower: whether the number of a row is a lower bound, whose mark is hollow.
    """

    label: str
    of: Of
    interval: Callable[[Any], Interval | Ends | None] | None = None
    name: str = ""
    most: Of | None = None
    scale: Scale = from_zero
    dots: Callable[[Any], Sequence[float]] | None = None
    each: bool = False
    kind: Literal["line", "points"] = "line"
    said: Callable[[Sequence[Any], float], str] = said_of_runs
    lower: Callable[[Any], bool] | None = None

    def ends(self, rows: Sequence[Any]) -> Ends | None:
        """The interval of one point."""
        (row, *others) = rows
        few = isinstance(row, Measurement) and 0 < len(row.memorized_per_restart) < FEWEST_RESTARTS
        restarts = isinstance(row, Measurement) and row.spec.protocol.one_library
        if self.interval is not None and others:
            return self._ends_of_mean(rows)
        if self.interval is None or (few and restarts):
            return None
        found = self.interval(row)
        ends = (found.low, found.high) if isinstance(found, Interval) else found
        return None if ends is None or (ends[1] is None and restarts) else ends

    def _ends_of_mean(self, rows: Sequence[Any]) -> Ends | None:
        """The interval of the mean of seeds; None of fewer than three, or where they are not each of its own seed."""
        if len(rows) < FEWEST_RESTARTS or not seeds_apart(rows):
            return None
        values = [float(self.of(row)) for row in rows]
        middle, half = fmean(values), half_of_mean(values)
        if self.most is None:
            return middle - half, middle + half
        return max(middle - half, 0.0), min(middle + half, fmean(float(self.most(row)) for row in rows))

    def drawn(self, rows: Sequence[Any], x: Of, name: str, group: int) -> list[Series]:
        """A line through the rows, and a faint dot for each further number where there are several."""
        if self.each:
            here = [(x(row), [row]) for row in sorted(rows, key=x)]
        else:
            places: dict[float, list[Any]] = defaultdict(list)
            for row in rows:
                places[float(x(row))].append(row)
            here = sorted(places.items())
        if self.lower is not None:
            split = [[point for point in here if self.lower(point[1][0]) is hollow] for hollow in (False, True)]
            lines = [self._line(points, name, group) for points in split]
            lines[1] = lines[1].model_copy(update={"hollow": True})
            return [line for line, points in zip(lines, split, strict=True) if points]
        line = self._line(here, name, group)
        dots = [(place, dot) for place, members in here for row in members for dot in (self.dots or _none)(row)]
        if len(dots) <= len(here):
            return [line]
        x_dots, y_dots = zip(*dots, strict=True)
        return [line, Series(name=f"{name}, each restart", kind="points", x=x_dots, y=y_dots, group=group, faint=True)]

    def _line(self, here: Sequence[tuple[float, list[Any]]], name: str, group: int) -> Series:
        """The points of some places, of rows each."""
        values = [fmean(float(self.of(row)) for row in members) if len(members) > 1 else self.of(members[0])
                  for _, members in here]  # fmt: skip
        ends = [self.ends(members) for _, members in here]
        return Series(
            name=name,
            kind=self.kind,
            x=tuple(place for place, _ in here),
            y=tuple(values),
            low=tuple(None if end is None else end[0] for end in ends) if any(ends) else None,
            high=tuple(None if end is None else end[1] for end in ends) if any(ends) else None,
            texts=tuple(self.said(members, shown) for (_, members), shown in zip(here, values, strict=True)),
            group=group,
        )


def _none(row: Any) -> Sequence[float]:
    return ()


@dataclass(frozen=True)
class Shown:
    """What one chart shows, for its caption.

    Attributes:
        rows: those that have a place in it.
        same: columns of its panels that are the same in all of them, in words.
        left_out: panels that it has no room for.
    """

    group: Group
    rows: Sequence[Any]
    law: Law | None
    panels: Sequence[Panel] = ()
    same: str = ""
    left_out: int = 0


Sentence = str | Callable[[Shown], str]


@dataclass(frozen=True, kw_only=True)
class Lines:
    """A figure of lines.

    It takes the runs of its protocols that have a value of x (and of `wanted`), whatever their task and model are.
    Runs of one chart differ in nothing but x, line, panel and `varied`.

    Attributes:
        title: in lists of figures.
        of: whose figure it is, in words; "capax" for ours.
        heading: the chart's title; {unit} stands for what is memorized.
        y: with a line's column, each is drawn in panels of its own; without one, each is a line.
        settings: fields that may differ between lines, which then are told apart by them.
        several: what differs within each panel; x when not given, and nothing has to where it is None.
        rows: what the points are of; runs when not given.
        reference: what is known and drawn across a panel of the first y, of its rows and of all that are shown.
        law: what a law says of the rows of one line.
        caption: its sentences; those that are empty have nothing to say.
        share_y: whether panels of one y have one scale.
    """

    name: str
    title: str
    of: str = "capax"
    heading: str
    x: Column
    y: tuple[Measure, ...]
    line: Column | None = None
    panel: tuple[Column, ...] = ()
    protocols: tuple[str, ...] = ("mac",)
    wanted: tuple[str, ...] = ()
    varied: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    several: Column | Literal["x"] | None = "x"
    rows: Callable[[Group], Sequence[Any]] = lambda group: group.runs
    reference: Callable[[Sequence[Any], Shown, Of], Iterable[Series]] | None = None
    law: Callable[[Law | None, Sequence[Any], Column, str, int], list[Series]] | None = None
    caption: tuple[Sentence, ...] = ()
    most_panels: int | None = None
    share_y: bool = True
    needs: str = ""

    def shown(self, runs: Sequence[Measurement], law: Law | None = None) -> list[Chart]:
        """The charts of some runs, the one of most runs first.

        Raises:
            ReportError: when they cannot be shown: what they lack.
        """
        taken = [run for run in runs if run.spec.protocol.protocol in self.protocols and self._has(run)]
        protocols = " or ".join(self.protocols)
        if not taken:
            columns = (
                ", ".join(dict.fromkeys((*self.wanted, *self.x.varied))) if self.x.of is None or self.wanted else ""
            )
            raise ReportError(f"no run by protocol {protocols}{f' that has {columns}' if columns else ''}")
        fields = [*chain(*(column.varied for column in self._columns)), *self.varied, *self.settings]
        charts = [chart for group in alike(taken, fields) if (chart := self.chart(group, law)) is not None]
        if not charts:
            differ = self.x if self.several == "x" else self.several
            known = [name for name in dict.fromkeys(fields) if any(Column(name)(run) is not None for run in taken)]
            others = [name for name in known if differ is None or name not in differ.varied]
            what = "that can be shown" if differ is None else f"that differ in {' or '.join(differ.varied)}"
            besides = f" and in nothing else but {', '.join(others)}" if others else ""
            raise ReportError(f"no runs by protocol {protocols} {what}{besides}")
        return charts

    @property
    def _columns(self) -> list[Column]:
        return [self.x, *([] if self.line is None else [self.line]), *self.panel]

    def _has(self, run: Measurement) -> bool:
        asked = [Column(name) for name in self.wanted] + ([self.x] if self.x.of is None else [])
        return all(column(run) is not None for column in asked if column.of is None)

    def chart(self, group: Group, law: Law | None = None) -> Chart | None:
        """One chart of runs of one kind; None where too few of them differ."""
        rows = [row for row in self.rows(group) if any(measure.of(row) is not None for measure in self.y)]
        differ = self.x if self.several == "x" else self.several
        every = by(rows, *self.panel)
        filled = [key for key, members in every.items() if differ is None or len(set(map(differ, members))) > 1]
        kept = set(sorted(filled, key=lambda key: -len(every[key]))[: self.most_panels])
        panels = {key: every[key] for key in filled if key in kept}
        if not panels:
            return None
        shown = Shown(group, list(chain(*panels.values())), law)
        drawn = [
            self._panel(key, members, measures, shown, panels)
            for measures in ([self.y] if self.line is None else [(measure,) for measure in self.y])
            for key, members in panels.items()
        ]
        fixed = self._fixed(panels)
        same = in_words([self.panel[place] for place in fixed], [next(iter(panels))[place] for place in fixed])
        complete = Shown(group, shown.rows, law, drawn, same, len(filled) - len(panels))
        said = (sentence if isinstance(sentence, str) else sentence(complete) for sentence in self.caption)
        return Chart(
            name=self.name,
            title=titled(self._said(self.heading, group), group),
            caption=" ".join(sentence for sentence in said if sentence),
            panels=keys(drawn),
            share_y=self.share_y and (self.line is None or len(self.y) == 1),
        )

    def _fixed(self, panels: Iterable[tuple[Any, ...]]) -> list[int]:
        """Places of the panels' columns that are the same in all of several panels."""
        every = list(panels)
        return [place for place in range(len(self.panel)) if len(every) > 1 and len({key[place] for key in every}) == 1]

    def _panel(
        self, key: tuple[Any, ...], rows: list[Any], measures: Sequence[Measure], shown: Shown, panels: Iterable[Any]
    ) -> Panel:
        fixed = self._fixed(panels)
        told = [place for place in range(len(self.panel)) if place not in fixed]
        title = in_words([self.panel[place] for place in told], [key[place] for place in told])
        title = ", ".join(part for part in (measures[0].name if len(measures) == 1 else "", title) if part)
        inside = set(map(id, rows))
        series: list[Series] = []
        for group, (name, measure, members) in enumerate(self._lines(measures, shown)):
            here = [row for row in members if id(row) in inside and measure.of(row) is not None]
            series += measure.drawn(here, self.x, name, group)  # without points, too: the legend keeps its order
            if here and self.law is not None:
                series += self.law(shown.law, here, self.x, name, group)
        if self.reference is not None and measures[0] is self.y[0]:
            series += self.reference(rows, shown, self.x)
        ends = [end for one in series for part in (one.y, one.low, one.high) for end in part or ()]
        heights = [float(end) for end in ends if end]
        return Panel(
            title=title,
            x=self.x.scale(self.x.label or self.x.name, list(map(self.x, shown.rows))),
            y=measures[0].scale(self._said(measures[0].label, shown.group), heights or [1.0]),
            series=tuple(series),
        )

    def _lines(self, measures: Sequence[Measure], shown: Shown) -> list[tuple[str, Measure, Sequence[Any]]]:
        """The lines of all panels of some measures: a name, a measure and its rows each."""
        if self.line is not None:
            (measure,) = measures
            kinds = by(shown.rows, self.line)
            return [(in_words([self.line], kind) or "measured", measure, members) for kind, members in kinds.items()]
        found: list[tuple[str, Measure, Sequence[Any]]] = []
        fields = [*chain(*(column.varied for column in self._columns)), *self.varied]
        for measure in measures:
            runs = [row for row in shown.rows if measure.of(row) is not None]
            groups = alike(runs, fields) if self.settings else [Group(tuple(runs), "")]
            found += [(titled(measure.name, part), measure, part.runs) for part in groups]
        return found

    def _said(self, text: str, group: Group) -> str:
        return text.replace("{unit}", group.runs[0].spec.task.unit) if "{unit}" in text else text


# What is drawn across panels


def limits(rows: Sequence[Measurement], shown: Shown, x: Of) -> list[Series]:
    """The library's size and what is recalled by chance, across a panel where they are the same for all its runs.

    The library is left out where no run of the chart reached half of it.
    """
    places = [float(x(run)) for run in shown.rows]
    whole: list[tuple[str, int, Of]] = (
        [("whole library", 3, lambda run: run.library_size)] if reached(shown.rows) else []
    )
    return [
        part
        for name, group, value in [*whole, ("by chance", 1, lambda run: run.chance)]
        for part in _limit(name, group, [(float(x(run)), value(run)) for run in rows], (min(places), max(places)))
    ]


def reached(runs: Iterable[Measurement]) -> bool:
    """Whether a run came so near to its library that it shows how much there was to memorize."""
    return any(run.memorized >= run.library_size / 2 for run in runs)


MOST_LEVELS = 4
"""That are drawn as lines of their own."""


def _limit(name: str, group: int, points: list[tuple[float, float]], ends: tuple[float, float]) -> list[Series]:
    levels = sorted({y for _, y in points})
    if len(levels) == 1:
        lines = [[(end, levels[0]) for end in ends]]
    elif len(set(points)) == len({x for x, _ in points}):  # one level at each place: it follows them
        lines = [sorted(set(points))]
    elif len(levels) <= MOST_LEVELS:
        lines = [sorted({point for point in points if point[1] == level}) for level in levels]
    else:  # of each library another: as the points, their means
        at = {x: [y for other, y in points if other == x] for x in sorted({x for x, _ in points})}
        lines = [[(x, sum(values) / len(values)) for x, values in at.items()]]
    return [
        Series(name=name, kind="reference", x=tuple(x for x, _ in line), y=tuple(y for _, y in line), group=group)
        for line in lines
    ]


def across(name: str, y: float) -> Callable[[Sequence[Any], Shown, Of], list[Series]]:
    """One level, from the first place of a panel to its last."""

    def reference(rows: Sequence[Any], shown: Shown, x: Of) -> list[Series]:
        places = list(map(x, rows))
        ends = (float(min(places)), float(max(places)))
        return [Series(name=name, kind="reference", x=ends, y=(y, y))]

    return reference


def keys(panels: Sequence[Panel]) -> tuple[Panel, ...]:
    """Panels, the first with entries of the legend for dots and laws where there are any."""
    shown = [series for panel in panels for series in panel.series if series.faint]
    found = []
    if any(series.kind == "points" for series in shown):
        found.append(Series(name="each restart", kind="points", x=(), y=(), group=GREY))
    if any(series.hollow for panel in panels for series in panel.series):
        found.append(Series(name="lower bound", kind="points", x=(), y=(), group=GREY, hollow=True))
    if any(series.kind == "band" for series in shown):
        found.append(Series(name="law", kind="band", x=(), y=(), group=LAW))
    first = panels[0].model_copy(update={"series": (*panels[0].series, *found)})
    return (first, *panels[1:])


def titled(title: str, group: Group) -> str:
    """A title, with what tells a group from the others."""
    return f"{title} ({group.apart})" if group.apart else title


def each(groups: Iterable[Group], chart: Callable[[Group], Chart | None], reason: str = "no runs") -> list[Chart]:
    """A chart of each group that it can be made of.

    Raises:
        ReportError: where it can be made of none: why not of the first, or the reason given where there is no group.
    """
    charts, reasons = [], []
    for group in groups:
        try:
            found = chart(group)
        except CapaxError as error:
            reasons.append(str(error))
        else:
            charts += [] if found is None else [found]
    if not charts:
        raise ReportError([*reasons, reason][0])
    return charts
