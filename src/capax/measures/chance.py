"""What luck alone recalls: guesses that are right with probability q each (Härmä et al. 2024, eq. 7 and 8, q = 1/T)."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.stats import binom

from capax.specs import Associations, Relations, Sequences, Task
from capax.tasks import association_files


def guess_probability(task: Sequences | Associations) -> float:
    """Probability that a guess recalls an item.

    Sequences: 1/T for the last token, T^−(seq_len−1) for every next token. Associations: 1/C for a class; for a real
    label that the best constant is no further off than the tolerance (ours: the paper gives no chance for real labels).
    """
    match task:
        case Sequences():
            return float(task.vocab_size) ** -(1 if task.recall == "last" else task.seq_len - 1)
        case Associations(labels="classes"):
            return 1 / task.n_classes
        case Associations(labels="uniform"):
            return min(2 * task.tolerance, 1.0) ** task.d_out
        case Associations(labels="normal"):
            return math.erf(task.tolerance / math.sqrt(2)) ** task.d_out
        case Associations():
            return constant_share(association_files.read(Path(task.library)).labels, task.tolerance)


def expected(task: Task, library_size: int, metrics: dict[str, float]) -> float:
    """Lucky recalls to expect among so many items.

    Of relations: as many pairs drawn at random as the channel takes for edges hit their share of the edges.

    Args:
        metrics: those of the training that counts.
    """
    if isinstance(task, Relations):
        assert task.n_items is not None
        return metrics["predicted_pairs"] * library_size / (task.n_items * (task.n_items - 1))
    return mean(library_size, guess_probability(task))


def constant_share(labels: Float[np.ndarray, "items d_out"], tolerance: float) -> float:
    """Share of labels that one constant is close to: in each number the centre of the fullest window."""
    hits = np.ones(len(labels), dtype=bool)
    for column in labels.T:
        ordered = np.sort(column)
        ends = np.searchsorted(ordered, ordered + 2 * tolerance, side="right")
        start = int((ends - np.arange(len(ordered))).argmax())
        hits &= (column >= ordered[start]) & (column <= ordered[start] + 2 * tolerance)
    return float(hits.mean())


def mean(library_size: int, probability: float) -> float:
    """Expected lucky recalls, M·q (eq. 8)."""
    return library_size * probability


def pmf(library_size: int, probability: float) -> Float[np.ndarray, " counts"]:
    """P(k) for k = 0..M: the binomial of eq. 7."""
    return np.asarray(binom.pmf(np.arange(library_size + 1), library_size, probability))


def interval(library_size: int, probability: float, level: float = 0.95) -> tuple[int, int]:
    """The central range of that binomial: outside it lies at most 1 − level, split evenly."""
    low, high = binom.interval(level, library_size, probability)
    return int(low), int(high)
