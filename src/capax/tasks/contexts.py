"""Contexts: the items among which relations are to be recognized."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from capax.specs.relations import Relations


def draw(
    spec: Relations, edges: Int[np.ndarray, "edges 2"], generator: np.random.Generator, number: int
) -> Int[np.ndarray, "contexts context_size"]:
    """The items of `number` contexts in ascending order, independent of each other; of 'whole' one context of all.

    uniform: every subset of context_size items is as likely. targets: ⌊context_size / 2⌋ sources, uniform among the
    items with targets (all of those, where there are fewer), one uniform target of each, and uniform other items up to
    context_size, since a target can be that of several sources or a source itself. Ours: we do not know how the
    paper samples them.
    """
    assert spec.n_items is not None
    if spec.context_size is None:
        return np.arange(spec.n_items)[None]
    if spec.contexts == "uniform":
        subsets = [generator.choice(spec.n_items, spec.context_size, replace=False) for _ in range(number)]
        return np.sort(subsets, axis=1)
    rows = np.empty((number, spec.context_size), dtype=np.int64)
    by_source = edges[np.argsort(edges[:, 0], kind="stable")]
    sources, starts, counts = np.unique(by_source[:, 0], return_index=True, return_counts=True)
    for row in rows:
        chosen = np.zeros(spec.n_items, dtype=bool)
        some = generator.choice(len(sources), min(len(sources), spec.context_size // 2), replace=False)
        chosen[sources[some]] = True
        chosen[by_source[starts[some] + generator.integers(counts[some]), 1]] = True
        missing = spec.context_size - np.count_nonzero(chosen)
        chosen[generator.choice(np.flatnonzero(~chosen), missing, replace=False)] = True
        row[:] = np.flatnonzero(chosen)
    return rows
