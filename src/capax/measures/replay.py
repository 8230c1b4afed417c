"""Which head size each training of a search for D_K* had, which its measurement does not store.

A search is a function of its run and of the F1 that its trainings had, so it is run again on these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from capax.measures.budget import Trained, smallest
from capax.results import Measurement
from capax.seeds import numpy_generator
from capax.specs import Budget, KeyQueryChannel


def trainings(measurement: Measurement) -> dict[int, list[Trained]] | None:
    """The trainings of a measurement by protocol budget, in order, by number of heads.

    Returns:
        None where the search of today would not have found what is stored: one of another version did it.
    """
    run, counts = measurement.spec, measurement.per_heads
    protocol, model, size = run.protocol, run.model, run.task.library_size
    assert isinstance(protocol, Budget)
    assert isinstance(model, KeyQueryChannel)
    assert counts is not None
    f1 = iter([member.metrics["f1"] for member in measurement.members])
    guess = size * math.log2(max(size, 2)) / model.d_model
    seed = int(numpy_generator(run.seed, "search").integers(2**31))
    found: dict[int, list[Trained]] = {}
    for count in counts:
        done = found[count.n_heads] = []

        def answer(pairs: Sequence[tuple[int, int]], done: list[Trained] = done) -> list[float]:
            told = [next(f1) for _ in pairs]
            done += [Trained(d_head, number, value) for (d_head, number), value in zip(pairs, told, strict=True)]
            return told

        try:
            again = smallest(answer, protocol, count.n_heads, model.d_model, guess, seed)
        except StopIteration:
            return None
        if again != count:
            return None
    return found if next(f1, None) is None else None
