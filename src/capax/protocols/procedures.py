"""How each protocol makes a count of trainings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from capax.errors import SpecError
from capax.protocols import budget
from capax.protocols.mac import LEVEL, best_of_restarts_interval
from capax.protocols.negative_binomial import fit_negative_binomial
from capax.protocols.search import ThresholdFit, Trial, fit_threshold, search_threshold
from capax.results import Interval, KeyDimensionSearch, NegativeBinomial, Search, ShatterEpochs
from capax.seeds import numpy_generator
from capax.specs import Budget, Mac, Mls, Run, Shatter, Training
from capax.training.pack import Outcome

Train = Callable[..., list[Outcome]]
"""Trains members of a run; see `measure`."""


@dataclass(frozen=True)
class Found:
    """What a protocol found, before units."""

    memorized: int
    best: Outcome
    outcomes: list[Outcome]
    library_size: int
    interval: Interval | None
    search: Search | KeyDimensionSearch | None = None
    shatter: ShatterEpochs | None = None


def _mac(run: Run, train: Train) -> Found:
    return best_of_restarts([run], train)[0]


def best_of_restarts(runs: Sequence[Run], train: Train) -> list[Found]:
    """What MAC finds of runs that differ in their seeds alone."""
    protocol, size = runs[0].protocol, runs[0].task.library_size
    assert isinstance(protocol, Mac)
    restarts, founds = protocol.restarts, []
    trained = train(range(restarts), [size] * restarts, True)
    for place in range(len(runs)):
        outcomes = trained[place * restarts : (place + 1) * restarts]
        best = max(outcomes, key=lambda outcome: outcome.memorized)
        alike = any(outcome.one_start for outcome in outcomes)  # whose spread is not that of restarts
        interval = None if alike else best_of_restarts_interval([outcome.memorized for outcome in outcomes], size)
        founds.append(Found(best.memorized, best, outcomes, size, interval))
    return founds


def _mls(run: Run, train: Train) -> Found:
    assert isinstance(run.protocol, Mls)
    outcomes: list[Outcome] = []

    def learn(round_: list[tuple[int, int]]) -> list[bool]:
        sizes, members = zip(*round_, strict=True)
        trained = train(members, sizes, False)
        if any(_out_of_time(outcome, run.training) for outcome in trained):
            raise _OutOfTime  # what was cut short is no failure: the whole round does not count
        outcomes.extend(trained)
        return [outcome.stop_reason == "complete" for outcome in trained]

    try:
        fit = search_threshold(
            learn,
            first_size=min(run.protocol.first_size, run.task.library_size),
            largest_size=run.task.library_size,
            seeds_per_round=run.protocol.seeds,
            max_trials=run.protocol.max_trainings,
            precision=run.protocol.interval_width,
            seed=int(numpy_generator(run.seed, "search").integers(2**31)),
        )
    except _OutOfTime:
        if not outcomes:
            limit = run.training.time_limit
            raise SpecError(f"time_limit: should allow for the first round of the search, got {limit}") from None
        fit = fit_threshold(Trial(o.library_size, o.member, o.stop_reason == "complete") for o in outcomes)
    memorized = _whole_library(fit)
    complete = [outcome for outcome in outcomes if outcome.stop_reason == "complete"] or outcomes
    best = min(complete, key=lambda outcome: abs(outcome.library_size - memorized))
    interval = Interval(
        low=fit.low,
        high=fit.high if np.isfinite(fit.high) else None,
        level=fit.level,
        of="library size at which half of the trainings memorize the whole library",
    )
    search = Search.model_validate(fit, from_attributes=True)
    return Found(memorized, best, outcomes, run.task.library_size, interval, search=search)


class _OutOfTime(Exception):
    """The time limit ended a round of a search."""


def _out_of_time(outcome: Outcome, training: Training) -> bool:
    return outcome.stop_reason == "budget" and outcome.steps != training.budget(outcome.library_size)


def _whole_library(fit: ThresholdFit) -> int:
    return 0 if fit.stop_reason == "all_failed" else int(fit.threshold)


def _shatter(run: Run, train: Train) -> Found:
    assert isinstance(run.protocol, Shatter)
    trials, size = run.protocol.trials, run.task.library_size
    outcomes = train(range(trials), [size] * trials, False)
    epochs = [o.epochs for o in outcomes if o.stop_reason == "complete"]
    censored = [o.epochs for o in outcomes if o.stop_reason != "complete"]
    share = scipy.stats.binomtest(len(epochs), trials).proportion_ci(LEVEL)
    fit = fit_negative_binomial(np.array(epochs), np.array(censored, dtype=int)) if epochs and min(epochs) > 0 else None
    shatter = ShatterEpochs(
        epochs=tuple(epochs),
        censored=tuple(censored),
        completed_share=Interval(low=share.low, high=share.high, level=LEVEL, of="share of trials that complete"),
        median=_median(epochs, len(censored)),
        fit=None if fit is None else NegativeBinomial.model_validate(fit, from_attributes=True),
    )
    best = max(outcomes, key=lambda outcome: outcome.memorized)
    return Found(best.memorized, best, outcomes, size, None, shatter=shatter)


def _budget(run: Run, train: Train) -> Found:
    protocol, size = run.protocol, run.task.library_size
    model: Any = run.model
    assert isinstance(protocol, Budget)
    outcomes: dict[int, list[Outcome]] = {}
    guess = size * math.log2(max(size, 2)) / model.d_model

    def of(n_heads: int) -> Callable[[Sequence[tuple[int, int]]], list[float]]:
        def learn(pairs: Sequence[tuple[int, int]]) -> list[float]:
            d_heads, members = zip(*pairs, strict=True)
            channel = model.replace(n_heads=n_heads, d_head=max(d_heads))
            found = train(members, [size] * len(pairs), False, channel, d_heads)
            if any(_out_of_time(outcome, run.training) for outcome in found):
                raise SpecError(f"time_limit: too short for the search, got {run.training.time_limit}")
            outcomes.setdefault(n_heads, []).extend(
                replace(outcome, d_head=d_head) for d_head, outcome in zip(d_heads, found, strict=True)
            )
            return [outcome.metrics["f1"] for outcome in found]

        return learn

    seed = int(numpy_generator(run.seed, "search").integers(2**31))
    counts = [budget.smallest(of(h), protocol, h, model.d_model, guess, seed) for h in protocol.head_counts]
    enough = [count for count in counts if count.total_key_dim is not None]
    chosen = min(enough, key=lambda count: (count.total_key_dim, count.n_heads)) if enough else None
    counted = chosen or counts[-1]
    wanted = counted.d_head or model.d_model
    near = min(outcomes[counted.n_heads], key=lambda one: (abs((one.d_head or 0) - wanted), -one.metrics["f1"]))
    sizes = model.replace(n_heads=counted.n_heads, d_head=wanted).parameter_counts(**run.task.sizes())
    best = replace(near, parameters=sizes)
    every = [outcome for done in outcomes.values() for outcome in done]
    found = KeyDimensionSearch(
        n_heads=None if chosen is None else chosen.n_heads,
        d_head=None if chosen is None else chosen.d_head,
        total_key_dim=None if chosen is None else chosen.total_key_dim,
        interval=None if chosen is None else chosen.interval,
        per_heads=tuple(counts),
    )
    return Found(best.memorized, best, every, size, None, search=found)


def _median(epochs: list[int], censored: int) -> float | None:
    """Median over all trials; None when fewer than half completed."""
    every = sorted(epochs) + [np.inf] * censored
    middle = float(np.median(every)) if epochs else np.inf
    return middle if np.isfinite(middle) else None


PROCEDURES: dict[type, Callable[[Run, Train], Found]] = {
    Mac: _mac,
    Mls: _mls,
    Shatter: _shatter,
    Budget: _budget,
}
