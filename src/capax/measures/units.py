"""One count in every unit: items above chance, bits, bits and tokens per parameter."""

from __future__ import annotations

import math

from capax.measures.chance import guess_probability
from capax.specs import Sequences, Task


def bits_per_item(task: Task) -> float:
    """What recalling an item is worth against a guess: −log2 of a guess's probability.

    log2(vocab_size) when recall counts the last token, (seq_len − 1) times that when it counts every next token;
    log2(n_classes) for classes; a real label within a tolerance has no other count of bits.
    """
    if isinstance(task, Sequences):
        return math.log2(task.vocab_size) * (1 if task.recall == "last" else task.seq_len - 1)
    return -math.log2(guess_probability(task))


def above_chance(memorized: float, chance: float, library_size: int) -> float:
    """(memorized − chance) / (1 − chance / library_size): a complete library counts whole, pure luck counts zero.

    Where luck alone recalls everything, nothing is above it.
    """
    if chance >= library_size:
        return 0.0
    return (memorized - chance) / (1 - chance / library_size)


def tokens_per_parameter(memorized: float, seq_len: int, trainable: int) -> float:
    """N·C / P (Härmä et al. 2024, eq. 12; P is the number of trainable parameters, the paper gives no definition)."""
    return seq_len * memorized / trainable
