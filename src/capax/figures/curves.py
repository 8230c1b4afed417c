"""Training curves, of any task."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from capax.errors import ReportError
from capax.figures.chart import Axis, Chart, Panel, Series
from capax.figures.groups import alike
from capax.figures.lines import or_error, titled
from capax.figures.words import of_heads
from capax.laws.law import Law
from capax.results import Curve, Measurement, Member
from capax.specs import Associations, AssociativeAttention, KeyQueryChannel, Mac, Relations, Sequences, Transformer

MOST_CURVES = 7
"""Runs whose curves are told apart in one figure."""
MOST_POINTS = 200
"""Points of a curve that is drawn."""
SIZES = frozenset({"seq_len", "context_size", "n_items", "n_edges", "n_heads", "d_head", "d_model"})
"""What the runs of one figure differ in."""


def training_curves(
    runs: Sequence[Measurement], law: Law | None, whole: Callable[[Measurement], Measurement] = lambda run: run
) -> list[Chart]:
    """Share of the library that is memorized, and loss, against epoch; the best restart of each run.

    Args:
        whole: gives a run with its curves, where those of the runs are cut short (`light.Light`).
    """
    told = [run for run in runs if isinstance(run.spec.protocol, Mac) and _sizes(run) is not None]
    if not told:
        raise ReportError("no run by protocol mac whose model is described by capax")
    charts = []
    for group in alike(told, SIZES):
        chosen = _spread([run for run in group.runs if any(len(one.curve.epoch) > 1 for one in run.members)])
        if not chosen:
            continue
        memorized: list[Series] = []
        loss: list[Series] = []
        for place, run in enumerate(map(whole, chosen)):
            best = max(run.members, key=lambda member: member.memorized)
            for member in run.members:
                share, mean = _curves(run, member, place, member is not best)
                memorized.append(share)
                loss.append(mean)
        some = f"{len(chosen)} of {len(group.runs)} runs, evenly from the fewest memorized to the most. "
        epoch = Axis(label="epoch")
        share_axis = Axis(label="share of the library memorized", from_zero=True)
        charts.append(
            Chart(
                name="curves",
                title=titled("Training curves", group),
                caption=f"{some if len(chosen) < len(group.runs) else ''}The restart that memorized most; faint: the "
                "others of its run. Loss: mean training loss since the evaluation before, "
                f"{_loss(chosen[0])}. A run's count is that of its best evaluation. Ours: no paper has such a figure.",
                panels=(
                    Panel(title="memorized", x=epoch, y=share_axis, series=tuple(memorized)),
                    Panel(title="loss", x=epoch, y=Axis(label="loss", from_zero=True), series=tuple(loss)),
                ),
                share_y=False,
            )
        )
    return or_error(charts, "no run was evaluated more than once")


def _sizes(run: Measurement) -> dict[str, int] | None:
    """What tells a run from others of its figure, in words and numbers; None of a user's module."""
    match run.spec.task, run.spec.model:
        case Sequences() as task, Transformer() as model:
            return {f"{task.seq_len} tokens": task.seq_len, of_heads(model.n_heads): model.n_heads} | _width(model)
        case Associations() as task, AssociativeAttention() as model:
            heads = f"{of_heads(model.n_heads)} of {model.d_head}"
            return {f"context {task.context_size}": task.context_size, heads: model.n_heads} | _width(model)
        case Relations() as task, KeyQueryChannel() as model:
            heads = f"{of_heads(model.n_heads)} of {model.d_head}"
            return {f"{task.library_size} edges": task.library_size, heads: model.n_heads} | _width(model)
    return None


def _width(model: Transformer | AssociativeAttention | KeyQueryChannel) -> dict[str, int]:
    return {f"width {model.d_model}": model.d_model}


def _loss(run: Measurement) -> str:
    match run.spec.task:
        case Associations() as task:
            return "nats per example" if task.labels == "classes" else "mean squared error"
        case Relations():
            return "binary cross-entropy in nats, summed over pairs by their importance"
    return "nats per token that it covers"


def _spread(runs: list[Measurement]) -> list[Measurement]:
    """At most so many runs, evenly from the fewest memorized to the most, in the order of their sizes."""
    ordered = sorted(runs, key=lambda run: run.memorized / run.library_size)
    places = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_CURVES)).round().astype(int))
    return sorted((ordered[place] for place in places), key=lambda run: tuple((_sizes(run) or {}).values()))


def _curves(run: Measurement, member: Member, group: int, faint: bool) -> tuple[Series, Series]:
    name = ", ".join(_sizes(run) or ())
    curve: Curve = member.curve
    places = np.unique(np.linspace(0, len(curve.epoch) - 1, min(len(curve.epoch), MOST_POINTS)).round().astype(int))
    epochs = tuple(float(curve.epoch[place]) for place in places)
    shares = tuple(curve.memorized[place] / member.library_size for place in places)
    losses = tuple(curve.loss[place] for place in places)
    memorized, loss = (
        Series(name=name, kind="line", x=epochs, y=values, group=group, faint=faint) for values in (shares, losses)
    )
    return memorized, loss
