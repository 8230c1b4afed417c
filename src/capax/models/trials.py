"""What a few modules of each kind are asked, to find out what they are, before any of them is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from capax.models.factory import ModuleError
from capax.specs.modules import TorchModel

TRIAL = 3
"""Members of a trial."""
ROWS, CONTEXTS = 8, 4
"""Rows that each is asked, and contexts of items."""
MOST_POSITIONS = 64
"""Positions whose token is exchanged to see which scores it reaches."""


class Trial:
    """Inputs for three members, and what their answers should be.

    Attributes:
        inputs: what the members are asked, `(TRIAL, rows, ...)` each.
    """

    inputs: tuple[Tensor, ...]

    def __init__(self, spec: TorchModel, sizes: Mapping[str, int], dtype: torch.dtype) -> None:
        self.name, self.sizes = spec.name, sizes

    def of_one(self, rows: int | None = None) -> tuple[Tensor, ...]:
        """What the first member is asked, of some rows or all."""
        return tuple(one[0, :rows] for one in self.inputs)

    def with_another(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The same inputs, with something else in their second row."""
        found = tuple(one.clone() for one in inputs)
        for one in found:
            one[1] = one[1] + 1
        return found

    def positions(self, scores: Any, inputs: tuple[Tensor, ...]) -> Literal["all", "last"]:
        """Which positions the scores are of; the last alone where there is one answer a row.

        Raises:
            ModuleError: for something else than finite scores.
        """
        wanted = self.wanted(inputs)
        refuse_no_scores(scores, self.name, [wanted], f"to {self.asked(inputs)}")
        return "last"

    def wanted(self, inputs: tuple[Tensor, ...]) -> tuple[int, ...]:
        """The shape of its answer."""
        raise NotImplementedError(f"{type(self).__name__}.wanted")

    def asked(self, inputs: tuple[Tensor, ...]) -> str:
        """The inputs and their shapes in words."""
        raise NotImplementedError(f"{type(self).__name__}.asked")

    def looks_ahead(self, module: nn.Module, allowed: float) -> int | None:
        """The first position found (from 1) whose scores depend on a later one; None where there is no order."""
        return None


class TokenTrial(Trial):
    """Random tokens."""

    def __init__(self, spec: TorchModel, sizes: Mapping[str, int], dtype: torch.dtype) -> None:
        super().__init__(spec, sizes, dtype)
        generator = torch.Generator().manual_seed(0)
        self.inputs = (torch.randint(sizes["vocab_size"], (TRIAL, ROWS, sizes["context"]), generator=generator),)

    def with_another(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The same inputs, with other tokens in their second row."""
        (other,) = super().with_another(inputs)
        return (other % self.sizes["vocab_size"],)

    def positions(self, scores: Any, inputs: tuple[Tensor, ...]) -> Literal["all", "last"]:
        """Which positions the scores are of."""
        return asked_positions(scores, inputs[0], self.sizes["vocab_size"], self.name)

    def looks_ahead(self, module: nn.Module, allowed: float) -> int | None:
        """The first position found (from 1) whose scores depend on a later token."""
        tokens = self.inputs[0][0, :1]
        n, plain = tokens.shape[1], module(tokens)[0]
        for place in torch.linspace(1, n - 1, min(n - 1, MOST_POSITIONS)).long().unique().tolist() if n > 1 else []:
            other = tokens.clone()
            other[0, place] = (other[0, place] + 1) % self.sizes["vocab_size"]
            reached = ((module(other)[0, :place] - plain[:place]).abs().amax(-1) > allowed).nonzero()
            if len(reached):
                return int(reached[0]) + 1
        return None


class ExampleTrial(Trial):
    """Normal queries and contexts."""

    def __init__(self, spec: Any, sizes: Mapping[str, int], dtype: torch.dtype) -> None:
        super().__init__(spec, sizes, dtype)
        generator, c = torch.Generator().manual_seed(0), spec.d_model
        shapes = (TRIAL, ROWS, c), (TRIAL, ROWS, sizes["context_size"], c)
        self.inputs = tuple(torch.randn(shape, generator=generator).to(dtype) for shape in shapes)

    def wanted(self, inputs: tuple[Tensor, ...]) -> tuple[int, ...]:
        """`(batch, n_outputs)`."""
        return len(inputs[0]), self.sizes["n_outputs"]

    def asked(self, inputs: tuple[Tensor, ...]) -> str:
        """The inputs and their shapes in words."""
        queries, contexts = (tuple(one.shape) for one in inputs)
        return f"queries {queries} and contexts {contexts}"


class PairTrial(Trial):
    """Normal vectors of items."""

    def __init__(self, spec: Any, sizes: Mapping[str, int], dtype: torch.dtype) -> None:
        super().__init__(spec, sizes, dtype)
        shape = (TRIAL, CONTEXTS, sizes.get("context_size", sizes["n_items"]), spec.d_model)
        self.inputs = (torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype),)

    def wanted(self, inputs: tuple[Tensor, ...]) -> tuple[int, ...]:
        """`(batch, n, n)`."""
        b, n, _ = inputs[0].shape
        return b, n, n

    def asked(self, inputs: tuple[Tensor, ...]) -> str:
        """The inputs and their shapes in words."""
        return f"items {tuple(inputs[0].shape)}"


TRIALS: dict[str, type[Trial]] = {"tokens": TokenTrial, "examples": ExampleTrial, "pairs": PairTrial}
"""By what a model reads."""


def asked_positions(scores: Any, tokens: Tensor, vocab_size: int, name: str) -> Literal["all", "last"]:
    """Which positions the scores of tokens `(b, n)` are of.

    Raises:
        ModuleError: for something else than finite scores.
    """
    b, n = tokens.shape
    refuse_no_scores(scores, name, [(b, n, vocab_size), (b, vocab_size)], f"to tokens ({b}, {n})")
    return "all" if scores.dim() == 3 else "last"


def refuse_no_scores(scores: Any, name: str, shapes: list[tuple[int, ...]], to: str) -> None:
    """Refuse what is no finite tensor of one of some shapes.

    Raises:
        ModuleError: that says what it should be.
    """
    wanted = " or ".join(map(str, shapes))
    if not isinstance(scores, Tensor):
        raise ModuleError(f"module: {name} should give a tensor of scores {wanted}, got {type(scores).__name__}")
    if scores.shape not in shapes:
        raise ModuleError(f"module: {name} should give scores {wanted} {to}, got {tuple(scores.shape)}")
    if not scores.is_floating_point():
        raise ModuleError(f"module: {name} should give scores of floating-point numbers, got {scores.dtype}")
    if not torch.isfinite(scores).all():
        raise ModuleError(f"module: {name} gives scores that are not finite before training")
