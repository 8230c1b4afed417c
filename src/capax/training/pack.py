"""Packs of members that train together, their outcomes and their progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from capax.results import StopReason
from capax.specs import Model, Task, Training
from capax.tasks.library import Constant
from capax.training.stopping import CycleEnd, Information


@dataclass(frozen=True)
class Pack:
    """Members that train together. Their results depend on seed, member and sizes, not on who else is in the pack.

    On a CPU that is so to the last bit in packs of two or more; a member by itself is rounded differently, since BLAS
    libraries sum up a single product in another order than those of a batch.

    Attributes:
        seeds: each member's seed: members of runs that differ in their seeds alone may share a pack.
        members: their numbers in their runs; with the seeds they name the random streams.
        sizes: items in each member's library.
        d_heads: each member's head size, where they differ; smaller ones are padded with zeros to the largest.
        largest: the largest size of the measurement's round: libraries of several sizes are padded to it, so that
            cutting a round into packs changes no rounding.
        mixed: whether the round holds several sizes.
        one_library: whether all members of a seed learn its library number 0 instead of one each.
        seconds: budget from the pack's start.
    """

    task: Task
    model: Model
    training: Training
    seeds: tuple[int, ...]
    members: tuple[int, ...]
    sizes: tuple[int, ...]
    largest: int
    mixed: bool
    one_library: bool
    device: str = "cpu"
    seconds: float | None = None
    keep_weights: bool = False
    d_heads: tuple[int, ...] | None = None

    def budget(self, size: int) -> int | None:
        """Steps until the budget of a member with so many items is spent; None where it has none."""
        return self.training.budget(self.task.learned_rows(size, self.model))

    def part(self, places: Sequence[int]) -> Pack:
        """The members at some places as a pack of their own, with the seconds of the whole."""
        each = ("seeds", "members", "sizes", *(() if self.d_heads is None else ("d_heads",)))
        chosen: dict[str, Any] = {name: tuple(getattr(self, name)[place] for place in places) for name in each}
        return replace(self, **chosen)


@dataclass(frozen=True)
class Outcome:
    """The result of one member's training.

    Attributes:
        seed, member: identify it.
        memorized: items recalled at its best evaluation.
        metrics: what else the task measures, at that evaluation.
        epoch_of_best, epochs, steps: when that was, and how long it trained.
        curve: `(epoch, memorized, loss)` at each evaluation.
        unreachable: target tokens that its frozen read-out can never rank first.
        information: what it knows at its best evaluation, where its outputs are finite probabilities.
        cycles: the ends of the cycles of its learning rate.
        constant: the best constant answer to its library; None where items have no answers.
        one_start: whether all members begin with the same weights.
        weights: its parameters at its best evaluation, where they were to be kept.
        d_head: its head size, where a search varies it.
        seconds_before: its share of the time that its pack was trained for before this process took it up.
    """

    seed: int
    member: int
    library_size: int
    memorized: int
    epoch_of_best: int
    epochs: int
    steps: int
    stop_reason: StopReason
    curve: tuple[tuple[int, int, float | None], ...]
    unreachable: tuple[int, ...]
    parameters: dict[str, int]
    metrics: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    information: Information | None = None
    cycles: tuple[CycleEnd, ...] = ()
    constant: Constant | None = None
    one_start: bool = False
    d_head: int | None = None
    weights: dict[str, Tensor] | None = field(default=None, repr=False)
    seconds_before: float = field(default=0.0, repr=False, compare=False)


@dataclass(frozen=True)
class Status:
    """A member's state, for progress; it stops in `epochs_left` epochs unless it improves."""

    seed: int
    member: int
    library_size: int
    epoch: int
    memorized: int
    loss: float | None
    stop_reason: StopReason | None
    epochs_left: int
