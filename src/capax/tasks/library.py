"""What a task's libraries are to the training loop and the measures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Literal, TypeVar

from jaxtyping import Bool, Float, Int
from torch import Tensor

Purpose = Literal["loss", "recall"]
"""What a model's outputs are for: the loss of a training step, or counting what is recalled."""

Model = TypeVar("Model")


class Library(ABC, Generic[Model]):
    """The libraries of an ensemble's members on a device.

    Attributes:
        sizes: items of each member; rows from there on are padding.
    """

    sizes: tuple[int, ...]

    @property
    @abstractmethod
    def uniform_loss(self) -> float:
        """The loss of a model that knows nothing but the distribution of targets."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Items of the largest library, padding included."""

    @property
    def n_bytes(self) -> int:
        """Memory that it takes."""
        return sum(part.numel() * part.element_size() for part in vars(self).values() if isinstance(part, Tensor))

    @abstractmethod
    def select(self, members: list[int]) -> Library[Model]:
        """The libraries of some members."""

    @abstractmethod
    def batch(self, rows: Int[Tensor, "e b"]) -> Any:
        """The items at `rows` of each member's library."""

    @abstractmethod
    def shared(self, model: Model, purpose: Purpose, n_items: int) -> dict[str, Tensor]:
        """What the model computes once for all items of a step."""

    @abstractmethod
    def outputs(self, model: Model, batch: Any, purpose: Purpose, shared: dict[str, Tensor]) -> Tensor:
        """What the model says to a batch."""

    @abstractmethod
    def losses(self, outputs: Tensor, batch: Any, weight: Float[Tensor, "e b"]) -> Float[Tensor, " e"]:
        """Each member's weighted sum of losses over items."""

    @abstractmethod
    def recalled(self, outputs: Tensor, batch: Any) -> Bool[Tensor, "e b"]:
        """Which items count as recalled."""

    def item_metrics(self, outputs: Tensor, batch: Any) -> dict[str, Float[Tensor, "e b"]]:
        """What else is measured of each item."""
        return {}

    def metrics(self, items: dict[str, Float[Tensor, " items"]]) -> dict[str, float]:
        """A member's measures, of its items' metrics."""
        return {}
