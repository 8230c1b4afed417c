"""What networks can hold, and how their trainings came to it, as data (protocol capacity)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from capax.errors import ReportError
from capax.figures.chart import Axis, Chart, Panel, Series
from capax.figures.columns import SEQ_LEN, decades, in_words, sizes
from capax.figures.groups import Group, alike
from capax.figures.lines import GREY, titled
from capax.laws.law import Law
from capax.literature import stated_by
from capax.results import CapacityEstimate, Measurement
from capax.specs import apart
from capax.text import counted

ALLEN_ZHU = stated_by("allenzhu2024")["stated"]
MORRIS = stated_by("morris2025")["stated"]["bits_per_parameter"]
PUBLISHED = tuple(
    (f"published, other networks: {rate:g} bits per parameter ({source})", rate)
    for source, rate in (
        ("Allen-Zhu and Li 2024", ALLEN_ZHU["bits_per_parameter"]),
        ("Morris et al. 2025", MORRIS["about"]),
    )
)
PUBLISHED_IN_WORDS = (
    f"Published, other networks: about {ALLEN_ZHU['bits_per_parameter']:g} bits per parameter for language models "
    f"after {ALLEN_ZHU['exposures']} exposures of each fact (Allen-Zhu and Li 2024), {MORRIS['bfloat16']:.1f} to "
    f"{MORRIS['about']:g} in bfloat16 ({MORRIS['float32']:g} in float32) for random strings after a million steps "
    "(Morris et al. 2025), both of all trained parameters (the former without the rows of tokens that never occur)."
)
MOST_RUNS = 7
"""Runs whose trainings are told apart in one figure."""
MOST_KINDS = 12
"""Kinds of runs that are told apart in one figure."""
OWN = frozenset(("task", "model", "library", "graph", "contexts", "labels", "channel", "base_weights"))
"""Fields of tasks and models that say what others mean, and the control of one."""
NONE = "no run by protocol capacity"


def per_parameter(run: Measurement) -> int:
    """Effective parameters; the trainable ones where it is not known which of them are."""
    return run.parameters.effective or run.parameters.trainable


def bits_by_parameters(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Bits against effective parameters, with published densities and that of the runs.

    Raises:
        ReportError: without runs by protocol capacity.
    """
    return [_against_parameters(group) for group in _groups(runs)]


