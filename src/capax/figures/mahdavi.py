"""The figures of Mahdavi et al. 2024 (arXiv 2306.02010), of any runs on associations, as data.

Their code was read, their figures were not: of the accuracies only the trends are known to us.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from capax.errors import ReportError
from capax.figures.chart import Axis, Chart, Panel, Series
from capax.figures.groups import Group, alike
from capax.figures.lines import measured, or_error, said_of_bars, titled
from capax.figures.words import protocol
from capax.laws.law import Law
from capax.measures.units import scaled
from capax.results import Interval, Measurement
from capax.specs import Associations, AssociativeAttention, Mac
from capax.theory.association_bounds import fresh_context_rank, mahdavi2024, shared_context_rank

MOST_PANELS = 8
NAMED = 4
"""Numbers that a caption lists one by one."""
APART = 0.04
"""Of an axis: marks that are nearer would run into each other."""
SIZES = ("n_heads", "context_size", "d_head", "d_model")


@dataclass(frozen=True)
class Sweep:
    """A figure: what is along its axis, and what the paper says of it."""

    name: str
    swept: str
    label: str
    trend: str


HEADS = Sweep(
    "accuracy-heads",
    "n_heads",
    "heads n_heads",
    "The paper finds it linear in the heads (R² at least .98, read where others restate it)",
)
CONTEXT = Sweep("accuracy-context", "context_size", "context size n", "The paper finds that it rises with the context")
HEAD_SIZE = Sweep(
    "accuracy-head-size",
    "d_head",
    "head size d_head",
    "The paper finds that it rises with the head size up to the context's size n, and not beyond",
)


def accuracy_heads(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Share of the library that is recalled against heads, a line per library size."""
    return _accuracy(runs, HEADS)


