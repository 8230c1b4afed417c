"""How a member learns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from capax.specs.spec import MOST_STEPS, Size, Spec, Steps, since
from capax.text import counted

USUAL_EPOCHS = 500
"""Epochs after which a training without a budget often ends: those of the usual transformer take 450 to 700."""
USUAL_CYCLES = 5
"""Cycles after which most trainings to convergence have ended: of 137 of 153 networks (docs/capacity)."""
LONGEST_SIDE = 1024
"""Sides of matrices up to which SOAP turns them: its bases are squares of these."""


def _or_none(value: object) -> object:
    """`none` in words, for flags and study files, which have no null."""
    return None if value == "none" else value


class Training(Spec):
    """How a member learns: Adam with PyTorch's defaults or another optimizer, and when it stops.

    A member stops when its library is complete, when `patience` evaluations brought neither one more recalled item nor
    a loss lower by the share `min_loss_drop` (the ECM paper: the count did not improve for "several epochs"), or at a
    budget. The defaults here are those for sequences; a `Run` sets what is not given to what is usual of its task, or
    of protocol `capacity`.
    """

    NAMES: ClassVar[Mapping[str, str]] = {"adam": "Adam", "soap": "SOAP", "muon": "Muon"}

    optimizer: Annotated[
        Literal["adam", "soap", "muon"],
        since("0.1", description="Adam (the papers'), SOAP (Vyas et al. 2024), or Muon as torch has it."),
    ] = "adam"
    lr: Annotated[float, Field(gt=0, description="The optimizer's learning rate.")] = 1e-3
    gain_lr: Annotated[
        float,
        since(
            "0.1",
            gt=0,
            description="Multiplier of the learning rate for the gain before the read-out, which sets the outputs' "
            "temperature.",
        ),
    ] = 1.0
    beta1: Annotated[float, since("0.1", ge=0, lt=1, description="The optimizer's decay of mean gradients.")] = 0.9
    beta2: Annotated[float, since("0.1", gt=0, lt=1, description="Its decay of squared gradients.")] = 0.999
    basis_beta: Annotated[
        float, since("0.1", ge=0, lt=1, description="SOAP's decay of the averages that its bases are of.")
    ] = 0.95
    basis_every: Annotated[Steps, since("0.1", description="Steps between new bases of SOAP.")] = 10
    schedule: Annotated[
        Literal["constant", "cosine", "cycles"],
        since(
            "0.1",
            description="Learning rate: constant, falling to 0 over the budget as half a cosine wave, or that in "
            "cycles, each twice as long as the one before.",
        ),
    ] = "constant"
    cycle_steps: Annotated[
        int | None, since("0.1", ge=1, le=MOST_STEPS, description="Steps of the first cycle; only with cycles.")
    ] = None
    cycle_decay: Annotated[
        float,
        since("0.1", gt=0, le=1, description="Ratio of a cycle's highest learning rate to that of the cycle before."),
    ] = 1.0
    cycle_tolerance: Annotated[
        float | None,
        since(
            "0.1",
            gt=0,
            lt=1,
            description="A member has converged when a cycle, from the third on, changes the bits that it knows by "
            "less than this share.",
        ),
    ] = None
    warmup: Annotated[
        float,
        since(
            "0.1",
            ge=0,
            lt=1,
            description="Share of the budget, or of each cycle, over which the learning rate first rises, from 1 % of "
            "it.",
        ),
    ] = 0.0
    batch_size: Annotated[Size, Field(description="Items in a step.")] = 512
    eval_every: Annotated[Steps, Field(description="Epochs between evaluations of the whole library (ours).")] = 1
    eval_steps: Annotated[
        int | None,
        since(
            "0.1",
            ge=1,
            le=MOST_STEPS,
            description="Steps between evaluations, in place of epochs where given; none: epochs.",
        ),
        BeforeValidator(_or_none),
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
        bool, since("0.1", description="Stop a training once it recalls its whole library; mls and shatter always do.")
    ] = True
    best_by: Annotated[
        Literal["recalled", "loss"],
        since(
            "0.1",
            description="Which evaluation of a training is its best, whose count and weights are kept: the first that "
            "recalls most (of relations has the largest F1), or that with the lowest loss of the whole library.",
        ),
    ] = "recalled"
    max_epochs: Annotated[
        int | None,
        Field(
            ge=1,
            le=MOST_STEPS,
            json_schema_extra={"flag": "--exposures"},
            description="Budget of epochs, which is one of exposures of each item; none when not given.",
        ),
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
        Literal["float32", "float64", "bfloat16", "tf32"],
        Field(
            description="Arithmetic; bfloat16 and tf32 (NVIDIA's GPUs) mean such matrix products over float32 weights."
        ),
    ] = "float32"
    compile: Annotated[bool, Field(description="Compile the step with torch.compile (needs a C++ compiler).")] = False

    def steps_per_epoch(self, rows: int) -> int:
        """Batches that the rows of a library are cut into (`Task.learned_rows`)."""
        return math.ceil(rows / self.batch_size)

    def budget(self, rows: int) -> int | None:
        """Steps until the budget is spent: `max_steps`, or `max_epochs` but at least `min_steps`; the fewer of both."""
        budgets = [] if self.max_steps is None else [self.max_steps]
        if self.max_epochs is not None:
            budgets.append(max(self.max_epochs * self.steps_per_epoch(rows), self.min_steps or 1))
        return min(budgets, default=None)

    def usual_steps(self, rows: int) -> int:
        """Steps that most trainings take: to their budget, if they have one, or to an end that most find before.

        That is after `USUAL_CYCLES` where a cycle that adds little is the last, else after `USUAL_EPOCHS`.
        """
        budget = self.budget(rows)
        if self.cycle_tolerance is None:
            return self.steps_per_epoch(rows) * USUAL_EPOCHS if budget is None else budget
        assert self.cycle_steps is not None
        usual = self.cycle_steps * (2**USUAL_CYCLES - 1)
        return usual if budget is None else min(usual, budget)

    def cycle(self, step: int) -> tuple[int, int]:
        """The cycle that a step, counted from 0, is in: its first step and its length.

        Cycles are T, 2T, 4T, ... steps long, where T is `cycle_steps`.
        """
        assert self.cycle_steps is not None
        length = self.cycle_steps * 2 ** ((step // self.cycle_steps + 1).bit_length() - 1)
        return length - self.cycle_steps, length

    def lr_at(self, step: int, budget: int | None) -> float:
        """Learning rate of a step, counted from 0, of a training with a budget of steps."""
        highest = self.lr
        if self.cycle_steps is not None:
            first, budget = self.cycle(step)
            step -= first
            highest *= self.cycle_decay ** math.log2(budget // self.cycle_steps)
        if budget is None:
            return highest
        rising = self.warmup * budget
        if step < rising:
            return highest * (0.01 + 0.99 * step / rising)
        if self.schedule == "constant":
            return highest
        return highest * (1 + math.cos(math.pi * (step - rising) / (budget - rising))) / 2

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
        if self.cycle_tolerance is not None:
            ends.insert(
                0, f"a cycle from the third on changes the bits known by less than {100 * self.cycle_tolerance:.3g} %"
            )
        batch = "the whole library" if all(self.batch_size >= size for size in library_sizes) else str(self.batch_size)
        rate = f"{self.NAMES[self.optimizer]} at {self.lr:g}{self._unusual()}, {self.schedule}"
        if self.cycle_steps is not None:
            rate = f"{rate} of {self.cycle_steps}, {2 * self.cycle_steps}, {4 * self.cycle_steps}, … steps"
            rate += f", each at {self.cycle_decay:g} of the rate before" if self.cycle_decay != 1 else ""
        of = "the budget" if self.cycle_steps is None else "each"
        warmup = f" after a warm-up over {100 * self.warmup:.3g} % of {of}" if self.warmup else ""
        best = ", the best by its loss" if self.best_by == "loss" else ""
        every = counted(*((self.eval_every, "epoch") if self.eval_steps is None else (self.eval_steps, "step")))
        return (
            f"{rate}{warmup}, batches of {batch}, {self.precision}{', compiled' if self.compile else ''}, evaluated "
            f"every {every.removeprefix('1 ')}{best}; until {' or '.join(ends)}"
        )

    def _unusual(self) -> str:
        """What its optimizer has that is not the default, in brackets."""
        names = {"beta1": "beta1", "beta2": "beta2", "gain_lr": "final gain ×"}
        names |= {"basis_beta": "basis_beta", "basis_every": "basis_every"} if self.optimizer == "soap" else {}
        fields = type(self).model_fields
        said = [f"{words} {value:g}" for n, words in names.items() if (value := getattr(self, n)) != fields[n].default]
        return f" ({', '.join(said)})" if said else ""

    @property
    def scheduled(self) -> bool:
        """Whether the learning rate depends on the budget."""
        return self.cycle_steps is None and (self.schedule != "constant" or self.warmup > 0)

    def refuse_idle(self) -> None:
        """Refuse what a training of its kind does not use, or lacks; what a run leaves open is filled in before.

        Raises:
            ValueError: that names the field.
        """
        if self.schedule == "cycles" and self.cycle_steps is None:
            raise ValueError("cycle_steps: is required with schedule 'cycles', got none")
        for name in ("cycle_steps", "cycle_decay", "cycle_tolerance"):
            value = getattr(self, name)
            if self.schedule != "cycles" and value != type(self).model_fields[name].default:
                raise ValueError(f"{name}: only with schedule 'cycles', got {value}")
        if self.best_by == "loss" and self.stop_when_complete:  # the last evaluation would have to be the best
            raise ValueError("best_by: only with stop_when_complete false, got loss")
        if self.best_by == "loss" and self.schedule == "cycles":
            raise ValueError("best_by: not with schedule 'cycles', of which bits decide, got loss")
        for name in ("basis_beta", "basis_every"):
            value = getattr(self, name)
            if self.optimizer != "soap" and value != type(self).model_fields[name].default:
                raise ValueError(f"{name}: only with optimizer 'soap', got {value}")

    @model_validator(mode="after")
    def _has_the_budget_it_needs(self) -> Self:
        if self.max_epochs is None and self.min_steps is not None:
            raise ValueError(f"min_steps: only with max_epochs, got {self.min_steps}")
        return self
