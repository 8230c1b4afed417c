"""What a training costs: operations, and hours here and on a named accelerator, by stated assumptions."""

from __future__ import annotations

import time
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from threadpoolctl import threadpool_limits

from capax import machine
from capax.results import Result

Accelerator = Literal["a100", "h100", "h200", "b200"]
PEAKS: dict[str, float] = {"a100": 312e12, "h100": 989e12, "h200": 989e12, "b200": 2250e12}
"""Operations a second in bfloat16, dense, as the vendor states them."""
USED = 0.4
"""Share of the peak that a training is taken to reach, here and there."""
SIDE, REPEATS = 512, 5


class Cost(Result):
    """What one training of an architecture costs."""

    flops: Annotated[float, Field(description="Operations of all exposures, forward and backward.")]
    hours: Annotated[float, Field(description="On this machine, in float32.")]
    accelerator_hours: Annotated[float, Field(description="On one of the named accelerators, in bfloat16.")]


def cost(model: Any, task: Any, items: float, exposures: int, accelerator: Accelerator) -> Cost:
    """What it costs to show a model so many items so many times.

    A multiplication and an addition are two operations; the backward pass takes twice those of the forward pass, but
    none for the weights of frozen tables. Attention counts all pairs of positions, masked ones, too.

    Args:
        model: a transformer.
        task: what it learns.
        items: how many.
        exposures: times that each is seen.
        accelerator: the other machine.
    """
    sizes = task.sizes()
    context, vocabulary = sizes["context"], sizes["vocab_size"]
    tables = (1 if model.readout == "tied" else 2) * vocabulary + context
    weights = model.parameter_counts(**sizes)["total"] - tables * model.d_model
    scored = context if task.loss == "all" else 1
    attention = model.n_layers * model.n_heads * (model.d_head + (model.d_value or model.d_head)) * context
    readout = (4 if model.frozen_readout else 6) * vocabulary * model.d_model
    flops = float(exposures) * items * (context * (6 * weights + 6 * attention) + scored * readout)
    return Cost(
        flops=flops,
        hours=flops / (USED * peak()) / 3600,
        accelerator_hours=flops / (USED * PEAKS[accelerator]) / 3600,
    )


@cache
def peak() -> float:
    """Operations a second of this machine's products of float32 matrices, by a short trial on one core."""
    left = np.random.default_rng(0).standard_normal((SIDE, SIDE), dtype=np.float32)
    seconds = []
    with threadpool_limits(1):  # a thread beside another busy process would wait for its turn
        for _ in range(REPEATS):
            began = time.perf_counter()
            left @ left
            seconds.append(time.perf_counter() - began)
    return machine.cores() * 2 * SIDE**3 / min(seconds)


def assumptions(exposures: int, accelerator: Accelerator) -> tuple[str, ...]:
    """What costs are reckoned by, in words."""
    return (
        f"costs: {exposures} exposures of every item; {USED:.0%} of the peak, which here is "
        f"{peak() / 1e9:.0f} GFLOP/s (float32, measured, {machine.cores()} cores) and "
        f"{PEAKS[accelerator] / 1e12:.0f} TFLOP/s of an {accelerator.upper()} (bfloat16, as its vendor states)",
    )
