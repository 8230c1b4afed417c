"""Columns of a table that say how its rows were measured."""

from __future__ import annotations

from typing import Any

from capax.specs import Model, Task, Training
from capax.specs.spec import later_fields
from capax.store import tables

PROTOCOL = (
    "task",
    "protocol",
    "vocab_size",
    "library",
    "loss",
    "recall",
    "contexts",
    "bag_size",
    "entries",
    "labels",
    "n_classes",
    "d_out",
    "tolerance",
    "profile",
    "graph",
    "embeddings",
    "aggregate",
    "channel",
    "target_f1",
    "criterion",
    "n_layers",
    "d_head",
    "d_value",
    "ffn",
    "activation",
    "positions",
    "readout",
    "norms",
    "skips",
    "optimizer",
    "lr",
    "gain_lr",
    "beta1",
    "beta2",
    "basis_beta",
    "basis_every",
    "schedule",
    "cycle_steps",
    "cycle_decay",
    "cycle_tolerance",
    "warmup",
    "batch_size",
    "eval_every",
    "eval_steps",
    "patience",
    "stop_when_complete",
    "best_by",
    "min_loss_drop",
    "max_steps",
    "time_limit",
    "precision",
    "restarts",
)
"""Columns that say how a row was measured: a law is of rows that agree in all of them. Of `max_steps` the whole budget
of a training counts: a budget of epochs is one of steps, too, and a small library has fewer of them in an epoch."""

BUDGET = ("max_epochs", "min_steps", "max_steps", "batch_size")
"""What the budget of a training follows from, with the size of its library."""

BEFORE = {name: Training.model_fields[name].default for name in later_fields(Training)}
"""What runs of earlier versions, which lack these columns, were measured with."""


def protocol_values(data: Any, name: str) -> list[Any] | None:
    """The values of one of `PROTOCOL`, row by row; None where the table lacks it, or its task has no such field.

    Runs of an earlier version, which lack a field, have the value that they were measured with.
    """
    known = tables.names(data)
    if name == "max_steps" and {"max_epochs", "library_size", "batch_size"} <= set(known):
        return _budgets(data)
    before = _of_earlier_models(data, name)
    if name not in known:
        return None if before is None else [before] * len(tables.values(data, known[0]))
    found = tables.values(data, name)
    tasks = set(tables.values(data, "task")) if "task" in known else set()
    if len(tasks) == 1 and not _has_field(next(iter(tasks)), name):
        return None
    before = BEFORE.get(name, before)
    return [before if value is None else value for value in found]


def _of_earlier_models(data: Any, name: str) -> Any:
    """What a field of the table's one model was before there was such a field; None where it always was, or is none."""
    tags = set(tables.values(data, "model")) if "model" in tables.names(data) else set()
    kind = Model.registry.get(next(iter(tags))) if len(tags) == 1 else None
    return kind.model_fields[name].default if kind is not None and name in later_fields(kind) else None


def _has_field(task: str | None, name: str) -> bool:
    """Whether runs of a task have such a field; unknown tasks may have any."""
    kinds = [*Task.registry.values(), *Model.registry.values()]
    if task is None or task not in Task.registry or not any(name in kind.model_fields for kind in kinds):
        return True
    reads = Task.registry[task].reads
    learners = [model for model in Model.registry.values() if model.reads == reads]
    return any(name in kind.model_fields for kind in (Task.registry[task], *learners))


def _budgets(data: Any) -> list[int | None]:
    """Steps until each row's training has spent its budget; None where epochs say it, and no size of the library."""
    known = tables.names(data)
    columns = {name: tables.values(data, name) for name in BUDGET if name in known}
    found = []
    for row, size in enumerate(tables.values(data, "library_size")):
        given: dict[str, Any] = {name: column[row] for name, column in columns.items() if column[row] is not None}
        told = Training(**given)
        known_steps = told.max_steps if told.max_epochs is None else None
        found.append(known_steps if size is None else told.budget(int(size)))
    return found
