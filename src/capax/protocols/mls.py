"""Maximum library size: the largest library that is memorized whole."""

from __future__ import annotations

import math

import numpy as np

from capax.errors import SpecError
from capax.protocols.count import Count, Train, out_of_time
from capax.protocols.search import Trial, fit_threshold, search_threshold
from capax.results import LEVEL, Interval, Search
from capax.seeds import numpy_generator
from capax.specs import Mls, Run
from capax.training.pack import Outcome


def mls(run: Run, protocol: Mls, train: Train) -> Count:
    """The size at which half of the trainings memorize their whole library.

    Raises:
        SpecError: when the time limit does not allow for one round of the search.
    """
    outcomes: list[Outcome] = []

    def learn(round_: list[tuple[int, int]]) -> list[bool]:
        sizes, members = zip(*round_, strict=True)
        trained = train(members, sizes, False)
        if any(out_of_time(outcome, run) for outcome in trained):
            raise _OutOfTime  # what was cut short is no failure: the whole round does not count
        outcomes.extend(trained)
        return [outcome.stop_reason == "complete" for outcome in trained]

    try:
        fit = search_threshold(
            learn,
            first_size=min(protocol.first_size, run.task.library_size),
            largest_size=run.task.library_size,
            seeds_per_round=protocol.seeds,
            max_trials=protocol.max_trainings,
            precision=protocol.interval_width,
            seed=int(numpy_generator(run.seed, "search").integers(2**31)),
        )
    except _OutOfTime:
        if not outcomes:
            limit = run.training.time_limit
            raise SpecError(f"time_limit: should allow for the first round of the search, got {limit}") from None
        fit = fit_threshold(Trial(o.library_size, o.member, o.stop_reason == "complete") for o in outcomes)
    # of few failures the 50 % point may lie beyond all sizes that were tried
    memorized = 0 if fit.stop_reason == "all_failed" else min(int(fit.threshold), run.task.library_size)
    complete = [outcome for outcome in outcomes if outcome.stop_reason == "complete"] or outcomes
    best = min(complete, key=lambda outcome: abs(outcome.library_size - memorized))
    interval = Interval(
        low=math.floor(min(fit.low, run.task.library_size)),  # of whole sizes, as `memorized` is
        high=fit.high if np.isfinite(fit.high) else None,
        level=LEVEL,
        of="library size at which half of the trainings memorize the whole library",
    )
    search = Search.model_validate(fit, from_attributes=True)
    return Count(memorized, best, outcomes, run.task.library_size, max(memorized, 1), interval, search)


class _OutOfTime(Exception):
    """The time limit ended a round of a search."""
