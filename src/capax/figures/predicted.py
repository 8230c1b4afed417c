"""The figures of Härmä et al. 2024 that set a law beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from sklearn.base import clone

from capax import tables
from capax.errors import CapaxError, ReportError
from capax.figures.chart import Axis, Chart, Panel, Series
from capax.figures.declared import ARCHITECTURE, WIDTH, counted
from capax.figures.expectations import about, expected, speaks_of, unlike
from capax.figures.groups import Group, alike
from capax.figures.lines import (
    GREY,
    MEMORIZED,
    by,
    d_model,
    each,
    ends_of,
    has_law,
    keys,
    law_line,
    limits,
    log_axis,
    measured,
    n_heads,
    of_transformers,
    or_error,
    said_of_bars,
    said_of_lines,
    seq_len,
    titled,
)
from capax.figures.words import of_heads, of_runs
from capax.laws.compare import Comparison, Score, compare
from capax.laws.ecm import ECM, slopes_from_origin
from capax.laws.law import Law
from capax.laws.power import PowerLaw
from capax.measures.units import above_chance, scaled
from capax.results import Interval, Measurement
from capax.specs import Mac

REFITS = 100
"""Refits behind the band of a law that is fitted for one figure."""


def measured_against_predicted(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 8: what a law says against what was measured; without a law, the power law fitted to these runs."""
    return each(
        alike(of_transformers(runs, Mac), ARCHITECTURE),
        lambda group: _of_law(group, law) if law is not None and speaks_of(law) else _of_fit(group),
    )


def _of_law(group: Group, law: Law) -> Chart:
    found = expected(law, group.runs, band=False)
    known = [(run, value) for run, value in zip(group.runs, found.values, strict=True) if value is not None]
    if not known:
        raise ReportError(f"none of the runs lies in the domain of the law {law.name} ({law.source_})")
    left_out = len(group.runs) - len(known)
    outside = f" Left out: {of_runs(left_out)} outside its domain." if left_out else ""
    panel = _against("", "predicted, sequences", [run for run, _ in known], [value for _, value in known], raw=True)
    return Chart(
        name="measured-predicted",
        title=titled(f"The law {law.name} against what was measured", group),
        caption=f"{counted(group)}Each point is a run: what was memorized, lucky guesses included, and what the law "
        f"{law.name} ({law.source_}) says of it.{outside}{unlike(law, group.runs)}{_LINE}",
        panels=(panel,),
    )


_LINE = (
    " On the line both are equal. A library that was memorized whole is a lower bound, and its prediction is cut off "
    "at the library's size. Härmä et al. 2024 draw this in Fig. 8."
)


def _of_fit(group: Group) -> Chart:
    table, kept = _above_chance(group.runs)
    law = PowerLaw().fit(table)
    score = compare(table, [PowerLaw()]).scores[0]
    capped = np.minimum(law.predict(table), tables.numbers(table, "library_size"))
    panels = [_against(f"fitted to all: mean error {score.mape:.0%}", _ABOVE, kept, capped.tolist(), raw=False)]
    if score.predicted_left_out is not None:
        title = f"predicted from the others: {score.mape_left_out:.0%}"
        panels.append(_against(title, _ABOVE, kept, list(score.predicted_left_out), raw=False))
        on_the_right = "; on the right a fifth of the configurations at a time is left out of its fit."
    else:
        on_the_right = f". What it predicts for configurations left out of its fit is not shown: {_why(score)}."
    without = len(group.runs) - len(kept)
    dropped = f" Left out: {of_runs(without)} not above chance." if without else ""
    return Chart(
        name="measured-predicted",
        title=titled("The power law against what was measured", group),
        caption=f"{counted(group)}Sequences above chance. Law: k · (seq_len - 1)^-p · n_heads^q · d_model^r, ours, "
        f"fitted to these runs{on_the_right}{dropped}{_LINE}",
        panels=tuple(panels),
    )


_ABOVE = "predicted above chance"


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
    heads = sorted({n_heads(run) for run in runs})
    series = []
    for group, (name, wanted) in enumerate(
        [*((of_heads(number), number) for number in heads), ("whole library (lower bound)", None)]
    ):
        here = [place for place in shown if _kind(runs[place]) == wanted]
        if here:
            series.append(
                Series(
                    name=name,
                    kind="points",
                    x=tuple(counts[place] for place in here),
                    y=tuple(predicted[place] for place in here),
                    texts=tuple(_point(runs[place], counts[place], predicted[place]) for place in here),
                    group=GREY if wanted is None else group,
                )
            )
    numbers = [value for place in shown for value in (counts[place], predicted[place])]
    ends = (0.8 * min(numbers), 1.25 * max(numbers))
    series.append(Series(name="both equal", kind="reference", x=ends, y=ends, group=0))
    measured_label = "measured, sequences" if raw else "measured above chance"
    return Panel(title=title, x=Axis(label=measured_label, log=10), y=Axis(label=label, log=10), series=tuple(series))


