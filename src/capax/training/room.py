"""Whether a task and its model fit into memory, judged by their sizes before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Iterable

from capax import machine
from capax.errors import SpecError
from capax.specs import Model, Run, Task
from capax.specs.model import Parameter
from capax.specs.training import LONGEST_SIDE

GIB = 2**30
COPIES = {"adam": 4, "soap": 5, "muon": 5}
"""Numbers held per trained parameter: itself, its gradient, Adam's two moments, and a change before it is made."""


def refuse_too_large(run: Run, device: str = "cpu") -> None:
    """Refuse a run of which one training needs more memory than the machine has.

    A lower estimate: library, weights with their gradients and what the optimizer remembers, and the widest activation
    of one row. On a GPU it is the library alone, which is drawn on the host; of a user's module the size is not known.

    Raises:
        SpecError: that says how much is needed and how much there is.
    """
    needed = run.task.library_bytes(run.model)
    if device == "cpu" and run.model.runs_code is None:
        model = run.protocol.largest(run.model, d_head=1)
        size = 8 if run.training.precision == "float64" else 4
        counts = model.parameter_counts(**run.task.sizes())
        needed += size * (counts["total"] + (COPIES[run.training.optimizer] - 1) * counts["trainable"])
        refuse(needed, "this run")  # else what follows, a trial of a library's model or a long table, may not fit
        needed += size * model.floats_per_row(run.task.sizes(), run.task.scored("loss"))
        if run.training.optimizer == "soap":
            needed += size * in_bases(model.parameters(**run.task.sizes()))
    refuse(needed, "this run")


def in_bases(table: Iterable[Parameter]) -> int:
    """Numbers in SOAP's averages and bases of one member: two squares of each side of each trained matrix."""
    return sum(
        2 * side**2 * math.prod(one.shape[:-2])
        for one in table
        if one.trained and len(one.shape) > 1
        for side in one.shape[-2:]
        if 1 < side <= LONGEST_SIDE
    )


def refuse_too_large_to_build(task: Task, model: Model) -> None:
    """The same for weights that are constructed in float64, not trained.

    Raises:
        SpecError: as `refuse_too_large`.
    """
    needed = task.library_bytes(model)
    if getattr(model, "d_head", None) is not None:
        needed += 8 * model.parameter_counts(**task.sizes())["total"]
    refuse(needed, "this construction")


def refuse(needed: int, what: str) -> None:
    """Refuse what needs more bytes than the machine has.

    Raises:
        SpecError: that says how much is needed and how much there is.
    """
    there = machine.memory()
    if needed > there:
        raise SpecError(
            f"memory: {what} needs at least {_gib(needed)}, and there are {_gib(there)}: take smaller sizes"
        )


def _gib(count: int) -> str:
    return f"{count / GIB:.3g} GiB" if count < 10**30 else "more GiB than can be counted"
