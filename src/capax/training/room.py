"""Whether a task and its model fit into memory, judged by their sizes before anything of them is made."""

from __future__ import annotations

from capax import machine
from capax.errors import SpecError
from capax.models.size import parameter_counts
from capax.specs import Associations, Budget, KeyQueryChannel, Model, Module, Relations, Run, Sequences, Task
from capax.training.prepare import floats_per_row

GIB = 2**30
COPIES = 4
"""Numbers held of each trained parameter: itself, its gradient, and Adam's two moments."""

PAIRS = 6
"""Numbers held of each ordered pair of items while a graph is drawn: signs, weights, importance and their parts."""


def refuse_too_large(run: Run, device: str = "cpu") -> None:
    """Refuse a run of which one training needs more memory than the machine has.

    A lower estimate: library, weights with their gradients and moments, and the widest activation of one row. On a GPU
    it is the library alone, which is drawn on the host; of a user's module the size is not known.

    Raises:
        SpecError: that says how much is needed and how much there is.
    """
    needed = library_bytes(run.task, run.model)
    if device == "cpu" and not isinstance(run.model, Module):
        model: Model = run.model
        if isinstance(run.protocol, Budget) and isinstance(model, KeyQueryChannel):
            model = model.replace(d_head=1, n_heads=max(run.protocol.head_counts))
        size = 8 if run.training.precision == "float64" else 4
        counts = parameter_counts(run.task, model)
        needed += size * (counts["total"] + (COPIES - 1) * counts["trainable"])
        needed += size * floats_per_row(run.task, model, "loss")
    refuse(needed, "this run")


def refuse_too_large_to_build(task: Task, model: Model) -> None:
    """The same of weights that are built and not trained, in float64.

    Raises:
        SpecError: as `refuse_too_large`.
    """
    needed = library_bytes(task, model)
    if not isinstance(model, KeyQueryChannel) or model.d_head is not None:
        needed += 8 * parameter_counts(task, model)["total"]
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


def library_bytes(task: Task, model: Model) -> int:
    """Bytes that one library takes while it is drawn, at least."""
    if isinstance(task, Sequences):
        return 2 * 8 * task.library_size * task.seq_len
    if isinstance(task, Associations):
        width = 0 if isinstance(model, Module) else model.d_model
        contexts = 1 if task.contexts == "shared" else task.library_size
        chosen = task.library_size * task.bag_size if task.contexts == "bag" else 0
        labels = task.library_size * (1 if task.labels == "classes" else task.d_out)
        return 8 * ((contexts * task.context_size + task.library_size) * width + chosen + labels)
    assert isinstance(task, Relations)
    assert task.n_items is not None
    width = 0 if isinstance(model, Module) else model.d_model
    return 8 * task.n_items * (PAIRS * task.n_items + width)


def _gib(count: int) -> str:
    return f"{count / GIB:.3g} GiB" if count < 10**30 else "more GiB than can be counted"
