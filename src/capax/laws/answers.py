"""The task and the model that a law is of, and the sizes that they have."""

from __future__ import annotations

from typing import Any

from capax.errors import LawError
from capax.laws.law import Law
from capax.specs import Model, Task
from capax.specs.plugins import Registry, UnknownTag
from capax.specs.spec import Tagged


def task_of(law: Law) -> type[Task]:
    """The task that a law is of: that of its rows, or one of whose items it speaks.

    Raises:
        LawError: when it is of a plugin that is not there.
    """
    found: type[Task] = _found(Task.registry, law.domain_.protocol.get("task")) or next(
        kind for kind in Task.registry.values() if kind.unit == law.items
    )
    return found


def model_of(law: Law) -> type[Model]:
    """The model that a law is of: that of its rows, or the usual one of its task.

    Raises:
        LawError: when it is of a plugin that is not there.
    """
    return _found(Model.registry, law.domain_.protocol.get("model")) or task_of(law).learner


def _found(registry: Registry, tag: object) -> Any:
    try:
        return None if tag is None else registry.find(tag)
    except UnknownTag as error:
        raise LawError(str(error)) from None


def learners(kind: type[Task]) -> list[type[Model]]:
    """The models that learn a task, its usual one first."""
    found = [model for model in Model.registry.values() if model.reads == kind.reads]
    return sorted(found, key=lambda model: model is not kind.learner)


def size_fields(kind: type[Tagged]) -> dict[str, str]:
    """Fields that are whole numbers, and what they are."""
    return {
        name: field.description or ""
        for name, field in kind.model_fields.items()
        if field.annotation in (int, int | None) and name != "library_size"
    }


def axes(kind: type[Task] | type[Model]) -> tuple[str, ...]:
    """Sizes that capacity may depend on."""
    return kind.axes or tuple(size_fields(kind))
