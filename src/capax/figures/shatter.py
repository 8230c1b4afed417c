"""How long trainings take until their library is memorized whole (Härmä et al. 2024, Fig. 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import nbinom

from capax.errors import ReportError
from capax.figures.chart import Axis, Chart, Panel, Series
from capax.figures.columns import HEADS, SIZES, TASK_SIZES, WIDTH, by, in_words
from capax.figures.groups import alike
from capax.figures.lines import titled
from capax.laws.law import Law
from capax.results import Measurement

MOST_BINS = 40
VARIED = [field for column in (*TASK_SIZES, HEADS, WIDTH) for field in column.varied] + ["library_size"]


def epochs_to_shatter(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 5: how many epochs trials took until their library was whole, with the fitted negative binomial.

    Raises:
        ReportError: without runs by protocol shatter of which a trial completed.
    """
    taken = [run for run in runs if run.shatter is not None]
    if not taken:
        raise ReportError("no run by protocol shatter")
    shown = [run for run in taken if run.shatter is not None and run.shatter.epochs]
    if not shown:
        raise ReportError("no trial completed its library")
    return [
        Chart(
            name="shatter",
            title=titled("Epochs until the whole library is memorized", group),
            caption=f"Count: {group.runs[0].spec.protocol.words()}. Each trial has a library, weights and a batch "
            "order of its own. Dashed: the fitted negative binomial (maximum likelihood), as expected trials per bar. "
            "Trials that did not complete count as censored in the fit and have no bar. Härmä et al. 2024 draw this "
            "in Fig. 5 (1000 trials, 16 sequences; 8 tokens by the name of its file, and width 16 if the B16 "
            "in it is that; heads and layers are not known).",
            panels=tuple(_histogram(run) for found in by(group.runs, *SIZES).values() for run in found),
            share_y=False,
        )
        for group in alike(shown, VARIED)
    ]


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
    if fit is not None and len(middles) > 1:
        distribution = nbinom(fit.r, fit.p, loc=fit.r)
        shares = distribution.cdf(starts + wide - 1) - distribution.cdf(starts - 1)
        series.append(
            Series(name="negative binomial", kind="band", x=middles, y=tuple((trials * shares).tolist()), group=1)
        )
    columns = (*TASK_SIZES, HEADS, WIDTH)
    sizes = in_words(columns, [column(run) for column in columns])
    told = f"epoch\n({never} of {trials} did not complete)" if never else f"epoch\n(all {trials} completed)"
    return Panel(
        title=f"{run.library_size} {run.spec.task.unit}:\n{sizes}",
        x=Axis(label=told),
        y=Axis(label="trials", from_zero=True),
        series=tuple(series),
    )
