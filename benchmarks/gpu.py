"""Steps on a GPU: a matrix's gradient of parts of the rows against one product; SOAP's bases by size against each.

Networks of the studies of capacity in steps of theirs: whole libraries, all restarts, float32, SOAP. All ways in this
process, in turn; milliseconds a step, the mean over two refreshes of the bases.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from capax import devices
from capax.models import operations
from capax.specs import Run
from capax.sweeps.grid import read_study
from capax.sweeps.packs import whole_pack
from capax.training.optimizers import soap
from capax.training.prepare import prepare

EXAMPLES = Path(__file__).parents[1] / "examples"
NETWORKS = {"capacity-depth.toml": (12, 14, 23), "capacity-ladder.toml": (3, 4)}
"""Places in the studies: 70,000 trained numbers in one, three and eight layers, then 250,000 and 432,000."""


def one_part(*_: Tensor) -> int:
    """In place of `parts_of`; a Mock would keep all tensors that it is called with."""
    return 1


def one_product() -> Any:
    """Gradients of matrices as one product over all rows."""
    return mock.patch.object(operations, "parts_of", one_part)


def one_by_one() -> Any:
    """Bases of one parameter's side after another's."""
    each = lambda matrices: {place: torch.linalg.qr(matrix)[0] for place, matrix in matrices.items()}  # noqa: E731
    return mock.patch.object(soap, "orthonormal_by_size", each)


def milliseconds(step: Callable[[], object], steps: int) -> float:
    """Mean time of a step."""
    devices.wait()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    devices.wait()
    return (time.perf_counter() - began) / steps * 1e3


def compared(run: Run, device: str, rounds: int) -> str:
    """A network's times, and how many times as long the other ways take: medians of the ratios."""
    learner, steps = prepare(whole_pack((run,), device)), 2 * run.training.basis_every
    milliseconds(learner.step, steps)
    times: dict[str, list[float]] = {"as it is": [], "one product": [], "bases one by one": []}
    for _ in range(rounds):
        for name, way in zip(times, (nullcontext, one_product, one_by_one), strict=True):
            with way():
                times[name].append(milliseconds(learner.step, steps))
    best, *others = times
    told = [f"{statistics.median(times[best]):6.1f} ms"]
    for name in others:
        ratio = statistics.median(slow / fast for slow, fast in zip(times[name], times[best], strict=True))
        told.append(f"{name} {ratio:4.2f} times as long")
    return ", ".join(told)


def main(device: str = "cuda", rounds: int = 5) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        print("gpu  there is none")
        return
    for study, places in NETWORKS.items():
        runs = read_study(EXAMPLES / study).runs
        for place in places:
            run = runs[place]
            sizes = run.model.columns()
            shape = f"{sizes['n_layers']} layers, {sizes['n_heads']} heads, width {sizes['d_model']}"
            print(f"gpu  {shape:30}  {compared(run, device, rounds)}", flush=True)


if __name__ == "__main__":
    main()
