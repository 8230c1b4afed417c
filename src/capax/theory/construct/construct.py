"""Weights that are constructed for a task without training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from capax import outputs
from capax.errors import SpecError, shown
from capax.results import Result
from capax.specs import Model, Task
from capax.specs.plugins import resolve
from capax.specs.spec import whole

SIZES = ("n_heads", "d_model", "d_head")


@runtime_checkable
class Saved(Protocol):
    """What is written of weights that were built."""

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""


class Report(Result):
    """What built weights reach; a subclass has its own fields."""

    def lines(self) -> list[str]:
        """The report in words."""
        raise NotImplementedError(f"{type(self).__name__}.lines")


@dataclass(frozen=True)
class Constructed:
    """Weights that were built, and what they reach.

    Attributes:
        weights: the matrices, heads apart.
        report: what they reach on the library that they were built for.
        file: weights, library and what they reach, which `save` writes.
    """

    weights: Any
    report: Report
    file: Saved

    def save(self, path: Path | str) -> None:
        """Write weights, library and what they reach as one .safetensors file, which `capax.verify` checks.

        Raises:
            ReportError: for what is no path, another suffix, or when the file cannot be written.
        """
        self.file.save(outputs.path_of(path, "save"))


@dataclass(frozen=True)
class Constructor:
    """How weights are built for a task, which names it as its `constructor`.

    Attributes:
        build: of the task, a model of its usual kind, and a seed; its keyword-only arguments are options, which its
            docstring describes.
        fields: those of the task that count; all where none is named.
        sizes: fields of the model that are free.
        follows: what fields that are not given follow from, in words.
    """

    build: Callable[..., Constructed]
    fields: tuple[str, ...] = ()
    sizes: tuple[str, ...] = SIZES
    follows: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Parameter]:
        """The options of the construction, by name."""
        arguments = signature(self.build, eval_str=True).parameters
        return {name: one for name, one in arguments.items() if one.kind is one.KEYWORD_ONLY}

    def learner(self, task: Task, model: Model | None) -> Model:
        """The model to build for a task: its usual learner, with other sizes if they are given.

        Raises:
            SpecError: for a model of another kind, or another value of one of its other fields.
        """
        usual = type(task).learner()
        if model is None:
            return usual
        if type(model) is not type(usual):
            raise SpecError(f"model: weights are built of {usual.model!r}, got {model.model!r}")
        for name in sorted(model.model_fields_set.difference(self.sizes)):
            built, given = getattr(usual, name), getattr(model, name)
            if given != built:
                wanted = "follows from what is built" if built is None else f"weights are built for {built!r}"
                raise SpecError(f"{name}: {wanted}, got {given!r}")
        return model


def constructible() -> list[str]:
    """Tags of the tasks that weights are built for."""
    return [tag for tag, kind in Task.registry.items() if kind.constructor is not None]


def construct(task: Task, model: Model | None = None, *, seed: int = 0, **options: Any) -> Constructed:
    """Build weights that memorize a task's library: an attention layer for associations, a channel for relations.

    What is not given of the task and of the model follows from the other: of associations `library_size` is as many as
    the layer holds; `d_model` is that of the user's vectors; of a channel `n_heads` and
    `d_head` are those of the least total key dimension found to reach an F1 of .99, never above the number of edges
    unless `bits` are too few for that; where one is given it is kept.

    Args:
        task: what is to be remembered.
        model: n_heads, d_model and d_head. [default: the usual learner of the task]
        seed: names all random draws; the same seed gives the same library, as for training, and the same weights.
        options: for associations `dtype` (float64, float32), of the weights and of what they are evaluated in; for
            relations `method` (whitened, hebbian, onehot), `bits` of each weight (1 to 8) and `target_f1`.

    Raises:
        AssumptionError: when the library is too large, or its vectors are not independent; the message names them.
        LibraryError: for arrays that cannot be used.
        SpecError: for a task or a model that weights are not built for, an option that is not one, or what does not
            fit in memory.
    """
    whole("seed", seed, 0)
    name = getattr(task, "constructor", None)
    if name is None:
        raise SpecError(f"task: weights are built for {' and '.join(constructible())}, got {task!r:.80}")
    constructor: Constructor = resolve(name)
    for name, value in options.items():
        if name not in constructor.options:
            raise SpecError(
                f"{name}: no option of this construction ({', '.join(constructor.options)}), got {shown(value)}"
            )
    return constructor.build(task, constructor.learner(task, model), seed, **options)
