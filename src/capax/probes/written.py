"""Ways of writing weights into a file, and the bytes that they take. Without torch: plans count bytes, too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

STEP_BITS = 16
FLOATS = {"float64": 64, "float32": 32, "bfloat16": 16}
"""Kinds of numbers that are not rounded to a grid, and their bits."""


class Rounding(NamedTuple):
    """How the weights of a file are written.

    Attributes:
        name: the kind of its numbers, such as `bfloat16` or `int4`.
        bits: of a weight.
        group: consecutive weights along a matrix's inputs that share a step; None where a tensor has one, or there is
            no step.
    """

    name: str
    bits: int
    group: int | None = None

    @classmethod
    def integers(cls, bits: int, group: int | None) -> Rounding:
        """Integers times steps."""
        return cls(f"int{bits}", bits, group)

    @classmethod
    def floats(cls, name: str) -> Rounding:
        """Floating-point numbers as they are."""
        return cls(name, FLOATS[name])

    @property
    def on_grid(self) -> bool:
        """Whether matrices are integers times steps; vectors then stay as they are."""
        return self.name not in FLOATS

    @property
    def words(self) -> str:
        """The way in a few words."""
        if not self.on_grid:
            return self.name
        return f"{self.name} ({'tensors' if self.group is None else f'groups of {self.group}'})"

    def n_bytes(self, name: str, shape: Sequence[int], kept_bytes: int = 4) -> int:
        """Bytes of a tensor in the file: its codes one after another, and its steps.

        Args:
            kept_bytes: of a number of a vector, which stays as it was kept.
        """
        count = math.prod(shape)
        if not self.on_grid:
            return count * self.bits // 8
        if is_vector(name, shape):
            return count * kept_bytes
        steps = 1 if self.group is None else math.ceil(count / self.group)
        return math.ceil(count * self.bits / 8) + steps * STEP_BITS // 8


def is_vector(name: str, shape: Sequence[int]) -> bool:
    """Whether a tensor is a gain or a bias, or one of each of several experts, and so no matrix."""
    return len(shape) < 2 or name.endswith("bias")
