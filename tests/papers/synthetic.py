"""Measurements as if made: of real runs, with counts that a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from capax.papers.recipe import Scale, Verdict, recipes
from capax.results import HeadCount, Interval, KeyDimensionSearch, Measurement, Parameters, ShatterEpochs
from capax.specs import Mls, Run, Sequences


def measurement(run: Run, counts: Sequence[float], **more: Any) -> Measurement:
    """A measurement of a run whose restarts recalled so many."""
    library = run.task.library_size
    each = tuple(int(min(max(round(count), 0), library)) for count in counts)
    chance = library / run.task.vocab_size if isinstance(run.task, Sequences) else 0.0
    best = max(each)
    searched = {"d_head": 1} if getattr(run.model, "d_head", 1) is None else {}
    sizes = run.model.replace(**searched).parameter_counts(**run.task.sizes())
    return Measurement(
        **{
            "memorized": best,
            "memorized_per_restart": each,
            "chance": chance,
            "memorized_above_chance": (best - chance) / (1 - chance / library),
            "interval": None,
            "library_size": library,
            "recallable": library,
            "bits": 1.0,
            "bits_per_parameter": 1.0,
            "tokens_per_parameter": 1.0,
            "parameters": Parameters(**sizes),
            "epochs": 1,
            "steps": 1,
            "seconds": 1.0,
            "stop_reason": "budget",
            "unreachable": None,
            "members": (),
            "spec": run,
            "key": run.key(),
            "versions": {},
        }
        | more
    )


def interval(low: float, high: float | None) -> Interval:
    return Interval(low=low, high=high, level=0.95, of="test")


Made = Callable[[Run, np.random.Generator], Measurement]


def verdicts(paper: str, figure: str, made: Made, scale: Scale = "demo") -> tuple[Verdict, ...]:
    """Of a recipe, judged by made-up measurements of all its runs (seeded)."""
    (recipe,) = recipes(paper, figure)
    generator = np.random.default_rng(0)
    return recipe.judge({run.key(): made(run, generator) for run in recipe.runs(scale)}, scale)


def searched(low: float, high: float | None, mac: float) -> Made:
    """The interval of a search, and another count by protocol mac."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        return (
            measurement(run, [low], interval=interval(low, high))
            if isinstance(run.protocol, Mls)
            else measurement(run, [mac * 0.99 * share + run.task.library_size / 100 for share in (0.99, 1, 1.01)])
        )

    return made


def shattered(draw: Callable[[np.random.Generator], np.ndarray]) -> Made:
    """Epochs that trials took, as they are drawn."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        epochs = tuple(int(epoch) for epoch in draw(rng))
        whole = ShatterEpochs(
            epochs=epochs, censored=(), completed_share=interval(0.9, 1), median=float(np.median(epochs)), fit=None
        )
        return measurement(run, [16], shatter=whole)

    return made


def f1(value: Callable[[int, int], float]) -> Made:
    """F1 as a function of heads and total key dimension."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        mean = value(run.model.n_heads, run.model.total_key_dim)  # type: ignore[union-attr, arg-type]
        return measurement(run, [10], metrics={"f1": float(np.clip(mean + 0.003 * rng.normal(), 0, 1))})

    return made


def cells(
    total: Callable[[int, int], float],
    heads: Callable[[int, int], int],
    one_fails: bool = True,
    one_tried: bool = True,
    fewest: Callable[[int, int], int] = lambda m, d: 2 if m > d else 1,
) -> Made:
    """Total key dimension and best head count as functions of items and width.

    Args:
        one_fails: whether fewer heads than `fewest` are not enough.
        one_tried: whether one head is tried with eight items a channel, too.
    """

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        m, d = run.task.library_size, run.model.d_model  # type: ignore[union-attr]
        count = heads(m, d)
        found = max(1, round(total(m, d) * np.exp(0.02 * rng.normal())))
        each = tuple(
            HeadCount(
                n_heads=number,
                d_head=None if fails else 4,
                total_key_dim=None if fails else 4 * number,
                interval=interval(1, 2),
                f1=0.5,
                trainings=9,
            )
            for number in run.protocol.head_counts  # type: ignore[union-attr]
            for fails in [one_fails and number < fewest(m, d)]
            if number > 1 or one_tried or m < 8 * d
        )
        return measurement(
            run,
            [m],
            metrics={"f1": 0.995},
            search=KeyDimensionSearch(
                n_heads=count,
                d_head=found,
                total_key_dim=found,
                interval=interval(0.9 * found, 1.1 * found),
                reached_by="training",
                per_heads=each,
            ),
        )

    return made


def law(m: int, d: int) -> float:
    return 8 * m * np.log2(m) / d


def right_heads(m: int, d: int) -> int:
    return 1 if m <= d else m // d
