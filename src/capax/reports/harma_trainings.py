"""The figures of single trainings on sequences: their curves, and how long they took (Härmä et al. 2024, Fig. 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import nbinom

from capax.errors import ReportError
from capax.laws.law import Law
from capax.reports.chart import Axis, Chart, Panel, Series
from capax.reports.groups import alike
from capax.reports.harma import ARCHITECTURE, counted
from capax.reports.lines import d_model, n_heads, of_transformers, seq_len, titled
from capax.reports.words import of_heads
from capax.results import Curve, Measurement, Member
from capax.specs import Mac, Shatter

MOST_CURVES = 7
"""Runs whose curves are told apart in one figure."""
MOST_POINTS = 200
"""Points of a curve that is drawn."""
MOST_BINS = 40


def training_curves(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Share of the library that is memorized, and loss, against epoch; the best restart of each run."""
    charts = []
    for group in alike(of_transformers(runs, Mac), ARCHITECTURE):
        chosen = _spread([run for run in group.runs if any(len(one.curve.epoch) > 1 for one in run.members)])
        if not chosen:
            continue
        panels = [[], []]  # type: tuple[list[Series], list[Series]] | list[list[Series]]
        for place, run in enumerate(chosen):
            best = max(run.members, key=lambda member: member.memorized)
            for member in run.members:
                for series, drawn in zip(panels, _curves(run, member, place, member is not best), strict=True):
                    series.append(drawn)
        some = f"{len(chosen)} of {len(group.runs)} runs, evenly from the fewest memorized to the most. "
        epoch = Axis(label="epoch")
        charts.append(
            Chart(
                name="curves",
                title=titled("Training curves", group),
                caption=f"{some if len(chosen) < len(group.runs) else ''}The restart that memorized most; faint: the "
                "others of its run. Loss: mean training loss since the evaluation before, nats per token that it "
                "covers. A run's count is that of its best evaluation. Ours: the paper has no such figure.",
                panels=(
                    Panel(
                        title="memorized",
                        x=epoch,
                        y=Axis(label="share of the library memorized", from_zero=True),
                        series=tuple(panels[0]),
                    ),
                    Panel(title="loss", x=epoch, y=Axis(label="loss (nats)", from_zero=True), series=tuple(panels[1])),
                ),
                share_y=False,
            )
        )
    if not charts:
        raise ReportError("no run was evaluated more than once")
    return charts


def _spread(runs: list[Measurement]) -> list[Measurement]:
    """At most so many runs, evenly from the fewest memorized to the most, in the order of their architecture."""
    ordered = sorted(runs, key=lambda run: run.memorized / run.library_size)
    places = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_CURVES)).round().astype(int))
    return sorted((ordered[place] for place in places), key=lambda run: (seq_len(run), n_heads(run), d_model(run)))


def _curves(run: Measurement, member: Member, group: int, faint: bool) -> tuple[Series, Series]:
    name = f"{seq_len(run)} tokens, {of_heads(n_heads(run))}, width {d_model(run)}"
    curve: Curve = member.curve
    places = np.unique(np.linspace(0, len(curve.epoch) - 1, min(len(curve.epoch), MOST_POINTS)).round().astype(int))
    epochs = tuple(float(curve.epoch[place]) for place in places)
    shares = tuple(curve.memorized[place] / member.library_size for place in places)
    losses = tuple(curve.loss[place] for place in places)
    memorized, loss = (
        Series(name=name, kind="line", x=epochs, y=values, group=group, faint=faint) for values in (shares, losses)
    )
    return memorized, loss


def epochs_to_shatter(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 5: how many epochs trials took until their library was whole, with the fitted negative binomial."""
    charts = []
    for group in alike(of_transformers(runs, Shatter), ARCHITECTURE | {"library_size"}):
        shown = [run for run in group.runs if run.shatter is not None and run.shatter.epochs]
        if not shown:
            continue
        order = sorted(shown, key=lambda run: (seq_len(run), n_heads(run), d_model(run), run.library_size))
        charts.append(
            Chart(
                name="shatter",
                title=titled("Epochs until the whole library is memorized", group),
                caption=f"{counted(group)}Library, weights and batch order are redrawn in each trial. Dashed: the "
                "negative binomial of greatest likelihood, as the number of trials that it expects in each bar; trials "
                "that had not completed when they were given up enter its fit as censored and have no bar. "
                "Härmä et al. 2024 draw this in Fig. 5 (1000 trials, 16 sequences of 8 tokens, width 16).",
                panels=tuple(_histogram(run) for run in order),
                share_y=False,
            )
        )
    if not charts:
        raise ReportError("no trial completed its library")
    return charts


def _histogram(run: Measurement) -> Panel:
    assert run.shatter is not None
    epochs, fit = np.array(run.shatter.epochs), run.shatter.fit
    bins = min(MOST_BINS, math.ceil(2 * math.sqrt(len(epochs))))
    wide = max(1, math.ceil((epochs.max() - epochs.min() + 1) / bins))
    first = int(epochs.min())
    number = (int(epochs.max()) - first) // wide + 1
    starts = first + wide * np.arange(number)
    counts = np.bincount((epochs - first) // wide, minlength=number)
    middles = tuple((starts + (wide - 1) / 2).tolist())
    texts = tuple(
        f"{count} trials in epoch{'s' * (wide > 1)} {start}{f' to {start + wide - 1}' * (wide > 1)}"
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
    )
    series = [Series(name="trials", kind="bars", x=middles, y=tuple(counts.tolist()), width=0.9 * wide, texts=texts)]
    never = len(run.shatter.censored)
    trials = len(epochs) + never
    if fit is not None:
        distribution = nbinom(fit.r, fit.p, loc=fit.r)
        shares = distribution.cdf(starts + wide - 1) - distribution.cdf(starts - 1)
        series.append(
            Series(name="negative binomial", kind="band", x=middles, y=tuple((trials * shares).tolist()), group=1)
        )
    title = f"{run.library_size} sequences of {seq_len(run)} tokens,\n{of_heads(n_heads(run))}, width {d_model(run)}"
    told = f"epoch\n({never} of {trials} did not complete)" if never else f"epoch\n(all {trials} completed)"
    return Panel(title=title, x=Axis(label=told), y=Axis(label="trials", from_zero=True), series=tuple(series))
