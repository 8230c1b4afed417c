"""Figures that set a law beside what was measured (Härmä et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
from sklearn.base import clone

from capax.errors import CapaxError, ReportError
from capax.figures.captions import bars, counts, limited
from capax.figures.chart import Chart, Panel, Series
from capax.figures.columns import HEADS, SEQ_LEN, TASK_SIZES, WIDTH, Of, decades, in_words
from capax.figures.declared import HARMA, WIDTH_FIGURE
from capax.figures.expectations import about, expected, speaks_of, unlike
from capax.figures.groups import Group, alike
from capax.figures.law_lines import LAW_POINTS, law_line
from capax.figures.lines import GREY, Lines, Measure, each, titled
from capax.figures.words import of_runs
from capax.laws.compare import Comparison, Score, compare
from capax.laws.ecm import ECM
from capax.laws.law import Law
from capax.laws.power import PowerLaw
from capax.laws.slopes import slopes_from_origin
from capax.protocols.units import above_chance, scaled
from capax.results import Interval, Measurement
from capax.store import tables

REFITS = 100
"""Refits behind the band of a law that is fitted for one figure."""
VARIED = [field for column in (*TASK_SIZES, HEADS, WIDTH) for field in column.varied]


def _groups(runs: Sequence[Measurement]) -> list[Group]:
    return alike([run for run in runs if run.spec.protocol.one_library], VARIED)


def measured_against_predicted(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 8: what a law says against what was measured; without a law, the power law fitted to these runs.

    Raises:
        ReportError: when no kind of runs can be shown.
    """
    return each(
        _groups(runs),
        lambda group: _of_law(group, law) if law is not None and speaks_of(law, group.runs) else _of_fit(group, law),
        "no run by protocol mac or capacity",
    )


def _of_law(group: Group, law: Law) -> Chart:
    found = expected(law, group.runs, band=False)
    known = [(run, value) for run, value in zip(group.runs, found.values, strict=True) if value is not None]
    named = f"the law {law.name} ({law.source_})"
    if not known:
        raise ReportError(f"none of the runs lies in the domain of {named}")
    left_out = len(group.runs) - len(known)
    runs, values = zip(*known, strict=True)
    return _chart(
        group,
        f"The law {law.name} against what was measured",
        [_against("", f"predicted, {_unit(group)}", runs, values, raw=True)],
        f"Each point is a run: what was memorized, lucky guesses included, and what {named} says of it."
        f"{f' Left out: {of_runs(left_out)} outside its domain.' if left_out else ''}{unlike(law, group.runs)}",
    )


FEWEST_FITTED = 6
"""Runs to which a law is fitted."""


def _of_fit(group: Group, other: Law | None) -> Chart:
    """The power law fitted to a group, in place of another that says nothing of it."""
    table, kept = _above_chance(group.runs)
    if len(kept) < FEWEST_FITTED:
        raise ReportError(f"at least {FEWEST_FITTED} runs above chance are needed to fit a law, got {len(kept)}")
    law = PowerLaw().fit(table)
    score = compare(table, [PowerLaw()]).scores[0]
    capped = np.minimum(law.predict(table), tables.numbers(table, "library_size"))
    label = "predicted above chance"
    panels = [_against(f"fitted to all: mean error {score.mape:.0%}", label, kept, capped.tolist(), raw=False)]
    if score.predicted_left_out is not None:
        title = f"predicted from the others: {score.mape_left_out:.0%}"
        panels.append(_against(title, label, kept, list(score.predicted_left_out), raw=False))
        on_the_right = "; on the right a fifth of the configurations at a time is left out of its fit."
    else:
        on_the_right = f". What it predicts for configurations left out of its fit is not shown: {_why(score)}."
    without = len(group.runs) - len(kept)
    return _chart(
        group,
        "The power law against what was measured",
        panels,
        f"{_unit(group).capitalize()} above chance. Law: k · (seq_len - 1)^-p · n_heads^q · d_model^r, ours, fitted to "
        f"these runs{on_the_right}{f' Left out: {of_runs(without)} not above chance.' if without else ''}"
        f"{_not_drawn(other, group)}",
    )


def _not_drawn(law: Law | None, group: Group) -> str:
    """That a law says nothing of a group, with a space before it; empty where none was given."""
    return f" {about(law, group.runs, drawn=False)}" if law is not None else ""


def _chart(group: Group, title: str, panels: Sequence[Panel], said: str) -> Chart:
    return Chart(
        name="measured-predicted",
        title=titled(title, group),
        caption=f"Count: {group.runs[0].spec.protocol.words()}. {said} On the line both are equal. A library that was "
        f"memorized whole is a lower bound, and its prediction is cut off at the library's size. {HARMA} draw this in "
        "Fig. 8.",
        panels=tuple(panels),
    )


