"""Measurements as if made: of real runs, with counts that a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from capax.papers.recipe import Scale, Verdict, recipes
from capax.results import Interval, Measurement, Parameters
from capax.specs import Run, Sequences


def measurement(run: Run, counts: Sequence[float], **more: Any) -> Measurement:
    """A measurement of a run whose restarts recalled so many."""
    library = run.task.library_size
    each = tuple(int(min(max(round(count), 0), library)) for count in counts)
    chance = library / run.task.vocab_size if isinstance(run.task, Sequences) else 0.0
    best = max(each)
    sizes = run.model.replace(d_head=run.model.d_head or 1).parameter_counts(**run.task.sizes())
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
