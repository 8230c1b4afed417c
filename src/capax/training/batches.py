"""The order in which members meet their items."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


class BatchOrder:
    """Each member's own order through the rows of its library: shuffled anew every epoch from its own generator.

    A library that fits in one batch is taken whole, in order: shuffling would change nothing but rounding.
    Batches are padded to the longest, or to `padded_to` rows where given.
    """

    def __init__(
        self,
        sizes: tuple[int, ...],
        batch_size: int,
        generators: list[torch.Generator],
        device: torch.device | str,
        dtype: torch.dtype,
        padded_to: int | None = None,
    ) -> None:
        self.sizes, self.batch_size, self.generators = sizes, batch_size, generators
        self.device, self.dtype, self.padded_to = device, dtype, padded_to
        self.epochs = [0] * len(sizes)
        self._steps = [0] * len(sizes)
        self._orders = [self._shuffled(member) for member in range(len(sizes))]
        self._whole: tuple[Int[Tensor, "e b"], Float[Tensor, "e b"]] | None = None

    def _shuffled(self, member: int) -> Int[Tensor, " items"]:
        size = self.sizes[member]
        if size <= self.batch_size:
            return torch.arange(size, device=self.device)
        return torch.randperm(size, generator=self.generators[member]).to(self.device)

    def next(self) -> tuple[Int[Tensor, "e b"], Float[Tensor, "e b"], list[int]]:
        """Rows of the next batch, their weights (1 / items of the member's batch, 0 for padding), whose epoch ends."""
        if max(self.sizes) <= self.batch_size:
            self.epochs = [epoch + 1 for epoch in self.epochs]
            self._whole = self._whole or self._padded(self._orders)
            return *self._whole, list(range(len(self.sizes)))
        parts, ended = [], []
        for member, order in enumerate(self._orders):
            start = self._steps[member] * self.batch_size
            parts.append(order[start : start + self.batch_size])
            self._steps[member] += 1
            if start + self.batch_size >= self.sizes[member]:
                ended.append(member)
                self._steps[member] = 0
                self.epochs[member] += 1
                self._orders[member] = self._shuffled(member)
        return *self._padded(parts), ended

    def keep(self, members: list[int]) -> None:
        """Forget the members that left."""
        self._whole = None
        self.sizes = tuple(self.sizes[m] for m in members)
        self.generators = [self.generators[m] for m in members]
        self.epochs = [self.epochs[m] for m in members]
        self._steps = [self._steps[m] for m in members]
        self._orders = [self._orders[m] for m in members]

    def tensors(self) -> dict[str, Tensor]:
        """The orders of the epochs under way, and the states of the generators."""
        orders = {f"orders/{place}": order for place, order in enumerate(self._orders)}
        return orders | {
            f"generators/{place}": generator.get_state() for place, generator in enumerate(self.generators)
        }

    def counters(self) -> dict[str, list[int]]:
        """Each member's epochs, and its steps within the epoch."""
        return {"epochs": list(self.epochs), "steps": list(self._steps)}

    def restore(self, tensors: dict[str, Tensor], counters: dict[str, list[int]]) -> None:
        """Resume from the `tensors` and `counters` of an order of the same members."""
        self._whole = None
        self.epochs, self._steps = list(counters["epochs"]), list(counters["steps"])
        for place, generator in enumerate(self.generators):
            generator.set_state(tensors[f"generators/{place}"].clone())
            self._orders[place] = tensors[f"orders/{place}"].to(self.device, copy=True)

    def _padded(self, parts: list[Int[Tensor, " _"]]) -> tuple[Int[Tensor, "e b"], Float[Tensor, "e b"]]:
        rows = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
        if self.padded_to is not None:
            rows = torch.nn.functional.pad(rows, (0, self.padded_to - rows.shape[1]))
        lengths = torch.tensor([len(part) for part in parts], device=self.device)[:, None]
        real = torch.arange(rows.shape[1], device=self.device) < lengths
        return rows, real.to(self.dtype) / lengths
