"""Runs in bits per trainable parameter, by every definition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from capax.figures.chart import Axis, Chart, Panel, Series
from capax.figures.declared import ARCHITECTURE, WIDTH, counted
from capax.figures.groups import alike
from capax.figures.lines import (
    by,
    d_model,
    ends_of,
    log_axis,
    measured,
    n_heads,
    of_transformers,
    or_error,
    said_of_bars,
    seq_len,
    titled,
)
from capax.figures.words import of_heads
from capax.laws.law import Law
from capax.measures.units import scaled
from capax.results import Amount, Interval, Measurement
from capax.specs import Mac

NAMES = {"bits": "items above chance", "morris_bits": "Morris et al. 2025", "allen_zhu_bits": "Allen-Zhu and Li 2024"}


def bits_per_parameter(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Bits per trainable parameter against width, a line per definition, a panel per length and number of heads."""
    told = [run for run in of_transformers(runs, Mac) if {unit.name for unit in run.units} >= set(NAMES)]
    charts = []
    for group in alike(told, ARCHITECTURE):
        if len({d_model(run) for run in group.runs}) < 2:
            continue
        axis = log_axis(WIDTH, map(d_model, group.runs))
        panels = []
        for (length, heads), members in by(group.runs, seq_len, n_heads).items():
            lines = [
                part
                for place, (unit, name) in enumerate(NAMES.items())
                for part in measured(
                    members, d_model, name, place, partial(_per_parameter, unit), partial(_interval, unit)
                )
            ]
            zero = Series(name="nothing known", kind="reference", x=ends_of(axis), y=(0.0, 0.0), group=0)
            title = f"{length} tokens, {of_heads(int(heads))}"
            y = Axis(label="bits per trainable parameter")
            panels.append(Panel(title=title, x=axis, y=y, series=(*lines, zero)))
        charts.append(
            Chart(
                name="units",
                title=titled("Bits per trainable parameter", group),
                caption=f"{counted(group)}One run by three definitions. Items above chance: bits of the tokens that "
                "count as recalled. Morris et al. 2025: what the cross-entropy of an item is below that of a uniform "
                "guess, summed over the items where it is below. Allen-Zhu and Li 2024: the same over all items, so "
                "that it may be negative. The last two count all that the loss covers."
                f"{said_of_bars(panels)}",
                panels=tuple(panels),
            )
        )
    return or_error(charts, "no runs, with their units, that differ in width and in nothing else but heads and length")


def _amount(unit: str, run: Measurement) -> Amount:
    return next(one for one in run.units if one.name == unit)


def _per_parameter(unit: str, run: Measurement) -> float:
    return _amount(unit, run).per_trainable_parameter


def _interval(unit: str, run: Measurement) -> Interval | None:
    return scaled(_amount(unit, run).interval, lambda amount: amount / run.parameters.trainable)
