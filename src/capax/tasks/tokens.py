"""Libraries of tasks whose items are tokens: how they are batched, and when an item counts as recalled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from capax.errors import LibraryError
from capax.models.ensemble import TokenEnsemble
from capax.models.operations import cross_entropy, likeliest
from capax.specs.task import Purpose, Task
from capax.tasks.library import Constant, Library, constant_answer


@dataclass(frozen=True)
class TokenLibrary(Library[TokenEnsemble[Any]]):
    """The libraries of an ensemble's members on a device.

    Attributes:
        tokens: one library per member, or one that all share (g = 1); rows from a member's size on are padding.
        sizes: items of each member.
    """

    spec: Task
    tokens: Int[Tensor, "g items seq_len"]
    sizes: tuple[int, ...]

    @classmethod
    def draw(cls, spec: Task, size: int, generator: np.random.Generator) -> Int[np.ndarray, "size seq_len"]:
        """The items of a library: what the task says, checked.

        Raises:
            LibraryError: when they are no tokens of the vocabulary, or too many or too few.
        """
        found, sizes = np.asarray(spec.tokens(size, generator)), spec.sizes()
        shape = (size, sizes["context"] + 1)
        if found.shape != shape or not np.issubdtype(found.dtype, np.integer):
            raise LibraryError(
                f"tokens: task {spec.task!r} should give integers of shape {shape}, got {found.dtype} of {found.shape}"
            )
        if found.size and not 0 <= found.min() <= found.max() < sizes["vocab_size"]:
            raise LibraryError(
                f"tokens: task {spec.task!r} should give 0 to {sizes['vocab_size'] - 1}, "
                f"got {found.min()} to {found.max()}"
            )
        return found.astype(np.int64)

    @classmethod
    def build(
        cls,
        spec: Task,
        model: Any,
        sizes: tuple[int, ...],
        generators: list[np.random.Generator],
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        padded_to: int | None = None,
    ) -> TokenLibrary:
        """Draw one library per generator; a single generator for several sizes means that all members share it."""
        libraries = [cls.draw(spec, size, generator) for size, generator in zip(sizes, generators, strict=False)]
        padded = np.zeros((len(libraries), padded_to or max(sizes), libraries[0].shape[1]), dtype=np.int64)
        for row, library in enumerate(libraries):
            padded[row, : len(library)] = library
        return cls(spec, torch.from_numpy(padded).to(device), sizes)

    @property
    def uniform_loss(self) -> float:
        """Cross-entropy of a uniform guess of a token that the loss covers, in nats."""
        return self.uniform_nats / self._scored

    @property
    def rows(self) -> int:
        """Rows of the largest library, padding included."""
        return self.tokens.shape[1]

    def targets(self, member: int) -> list[int]:
        """The different tokens that a member has to predict for full recall."""
        return self._answers(member).unique().tolist()

    def constant(self, member: int) -> Constant:
        """The best constant answer: the commonest target, or the commonest sequence of all tokens but the first."""
        return constant_answer(self._answers(member))

    @property
    def answered(self) -> int:
        """Tokens at the end of an item that recall counts: the last one, or all but the first."""
        return 1 if self.spec.scored("recall") == "last" else self.tokens.shape[2] - 1

    def _answers(self, member: int) -> Int[Tensor, "items p"]:
        """The tokens of each item that recall counts."""
        return self.tokens[0 if self.tokens.shape[0] == 1 else member][: self.sizes[member], -self.answered :]

    def batch(self, rows: Int[Tensor, "e b"]) -> Int[Tensor, "e b seq_len"]:
        """The items at `rows` of each member's library."""
        g, items, _ = self.tokens.shape
        offset = torch.arange(g, device=rows.device)[:, None] * items
        return self.tokens.flatten(0, 1)[rows + offset]

    def shared(self, model: TokenEnsemble[Any], purpose: Purpose, n_rows: int) -> dict[str, Tensor]:
        """What the model computes once for all sequences of a step."""
        return model.shared(self.spec.scored(purpose), n_rows)

    def outputs(
        self, model: TokenEnsemble[Any], batch: Int[Tensor, "e b seq_len"], purpose: Purpose, shared: dict[str, Tensor]
    ) -> Float[Tensor, "e b p vocab"]:
        """Next-token scores at the scored positions."""
        return model.logits(batch[:, :, :-1], self.spec.scored(purpose), shared, training=purpose == "loss")

    def losses(
        self, logits: Float[Tensor, "e b p vocab"], batch: Int[Tensor, "e b seq_len"], weight: Float[Tensor, "e b"]
    ) -> Float[Tensor, " e"]:
        """Each member's weighted sum over items of the cross-entropy (nats), averaged over the scored positions."""
        return (self._each(logits, batch).mean(2) * weight).sum(1)

    @property
    def uniform_nats(self) -> float:
        """Cross-entropy of a uniform guess of all tokens that the loss covers."""
        return self.spec.information_per_item() * math.log(2)

    @property
    def _scored(self) -> int:
        """Tokens of an item that the loss covers."""
        return 1 if self.spec.scored("loss") == "last" else self.tokens.shape[2] - 1

    def nats(self, logits: Float[Tensor, "e b p vocab"], batch: Int[Tensor, "e b seq_len"]) -> Float[Tensor, "e b"]:
        """Cross-entropy of each item in all tokens that the loss covers."""
        return self._each(logits, batch).sum(2)

    def _each(self, logits: Float[Tensor, "e b p vocab"], batch: Int[Tensor, "e b seq_len"]) -> Float[Tensor, "e b p"]:
        return cross_entropy(logits, batch[:, :, -logits.shape[2] :])

    def recalled(self, logits: Float[Tensor, "e b p vocab"], batch: Int[Tensor, "e b seq_len"]) -> Bool[Tensor, "e b"]:
        """Whether every token that recall counts is the arg-max after those before it."""
        n = self.answered
        return (likeliest(logits[:, :, -n:]) == batch[:, :, -n:]).all(2)
