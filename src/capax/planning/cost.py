"""What a training costs: operations, and hours here and on a named accelerator, by stated assumptions."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import cache
from math import ceil
from typing import Annotated, Literal, Self, TypeVar

import numpy as np
from pydantic import Field
from threadpoolctl import threadpool_limits

from capax import machine
from capax.results import Result
from capax.specs import Model, Task
from capax.text import counted

Flops = TypeVar("Flops", float, np.ndarray)
Accelerator = Literal["a100", "h100", "h200", "b200"]
PEAKS: dict[Accelerator, float] = {"a100": 312e12, "h100": 989e12, "h200": 989e12, "b200": 2250e12}
"""Operations a second in bfloat16, dense, as the vendor states them."""
BANDWIDTHS: dict[Accelerator, float] = {"a100": 2.0e12, "h100": 3.35e12, "h200": 4.8e12, "b200": 8.0e12}
"""Bytes of memory a second, as the vendor states them."""
USED = 0.4
"""Share of its peak that a training is taken to reach on an accelerator."""
A_BYTE = 0.113
"""Operations for each byte of memory and each channel of the width, at most: narrow networks wait for their memory. On
an H200 trainings of two layers reached half as many in TF32, whose numbers are twice as long as those of bfloat16: 52
TFLOP/s with width 192 and 70 with 256 (benchmarks/records/2026-11-27-gpu.md)."""
USED_HERE = 0.2
"""On processors: trainings of 3,000 to 50,000 parameters reached 0.15 (small ones, six layers) to 0.5 (one layer)."""
STEP_SECONDS = 1e-3
"""Of a step at least, and of each layer in it: small networks of docs/capacity took 1.5 ms with one layer and 2.3 with
two, on one core. On accelerators it is taken to be as long: they wait for the same calls."""
SIDE, REPEATS = 512, 5


class Cost(Result):
    """What one training of an architecture costs."""

    flops: Annotated[float, Field(description="Operations of all exposures, forward and backward.")]
    hours: Annotated[float, Field(description="On this machine, in float32.")]
    accelerator_hours: Annotated[float, Field(description="On one of the named accelerators, in bfloat16.")]

    @classmethod
    def of(cls, flops: float, accelerator: Accelerator, width: int, least: float) -> Self:
        """The hours of so many operations of a network of a width, and no fewer than the `least_hours`."""
        there = hours_on(accelerator, flops, width)
        return cls(flops=flops, hours=max(hours(flops), least), accelerator_hours=max(there, least))


def operations(model: Model, task: Task, items: float, exposures: int) -> float:
    """What showing a model so many items so many times takes, forward and backward."""
    return float(exposures) * items * model.operations(task.sizes(), task.scored("loss"))


def least_hours(exposures: int, n_layers: Flops) -> Flops:
    """Hours that a training takes however small it is, of one step an exposure."""
    return exposures * STEP_SECONDS * (1 + n_layers) / 3600


def hours(flops: Flops) -> Flops:
    """Hours that operations take on this machine."""
    return flops / (USED_HERE * peak()) / 3600


def hours_on(accelerator: Accelerator, flops: float, width: float) -> float:
    """Hours that operations of a network of a width take on an accelerator."""
    return flops / min(USED * PEAKS[accelerator], A_BYTE * width * BANDWIDTHS[accelerator]) / 3600


@cache
def peak() -> float:
    """Operations a second of this machine's products of float32 matrices, by a short trial on one core."""
    left = np.random.default_rng(0).standard_normal((SIDE, SIDE), dtype=np.float32)
    seconds = []
    with threadpool_limits(1):  # a thread beside another busy process would wait for its turn
        for _ in range(REPEATS):
            began = time.thread_time()  # whatever else the core does meanwhile
            left @ left
            seconds.append(time.thread_time() - began)
    return machine.cores() * 2 * SIDE**3 / min(seconds)


def assumptions(exposures: int, accelerator: Accelerator) -> tuple[str, ...]:
    """What costs are reckoned by, in words."""
    return (
        f"costs: {counted(exposures, 'exposure')} of every item; here {USED_HERE:.0%} of the peak of "
        f"{peak() / 1e9:.0f} GFLOP/s (float32, measured, {machine.cores()} cores), {there((accelerator,))}; at least "
        f"{1000 * STEP_SECONDS:g} ms a step, and as long for each layer",
    )


def there(accelerators: Iterable[Accelerator] = PEAKS) -> str:
    """How fast trainings are taken to be on accelerators, in words."""
    of = ", ".join(
        f"{PEAKS[name] / 1e12:.0f} TFLOP/s on {name.upper()} from width {_saturating(name)} on" for name in accelerators
    )
    return (
        f"{USED:.0%} of {of} (bfloat16, as the vendor states); narrower networks wait for memory and take longer in "
        "proportion (twice as fast is assumed as an H200 was in TF32 with widths 192 and 256)"
    )


def _saturating(accelerator: Accelerator) -> int:
    """The width from which on a training reaches what it is taken to reach of the peak."""
    return ceil(USED * PEAKS[accelerator] / (A_BYTE * BANDWIDTHS[accelerator]))