def convergence(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Bits at the ends of cycles against exposures, and what eight times as many steps would bring at the right edge.

    Raises:
        ReportError: without runs by protocol capacity.
    """
    return [_by_exposures(group) for group in _groups(runs)]


def _groups(runs: Sequence[Measurement]) -> list[Group]:
    """Runs that were trained and counted alike, whatever their sizes are."""
    taken = [run for run in runs if run.capacity is not None and any(member.cycles for member in run.members)]
    if not taken:
        raise ReportError(NONE)
    parts = [type(part) for run in taken for part in (run.spec.task, run.spec.model)]
    return alike(taken, {name for part in parts for name in (*part.model_fields, *part.axes)} - OWN)


def _found(run: Measurement) -> CapacityEstimate:
    assert run.capacity is not None
    return run.capacity


def _against_parameters(group: Group) -> Chart:
    kinds, mixed = _by_kind(sorted(group.runs, key=per_parameter))
    series = [
        _points(name, [run for run in kinds[name] if _extrapolated(run) == known], place, known)
        for place, name in enumerate(kinds)
        for known in (True, False)
    ]
    series = [one for one in series if one.x]
    if any(one.hollow for one in series):
        series.append(Series(name="not converged", kind="points", x=(), y=(), group=GREY, hollow=True))
    counts = [per_parameter(run) for run in group.runs]
    ends = (0.8 * min(counts), 1.25 * max(counts))
    densities = [_held(run) / per_parameter(run) for run in group.runs if _extrapolated(run)]
    lines = list(PUBLISHED)
    if densities:
        mean = float(np.exp(np.mean(np.log(densities))))
        lines.append((f"these runs: {mean:.2f} bits per effective parameter", mean))
    series += [
        Series(name=name, kind="reference", x=ends, y=tuple(density * end for end in ends), group=place + 1)
        for place, (name, density) in enumerate(lines)
    ]
    return Chart(
        name="capacity",
        title=titled("Capacity against effective parameters", group),
        caption=" ".join(
            filter(None, (_counted(group), mixed, _bars(group), _ended(group), _density(densities), PUBLISHED_IN_WORDS))
        ),
        panels=(Panel(x=decades("effective parameters", counts), y=decades("bits", [1.0]), series=tuple(series)),),
    )


def _by_kind(runs: Sequence[Measurement]) -> tuple[dict[str, list[Measurement]], str]:
    """The runs by what they are, as far as that can be told apart, and in what else they differ, in words."""
    items, unusual = [run.spec.task.items for run in runs], _unusual(runs)
    finest = [", ".join((one, apart.in_words(own))).rstrip(", ") for one, own in zip(items, unusual, strict=True)]
    names = next((names for names in (finest, items) if len(set(names)) <= MOST_KINDS), ["these runs"] * len(runs))
    kinds: dict[str, list[Measurement]] = {}
    for run, name in zip(runs, names, strict=True):
        kinds.setdefault(name, []).append(run)
    differ = list(dict.fromkeys(name for own in unusual for name in own)) if names is not finest else []
    if len(set(items)) > MOST_KINDS:
        differ = ["their items", *differ]
    return kinds, f"Marks that look alike differ in {', '.join(differ)}." if differ else ""


def _unusual(runs: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Of each run the fields of its task and network, but for their sizes, that most do not have."""
    parts = [type(part) for run in runs for part in (run.spec.task, run.spec.model)]
    sizes = {"library_size", *(name for part in parts for name in part.size_axes())}
    return apart.uncommon([apart.simplest_of(run.spec, sizes) for run in runs])


def _extrapolated(run: Measurement) -> bool:
    return _found(run).extrapolated is not None


def _held(run: Measurement) -> float:
    found = _found(run)
    return found.bits if found.extrapolated is None else found.extrapolated


def _points(name: str, runs: Sequence[Measurement], group: int, known: bool) -> Series:
    ends = [_found(run).interval for run in runs]
    return Series(
        name=name,
        kind="points",
        x=tuple(float(per_parameter(run)) for run in runs),
        y=tuple(map(_held, runs)),
        low=tuple(None if end is None else end.low for end in ends) if known else None,
        high=tuple(None if end is None else end.high for end in ends) if known else None,
        texts=tuple(map(_said, runs)),
        group=group,
        hollow=not known,
    )


def _said(run: Measurement) -> str:
    found, least = _found(run), "" if _extrapolated(run) else "at least "
    return (
        f"{least}{_held(run):.4g} bits, {_held(run) / per_parameter(run):.3g} per effective parameter; reached "
        f"{found.bits:.4g}; {run.spec.model.words()} ({run.key[:12]})"
    )


def _by_exposures(group: Group) -> Chart:
    by_bits = sorted(group.runs, key=_held)
    places = np.unique(np.linspace(0, len(by_bits) - 1, min(len(by_bits), MOST_RUNS)).round().astype(int))
    chosen = [by_bits[place] for place in places]
    columns = [column for column in sizes(chosen) if column is not SEQ_LEN]
    bits: list[Series] = []
    density: list[Series] = []
    items = [run.spec.task.items for run in chosen]
    parts = (
        [in_words(columns, [column(run) for column in columns]) for run in chosen],
        items if len(set(items)) > 1 else [""] * len(items),
        [apart.in_words(own) for own in _unusual(chosen)],
    )
    names = [", ".join(filter(None, told)) or run.key[:12] for *told, run in zip(*parts, chosen, strict=True)]
    for other in (lambda run: f"seed {run.spec.seed}", lambda run: run.key[:12]):  # where their sizes are the same
        names = [
            name if names.count(name) == 1 else f"{name}, {other(run)}" for name, run in zip(names, chosen, strict=True)
        ]
    for place, (run, name) in enumerate(zip(chosen, names, strict=True)):
        for panel, unit in ((bits, 1), (density, per_parameter(run))):
            panel += _line(run, name, place, unit)
    drawn = [_above_zero(series) for series in bits]
    lost = sum(len(all_of.y) - len(kept.y) for all_of, kept in zip(bits, drawn, strict=True))
    some = f"{len(chosen)} of {len(group.runs)} runs, evenly from the fewest bits to the most."
    exposures = Axis(label="exposures (epochs)", log=10)
    said = (
        some if len(chosen) < len(group.runs) else "",
        _counted(group),
        "Lines: the mean over the restarts of the most that each knew by the end of a cycle, by how often it had seen "
        "every item.",
        "Marks at eight times as many exposures: what so many steps would bring."
        if any(map(_extrapolated, chosen))
        else "",
        f"Not on the logarithmic axis: {counted(lost, 'point')} of 0 bits." if lost else "",
        _bars(group),
        _ended(group),
    )
    return Chart(
        name="convergence",
        title=titled("Bits known at the ends of cycles", group),
        caption=" ".join(filter(None, said)),
        panels=(
            Panel(title="bits", x=exposures, y=Axis(label="bits", log=10), series=tuple(drawn)),
            Panel(
                title="per effective parameter",
                x=exposures,
                y=Axis(label="bits per effective parameter", from_zero=True),
                series=tuple(density),
            ),
        ),
        share_y=False,
    )


def _above_zero(series: Series) -> Series:
    """Without points that a logarithmic axis has no place for."""
    kept = [place for place, y in enumerate(series.y) if isinstance(y, float) and y > 0]
    parts = {name: getattr(series, name) for name in ("x", "y", "low", "high", "texts")}
    return series.model_copy(
        update={name: part if part is None else tuple(part[place] for place in kept) for name, part in parts.items()}
    )


def _line(run: Measurement, name: str, group: int, unit: int) -> list[Series]:
    """The mean of the restarts at the ends of their cycles, in such units; and what it would be eight times later."""
    ends = [member.cycles for member in run.members if member.cycles]
    epochs = [end.epochs for end in max(ends, key=len)]
    known = [np.maximum.accumulate([end.bits for end in cycles]) for cycles in ends]  # a restart that has stopped stays
    means = [float(np.mean([bits[min(place, len(bits) - 1)] for bits in known])) / unit for place in range(len(epochs))]
    line = Series(
        name=name,
        kind="line",
        x=tuple(map(float, epochs)),
        y=tuple(means),
        texts=tuple(f"{mean:.4g} after {epoch} exposures" for mean, epoch in zip(means, epochs, strict=True)),
        group=group,
    )
    found = _found(run)
    if found.extrapolated is None:
        return [line]
    low, high = (found.interval.low, found.interval.high) if found.interval is not None else (None, None)
    end = Series(
        name=name,
        kind="points",
        x=(8.0 * epochs[-1],),
        y=(found.extrapolated / unit,),
        low=(None if low is None else low / unit,),
        high=(None if high is None else high / unit,),
        texts=(f"{found.extrapolated / unit:.4g} after eight times as many steps",),
        group=group,
    )
    return [line, end]


# Sentences of captions


def _counted(group: Group) -> str:
    return (
        f"Count: {group.runs[0].spec.protocol.words()}, extrapolated to eight times as many steps; bits as Morris "
        "et al. 2025 count them."
    )


def _bars(group: Group) -> str:
    ends = [end for run in group.runs if (end := _found(run).interval) is not None]
    return f"Bars: {ends[0].level:.0%} intervals: {'; '.join(sorted({end.of for end in ends}))}." if ends else ""


def _ended(group: Group) -> str:
    number, short = len(group.runs), sum(not _extrapolated(run) for run in group.runs)
    if not short:
        return f"All {number} runs converged." if number > 1 else "The run converged."
    which = f"{short} of {number} runs" if number > 1 else "The run"
    return f"{which} did not converge: nothing is extrapolated there, and what was reached is a lower bound."


def _density(densities: Sequence[float]) -> str:
    if not densities:
        return ""
    return (
        f"These runs hold {min(densities):.2f} to {max(densities):.2f} bits per effective parameter (the line: their "
        "geometric mean). Effective: trained numbers, where the two matrices of a product count by the freedom of the "
        "product."
    )
