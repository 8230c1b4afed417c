"""One measurement, whole."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from capax.errors import SpecError
from capax.specs.model import Model
from capax.specs.protocols import PROTOCOLS, Mac, Protocol
from capax.specs.spec import Spec, Tagged
from capax.specs.task import Task
from capax.specs.training import Training

BUDGET = ("max_epochs", "min_steps", "max_steps")


class Open:
    """Of a field: any registered class of its kind, and the same in a JSON schema."""

    def __get_pydantic_core_schema__(self, source: type[Tagged], handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            source.read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value, info: value.model_dump(mode=info.mode), info_arg=True
            ),
            metadata={"pydantic_js_functions": [lambda _, json_handler: _any_of(source, json_handler)]},
        )


def _any_of(source: type[Tagged], handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    """The JSON schema of all registered classes."""
    kinds = {tag: handler(kind.__pydantic_core_schema__) for tag, kind in source.registry.items()}
    mapping = {tag: found["$ref"] for tag, found in kinds.items() if "$ref" in found}
    return {"discriminator": {"mapping": mapping, "propertyName": source.tag_field}, "oneOf": list(kinds.values())}


class Run(Spec):
    """One measurement, whole: everything that can change its result, and nothing else."""

    task: Annotated[Task, Open()]
    model: Annotated[Model, Open()]
    training: Training = Training()
    protocol: Protocol = Mac()
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    @field_validator("training", "protocol", mode="wrap")
    @classmethod
    def _named(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        """A field of a part is named with its part."""
        try:
            return handler(value)
        except SpecError as error:
            raise ValueError(f"{info.field_name}.{error}") from None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.model.reads != self.task.reads:
            raise ValueError(
                f"model: task {self.task.task!r} is learned by {self.task.learner.__name__}, "
                f"got {type(self.model).__name__}"
            )
        if self.protocol.redraws and not self.task.drawn:
            raise ValueError(f"protocol: {self.protocol.protocol!r} redraws the library, so {self.task.drawn_where}")
        if not self.protocol.suits(self.task.reads):
            others = ", ".join(name for name, kind in PROTOCOLS.items() if kind.suits(self.task.reads))
            raise ValueError(
                f"protocol: {self.protocol.protocol!r} has no meaning for task {self.task.task!r}; one of {others}"
            )
        self.model.refuse(self.training, self.protocol)
        self._fill_training()
        self.protocol.refuse(self.task, self.training)
        self.training.refuse_idle()
        self._fill_library()
        if self.training.gain_lr != 1 and not self.model.gains:
            raise ValueError(
                f"gain_lr: model {self.model.model!r} has no gain before its read-out, got {self.training.gain_lr}"
            )
        if self.training.cycle_tolerance is not None and not self.task.has_probabilities:
            raise ValueError(
                f"cycle_tolerance: counts bits, and task {self.task.task!r} gives no probabilities of items, "
                f"got {self.training.cycle_tolerance}"
            )
        if self.training.best_by == "loss" and not self.task.has_probabilities:
            raise ValueError(
                f"best_by: counts bits, and task {self.task.task!r} gives no probabilities of items, got loss"
            )
        if self.training.scheduled and self.budget is None:
            raise ValueError("schedule: a learning rate that changes needs a budget: max_epochs or max_steps")
        self.task.refuse(self.model, self.protocol)
        return self

    def _fill_training(self) -> None:
        """Set what the training was not given to what its task's paper says; a budget is given or filled as one."""
        given = self.training.model_fields_set
        set_ = {name: getattr(self.training, name) for name in given}
        usual = {
            **self.task.usual_training,
            **self.task.usual_with(self.model),
            **self.protocol.usual_training(self.model, set_),
        }
        optimizer = self.training.optimizer if "optimizer" in given else usual.get("optimizer", "adam")
        if set_.get("schedule", "cycles") != "cycles":
            usual = {name: value for name, value in usual.items() if not name.startswith("cycle_")}
        if optimizer in self.model.usual_lr:
            usual["lr"] = self.model.usual_lr[optimizer]
        if not self.model.gains:
            usual.pop("gain_lr", None)
        if "eval_every" in given:
            usual.pop("eval_steps", None)  # which would be in place of it
        if given & set(BUDGET):
            usual = {name: value for name, value in usual.items() if name not in BUDGET}
        missing = {name: value for name, value in usual.items() if name not in given}
        if missing:
            object.__setattr__(self, "training", self.training.replace(**missing))

    def _fill_library(self) -> None:
        """Set a library's size that was not given to what the protocol takes."""
        if "library_size" in self.task.model_fields_set or not self.task.drawn:
            return
        size = self.protocol.usual_library(self.task, self.model)
        if size is not None:
            object.__setattr__(self, "task", self.task.replace(library_size=min(size, self.task.largest_library)))

    @property
    def budget(self) -> int | None:
        """Steps until a training's budget is spent; None where it has none."""
        return self.budget_of(self.task.library_size)

    def budget_of(self, library_size: int) -> int | None:
        """The same of a training on a library of another size."""
        return self.training.budget(self.task.learned_rows(library_size, self.model))

    def canonical_json(self) -> str:
        """Sorted, compact JSON of every field; a user's file counts by its content, not its path."""
        fields: dict[str, Any] = {
            "task": self.task.canonical(),
            "model": self.model.canonical(),
            "training": self.training.canonical(),
            "protocol": self.protocol.canonical(),
            "seed": self.seed,
        }
        for name in self.task.files:
            fields["task"][name] = "file"
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    def key(self) -> str:
        """Sha256 of the canonical JSON: two runs with one key are the same run."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()
