"""How a member learns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from capax.specs.spec import MOST_STEPS, Size, Spec, Steps, since
from capax.text import counted


def _or_none(value: object) -> object:
    """`none` in words, for flags and study files, which have no null."""
    return None if value == "none" else value


class Training(Spec):
    """How a member learns: Adam with PyTorch's defaults, and when it stops.

    A member stops when its library is complete, when `patience` evaluations brought neither one more recalled item nor
    a loss lower by the share `min_loss_drop` (the ECM paper: the count "did not improve for several epochs"), or at a
    budget. The defaults here are those for sequences; a `Run` of another task sets what is not given to that task's.
    """

    lr: Annotated[float, Field(gt=0, description="Adam's learning rate.")] = 1e-3
    beta2: Annotated[float, since("0.1", gt=0, lt=1, description="Adam's decay of squared gradients.")] = 0.999
    schedule: Annotated[
        Literal["constant", "cosine"],
        since("0.1", description="Learning rate over the budget: constant, or falling to 0 as half a cosine wave."),
    ] = "constant"
    warmup: Annotated[
        float,
        since(
            "0.1",
            ge=0,
            lt=1,
            description="Share of the budget over which the learning rate first rises, from 1 % of it.",
        ),
    ] = 0.0
    batch_size: Annotated[Size, Field(description="Items in a step.")] = 512
    eval_every: Annotated[Steps, Field(description="Epochs between evaluations of the whole library (ours).")] = 1
    eval_steps: Annotated[
        int | None,
        since("0.1", ge=1, le=MOST_STEPS, description="Steps between evaluations, in place of epochs where given."),
    ] = None
    patience: Annotated[
        int | None,
        Field(
            ge=1,
            le=MOST_STEPS,
            description="Evaluations without improvement after which a training stops (ours); none: it never does.",
        ),
        BeforeValidator(_or_none),
    ] = 30
    min_loss_drop: Annotated[
        float, Field(ge=0, lt=1, description="Share by which the loss must fall to count as an improvement (ours).")
    ] = 0.01
    stop_when_complete: Annotated[
        bool, since("0.1", description="Stop a training once it recalls its whole library.")
    ] = True
    max_epochs: Annotated[
        int | None, Field(ge=1, le=MOST_STEPS, description="Budget of epochs; none when not given.")
    ] = None
    min_steps: Annotated[
        int | None,
        since("0.1", ge=1, le=MOST_STEPS, description="Steps that the budget of epochs amounts to at least."),
    ] = None
    max_steps: Annotated[
        int | None, since("0.1", ge=1, le=MOST_STEPS, description="Budget of steps; none when not given.")
    ] = None
    time_limit: Annotated[float | None, Field(gt=0, description="Budget of seconds for the whole measurement.")] = None
    precision: Annotated[
        Literal["float32", "float64", "bfloat16"],
        Field(description="Arithmetic; bfloat16 means bfloat16 matrix products over float32 weights."),
    ] = "float32"
    compile: Annotated[bool, Field(description="Compile the step with torch.compile (needs a C++ compiler).")] = False

    def steps_per_epoch(self, library_size: int) -> int:
        """Batches that a library is cut into."""
        return math.ceil(library_size / self.batch_size)

    def budget(self, library_size: int) -> int | None:
        """Steps until the budget is spent: `max_steps`, or `max_epochs` but at least `min_steps`; the fewer of both."""
        budgets = [] if self.max_steps is None else [self.max_steps]
        if self.max_epochs is not None:
            budgets.append(max(self.max_epochs * self.steps_per_epoch(library_size), self.min_steps or 1))
        return min(budgets, default=None)

    def lr_at(self, step: int, budget: int | None) -> float:
        """Learning rate of a step, counted from 0, of a training with a budget of steps."""
        if budget is None:
            return self.lr
        rising = self.warmup * budget
        if step < rising:
            return self.lr * (0.01 + 0.99 * step / rising)
        if self.schedule == "constant":
            return self.lr
        return self.lr * (1 + math.cos(math.pi * (step - rising) / (budget - rising))) / 2

    def words(self, library_sizes: Iterable[int]) -> str:
        """How members learn libraries of these sizes and when they stop, in words."""
        ends = []
        if self.patience is not None:
            drop = f"a loss {100 * self.min_loss_drop:.3g} % lower"
            ends.append(f"{self.patience} evaluations without one more item or {drop}")
        if self.max_epochs is not None:
            least = "" if self.min_steps is None else f" (at least {counted(self.min_steps, 'step')})"
            ends.append(f"{counted(self.max_epochs, 'epoch')}{least}")
        if self.max_steps is not None:
            ends.append(counted(self.max_steps, "step"))
        if self.time_limit is not None:
            ends.append(f"{self.time_limit:g} seconds")
        ends += ["the library is complete"] if self.stop_when_complete else []
        batch = "the whole library" if all(self.batch_size >= size for size in library_sizes) else str(self.batch_size)
        usual = self.beta2 == type(self).model_fields["beta2"].default
        rate = f"Adam at {self.lr:g}{'' if usual else f' (beta2 {self.beta2:g})'}, {self.schedule}"
        warmup = f" after a warm-up over {100 * self.warmup:.3g} % of the budget" if self.warmup else ""
        every = counted(*((self.eval_every, "epoch") if self.eval_steps is None else (self.eval_steps, "step")))
        return (
            f"{rate}{warmup}, batches of {batch}, {self.precision}{', compiled' if self.compile else ''}, evaluated "
            f"every {every.removeprefix('1 ')}; until {' or '.join(ends)}"
        )

    @property
    def scheduled(self) -> bool:
        """Whether the learning rate depends on the budget."""
        return self.schedule != "constant" or self.warmup > 0

    @model_validator(mode="after")
    def _has_the_budget_it_needs(self) -> Self:
        if self.max_epochs is None and self.min_steps is not None:
            raise ValueError(f"min_steps: only with max_epochs, got {self.min_steps}")
        return self
