"""What luck alone recalls: guesses, right with probability q each, or one constant answer to everything.

Guesses are those of Härmä et al. 2024, eq. 7 and 8, q = 1/T. A model that knows nothing but which target is the
commonest recalls more than they do, of drawn libraries too (ours).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy  # its parts are loaded when they are first used, which most processes never do
from jaxtyping import Float

from capax.specs import Associations, Relations, Sequences, Task
from capax.tasks import association_files

if TYPE_CHECKING:
    from capax.training.pack import Outcome


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
            return association_files.constant_share(association_files.read(Path(task.library)).labels, task.tolerance)


@dataclass(frozen=True)
class Luck:
    """Items that are recalled without knowing any.

    Attributes:
        uniform: by guesses; None of relations.
        constant: by the best constant answer; None of relations.
        expected: by the better of both; of relations by as many pairs at random as the channel takes for edges.
    """

    uniform: float | None
    constant: float | None
    expected: float


def luck(task: Task, library_size: int, trained: Outcome) -> Luck:
    """What luck recalls of so many items of the library that a training learned.

    Args:
        trained: the training that counts; its library may be of another size.
    """
    if isinstance(task, Relations):
        assert task.n_items is not None
        hits = trained.metrics["predicted_pairs"] * library_size / (task.n_items * (task.n_items - 1))
        return Luck(None, None, hits)
    uniform = mean(library_size, guess_probability(task))
    if trained.constant is None:  # finished by an earlier version, and kept
        return Luck(uniform, None, uniform)
    constant = library_size * trained.constant.recalled / trained.library_size
    return Luck(uniform, constant, max(uniform, constant))


def mean(library_size: int, probability: float) -> float:
    """Expected lucky recalls, M·q (eq. 8)."""
    return library_size * probability


def pmf(library_size: int, probability: float) -> Float[np.ndarray, " counts"]:
    """P(k) for k = 0..M: the binomial of eq. 7."""
    return np.asarray(scipy.stats.binom.pmf(np.arange(library_size + 1), library_size, probability))


def interval(library_size: int, probability: float, level: float = 0.95) -> tuple[int, int]:
    """The central range of that binomial: outside it lies at most 1 − level, split evenly."""
    low, high = scipy.stats.binom.interval(level, library_size, probability)
    return int(low), int(high)
