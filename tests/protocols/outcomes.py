"""Outcomes of trainings to convergence that nobody trained."""

from __future__ import annotations

from typing import Any

from capax.training.pack import Outcome
from capax.training.stopping import CycleEnd


def told(bits: list[float], size: int, reason: str) -> Any:
    """One training on a library of so many items that knew so many bits at the end of each cycle."""
    return Outcome(
        seed=0,
        member=0,
        library_size=size,
        memorized=1,
        epoch_of_best=1,
        epochs=3,
        steps=3,
        stop_reason=reason,  # type: ignore[arg-type]
        curve=((0, 1, None),),
        unreachable=(),
        parameters={"trainable": 90, "total": 90},
        cycles=tuple(CycleEnd(at, at, 1, each, each) for at, each in enumerate(bits, 1)),
    )