def _kind(run: Measurement) -> int | None:
    return None if run.memorized >= run.library_size else n_heads(run)


def _point(run: Measurement, count: float, predicted: float) -> str:
    return f"{seq_len(run)} tokens, width {d_model(run)}: {count:.4g}, predicted {predicted:.4g} ({run.key[:12]})"


def slopes(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 9: sequences memorized per channel of width, against length, a line per number of heads."""
    return each(alike(of_transformers(runs, Mac), ARCHITECTURE), lambda group: _slopes(group, law))


def _slopes(group: Group, law: Law | None) -> Chart:
    table, kept = _above_chance(group.runs)
    found = slopes_from_origin(ECM().read(table))
    if len(found.slopes) < 2 or len(set(found.seq_len.tolist())) < 2:
        raise ReportError("slopes are drawn against length: at least two lengths below their library's size are needed")
    axis = log_axis("tokens seq_len", found.seq_len.tolist())
    shown, told = _ecm(table, group, law)
    series = []
    last = [run for run, is_last in zip(kept, found.last.tolist(), strict=True) if is_last]
    for place, ((heads,), runs) in enumerate(by(last, n_heads).items()):
        name = of_heads(int(heads))
        series += measured(runs, seq_len, name, place, _per_channel, _interval_per_channel)
        series += _f(shown, ends_of(axis), float(heads), name, place)
    y = Axis(label="sequences per channel of width", log=10)
    panel = Panel(x=axis, y=y, series=tuple(series))
    return Chart(
        name="slopes",
        title=titled("Sequences per channel of width, against length", group),
        caption=f"{counted(group)}Sequences above chance, divided by the width: from the origin to the last width "
        "before saturation (libraries that were memorized whole are left out; how the paper tells saturation is not "
        f"stated, ours: the slope falls below 0.7 of its largest).{said_of_bars([panel])}{told} Härmä et al. 2024 draw "
        "this in Fig. 9.",
        panels=keys([panel]),
    )


def _per_channel(run: Measurement) -> float:
    return run.memorized_above_chance / d_model(run)


def _interval_per_channel(run: Measurement) -> Interval | None:
    return scaled(run.interval, lambda count: above_chance(count, run.chance, run.library_size) / d_model(run))


def _ecm(table: pl.DataFrame, group: Group, law: Law | None) -> tuple[ECM | None, str]:
    """The law whose f(N, H) is drawn, and what a caption says of it."""
    if isinstance(law, ECM):
        return law, f" Dashed: f(N, H) of the law ecm ({law.source_}).{unlike(law, group.runs)}"
    try:
        fitted = ECM(method="stages").fit(table)
    except CapaxError as error:
        return None, f" Eq. 10 is not drawn: {error}."
    return fitted, " Dashed: f(N, H) of eq. 10, fitted to these slopes."


def _f(law: ECM | None, ends: tuple[float, float], heads: float, name: str, group: int) -> list[Series]:
    """f(N, H) of one number of heads over the lengths that are in the law's domain."""
    if law is None:
        return []
    (least, most), (fewest, largest) = law.domain_.ranges["n_heads"], law.domain_.ranges["seq_len"]
    low, high = max(ends[0], fewest), min(ends[1], largest)
    if not least <= heads <= most or low >= high:
        return []
    inside = np.geomspace(low, high, 40)
    values = law.slope(inside, heads)
    if not (values > 0).all():
        return []
    points = tuple(inside.tolist()), tuple(values.tolist())
    return [Series(name=f"law, {name}", kind="band", x=points[0], y=points[1], group=group, faint=True)]


def held_out_heads(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 10: the largest number of heads, predicted by a law that is fitted to the others."""
    return each(
        (group for group in alike(of_transformers(runs, Mac), ARCHITECTURE) if len(set(map(n_heads, group.runs))) > 1),
        lambda group: _held_out(group, law),
        "no runs that differ in n_heads and in nothing else but width and length",
    )


def _held_out(group: Group, law: Law | None) -> Chart:
    most = max(n_heads(run) for run in group.runs)
    others = [run for run in group.runs if n_heads(run) < most]
    held = [run for run in group.runs if n_heads(run) == most]
    form = clone(law) if law is not None and speaks_of(law) else PowerLaw()
    fitted = form.set_params(target="memorized_above_chance", n_bootstrap=REFITS).fit(_above_chance(others)[0])
    axis = log_axis(WIDTH, map(d_model, held))
    panels = []
    for (length,), members in by(held, seq_len).items():
        series = measured(members, d_model, of_heads(most), 0)
        series += law_line(fitted, members, d_model, of_heads(most), 0, everywhere=True)
        series += limits(members, held, d_model, ends_of(axis))
        panels.append(Panel(title=f"{length} tokens", x=axis, y=MEMORIZED, series=tuple(series)))
    known = sorted({n_heads(run) for run in others})
    of_known = f"{', '.join(map(str, known[:-1]))} and {of_heads(known[-1])}" if len(known) > 1 else of_heads(known[0])
    return Chart(
        name="held-out-heads",
        title=titled(f"{of_heads(most).capitalize()}, predicted from fewer", group),
        caption=f"{said_of_lines(held, panels)} Dashed: the law {fitted.name}, fitted to the runs of {of_known}, "
        "band: where it expects 95 % of new measurements (it is asked outside its domain: that is the test). Härmä et "
        "al. 2024 hold out five heads in Fig. 10.",
        panels=keys(panels),
    )


def memorized_against_parameters(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 11: memorized against trainable parameters, a line per number of heads, a panel per length."""
    charts = []
    for group in alike(of_transformers(runs, Mac), ARCHITECTURE):
        if len({(n_heads(run), d_model(run)) for run in group.runs}) < 2:
            continue
        sizes = [_trainable(run) for run in group.runs]
        places = {heads: place for place, heads in enumerate(sorted({n_heads(run) for run in group.runs}))}
        panels = []
        for (length,), members in by(group.runs, seq_len).items():
            series = []
            for (heads,), line in by(members, n_heads).items():
                name, place = of_heads(int(heads)), places[int(heads)]
                series += measured(line, _trainable, name, place) + law_line(law, line, _trainable, name, place)
            series += limits(members, group.runs, _trainable, (min(sizes), max(sizes)))
            x = Axis(label="trainable parameters", log=10)
            panels.append(Panel(title=f"{length} tokens", x=x, y=MEMORIZED, series=tuple(series)))
        charts.append(
            Chart(
                name="parameters",
                title=titled("Memorized sequences against trainable parameters", group),
                caption=f"{said_of_lines(group.runs, panels)}{about(law, group.runs, has_law(panels))} "
                "Parameters are counted from the tensors; frozen tables are not among them. "
                "Härmä et al. 2024 draw this for 64 tokens in Fig. 11, which does not follow from their Table 1.",
                panels=keys(panels),
            )
        )
    return or_error(
        charts, "no runs that differ in their trainable parameters and in nothing else but the architecture"
    )


def _trainable(run: Measurement) -> int:
    return run.parameters.trainable


def compared(comparison: Comparison) -> Chart:
    """A panel per law: what it says of configurations that were left out, against what was measured.

    Raises:
        ReportError: when no law could be fitted with configurations left out.
    """
    shown = [score for score in comparison.scores if score.predicted_left_out is not None]
    if not shown:
        whys = "; ".join(dict.fromkeys(map(_why, comparison.scores)))
        raise ReportError(f"picture: no law could be fitted with configurations left out: {whys}")
    heads = sorted(set(comparison.n_heads))
    ends = (0.7 * min(comparison.counts), 1.4 * max(comparison.counts))
    panels = []
    for score in shown:
        assert score.predicted_left_out is not None
        series = [Series(name="both equal", kind="reference", x=ends, y=ends, group=0)]
        for group, number in enumerate(heads):
            here = [place for place, value in enumerate(comparison.n_heads) if value == number]
            series.append(
                Series(
                    name=of_heads(int(number)),
                    kind="points",
                    x=tuple(comparison.counts[place] for place in here),
                    y=tuple(float(np.clip(score.predicted_left_out[place], *ends)) for place in here),
                    group=group,
                )
            )
        title = f"{score.law}: mean error {score.mape_left_out:.0%}"
        x, y = Axis(label="measured", log=10), Axis(label="predicted from the others", log=10)
        panels.append(Panel(title=title, x=x, y=y, series=tuple(series)))
    return Chart(
        name="comparison",
        title="Sequences memorized: each law against configurations left out of its fit",
        caption="A fifth of the configurations at a time is left out. What a law says beyond the axes is drawn at "
        "their edge.",
        panels=tuple(panels),
    )
