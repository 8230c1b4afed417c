"""What luck alone recalls: by guesses, each right with probability q, or by one constant answer.

Guesses are those of Härmä et al. 2024, eq. 7 and 8, q = 1/T. A model that knows only the most common target recalls
more than they do, even in drawn libraries (ours).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from capax.specs import Task

if TYPE_CHECKING:
    from capax.training.pack import Outcome


@dataclass(frozen=True)
class Luck:
    """Items that are recalled without knowing any.

    Attributes:
        uniform: by guesses; None for relations.
        constant: by the best constant answer; None for relations.
        expected: by the better of both; for relations by picking as many random pairs as the channel takes for edges.
    """

    uniform: float | None
    constant: float | None
    expected: float


def luck(task: Task, library_size: int, trained: Outcome) -> Luck:
    """What luck recalls of this many items of the library that a training learned.

    Args:
        trained: the training that counts; its library may be of another size.
    """
    uniform = task.lucky(library_size, trained.metrics)
    if task.guess_probability() is None:
        return Luck(None, None, uniform)
    if trained.constant is None:  # of a run that an earlier version finished
        return Luck(uniform, None, uniform)
    constant = library_size * trained.constant.recalled / trained.library_size
    return Luck(uniform, constant, max(uniform, constant))