def _unit(group: Group) -> str:
    return group.runs[0].spec.task.unit


def _why(score: Score) -> str:
    """Why a law says nothing of configurations that are left out of its fit."""
    told = [reason for reason in score.reasons if score.mape is None or reason.startswith("left out: ")]
    return told[0].removeprefix("left out: ") if told else "what it says is not finite"


def _above_chance(runs: Sequence[Measurement]) -> tuple[pl.DataFrame, list[Measurement]]:
    """The runs whose count is above chance, as a table and as they are."""
    kept = [run for run in runs if run.above_chance]
    if not kept:
        raise ReportError("no run is above chance")
    return tables.table(kept), kept


def _against(title: str, label: str, runs: Sequence[Measurement], predicted: Sequence[float], raw: bool) -> Panel:
    """Predicted against measured, both logarithmic: a mark per number of heads, whole libraries apart."""
    counts = [float(run.memorized if raw else run.memorized_above_chance) for run in runs]
    shown = [place for place, count in enumerate(counts) if count > 0 and predicted[place] > 0]
    if not shown:
        raise ReportError("no run has a count and a prediction above zero")
    points = [_point(runs[place], counts[place], predicted[place]) for place in shown]
    series = _marks(sorted(set(map(HEADS, runs))), points)
    ends = (0.8 * min(min(point[:2]) for point in points), 1.25 * max(max(point[:2]) for point in points))
    series.append(Series(name="both equal", kind="reference", x=ends, y=ends, group=0))
    measured = f"measured, {runs[0].spec.task.unit}" if raw else "measured above chance"
    return Panel(title=title, x=decades(measured, ()), y=decades(label, ()), series=tuple(series))


Point = tuple[float, float, float | None, str]
"""Measured, predicted, number of heads (None: a whole library), and what is said of it."""


def _point(run: Measurement, count: float, predicted: float) -> Point:
    sizes = (*TASK_SIZES, WIDTH)
    text = f"{in_words(sizes, [column(run) for column in sizes])}: {count:.4g}, predicted {predicted:.4g}"
    heads = None if run.whole else HEADS(run)
    return count, predicted, heads, f"{text} ({run.key[:12]})"


def _marks(heads: Sequence[float], points: Sequence[Point]) -> list[Series]:
    """A series per number of heads, and one of whole libraries, of those that there are."""
    names: list[tuple[str, float | None, int]] = [
        *((HEADS.words(number), number, place) for place, number in enumerate(heads)),
        ("whole library (lower bound)", None, GREY),
    ]
    return [
        Series(name=name, kind="points", x=x, y=y, texts=texts if any(texts) else None, group=group)
        for name, wanted, group in names
        if (here := [point for point in points if point[2] == wanted])
        for x, y, _, texts in [zip(*here, strict=True)]
    ]


def compared(comparison: Comparison) -> Chart:
    """A panel per law: what it says of configurations that were left out, against what was measured.

    Raises:
        ReportError: when no law could be fitted with configurations left out.
    """
    shown = [score for score in comparison.scores if score.predicted_left_out is not None]
    if not shown:
        whys = "; ".join(dict.fromkeys(map(_why, comparison.scores)))
        raise ReportError(f"figure: no law could be fitted with configurations left out: {whys}")
    ends = (0.7 * min(comparison.counts), 1.4 * max(comparison.counts))
    heads = [int(number) for number in comparison.n_heads]
    unit = tables.unit(comparison.of) or comparison.of
    panels = []
    for score in shown:
        predicted = np.clip(score.predicted_left_out or (), *ends).tolist()
        points = list(zip(comparison.counts, predicted, heads, [""] * len(heads), strict=True))
        line = Series(name="both equal", kind="reference", x=ends, y=ends, group=0)
        panels.append(
            Panel(
                title=f"{score.law}: mean error {score.mape_left_out:.0%}",
                x=decades(", ".join(filter(None, ("measured", unit))), ()),
                y=decades("predicted from the others", ()),
                series=(line, *_marks(sorted(set(heads)), points)),
            )
        )
    return Chart(
        name="comparison",
        title="Each law against configurations left out of its fit",
        caption="A fifth of the configurations at a time is left out. What a law says beyond the axes is drawn at "
        "their edge.",
        panels=tuple(panels),
    )


