"""The interface between a task's libraries and training, evaluation and protocols."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from capax import devices
from capax.results import Breakdown
from capax.specs.task import Purpose as Purpose

Model = TypeVar("Model")


@dataclass(frozen=True)
class Evaluation:
    """What a member recalls of its whole library, and its task's other metrics.

    Attributes:
        memorized: items recalled.
        metrics: what else the task measures.
        score: better evaluations have larger ones.
        complete: whether there is nothing left to learn.
    """

    memorized: int
    metrics: dict[str, float]
    score: tuple[float, ...]
    complete: bool


class Constant(NamedTuple):
    """How well one constant answer to every item of a library does.

    Attributes:
        recalled: items that it recalls.
        entropy: bits per item that the library's own distribution of answers has, position by position; None where
            answers are real numbers.
    """

    recalled: int
    entropy: float | None


def constant_answer(answers: Int[Tensor, "items positions"]) -> Constant:
    """The best constant answer where an item is recalled when every position is right: the commonest row."""
    items = len(answers)
    columns = [column.unique(return_counts=True)[1] for column in answers.unbind(1)]
    entropy = sum(float(torch.special.entr(counts.double() / items).sum()) for counts in columns) / math.log(2)
    rows = columns[0] if len(columns) == 1 else answers.unique(dim=0, return_counts=True)[1]
    return Constant(int(rows.max()), entropy)


class Library(ABC, Generic[Model]):
    """The libraries of an ensemble's members on a device.

    A library is a table of rows, which batches are made of: its items, unless the task says otherwise.

    Attributes:
        breaks_down: whether counts are broken down into groups of rows (`breakdown`).
        sizes: items of each member.
    """

    breaks_down: ClassVar[bool] = False
    sizes: tuple[int, ...]

    @classmethod
    def build(
        cls,
        spec: Any,
        model: Any,
        sizes: tuple[int, ...],
        generators: list[np.random.Generator],
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        padded_to: int | None = None,
    ) -> Library[Model]:
        """Draw one library per generator; a single generator for several sizes means that all members share it.

        Args:
            spec: the task.
            model: who learns it.
            sizes: items of each member.
            padded_to: rows of the stacked libraries; those of the largest when not given.
        """
        raise NotImplementedError(f"{cls.__name__}.build")

    @classmethod
    def remarks(cls, spec: Any, size: int, generator: np.random.Generator | None) -> tuple[int, tuple[str, ...]]:
        """How many items of a library can be recalled at all, and notes for the measurement.

        Args:
            generator: of the library that all restarts learned; None where each training had its own.
        """
        return size, ()

    @classmethod
    def breakdown(cls, spec: Any, size: int, generator: np.random.Generator, right: list[np.ndarray]) -> Breakdown:
        """What is recalled of groups of a library's rows, and what is missed most; where `breaks_down` says so.

        Args:
            generator: of the library.
            right: of each restart which rows it recalls, the best restart first.
        """
        raise NotImplementedError(f"{cls.__name__}.breakdown")

    @property
    @abstractmethod
    def uniform_loss(self) -> float:
        """The loss of a model that knows nothing but the distribution of targets."""

    def uniform_loss_of(self, member: int) -> float:
        """The same of one member, where libraries differ in it."""
        return self.uniform_loss

    @property
    @abstractmethod
    def rows(self) -> int:
        """Rows of the largest library, padding included."""

    @property
    def row_counts(self) -> tuple[int, ...]:
        """Rows of each member's library; those from there on are padding."""
        return self.sizes

    @property
    def learned_counts(self) -> tuple[int, ...]:
        """Rows that each member's batches are made of: those that are counted, unless others are learned from."""
        return self.row_counts

    @property
    def n_bytes(self) -> int:
        """Memory that it takes."""
        return sum(part.numel() * part.element_size() for part in vars(self).values() if isinstance(part, Tensor))

    def select(self, members: list[int]) -> Self:
        """The libraries of some members; of what all of them share there is one, which stays."""
        every: Any = self
        parts = {
            name: part[members] if isinstance(part, Tensor) else tuple(part[member] for member in members)
            for name, part in vars(self).items()
            if name == "sizes" or (isinstance(part, Tensor | tuple) and len(part) > 1)
        }
        return replace(every, **parts)

    @abstractmethod
    def batch(self, rows: Int[Tensor, "e b"]) -> Any:
        """The given rows of each member's library."""

    @abstractmethod
    def shared(self, model: Model, purpose: Purpose, n_rows: int) -> dict[str, Tensor]:
        """What the model computes once for all rows of a step."""

    @abstractmethod
    def outputs(self, model: Model, batch: Any, purpose: Purpose, shared: dict[str, Tensor]) -> Tensor:
        """The model's outputs for a batch."""

    @abstractmethod
    def losses(self, outputs: Tensor, batch: Any, weight: Float[Tensor, "e b"]) -> Float[Tensor, " e"]:
        """Each member's weighted sum of losses over rows."""

    @abstractmethod
    def recalled(self, outputs: Tensor, batch: Any) -> Shaped[Tensor, "e b"]:
        """How many items of each row are recalled."""

    @property
    def uniform_nats(self) -> float | None:
        """Cross-entropy of a uniform guess of all that the loss covers of an item; None without probabilities."""
        return None

    def nats(self, outputs: Tensor, batch: Any) -> Float[Tensor, "e b"]:
        """The same of the model's outputs, item by item."""
        raise NotImplementedError(f"{type(self).__name__} has no probabilities")

    def known_bits(self, outputs: Tensor, batch: Any) -> Float[Tensor, "e b"]:
        """Bits by which the model's code of each item is shorter than that of a uniform guess."""
        assert self.uniform_nats is not None
        return (self.uniform_nats - devices.wide(self.nats(outputs, batch))) / math.log(2)

    def targets(self, member: int) -> list[int]:
        """The different tokens that a member has to predict for full recall; none where items are no tokens."""
        return []

    def constant(self, member: int) -> Constant | None:
        """The best constant answer to a member's library; None where items have no answers."""
        return None

    def row_metrics(self, outputs: Tensor, batch: Any) -> dict[str, Float[Tensor, "e b"]]:
        """What else is measured of each row."""
        return {}

    def evaluation(self, member: int, memorized: int, rows: dict[str, Float[Tensor, " rows"]]) -> Evaluation:
        """What a member's evaluation says, of its rows' metrics."""
        return Evaluation(memorized, {}, (float(memorized),), memorized == self.sizes[member])
