"""The bits that a model can hold: restarts trained to convergence, and what they would reach in the long run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capax.errors import SpecError
from capax.protocols.convergence import trend
from capax.protocols.count import Count, Train, out_of_time
from capax.results import CapacityEstimate, Parameters
from capax.specs import Capacity, Run, Task
from capax.tasks.library import Library
from capax.training.pack import Outcome

KNOWN_WHOLE = 0.7
"""Share of a library's bits above which it may be too small to show what can be held."""


def capacity(run: Run, protocol: Capacity, train: Train) -> Count:
    """Restarts on one library; on one of twice the size while more than 70 % of its bits are known.

    A larger library that time cut short is left out where less was known of it than of the one before.
    """
    task, sizes, larger, cut = run.task, list[int](), run.task.library_size, False
    if task.library_type().uniform_nats is Library.uniform_nats:
        raise SpecError(f"protocol: 'capacity' counts bits, and libraries of task {task.task!r} have no uniform_nats")
    outcomes: list[Outcome] = []
    while not sizes or larger > sizes[-1]:
        trained = train(range(protocol.restarts), [larger] * protocol.restarts, True)
        over = any(out_of_time(outcome, run) for outcome in trained)
        cut = over and bool(outcomes) and _mean_bits(trained) < _mean_bits(outcomes)
        if cut:
            break
        outcomes = trained
        sizes.append(larger)
        if _known(outcomes, run) <= KNOWN_WHOLE or not task.drawn or over:
            break
        larger = _larger(task, sizes[-1])
    size = sizes[-1]
    best = max(outcomes, key=lambda outcome: _bits(outcome)[-1])
    ended = not cut and all(outcome.stop_reason == "converged" for outcome in outcomes)
    parameters = Parameters(**best.parameters, effective=run.model.effective_parameters(**task.sizes()))
    library_bits = size * task.information_per_item()
    estimate = estimated([_bits(outcome) for outcome in outcomes], ended, parameters, library_bits, sizes)
    if any(outcome.one_start for outcome in outcomes):
        estimate = estimate.model_copy(update={"interval": None})
    known, notes = _known(outcomes, run), []
    if known > KNOWN_WHOLE:
        why = "one of twice the size was cut short" if cut else "no larger one was trained"
        notes.append(f"{known:.1%} of the library's bits are known, and {why}: the network may hold more")
    return Count(best.memorized, best, outcomes, size, size, capacity=estimate, notes=tuple(notes))


def _larger(task: Task, size: int) -> int:
    """Twice the size, or as much as a task can have; the same where it refuses a larger one."""
    larger = min(2 * size, task.largest_library)
    try:
        task.replace(library_size=larger)
    except SpecError:
        return size
    return larger


def _mean_bits(outcomes: Sequence[Outcome]) -> float:
    return float(np.mean([_bits(outcome)[-1] for outcome in outcomes]))


def _known(outcomes: Sequence[Outcome], run: Run) -> float:
    """The share of a library's bits that restarts know in the mean."""
    return _mean_bits(outcomes) / (outcomes[0].library_size * run.task.information_per_item())


def _bits(outcome: Outcome) -> list[float]:
    """The most that a restart knew by the end of each of its cycles; what it knew at first where none ended."""
    ends = [end.bits for end in outcome.cycles] or [outcome.information.clipped if outcome.information else 0.0]
    return [float(bits) for bits in np.maximum.accumulate(ends)]


def estimated(
    restarts: Sequence[Sequence[float]],
    ended: bool,
    parameters: Parameters,
    library_bits: float,
    library_sizes: Sequence[int],
) -> CapacityEstimate:
    """What restarts say of what can be held; no more than the library has.

    Args:
        restarts: the most that each knew by the end of each of its cycles.
        ended: whether each ended since a cycle changed too little.
        library_bits: of the last library.
        library_sizes: of all libraries, in turn.
    """
    found = trend(restarts, library_bits)
    later = found.later if ended else None
    held = found.reached if later is None else later
    return CapacityEstimate(
        bits=found.reached,
        extrapolated=later,
        interval=None if later is None else found.interval,
        converged=later is not None,
        last_gain=found.last_gain,
        library_bits=library_bits,
        library_sizes=tuple(library_sizes),
        per_effective_parameter=None if parameters.effective is None else held / parameters.effective,
        per_trainable_parameter=held / parameters.trainable,
        per_parameter=held / parameters.total,
    )
