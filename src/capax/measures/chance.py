"""What luck alone recalls: guesses that are right with probability q each (Härmä et al. 2024, eq. 7 and 8, q = 1/T)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.stats import binom

from capax.specs import Sequences


def guess_probability(task: Sequences) -> float:
    """Probability that a uniform guess recalls an item: 1/T for the last token, T^−(seq_len−1) for every next token."""
    return float(task.vocab_size) ** -(1 if task.recall == "last" else task.seq_len - 1)


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