def held_out_heads(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 10: the largest number of heads, predicted by a law that is fitted to the others.

    Raises:
        ReportError: when no kind of runs can be shown; of two numbers of heads the smaller says nothing of the larger.
    """
    return each(
        (group for group in _groups(runs) if len(set(map(HEADS, group.runs))) > 2),
        lambda group: _held_out(group, law),
        "no runs by protocol mac of three n_heads or more that differ in nothing else but width and length",
    )


def _held_out(group: Group, law: Law | None) -> Chart | None:
    most = max(map(HEADS, group.runs))
    others = [run for run in group.runs if HEADS(run) < most]
    speaks = law is not None and speaks_of(law, group.runs)
    form = clone(law) if speaks else PowerLaw()
    fitted = form.set_params(target="memorized_above_chance", n_bootstrap=REFITS).fit(_above_chance(others)[0])
    *fewer, last = sorted(set(map(HEADS, others)))
    known = f"{', '.join(map(str, fewer))} and {HEADS.words(last)}"
    figure = replace(
        WIDTH_FIGURE,
        name="held-out-heads",
        heading=f"{HEADS.words(most).capitalize()}, predicted from fewer",
        several=None,
        law=partial(law_line, everywhere=True),
        caption=(
            counts,
            bars,
            limited,
            f"Dashed: the law {fitted.name}, fitted to the runs of {known}, with its 95 % prediction band (it "
            f"extrapolates beyond its domain: that is the test).{'' if speaks else _not_drawn(law, group)}",
            f"{HARMA} hold out five heads in Fig. 10.",
        ),
    )
    held = tuple(run for run in group.runs if HEADS(run) == most)
    return figure.chart(Group(held, group.apart), fitted)


def slopes(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 9: items memorized per channel of width, against length, a line per number of heads.

    Raises:
        ReportError: when no kind of runs can be shown.
    """
    counted = [run for run in runs if run.spec.protocol.protocol == "mac"]
    return each(_groups(counted), lambda group: _slopes(group, law), "no run by protocol mac")


def _interval_per_channel(run: Measurement) -> Interval | None:
    return scaled(run.interval, lambda count: above_chance(count, run.chance, run.library_size) / WIDTH(run))


def _per_channel(run: Measurement) -> float:
    return run.memorized_above_chance / float(WIDTH(run))


def _slopes(group: Group, law: Law | None) -> Chart | None:
    table, kept = _above_chance(group.runs)
    found = slopes_from_origin(ECM().read(table))
    if len(found.slopes) < 2 or len(set(found.seq_len.tolist())) < 2:
        raise ReportError("slopes are drawn against length: at least two lengths below their library's size are needed")
    known, told = _ecm(table, group, law)
    last = tuple(run for run, is_last in zip(kept, found.last.tolist(), strict=True) if is_last)
    wider = sum(
        any(one.whole and HEADS(one) == HEADS(run) and SEQ_LEN(one) == SEQ_LEN(run) for one in group.runs)
        for run in last
    )
    cut = f"At {wider} of {len(last)} points the next width recalled all there was, and may hold more a channel."
    figure = replace(SLOPES, caption=(*SLOPES.caption, cut if wider else "", told, f"{HARMA} draw this in Fig. 9."))
    return figure.chart(Group(last, group.apart), known)


def _ecm(table: pl.DataFrame, group: Group, law: Law | None) -> tuple[ECM | None, str]:
    """The law whose f(N, H) is drawn, and what a caption says of it."""
    if isinstance(law, ECM):
        return law, about(law, group.runs, drawn=True, what="f(N, H) of the law {}", band=False)
    try:
        return ECM(method="stages").fit(table), "Dashed: f(N, H) of eq. 10, fitted to these slopes."
    except CapaxError as error:
        return None, f"Eq. 10 is not drawn: {error}."


def _f(law: Law | None, runs: Sequence[Measurement], x: Of, name: str, group: int) -> list[Series]:
    """f(N, H) of one number of heads over the lengths that are in the law's domain."""
    if not isinstance(law, ECM):
        return []
    heads = float(HEADS(runs[0]))
    (least, most), (fewest, largest) = law.domain_.ranges["n_heads"], law.domain_.ranges["seq_len"]
    low, high = max(min(map(x, runs)), fewest), min(max(map(x, runs)), largest)
    if not least <= heads <= most or low >= high:
        return []
    inside = np.geomspace(low, high, LAW_POINTS)
    values = law.slope(inside, heads)
    if not (values > 0).all():
        return []
    points = tuple(inside.tolist()), tuple(values.tolist())
    return [Series(name=f"law, {name}", kind="band", x=points[0], y=points[1], group=group, faint=True)]


SLOPES = Lines(
    name="slopes",
    title="memorized per channel of width, against length",
    heading="Memorized {unit} per channel of width, against length",
    x=SEQ_LEN,
    y=(Measure("{unit} per channel of width", _per_channel, _interval_per_channel, scale=decades),),
    line=HEADS,
    law=_f,
    caption=(
        counts,
        "Items above chance, divided by the width: from the origin to the last width before saturation (libraries that "
        "were memorized whole are left out; how the paper detects saturation is not known; ours: the slope falls "
        "below 0.7 of its largest).",
        bars,
    ),
)
