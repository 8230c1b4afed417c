"""Libraries of people: distinct names, random values; what is known of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from capax import devices
from capax.tasks.library import Evaluation
from capax.tasks.tokens import TokenLibrary


class BiographyLibrary(TokenLibrary):
    """Libraries of people: rows are the token before a person, the name's three, the eight of the values."""

    @classmethod
    def draw(cls, spec: Any, size: int, generator: np.random.Generator) -> Int[np.ndarray, "size tokens"]:
        """Names without replacement, values independent; every position's tokens follow those of the one before."""
        codes = generator.choice(math.prod(spec.names), size, replace=False)
        names = np.stack(np.unravel_index(codes, spec.names), 1)
        values = generator.integers(0, spec.values, (size, len(spec.values)))
        counts = (*spec.names, *spec.values)
        people = np.hstack([names, values]) + np.cumsum((0, *counts[:-1]))
        return np.hstack([np.full((size, 1), sum(counts)), people]).astype(np.int64)

    @property
    def uniform_nats(self) -> float:
        """Cross-entropy of a uniform guess of a name and its values."""
        return self.spec.information_per_item() * math.log(2)

    @property
    def uniform_loss(self) -> float:
        """The same as the mean over positions, in nats."""
        return self.uniform_nats / (self.spec.tokens_per_item or 1)

    @property
    def answered(self) -> int:
        """The values."""
        spec: Any = self.spec
        return len(spec.values)

    def row_metrics(
        self, logits: Float[Tensor, "e b p vocab"], batch: Int[Tensor, "e b seq_len"]
    ) -> dict[str, Float[Tensor, "e b"]]:
        """Cross-entropy of each name and of its values: the p1 and p2 of the capacity ratio, before their means."""
        each = self._each(logits, batch)
        return {"name_nats": each[:, :, : -self.answered].sum(2), "value_nats": each[:, :, -self.answered :].sum(2)}

    def evaluation(self, member: int, memorized: int, rows: dict[str, Float[Tensor, " rows"]]) -> Evaluation:
        """The mean of both; the best evaluation is that of the lowest cross-entropy, as bits are counted there."""
        means = {name: float(devices.wide(values).mean()) for name, values in rows.items()}
        known = -sum(means.values())
        return Evaluation(
            memorized, means, (known if math.isfinite(known) else -math.inf,), memorized == self.sizes[member]
        )
