"""Libraries of sequences: how they are drawn, and how many of them can be recalled."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

from capax.errors import LibraryError
from capax.specs import Sequences
from capax.tasks import sequence_files
from capax.tasks.tokens import TokenLibrary


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


class SequenceLibrary(TokenLibrary):
    """Libraries of sequences: drawn, enumerated, or the user's."""

    @classmethod
    def draw(cls, spec: Any, size: int, generator: np.random.Generator) -> Int[np.ndarray, "size seq_len"]:
        """As the module's `draw`, after the token before the first where the task has one."""
        sequences = draw(spec, size, generator)
        if not spec.bos:
            return sequences
        return np.hstack([np.full((size, 1), spec.vocab_size, sequences.dtype), sequences])

    @property
    def uniform_loss(self) -> float:
        """Cross-entropy of a uniform guess of a sequence's token, in nats."""
        spec: Any = self.spec
        return math.log(spec.vocab_size)

    @classmethod
    def remarks(cls, spec: Any, size: int, generator: np.random.Generator | None) -> tuple[int, tuple[str, ...]]:
        """Items that no predictor can recall beside others, which they contradict."""
        if generator is None or (spec.recall == "last" and spec.duplicates == "refuse"):
            return size, ()
        recallable = reachable_items(draw(spec, size, generator), spec.recall)
        why = "one prefix, two targets" if spec.recall == "last" else "one first token leads to one sequence only"
        note = f"at most {recallable} of {size} items can be recalled, since others contradict them ({why})"
        return recallable, (note,) if recallable < size else ()
