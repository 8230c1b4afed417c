"""Numbers below the normal ones: while a learner computes they count as 0, since a CPU is slow with them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

SUBNORMAL = 1e-40
"""A number below the normal ones of float32."""
Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


def flushing(compute: Callable[Arguments, Found]) -> Callable[Arguments, Found]:
    """A function in whose torch operations numbers below the normal ones count as 0.

    Probabilities of sharp attention are such numbers, and a CPU may take some hundred cycles for each.
    """

    @wraps(compute)
    def flushed(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Found:
        if _flushes():
            return compute(*args, **kwargs)
        torch.set_flush_denormal(True)
        try:
            return compute(*args, **kwargs)
        finally:
            torch.set_flush_denormal(False)

    return flushed


def _flushes() -> bool:
    return not torch.tensor(SUBNORMAL).mul(1).item()
