"""How many members train together: measured per shape and machine, and remembered."""

from __future__ import annotations

import hashlib
import json
import platform
import statistics
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch

from capax import devices, machine
from capax.specs import Run, Training
from capax.specs.spec import later_fields
from capax.training.pack import Pack
from capax.training.prepare import prepare

STEPS = 3
SEARCHED = 8
"""The head size that stands for those that a search tries."""
WORTH_STEPS = 2000
"""A training of fewer steps is over before its best pack is found."""


def shape_of(run: Run, device: str) -> str:
    """Hash of all that step time depends on: the run without its seed, budgets and restarts, and the machine."""
    fields = run.replace(seed=0).model_dump(mode="json")
    of_budget = {"max_epochs", "time_limit", "patience", "min_loss_drop", "eval_every", "lr", *later_fields(Training)}
    for name in of_budget - {"optimizer", "basis_every"}:
        del fields["training"][name]
    del fields["protocol"]
    here = [platform.processor() or platform.machine(), machine.cores(), machine.versions()["torch"], device]
    return hashlib.sha256(json.dumps([fields, here], sort_keys=True).encode()).hexdigest()


def refuse(runs: Collection[Run], device: devices.Device) -> None:
    """Refuse runs that a device cannot compute, or that nobody starts any more, before any is begun.

    Raises:
        DeviceError: that names the field, as SpecError does.
    """
    for run in runs:
        run.protocol.refuse_to_start(run.training)
    for precision, optimizer in sorted({(run.training.precision, run.training.optimizer) for run in runs}):
        devices.refuse(device, precision, optimizer)


def worth_measuring(run: Run, members: int) -> bool:
    """Whether there is a choice of pack size, and the training is long enough to repay the search."""
    budget = run.budget
    return members > 1 and (budget is None or budget >= WORTH_STEPS)


def whole_pack(runs: tuple[Run, ...], device: str) -> Pack:
    """All trainings of runs that are equal but for their seeds, as one pack; of a search, as many as it may take.

    A search for the key dimension stands as trainings of its most heads, of a size that is usual there.
    """
    run = runs[0]
    members = [(run.seed, number) for run in runs for number in range(run.protocol.most_trainings)]
    size = run.task.library_size
    return Pack(
        run.task,
        run.protocol.largest(run.model, SEARCHED),
        run.training,
        tuple(seed for seed, _ in members),
        tuple(number for _, number in members),
        (size,) * len(members),
        largest=size,
        mixed=False,
        one_library=run.protocol.one_library,
        device=device,
    )


def best_size_once(pack: Pack, shape: str, folder: Path | None) -> int:
    """`best_size`, saved in a folder at once, so that a process that is killed later need not time it again."""
    if folder is None:
        return best_size(pack)
    path = folder / f"{shape}.pack-size"
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        size = best_size(pack)
    with suppress(OSError):  # then it is timed again
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(str(size))
    return size


def best_size(pack: Pack) -> int:
    """The number of members whose step takes the least time per member: 2, 4, 8, ... as far as the pack goes.

    The search ends where a doubling no longer helps, or finds no memory.
    """
    best, least, size = 2, float("inf"), 2
    while size <= len(pack.members):
        part = replace(
            pack, seeds=pack.seeds[:size], members=pack.members[:size], sizes=pack.sizes[:size], keep_weights=False
        )
        try:
            learner = prepare(part)
            each = median_seconds(learner.step) / size
        except (torch.OutOfMemoryError, MemoryError):
            break
        if each > least:
            break
        best, least, size = size, each, 2 * size
    return best


def median_seconds(work: Callable[[], object]) -> float:
    """Median seconds of a call, after one warm-up call."""
    work()
    devices.wait()
    taken = []
    for _ in range(STEPS):
        began = time.perf_counter()
        work()
        devices.wait()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)
