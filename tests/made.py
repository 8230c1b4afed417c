"""Measurements whose counts a test chooses; everything else is a real run's."""

from __future__ import annotations

from functools import cache
from typing import Any

import capax
from capax.protocols.units import above_chance
from capax.results import Curve, Interval, luck_p
from capax.specs import Run, Spec


@cache
def trained() -> capax.Measurement:
    """A real run, of seconds' fractions."""
    return capax.measure(
        capax.Sequences(seq_len=4, vocab_size=9, library_size=20),
        capax.Transformer(d_model=4, d_head=2),
        capax.Training(max_epochs=3),
        restarts=2,
        device="cpu",
    )


def changed(spec: Run, **fields: Any) -> Run:
    """A run with other fields of task, model, training or protocol."""
    parts: dict[str, Spec] = {name: getattr(spec, name) for name in ("task", "model", "training", "protocol")}
    for name, part in parts.items():
        own = {field: value for field, value in fields.items() if field in type(part).model_fields}
        parts[name] = part.replace(**own) if own else part
    return Run(**parts, seed=fields.get("seed", spec.seed))


def made(*counts: int, **fields: Any) -> capax.Measurement:
    """A run with these counts of its restarts."""
    spec = changed(trained().spec, restarts=len(counts), **fields)
    library = spec.task.library_size
    chance = library / spec.task.vocab_size
    best = max(counts)
    return trained().model_copy(
        update={
            "spec": spec,
            "key": spec.key(),
            "memorized": best,
            "memorized_per_restart": counts,
            "chance": chance,
            "memorized_above_chance": above_chance(best, chance, library),
            "above_chance": luck_p(best, chance / library, library, len(counts)) <= 0.01,
            "library_size": library,
            "interval": None if len(counts) < 2 else Interval(low=best - 1, high=best + 1, level=0.95, of="test"),
        }
    )


def with_curves(run: capax.Measurement, points: int) -> capax.Measurement:
    """The run with curves of so many points that end at its count."""
    curve = Curve(
        epoch=tuple(range(points)),
        memorized=tuple(round(run.memorized * place / points) for place in range(points)),
        loss=(None, *(1 / place for place in range(1, points))),
    )
    members = (member.model_copy(update={"memorized": run.memorized, "curve": curve}) for member in run.members)
    return run.model_copy(update={"members": tuple(members)})


def of_library(run: capax.Measurement, name: str) -> capax.Measurement:
    """The run as one of a user's library, which need not be there."""
    task = run.spec.task.model_copy(update={"library": name, "library_sha256": "0" * 64})
    key = f"{run.key[:-1]}{len(name) % 10}"
    return run.model_copy(update={"spec": run.spec.model_copy(update={"task": task}), "key": key})
