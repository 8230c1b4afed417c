"""The smallest total key dimension at which relations are recognized (Adler 2025: D_K*), over head counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from capax.errors import AssumptionError, SpecError
from capax.protocols.count import Count, Train, out_of_time
from capax.protocols.means import half_of_mean
from capax.protocols.search import search_threshold
from capax.results import LEVEL, BuiltChannel, HeadCount, Interval, KeyDimensionSearch
from capax.seeds import numpy_generator
from capax.specs import Budget, Run
from capax.specs.plugins import resolve
from capax.training.pack import Outcome

PRECISION = 0.15
"""Relative width of a search's interval that is good enough."""

Learn = Callable[[Sequence[tuple[int, int]]], list[float]]
"""Trains (d_head, number) pairs; their F1."""


def budget(run: Run, protocol: Budget, train: Train) -> Count:
    """The head count of the protocol's that recognizes relations with the smallest total key dimension.

    Raises:
        SpecError: when the time limit ends a training.
    """
    model: Any = run.model
    size = run.task.library_size
    outcomes: dict[int, list[Outcome]] = {}
    guess = size * math.log2(max(size, 2)) / model.d_model

    def of(n_heads: int) -> Callable[[Sequence[tuple[int, int]]], list[float]]:
        def learn(pairs: Sequence[tuple[int, int]]) -> list[float]:
            found: dict[tuple[int, int], Outcome] = {}
            sizes = {d_head for d_head, _ in pairs}
            for d_head in [max(sizes)] if model.pads_heads else sorted(sizes):
                together = [pair for pair in pairs if model.pads_heads or pair[0] == d_head]
                d_heads, members = zip(*together, strict=True)
                trained = train(members, [size] * len(members), False, model.of_heads(n_heads, d_head), d_heads)
                if any(out_of_time(outcome, run) for outcome in trained):
                    raise SpecError(f"time_limit: too short for the search, got {run.training.time_limit}")
                found |= zip(together, trained, strict=True)
            ordered = [replace(found[pair], d_head=pair[0]) for pair in pairs]
            outcomes.setdefault(n_heads, []).extend(ordered)
            return [outcome.metrics["f1"] for outcome in ordered]

        return learn

    seed = int(numpy_generator(run.seed, "search").integers(2**31))
    counts = [smallest(of(h), protocol, h, model.d_model, guess, seed) for h in protocol.head_counts]
    counted = KeyDimensionSearch(per_heads=tuple(counts)).trained
    wanted = counted.d_head or model.d_model
    near = min(outcomes[counted.n_heads], key=lambda one: (abs((one.d_head or 0) - wanted), -one.metrics["f1"]))
    counted_model = model.of_heads(counted.n_heads, wanted)
    best = replace(near, parameters=counted_model.built_counts(**run.task.sizes()))
    every = [outcome for done in outcomes.values() for outcome in done]
    names = () if counted.d_head is None else ("n_heads", "d_head", "total_key_dim", "interval")
    sizes = {name: getattr(counted, name) for name in names}
    search = KeyDimensionSearch(**sizes, per_heads=tuple(counts)).held_against(_built(run, protocol))
    return Count(best.memorized, best, every, size, size, search=search, model=counted_model)


def _built(run: Run, protocol: Budget) -> BuiltChannel | None:
    """The channel that is built for the run's first graph and items, to the same F1; None where none is found.

    Where contexts are subsets every pair has to be right: then it is in every context.
    """
    model: Any = run.model
    name = run.task.constructor
    if name is None or getattr(model, "most_key_dim", lambda _: None)(run.task.library_size) is None:
        return None
    target = protocol.target_f1 if getattr(run.task, "contexts", "whole") == "whole" else 1.0
    try:
        learner: Any = type(run.task).learner
        made = resolve(name).build(run.task, learner(d_model=model.d_model), run.seed, target_f1=target).report
    except AssumptionError:
        return None
    return BuiltChannel(n_heads=made.n_heads, d_head=made.d_head, total_key_dim=made.total_key_dim)


@dataclass(frozen=True)
class Trained:
    """One training of a search."""

    d_head: int
    number: int
    f1: float


def smallest(learn: Learn, protocol: Budget, n_heads: int, d_model: int, guess: float, seed: int) -> HeadCount:
    """The smallest d_head of a number of heads, by the protocol's criterion.

    More channels than d_model add nothing (the rank of W_Q W_Kᵀ), so none are tried. Where even d_model may be too few,
    the interval has no upper end.

    Args:
        guess: total key dimension that is expected.
    """
    first = min(max(round(guess / n_heads / 2), 1), d_model)
    trained: list[Trained] = []

    def train(pairs: Sequence[tuple[int, int]]) -> list[float]:
        scores = learn(pairs)
        trained.extend(Trained(d_head, number, f1) for (d_head, number), f1 in zip(pairs, scores, strict=True))
        return scores

    if protocol.criterion == "mean":
        d_head, low, high = _by_mean(train, protocol, first, d_model)
    else:
        fit = search_threshold(
            lambda pairs: [f1 >= protocol.target_f1 for f1 in train(pairs)],
            first_size=first,
            largest_size=d_model,
            seeds_per_round=2 * protocol.restarts,
            max_trials=protocol.max_trainings,
            precision=PRECISION,
            seed=seed,
            rising=True,
        )
        enough = _whole(fit.threshold)
        d_head = None if fit.stop_reason == "all_failed" or enough > d_model else enough
        # a high end beyond d_model is none: no head size up to it is surely enough
        end = _whole(min(fit.high, 2 * d_model))
        low, high = _whole(fit.low), None if d_head is None or end > d_model else end
    near = None if d_head is None else min(trained, key=lambda one: abs(one.d_head - d_head)).d_head
    f1 = [one.f1 for one in trained if one.d_head == near] or [max(one.f1 for one in trained)]
    return HeadCount(
        n_heads=n_heads,
        d_head=d_head,
        total_key_dim=None if d_head is None else n_heads * d_head,
        interval=Interval(
            low=n_heads * low, high=None if high is None else n_heads * high, level=LEVEL, of=protocol.interval_of
        ),
        f1=float(np.mean(f1)),
        trainings=len(trained),
    )


def _whole(size: float) -> int:
    """The smallest head size that is at least so large."""
    return max(math.ceil(size - 1e-9), 1)


def _by_mean(train: Learn, protocol: Budget, first: int, largest: int) -> tuple[int | None, float, float | None]:
    """The smallest size whose mean F1 reaches the target, by doubling and halving; sizes that may be it.

    The range goes from the smallest tried size whose mean may reach the target (upper 95 % limit by Student's t) to the
    smallest that surely does.
    """
    means: dict[int, tuple[float, float]] = {}

    def reaches(size: int) -> bool:
        if size not in means:
            values = train([(size, number) for number in range(protocol.restarts)])
            means[size] = float(np.mean(values)), half_of_mean(values)
        return means[size][0] >= protocol.target_f1

    low, high = 0, first
    while not reaches(high):
        if high == largest:
            break
        low, high = high, min(2 * high, largest)
    smallest_size = high if means[high][0] >= protocol.target_f1 else None
    while smallest_size is not None and high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
        smallest_size = high
    target = protocol.target_f1
    may = [size for size, (mean, spread) in means.items() if mean + spread >= target]
    sure = [size for size, (mean, spread) in means.items() if mean - spread >= target]
    return smallest_size, float(min(may, default=largest)), float(min(sure)) if sure else None
