"""What luck alone recalls: guesses, right with probability q each, or one constant answer to everything.

Guesses are those of Härmä et al. 2024, eq. 7 and 8, q = 1/T. A model that knows nothing but which target is the
commonest recalls more than they do, of drawn libraries too (ours).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy  # its parts are loaded when they are first used, which most processes never do
from jaxtyping import Float

from capax.specs import Task

if TYPE_CHECKING:
    from capax.training.pack import Outcome


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
    uniform = task.lucky(library_size, trained.metrics)
    if task.guess_probability() is None:
        return Luck(None, None, uniform)
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