def accuracy_context(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """The same against the size of the context."""
    return _accuracy(runs, CONTEXT)


def accuracy_head_size(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """The same against the head size."""
    return _accuracy(runs, HEAD_SIZE)


def _accuracy(runs: Sequence[Measurement], sweep: Sweep) -> list[Chart]:
    found = [run for run in runs if isinstance(run.spec.task, Associations) and isinstance(run.spec.protocol, Mac)]
    if not found:
        raise ReportError("no run on associations by protocol mac")
    groups = alike(found, {*SIZES, "library_size"})
    charts = [chart for group in groups if (chart := _chart(group, sweep)) is not None]
    return or_error(charts, f"no runs that differ in {sweep.swept} and in nothing else but the library's size")


def _chart(group: Group, sweep: Sweep) -> Chart | None:
    others = [name for name in SIZES if name != sweep.swept]
    by_sizes: dict[tuple[int, ...], list[Measurement]] = defaultdict(list)
    for run in group.runs:
        by_sizes[tuple(_size(run, name) for name in others)].append(run)
    filled = {
        sizes: members
        for sizes, members in sorted(by_sizes.items(), key=lambda item: (-len(item[1]), item[0]))
        if len({_size(run, sweep.swept) for run in members}) > 1
    }
    if not filled:
        return None
    shown = dict(sorted(list(filled.items())[:MOST_PANELS]))
    libraries = sorted({run.library_size for members in shown.values() for run in members})
    fixed = [name for place, name in enumerate(others) if len({sizes[place] for sizes in shown}) == 1]
    same = ", ".join(f"{name} {next(iter(shown))[others.index(name)]}" for name in fixed)
    of = partial(_size, name=sweep.swept)
    panels, straight = [], []
    for sizes, members in shown.items():
        title = ", ".join(f"{name} {size}" for name, size in zip(others, sizes, strict=True) if name not in fixed)
        lines = {size: [run for run in members if run.library_size == size] for size in libraries}
        panels.append(
            Panel(
                title=title,
                x=_axis(sweep, members),
                y=Axis(label="share of the library recalled", from_zero=True),
                series=(
                    *(
                        part
                        for place, size in enumerate(libraries)
                        for part in measured(lines[size], of, f"{size} examples", place, _share, _interval)
                    ),
                    *_references(members, sweep),
                ),
            )
        )
        straight += [(title, size, straightness(lines[size], sweep.swept)) for size in libraries]
    return Chart(
        name=sweep.name,
        title=titled(f"Share recalled against {sweep.label}", group),
        caption=f"Recalled examples of all, {protocol(group.runs[0].spec)}.{said_of_bars(panels)}"
        f"{_seeds(shown)}{f' All have {same}.' if same else ''} {_explained(panels)}"
        + (_r_squared(straight) if sweep is HEADS else "")
        + f" {sweep.trend}; its accuracies are not known to us. Mahdavi et al. 2024, Fig. 2."
        + ("" if len(filled) <= MOST_PANELS else f" {MOST_PANELS} of {len(filled)} panels, those of most runs."),
        panels=tuple(panels),
    )


def _seeds(shown: dict[tuple[int, ...], list[Measurement]]) -> str:
    repeated = any(len({run.spec.seed for run in members}) > 1 for members in shown.values())
    return " Of several seeds the mean." if repeated else ""


def _size(run: Measurement, name: str) -> int:
    part: Any = run.spec.task if name == "context_size" else run.spec.model
    value: int = getattr(part, name)
    return value


def _axis(sweep: Sweep, members: list[Measurement]) -> Axis:
    sizes = sorted({float(_size(run, sweep.swept)) for run in members})
    gap = APART * (sizes[-1] - sizes[0])
    ticks = [size for place, size in enumerate(sizes) if place == 0 or size - sizes[place - 1] >= gap]
    return Axis(label=sweep.label, ticks=tuple(ticks))


def _share(run: Measurement) -> float:
    return run.memorized / run.library_size


def _interval(run: Measurement) -> Interval | None:
    return scaled(run.interval, lambda count: count / run.library_size)


def _references(members: list[Measurement], sweep: Sweep) -> list[Series]:
    """What theory says of the smallest library, and what luck recalls of it."""
    least = min(run.library_size for run in members)
    runs = {_size(run, sweep.swept): run for run in members if run.library_size == least}
    found: list[Series] = []
    for place, (name, bound) in enumerate((("theorem 1", _theorem), ("rank limit", _rank))):
        values = [(size, bound(run)) for size, run in sorted(runs.items())]
        known = [(size, min(value / least, 1.0)) for size, value in values if value is not None]
        x, y = tuple(size for size, _ in known), tuple(share for _, share in known)
        if known and not any((x, y) == (other.x, other.y) for other in found):  # one line where both are the same
            found.append(Series(name=f"{name}, {least} examples", kind="reference", x=x, y=y, group=place))
    lucky = tuple(run.chance / least for _, run in sorted(runs.items()))  # of each run's own library
    return [*found, Series(name="by luck", kind="reference", x=tuple(sorted(runs)), y=lucky, group=2)]


def _theorem(run: Measurement) -> float | None:
    model = run.spec.model
    assert isinstance(model, AssociativeAttention)
    return mahdavi2024(model.n_heads, _size(run, "context_size"), model.d_model, model.d_head).value


def _rank(run: Measurement) -> float | None:
    task, model = run.spec.task, run.spec.model
    assert isinstance(task, Associations)
    assert isinstance(model, AssociativeAttention)
    if task.contexts == "shared":
        return shared_context_rank(model.n_heads, task.context_size, model.d_model).value
    return fresh_context_rank(model.n_heads, model.d_model).value


def _explained(panels: list[Panel]) -> str:
    """What the grey lines are."""
    names = {series.name.split(",")[0] for panel in panels for series in panel.series if series.kind == "reference"}
    words = {
        "theorem 1": "H(min(n, d_head) − 1) + 1 examples, to which the theorem's layer (no embedding, no positions) "
        "can give any labels, as a share of the smallest library",
        "rank limit": "the most with query and key weights that do not depend on the labels, which trained ones do",
        "by luck": "what luck recalls",
    }
    return f"Grey: {'; '.join(f'{name}: {text}' for name, text in words.items() if name in names)}."


def straightness(members: Sequence[Measurement], swept: str) -> float | None:
    """R² of a straight line through the shares recalled; None below three sizes, or where all shares are the same."""
    x = np.array([_size(run, swept) for run in members], dtype=float)
    y = np.array([_share(run) for run in members])
    if len(set(x)) < 3 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1] ** 2)


def _r_squared(straight: list[tuple[str, int, float | None]]) -> str:
    known = [(title, size, value) for title, size, value in straight if value is not None]
    if not known:
        return ""
    if len(known) > NAMED:
        values = [value for _, _, value in known]
        return f" R² of a straight line in the heads: {min(values):.3f} to {max(values):.3f} over {len(known)} lines."
    each = ", ".join(f"{value:.3f} ({size} examples{f', {title}' if title else ''})" for title, size, value in known)
    return f" R² of a straight line in the heads: {each}."
