# pairs.py
"""Which value belongs to which key."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

import capax


class Pairs(capax.Task):
    """Remember pairs: the value is to be predicted from the key. Keys are distinct, values drawn uniformly."""

    learner: ClassVar = capax.Transformer
    unit: ClassVar[str] = "pairs"

    task: Literal["pairs"] = "pairs"
    n_keys: Annotated[int, Field(ge=1, description="Keys to draw from.")] = 100
    n_values: Annotated[int, Field(ge=2, description="Values to draw from.")] = 100
    library_size: Annotated[int, Field(ge=1, description="Pairs to remember.")] = 100

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.library_size > self.n_keys:
            raise ValueError(f"library_size: at most n_keys ({self.n_keys}), got {self.library_size}")
        return self

    def sizes(self) -> dict[str, int]:
        """Keys and values are tokens of one vocabulary; the model reads the key alone."""
        return {"vocab_size": self.n_keys + self.n_values, "context": 1}

    def tokens(self, size: int, generator: np.random.Generator) -> np.ndarray:
        """A key and its value for each pair."""
        keys = generator.permutation(self.n_keys)[:size]
        values = self.n_keys + generator.integers(self.n_values, size=size)
        return np.stack([keys, values], 1)

    def guess_probability(self) -> float:
        """A guess is one of the values."""
        return 1 / self.n_values

    def information_per_item(self) -> float:
        """A value is one of n_values, not any token."""
        return math.log2(self.n_values)

    @property
    def largest_library(self) -> int:
        """Each key once."""
        return self.n_keys
