"""The model under test: a copy that runs without side effects, and how to make another one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from capax.errors import SpecError, said
from capax.models.factory import ModuleError, seeded
from capax.models.module import reported
from capax.models.trials import asked_positions
from capax.seeds import torch_generator
from capax.specs import Model, Task
from capax.specs.model import Scored

ROWS = 8
"""Random examples of a batch."""


@dataclass(frozen=True)
class Subject:
    """The model under test: a copy of the module, the task, and how to make another module."""

    name: str
    module: nn.Module
    task: Task
    seed: int
    make: Callable[[int], nn.Module] | None

    @property
    def device(self) -> torch.device:
        """Where the module's parameters are."""
        return next(self.module.parameters()).device

    @property
    def vocab_size(self) -> int:
        """Different tokens."""
        return self.task.sizes()["vocab_size"]

    @property
    def every_position(self) -> bool:
        """Whether the loss or the count covers more positions than the last."""
        return "all" in (self.task.scored("loss"), self.task.scored("recall"))

    def tokens(self, part: str, rows: int = ROWS) -> Tensor:
        """Random contexts `(rows, seq_len − 1)`."""
        generator = torch_generator(self.seed, f"check {part}")
        shape = (rows, self.task.sizes()["context"])
        return torch.randint(self.vocab_size, shape, generator=generator).to(self.device)

    def scores(self, tokens: Tensor, training: bool = False, seed: int = 0) -> Tensor:
        """A copy's scores `(rows, positions, vocab_size)`; one position where it scores the last alone."""
        return self.passes([tokens], training, seed)[0]

    def passes(self, batches: Sequence[Tensor], training: bool = False, seed: int = 0) -> list[Tensor]:
        """Scores of several batches, as `scores`, one after another by the same copy, each from the same seed."""
        module, found = copy.deepcopy(self.module).train(training), []
        for tokens in batches:
            with reported(self.name), seeded(seed), torch.no_grad():
                scores: Tensor = module(tokens)
            asked_positions(scores, tokens, self.vocab_size, self.name)
            found.append(scores if scores.dim() == 3 else scores[:, None])
        return found


def subject_of(model: Any, task: Task, seed: int) -> Subject:
    """The model under test of a module, of a factory, or of a spec.

    Raises:
        SpecError: for something else.
        ModuleError: when the module cannot be made, or copied.
    """
    make: Callable[[int], nn.Module]
    if isinstance(model, Model):
        name, make = getattr(model, "name", type(model).__name__), partial(_member, model, task)
    elif isinstance(model, nn.Module):
        try:
            return Subject(type(model).__name__, copy.deepcopy(model), task, seed, None)
        except Exception as error:  # a module may hold anything
            raise ModuleError(f"module: {type(model).__name__} cannot be copied ({said(error)})") from None
    elif callable(model):
        name, make = getattr(model, "__name__", type(model).__name__), partial(_called, model)
    else:
        raise SpecError(f"model: a torch.nn.Module, what makes one, or a spec, got {type(model).__name__}")
    return Subject(name, make(seed), task, seed, make)


def _member(spec: Model, task: Task, seed: int) -> nn.Module:
    own: nn.Module | None = spec.torch_module(task.sizes(), seed)
    return OneMember(spec, task, seed) if own is None else own


def _called(factory: Callable[[], Any], seed: int) -> nn.Module:
    with reported(getattr(factory, "__name__", "factory")), seeded(seed):
        module = factory()
    if not isinstance(module, nn.Module):
        raise ModuleError(f"module: the factory should give a torch.nn.Module, got {type(module).__name__}")
    return module


class OneMember(nn.Module):
    """One member of an ensemble as a module."""

    def __init__(self, spec: Model, task: Task, seed: int) -> None:
        super().__init__()
        self.spec = spec
        self.scored: Scored = "all" if "all" in (task.scored("loss"), task.scored("recall")) else "last"
        generators = [torch_generator(seed, "weights", 0)]
        ensemble = spec.ensemble_type().initialize(spec, task.sizes(), generators=generators)
        for name, tensor in ensemble.parameters.items():
            parameter = nn.Parameter(tensor[0].detach().clone(), tensor.requires_grad)
            self.register_parameter(name.replace(".", "/"), parameter)

    def ensemble(self) -> Any:
        """An ensemble of one, of these parameters."""
        return self.spec.ensemble_type()(self.spec, {n.replace("/", "."): p[None] for n, p in self.named_parameters()})

    def forward(self, tokens: Tensor) -> Tensor:
        """Next-token scores at every position, or only at the last where no other is scored."""
        scores: Tensor = self.ensemble().logits(tokens[None], self.scored)[0]
        return scores if self.scored == "all" else scores[:, 0]
