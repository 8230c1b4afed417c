"""The figures of Härmä et al. 2024 (arXiv 2407.15425), of any runs on sequences, as data."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence

from capax.errors import ReportError
from capax.laws.domain import OutsideDomainWarning
from capax.laws.law import Law
from capax.planning.candidates import model, rows
from capax.reports.chart import Axis, Chart, Panel, Series
from capax.reports.groups import Group, alike
from capax.reports.words import of_heads
from capax.results import Measurement
from capax.specs import Mac, Sequences, Transformer

WIDTH = "width d_model"


def of_transformers(runs: Sequence[Measurement], protocol: type = Mac) -> list[Measurement]:
    """The runs of transformers on sequences by one protocol.

    Raises:
        ReportError: when there is none.
    """
    found = [
        run
        for run in runs
        if isinstance(run.spec.task, Sequences)
        and isinstance(run.spec.model, Transformer)
        and isinstance(run.spec.protocol, protocol)
    ]
    if not found:
        raise ReportError(f"no run of transformers on sequences by protocol {protocol.__name__.lower()}")
    return found


def of(run: Measurement) -> Transformer:
    """The transformer of one of these runs."""
    assert isinstance(run.spec.model, Transformer)
    return run.spec.model


def memorized_against_width(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 7: memorized against width, a line per number of heads, a panel per length, with the law's band."""
    charts = []
    for group in alike(of_transformers(runs), {"seq_len", "n_heads", "d_model"}):
        panels: dict[int, dict[int, list[Measurement]]] = defaultdict(lambda: defaultdict(list))
        for run in group.runs:
            panels[run.spec.task.seq_len][of(run).n_heads].append(run)  # type: ignore[union-attr]
        if len({of(run).d_model for run in group.runs}) < 2:
            continue
        heads = sorted({number for lines in panels.values() for number in lines})
        shown = [
            Panel(
                title=f"{length} tokens",
                x=_widths(group),
                y=Axis(label="memorized sequences", from_zero=True),
                series=tuple(
                    part
                    for place, number in enumerate(heads)
                    if number in lines
                    for part in _width_line(lines[number], place, length, law)
                )
                + _limits(group, [run for line in lines.values() for run in line]),
            )
            for length, lines in sorted(panels.items())
        ]
        charts.append(
            Chart(
                name="width",
                title=titled("Memorized sequences against width", group),
                caption="Best of the restarts; bars are where the best of as many new restarts would fall (95 %). "
                "Dashed: the whole library; dotted: what luck alone recalls. Härmä et al. 2024 draw this in Fig. 7."
                + banded(shown, law),
                panels=tuple(shown),
            )
        )
    if not charts:
        raise ReportError("no runs that differ in width and in nothing else but heads and length")
    return charts


def _width_line(runs: list[Measurement], place: int, length: int, law: Law | None) -> list[Series]:
    points = sorted(runs, key=lambda run: of(run).d_model)
    widths = tuple(of(run).d_model for run in points)
    name = of_heads(of(points[0]).n_heads)
    line = Series(
        name=name,
        kind="line",
        x=widths,
        y=tuple(run.memorized for run in points),
        low=tuple(None if run.interval is None else run.interval.low for run in points),
        high=tuple(None if run.interval is None else run.interval.high for run in points),
        texts=tuple(
            f"width {of(run).d_model}: {run.memorized} of {run.library_size} ({run.key[:12]})" for run in points
        ),
        group=place,
    )
    return [line, *_law_band(law, points, length, place, f"law, {name}")]


def banded(panels: Sequence[Panel], law: Law | None) -> str:
    """What bands are, where there are any."""
    if law is None:
        return ""
    if any(series.kind == "band" for panel in panels for series in panel.series):
        return f" Bands: where the law {law.name} ({law.source_}) expects 95 % of new measurements."
    return f" The law {law.name} ({law.source_}) is not drawn: these runs lie outside its domain."


def _law_band(law: Law | None, points: list[Measurement], length: int, place: int, name: str) -> list[Series]:
    """What a law expects of these architectures, raw counts, where they lie in its domain."""
    spec = of(points[0])
    task = points[0].spec.task
    if law is None or law.task != "sequences" or not isinstance(task, Sequences) or len(points) < 2:
        return []
    models = [model(law, of(point).n_layers, spec.n_heads, of(point).d_model) for point in points]
    table = rows(models, length, task.vocab_size)
    if not law.inside_domain(table).all():
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDomainWarning)
        expected = law.predict(table)
        low, high = law.predict_interval(table)
    raw = [_raw(values, points, law) for values in (expected, low, high)]
    return [
        Series(
            name=name,
            kind="band",
            x=tuple(of(point).d_model for point in points),
            y=raw[0],
            low=raw[1],
            high=raw[2],
            group=place,
            faint=True,
        )
    ]


def _raw(values: Iterable[float], points: list[Measurement], law: Law) -> tuple[float, ...]:
    """What is memorized of counts above chance, where the law speaks of those; no more than the library."""
    above = law.target == "memorized_above_chance"
    return tuple(
        min(
            point.library_size,
            value * (1 - point.chance / point.library_size) + point.chance if above else float(value),
        )
        for value, point in zip(values, points, strict=True)
    )


def _widths(group: Group) -> Axis:
    widths = tuple(sorted({float(of(run).d_model) for run in group.runs}))
    return Axis(label=WIDTH, log=2, ticks=widths)


def _limits(group: Group, runs: list[Measurement]) -> tuple[Series, ...]:
    widths = [of(run).d_model for run in runs]
    ends = (float(min(widths)), float(max(widths)))
    library, chance = max(run.library_size for run in runs), max(run.chance for run in runs)
    return (
        Series(name="library", kind="reference", x=ends, y=(library, library), group=0),
        Series(name="by luck", kind="reference", x=ends, y=(chance, chance), group=1),
    )


def titled(title: str, group: Group) -> str:
    """A title, with what tells a group from the others."""
    words = group.in_words()
    return f"{title} ({words})" if words else title
