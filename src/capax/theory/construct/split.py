"""How edges of a graph are split among heads."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from capax.errors import SpecError

Split = tuple[Int[np.ndarray, " _"], ...]
"""Row numbers of each head's edges."""


def split_edges(
    edges: Int[np.ndarray, "edges 2"],
    block: int,
    generator: np.random.Generator,
    target_repeats: int | None = None,
) -> Split:
    """Edges in random order, each into the first head with room that holds its source never, its target rarely.

    First-fit (ours): with one edge a target, h ≤ ⌈m'/block⌉ + 2(Δ − 1), Δ the largest in- or out-degree, as all but
    2(Δ − 1) earlier heads that turn an edge away are full. Signatures belong to targets, so a target may recur in a
    head; then its sources' noise adds up in its score.

    Args:
        edges: rows of source and target.
        block: most edges of a head.
        generator: draws the order.
        target_repeats: how often a target may occur in a head. [default: as often as keeps the largest in-degree from
            needing more than ⌈m'/block⌉ heads: 1 unless there are hubs]

    Raises:
        SpecError: for a block or repeats below 1.
    """
    if block < 1:
        raise SpecError(f"block: at least 1 edge a head, got {block}")
    if target_repeats is None:
        ideal = -(-len(edges) // block)
        target_repeats = -(-int(np.bincount(edges[:, 1]).max()) // ideal)
    if target_repeats < 1:
        raise SpecError(f"target_repeats: at least 1, got {target_repeats}")
    full = 0
    asked: dict[int, int] = {}
    closed: dict[int, int] = {}
    repeats: dict[tuple[int, int], int] = {}
    parts: list[list[int]] = []
    for number in generator.permutation(len(edges)).tolist():
        source, target = edges[number].tolist()
        turned_away = full | asked.get(source, 0) | closed.get(target, 0)
        bit = ~turned_away & (turned_away + 1)
        head = bit.bit_length() - 1
        if head == len(parts):
            parts.append([])
        parts[head].append(number)
        asked[source] = asked.get(source, 0) | bit
        repeats[target, head] = repeats.get((target, head), 0) + 1
        if repeats[target, head] == target_repeats:
            closed[target] = closed.get(target, 0) | bit
        if len(parts[head]) == block:
            full |= bit
    return tuple(np.array(part) for part in parts)
