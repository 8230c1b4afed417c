"""How long trainings take until their library is memorized whole (Härmä et al. 2024, Fig. 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import nbinom

from capax.figures.chart import Axis, Chart, Panel, Series
from capax.figures.declared import ARCHITECTURE, counted
from capax.figures.groups import alike
from capax.figures.lines import d_model, n_heads, of_transformers, or_error, seq_len, titled
from capax.figures.words import of_heads
from capax.laws.law import Law
from capax.results import Measurement
from capax.specs import Shatter

MOST_BINS = 40


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
    return or_error(charts, "no trial completed its library")


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
