"""One count in every unit: items above chance, bits, bits and tokens per parameter."""

from __future__ import annotations

import math

from capax.measures.chance import guess_probability
from capax.specs import Relations, Sequences, Task
from capax.tasks import graph_classes


def bits_per_item(task: Task) -> float:
    """What recalling an item is worth against a guess: −log2 of a guess's probability.

    log2(vocab_size) when recall counts the last token, (seq_len − 1) times that when it counts every next token;
    log2(n_classes) for classes; a real label within a tolerance has no other count of bits. Of relations: an edge's
    share of log2 of the number of graphs that could have been drawn.
    """
    if isinstance(task, Relations):
        return graph_bits(task) / task.library_size
    if isinstance(task, Sequences):
        return math.log2(task.vocab_size) * (1 if task.recall == "last" else task.seq_len - 1)
    return -math.log2(guess_probability(task))


def graph_bits(task: Relations) -> float:
    """log2 of how many graphs the task could have drawn; power-law and the user's count as any of as many edges."""
    n, edges = task.n_items, task.library_size
    assert n is not None
    match task.graph:
        case "permutation":
            return graph_classes.derangements(n).bits
        case "tree":
            return graph_classes.rooted_trees(n).bits
        case "regular":
            return graph_classes.regular_digraphs(n, edges // n).bits
    return graph_classes.digraphs(n, edges).bits


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
