"""Which variant of a network holds more for its parameters, as data (protocol capacity)."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.stats import dunnett

from capax.errors import ReportError
from capax.figures.capacity import per_parameter
from capax.figures.chart import Axis, Chart, Panel, Series
from capax.figures.groups import Group, alike
from capax.figures.lines import titled
from capax.laws.law import Law
from capax.results import LEVEL, Measurement
from capax.specs.apart import in_words, simplest_of, uncommon
from capax.text import counted

NONE = "no converged runs by protocol capacity of models that differ in more than their sizes"
LIBRARY = ("library_size", "library_sha256")
LETTERS = 40
"""Of a line of a name."""
UNITS: dict[str, Callable[[Measurement], int]] = {
    "effective": per_parameter,
    "trainable": lambda run: run.parameters.trainable,
}
"""Parameters that bits are counted by."""


@dataclass(frozen=True)
class Variant:
    """The runs of one network, whatever their seeds are.

    Attributes:
        name: what tells it from the base, in words.
        ratios: bits per parameter by those of the base, for each of `UNITS`: the estimate and its interval, which holds
            for all variants at once; without an interval where no variant has two runs. None of the base.
    """

    name: str
    runs: tuple[Measurement, ...]
    ratios: Mapping[str, tuple[float, ...]] | None

    def densities(self, unit: str) -> list[float]:
        """Bits per parameter of each run."""
        return [_bits(run) / UNITS[unit](run) for run in self.runs]

    def density(self, unit: str) -> float:
        """Their geometric mean."""
        return float(np.exp(np.mean(np.log(self.densities(unit)))))


def by_variant(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Bits per parameter of each variant, with those of the base, the variant of the commonest fields.

    Raises:
        ReportError: without converged runs by protocol capacity that differ in more than their sizes.
    """
    found = [(group, variants(group.runs)) for group in _groups(runs)]
    charts = [_chart(group, every) for group, every in found if every]
    if not charts:
        raise ReportError(NONE)
    return charts


def variants(runs: Sequence[Measurement]) -> list[Variant]:
    """The variants among runs that were trained and counted alike, the base first; none where there is one.

    Ratios to the base are compared with Dunnett's test of logarithms: one spread of all, and a level for all intervals
    together.
    """
    groups: dict[str, list[Measurement]] = {}
    free = False
    for run, own in zip(runs, uncommon([simplest_of(run.spec, LIBRARY) for run in runs]), strict=True):
        free = free or bool(own.keys() - set(type(run.spec.model).axes))
        groups.setdefault(in_words(own), []).append(run)
    if len(groups) < 2 or not free:
        return []
    base = groups.pop("", None) or groups.pop(max(groups, key=lambda name: len(groups[name])))
    ratios = {unit: _ratios(base, list(groups.values()), unit) for unit in UNITS}
    return [
        Variant("base", tuple(base), None),
        *(
            Variant(
                "\n".join(textwrap.wrap(name, LETTERS)), tuple(members), {unit: ratios[unit][place] for unit in UNITS}
            )
            for place, (name, members) in enumerate(groups.items())
        ),
    ]


def _groups(runs: Sequence[Measurement]) -> list[Group]:
    taken = [run for run in runs if run.capacity is not None and run.capacity.extrapolated is not None]
    fields = {name for run in taken for name in type(run.spec.model).model_fields}
    return alike(taken, fields | set(LIBRARY))


def _words(run: Measurement) -> str:
    spec = run.spec
    return spec.model.simplest(**spec.task.sizes()).words()


def _bits(run: Measurement) -> float:
    assert run.capacity is not None
    assert run.capacity.extrapolated is not None
    return run.capacity.extrapolated


def _ratios(base: Sequence[Measurement], others: Sequence[Sequence[Measurement]], unit: str) -> list[Any]:
    return _compared(tuple(tuple(_bits(run) / UNITS[unit](run) for run in members) for members in (base, *others)))


@lru_cache(maxsize=16)
def _compared(densities: tuple[tuple[float, ...], ...]) -> list[Any]:
    """Ratios to the first with their intervals; Dunnett's are integrated at random, which takes seconds."""
    logs = [np.log(some) for some in densities]
    means = [float(np.exp(one.mean() - logs[0].mean())) for one in logs[1:]]
    if all(len(one) < 2 for one in logs):
        return [(mean,) for mean in means]
    ends = dunnett(*logs[1:], control=logs[0], rng=np.random.default_rng(0)).confidence_interval(LEVEL)
    return list(zip(means, np.exp(ends.low).tolist(), np.exp(ends.high).tolist(), strict=True))


def _chart(group: Group, every: Sequence[Variant]) -> Chart:
    ordered = sorted(every, key=lambda variant: -variant.density("effective"))
    names = tuple(variant.name for variant in ordered)
    seeds = sorted({len(variant.runs) for variant in every})
    told = f"{seeds[0]} to {seeds[-1]} runs" if len(seeds) > 1 else counted(seeds[0], "run")
    intervals = (
        f"Bars: {LEVEL:.0%} intervals of the ratio to the base, for all variants at once (Dunnett); one that misses "
        "the line is beyond the noise of seeds."
        if max(seeds) > 1
        else "One seed: no interval."
    )
    return Chart(
        name="variants",
        title=titled("Bits per parameter by variant", group),
        caption=f"Base: {_words(every[0].runs[0])}. Geometric means of {told} of each variant, which differ in seeds "
        f"(dots: each run). {intervals} Count: {group.runs[0].spec.protocol.words()}, extrapolated to eight times as "
        "many steps, of runs that converged.",
        panels=tuple(
            Panel(
                x=Axis(label=f"bits per {unit} parameter"),
                y=Axis(label="", names=names),
                series=_series(ordered, every[0], unit),
            )
            for unit in UNITS
        ),
    )


def _series(ordered: Sequence[Variant], base: Variant, unit: str) -> tuple[Series, ...]:
    dots = [(density, variant.name) for variant in ordered for density in variant.densities(unit)]
    known = [variant.ratios is not None and len(variant.ratios[unit]) == 3 for variant in ordered]
    of_base = base.density(unit)

    def ends(variant: Variant, at: int) -> float | None:
        return None if variant.ratios is None else of_base * variant.ratios[unit][at]

    return (
        Series(name="base", kind="reference", x=(of_base, of_base), y=(ordered[0].name, ordered[-1].name)),
        Series(
            name="a run",
            kind="points",
            x=tuple(density for density, _ in dots),
            y=tuple(name for _, name in dots),
            faint=True,
        ),
        Series(
            name="mean",
            kind="points",
            x=tuple(variant.density(unit) for variant in ordered),
            y=tuple(variant.name for variant in ordered),
            low=tuple(ends(one, 1) for one in ordered) if any(known) else None,
            high=tuple(ends(one, 2) for one in ordered) if any(known) else None,
            texts=tuple(_text(variant, unit) for variant in ordered),
        ),
    )


def _text(variant: Variant, unit: str) -> str:
    said = f"{variant.density(unit):.3f} bits per {unit} parameter"
    if variant.ratios is None:
        return said
    mean, *ends = variant.ratios[unit]
    return f"{said}, {mean - 1:+.1%} of the base" + (f" ({ends[0] - 1:+.1%} to {ends[1] - 1:+.1%})" if ends else "")
