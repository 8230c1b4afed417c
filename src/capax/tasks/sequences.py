"""Libraries of sequences: how they are drawn, what a batch of them is, when one counts as recalled."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from capax.errors import LibraryError
from capax.models.module import ModuleEnsemble
from capax.models.transformer import Scored, TransformerEnsemble
from capax.specs import Sequences
from capax.tasks import sequence_files
from capax.tasks.library import Constant, Library, Purpose, constant_answer

Learner = TransformerEnsemble | ModuleEnsemble


def draw(spec: Sequences, size: int, generator: np.random.Generator) -> Int[np.ndarray, "size seq_len"]:
    """The sequences of a spec: i.i.d. uniform tokens with distinct prefixes, every prefix once, or the user's.

    `generator` draws tokens (for `library="all"` only the targets); a user's file uses none of it.
    """
    if spec.library == "all":
        prefixes = _decode(np.arange(size), spec)
    elif spec.library == "random":
        prefixes = _distinct_prefixes(spec, size, generator)
    else:
        sequences = sequence_files.read(Path(spec.library))
        same = sequence_files.content_hash(sequences) == spec.library_sha256
        if not same or sequences.shape != (spec.library_size, spec.seq_len):
            raise LibraryError(f"library: {spec.library} has changed since it was read")
        return sequences
    targets = generator.integers(spec.vocab_size, size=(size, 1))
    return np.hstack([prefixes, targets])


def _decode(codes: Int[np.ndarray, " size"], spec: Sequences) -> Int[np.ndarray, "size context"]:
    places = spec.vocab_size ** np.arange(spec.seq_len - 2, -1, -1, dtype=np.int64)
    return codes[:, None] // places % spec.vocab_size


def _distinct_prefixes(spec: Sequences, size: int, generator: np.random.Generator) -> Int[np.ndarray, "size context"]:
    """Uniform draws without replacement: by number where prefixes are few, else by drawing repeats again."""
    total = spec.vocab_size ** (spec.seq_len - 1)
    if total <= 4 * size:
        return _decode(generator.permutation(total)[:size], spec)
    prefixes = generator.integers(spec.vocab_size, size=(size, spec.seq_len - 1))
    while True:
        _, first = np.unique(prefixes, axis=0, return_index=True)
        if len(first) == size:
            return prefixes
        repeated = np.ones(size, dtype=bool)
        repeated[first] = False
        prefixes[repeated] = generator.integers(spec.vocab_size, size=(int(repeated.sum()), spec.seq_len - 1))


def reachable_items(sequences: Int[np.ndarray, "size seq_len"], recall: Literal["last", "all"] = "last") -> int:
    """Items that one predictor can recall at most.

    Of those that share a prefix, those with its commonest target. When every next token counts, a first token leads to
    one sequence only: the number of different first tokens (the commonest item of each, if items repeat).
    """
    return recallable_from(sequences, [sequences.shape[1] - 1 if recall == "last" else 1])[0]


def recallable_from(sequences: Int[np.ndarray, "size seq_len"], lengths: Iterable[int]) -> list[int]:
    """Items that one predictor can say whole at most, from their first tokens, for each number of these.

    Of items that begin with the same tokens, those that are the commonest sequence among them.
    """
    items, counts = np.unique(sequences, axis=0, return_counts=True)  # in lexicographic order
    differs = (items[1:] != items[:-1]).argmax(1)  # the first place at which an item is not the one before
    return [
        int(np.maximum.reduceat(counts, np.append(0, np.flatnonzero(differs < length) + 1)).sum()) for length in lengths
    ]


@dataclass(frozen=True)
class SequenceLibrary(Library[Learner]):
    """The libraries of an ensemble's members on a device.

    Attributes:
        tokens: one library per member, or one that all share (g = 1); rows from a member's size on are padding.
        sizes: items of each member.
    """

    spec: Sequences
    tokens: Int[Tensor, "g items seq_len"]
    sizes: tuple[int, ...]

    @classmethod
    def build(
        cls,
        spec: Sequences,
        sizes: tuple[int, ...],
        generators: list[np.random.Generator],
        device: torch.device | str,
        padded_to: int,
    ) -> SequenceLibrary:
        """Draw one library per generator; a single generator for several sizes means that all members share it."""
        libraries = [draw(spec, size, generator) for size, generator in zip(sizes, generators, strict=False)]
        padded = np.zeros((len(libraries), padded_to, spec.seq_len), dtype=np.int64)
        for row, library in enumerate(libraries):
            padded[row, : len(library)] = library
        return cls(spec, torch.from_numpy(padded).to(device), sizes)

    @property
    def uniform_loss(self) -> float:
        """Cross-entropy of a uniform guess, in nats."""
        return math.log(self.spec.vocab_size)

    @property
    def rows(self) -> int:
        """Rows of the largest library, padding included."""
        return self.tokens.shape[1]

    def select(self, members: list[int]) -> SequenceLibrary:
        """The libraries of some members."""
        tokens = self.tokens if self.tokens.shape[0] == 1 else self.tokens[members]
        return SequenceLibrary(self.spec, tokens, tuple(self.sizes[m] for m in members))

    def targets(self, member: int) -> list[int]:
        """The different tokens that a member has to predict for full recall."""
        return self._answers(member).unique().tolist()

    def constant(self, member: int) -> Constant:
        """The best constant answer: the commonest target, or the commonest sequence of all tokens but the first."""
        return constant_answer(self._answers(member))

    def _answers(self, member: int) -> Int[Tensor, "items p"]:
        """What recall asks for: of each item the last token, or all tokens but the first."""
        tokens = self.tokens[0 if self.tokens.shape[0] == 1 else member][: self.sizes[member]]
        return tokens[:, -1:] if self.spec.recall == "last" else tokens[:, 1:]

    def batch(self, rows: Int[Tensor, "e b"]) -> Int[Tensor, "e b seq_len"]:
        """The items at `rows` of each member's library."""
        g, items, _ = self.tokens.shape
        offset = torch.arange(g, device=rows.device)[:, None] * items
        return self.tokens.flatten(0, 1)[rows + offset]

    def shared(self, model: Learner, purpose: Purpose, n_rows: int) -> dict[str, Tensor]:
        """What the model computes once for all sequences of a step; of a user's module nothing is known."""
        if isinstance(model, ModuleEnsemble):
            return {}
        return model.shared(self._scored(purpose), n_rows)

    def outputs(
        self, model: Learner, batch: Int[Tensor, "e b seq_len"], purpose: Purpose, shared: dict[str, Tensor]
    ) -> Float[Tensor, "e b p vocab"]:
        """Next-token scores at the scored positions."""
        if isinstance(model, ModuleEnsemble):
            return model.logits(batch[:, :, :-1], self._scored(purpose), training=purpose == "loss")
        return model.logits(batch[:, :, :-1], self._scored(purpose), shared)

    def _scored(self, purpose: Purpose) -> Scored:
        return self.spec.recall if purpose == "recall" else self.spec.loss

    def losses(
        self, logits: Float[Tensor, "e b p vocab"], batch: Int[Tensor, "e b seq_len"], weight: Float[Tensor, "e b"]
    ) -> Float[Tensor, " e"]:
        """Each member's weighted sum over items of the cross-entropy (nats), averaged over the scored positions."""
        return (self._each(logits, batch).mean(2) * weight).sum(1)

    @property
    def uniform_nats(self) -> float:
        """Cross-entropy of a uniform guess of all tokens that the loss covers."""
        return self.uniform_loss * (1 if self.spec.loss == "last" else self.spec.seq_len - 1)

    def nats(self, logits: Float[Tensor, "e b p vocab"], batch: Int[Tensor, "e b seq_len"]) -> Float[Tensor, "e b"]:
        """Cross-entropy of each item in all tokens that the loss covers."""
        return self._each(logits, batch).sum(2)

    def _each(self, logits: Float[Tensor, "e b p vocab"], batch: Int[Tensor, "e b seq_len"]) -> Float[Tensor, "e b p"]:
        e, b, p, vocab = logits.shape
        each = F.cross_entropy(logits.reshape(-1, vocab), batch[:, :, -p:].reshape(-1), reduction="none")
        return each.view(e, b, p)

    def recalled(self, logits: Float[Tensor, "e b p vocab"], batch: Int[Tensor, "e b seq_len"]) -> Bool[Tensor, "e b"]:
        """Whether every scored token is the arg-max."""
        return (logits.argmax(-1) == batch[:, :, -logits.shape[2] :]).all(2)
