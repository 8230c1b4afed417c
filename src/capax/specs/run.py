"""One measurement, whole."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from capax.specs.associations import Associations, AssociativeAttention
from capax.specs.modules import Module
from capax.specs.protocols import Budget, Mac, Mls, Protocol
from capax.specs.relations import KeyQueryChannel, Relations
from capax.specs.sequences import Sequences, Transformer
from capax.specs.spec import LARGEST_LIBRARY, Part, Spec
from capax.specs.training import Training

Task = Annotated[Sequences | Associations | Relations, Field(discriminator="task"), Part]
Model = Annotated[Transformer | AssociativeAttention | KeyQueryChannel | Module, Field(discriminator="model"), Part]

LEARNERS: dict[type[Spec], type[Spec]] = {
    Sequences: Transformer,
    Associations: AssociativeAttention,
    Relations: KeyQueryChannel,
}
"""The model of ours that learns each task; sequences are learned by a user's `Module`, too."""

TRAININGS: dict[type[Spec], dict[str, Any]] = {
    Sequences: {},
    Associations: {
        "batch_size": 256,
        "schedule": "cosine",
        "warmup": 0.05,
        "eval_steps": 500,
        "patience": None,
        "max_epochs": 500,
        "min_steps": 50_000,
    },
    Relations: {
        "lr": 0.05,
        "beta2": 0.99,
        "schedule": "cosine",
        "warmup": 1 / 30,
        "batch_size": LARGEST_LIBRARY,
        "eval_steps": 50,
        "patience": None,
        "max_steps": 1500,
    },
}
"""Training where a run gives nothing else, by task: that of the task's paper where it states it. Of relations it is not
known; ours takes the whole graph in each step."""

BUDGET = ("max_epochs", "min_steps", "max_steps")
LATER = ("beta2", "schedule", "warmup", "eval_steps", "stop_when_complete", "min_steps", "max_steps")
"""Fields of the training that runs of earlier versions do not have: at their defaults they are not part of a key."""

MOST_NUMBERS = 2**31
"""Numbers that a library's vectors may consist of: 8 GB in float32."""


class Run(Spec):
    """One measurement, whole: everything that can change its result, and nothing else."""

    task: Task
    model: Model
    training: Training = Training()
    protocol: Protocol = Mac()
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        learner = LEARNERS[type(self.task)]
        if isinstance(self.model, Module) and isinstance(self.task, Sequences):
            if self.training.compile:
                raise ValueError("compile: not for a user's module, got True")
        elif not isinstance(self.model, learner):
            raise ValueError(
                f"model: task {self.task.task!r} is learned by {learner.__name__}, got {type(self.model).__name__}"
            )
        if not isinstance(self.protocol, Mac | Budget) and self.task.library != "random":
            raise ValueError(
                f"protocol: {self.protocol.protocol!r} redraws the library, so library should be 'random', "
                f"got {self.task.library!r}"
            )
        if isinstance(self.model, KeyQueryChannel):
            self._check_channel(self.model)
        elif isinstance(self.protocol, Budget):
            raise ValueError(f"protocol: 'budget' is for relations, got task {self.task.task!r}")
        self._fill_training()
        if self.training.scheduled and self.training.budget(self.task.library_size) is None:
            raise ValueError("schedule: a learning rate that changes needs a budget: max_epochs or max_steps")
        if isinstance(self.task, Associations) and isinstance(self.model, AssociativeAttention):
            contexts = 1 if self.task.contexts == "shared" else self.task.library_size
            numbers = (contexts * self.task.context_size + self.task.library_size) * self.model.d_model
            if numbers > MOST_NUMBERS:
                raise ValueError(
                    f"library_size: its vectors may have at most {MOST_NUMBERS} numbers, {self.task.library_size} "
                    f"examples have {numbers}"
                )
        return self

    def _check_channel(self, model: KeyQueryChannel) -> None:
        if isinstance(self.protocol, Mls):
            raise ValueError("protocol: 'mls' has no meaning for relations; 'budget' searches for the key dimension")
        if (model.d_head is None) != isinstance(self.protocol, Budget):
            searched = "is what protocol 'budget' searches for" if model.d_head else "is required"
            raise ValueError(f"d_head: {searched}, got {model.d_head}")
        if isinstance(self.protocol, Budget) and model.n_heads != 1:
            raise ValueError(f"n_heads: protocol 'budget' has head_counts instead, got {model.n_heads}")
        if isinstance(self.task, Relations) and self.task.contexts != "whole" and model.channel != "threshold":
            raise ValueError(
                f"contexts: should be 'whole' with channel {model.channel!r}, whose scores depend on the context, "
                f"got {self.task.contexts!r}"
            )
        if isinstance(self.task, Relations) and self.task.embeddings == "onehot" and model.d_model != self.task.n_items:
            raise ValueError(f"d_model: one-hot items need n_items = {self.task.n_items}, got {model.d_model}")

    def _fill_training(self) -> None:
        """Set what the training was not given to what its task's paper says; a budget is given or filled as one."""
        given = self.training.model_fields_set
        usual = TRAININGS[type(self.task)]
        if given & set(BUDGET):
            usual = {name: value for name, value in usual.items() if name not in BUDGET}
        missing = {name: value for name, value in usual.items() if name not in given}
        if missing:
            object.__setattr__(self, "training", self.training.replace(**missing))

    def canonical_json(self) -> str:
        """Sorted, compact JSON of every field; a user's file counts by its content, not its path."""
        fields = self.model_dump(mode="json")
        for name in self.task.files:
            fields["task"][name] = "file"
        for name in LATER:
            if fields["training"][name] == Training.model_fields[name].default:
                del fields["training"][name]
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    def key(self) -> str:
        """Sha256 of the canonical JSON: two runs with one key are the same run."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()
