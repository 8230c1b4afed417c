"""Directed graphs of relations, as sorted rows of source and target; none has self-loops or repeated edges."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from capax.errors import LibraryError
from capax.specs.relations import Relations
from capax.tasks import relation_files

SKEW = 0.8
"""Power-law graphs: the target of rank r gets a share ∝ r^-SKEW, so in-degrees k fall as k^-(1 + 1/SKEW) = k^-2.25."""

ROUNDS = 30
"""Regular graphs: how often each edge is offered a switch."""


def draw(spec: Relations, generator: np.random.Generator) -> Int[np.ndarray, "edges 2"]:
    """The edges of a spec: drawn, or the user's. Permutations are the paper's; the other laws are ours.

    permutation: a uniform derangement, i → π(i). random: uniform among all graphs of that many edges. regular: see
    `regular`. power_law: see `power_law`. tree: a random recursive tree (in a random order, each item's parent is
    uniform among those before it), edges to the parent.

    Raises:
        LibraryError: when the user's file changed since it was read, or cannot be read.
    """
    assert spec.n_items is not None
    n, m = spec.n_items, spec.library_size
    match spec.graph:
        case "permutation":
            edges = _edges(np.arange(n), derangement(n, generator))
        case "random":
            edges = _decoded(_distinct(n * (n - 1), m, generator), n)
        case "regular":
            assert spec.degree is not None
            edges = regular(n, spec.degree, generator)
        case "power_law":
            edges = power_law(n, m, generator)
        case "tree":
            order = generator.permutation(n)
            parents = generator.integers(np.arange(1, n))
            edges = _edges(order[1:], order[parents])
        case _:
            given = relation_files.load(spec).edges
            assert given is not None
            edges = given
    return edges[np.lexsort((edges[:, 1], edges[:, 0]))]


def derangement(n: int, generator: np.random.Generator) -> Int[np.ndarray, " n"]:
    """A uniform permutation of 0..n-1 without fixed points (by rejection: 1 of about e is one)."""
    while True:
        permutation = generator.permutation(n)
        if not (permutation == np.arange(n)).any():
            return permutation


def regular(n: int, degree: int, generator: np.random.Generator) -> Int[np.ndarray, "edges 2"]:
    """A random graph with `degree` edges from and to each of n items.

    Degree 1 is a uniform derangement. Above, a circulant graph on shuffled items is mixed by switches (a→b, c→d
    become a→d, c→b where that makes neither a self-loop nor a repeat), half of them at a time, which keep all degrees:
    the degrees are exact, the graph close to uniform. A dense graph is the complement of a sparse one.
    """
    if degree == 1:
        return _edges(np.arange(n), derangement(n, generator))
    if degree > (n - 1) // 2:
        absent = np.eye(n, dtype=bool)
        if degree < n - 1:
            absent[tuple(regular(n, n - 1 - degree, generator).T)] = True
        return np.argwhere(~absent)
    items = generator.permutation(n)
    sources = np.repeat(np.arange(n), degree)
    targets = (sources + np.tile(np.arange(1, degree + 1), n)) % n
    sources, targets = items[sources], items[targets]
    for _ in range(ROUNDS):
        pairs = generator.permutation(n * degree)[: n * degree // 2 * 2].reshape(2, -1)
        pairs = pairs[:, generator.random(pairs.shape[1]) < 0.5]
        swapped = targets[pairs[::-1]]
        proposed = sources[pairs] * n + swapped
        _, which, counts = np.unique(proposed, return_inverse=True, return_counts=True)
        allowed = (sources[pairs] != swapped) & (counts[which.reshape(proposed.shape)] == 1)
        allowed &= ~np.isin(proposed, sources * n + targets)
        kept = allowed.all(0)
        targets[pairs[:, kept]] = swapped[:, kept]
    return _edges(sources, targets)


def power_law(n: int, n_edges: int, generator: np.random.Generator) -> Int[np.ndarray, "edges 2"]:
    """A graph whose in-degrees follow a power law (see `SKEW`), with sources that are uniform and distinct per target.

    Each edge picks its target by its share; edges beyond the n − 1 that a target can take pick again among the others.
    """
    shares = generator.permutation(np.arange(1.0, n + 1) ** -SKEW)
    degrees = np.zeros(n, dtype=np.int64)
    while left := n_edges - int(degrees.sum()):
        open_shares: Float[np.ndarray, " n"] = np.where(degrees < n - 1, shares, 0.0)
        degrees += generator.multinomial(left, open_shares / open_shares.sum())
        degrees = np.minimum(degrees, n - 1)
    chosen = [generator.choice(n - 1, degrees[j], replace=False, shuffle=False) for j in np.flatnonzero(degrees)]
    targets, others = np.repeat(np.arange(n), degrees), np.concatenate(chosen)
    return _edges(others + (others >= targets), targets)


def _distinct(population: int, size: int, generator: np.random.Generator) -> Int[np.ndarray, " size"]:
    """A uniform subset of 0..population-1, in memory of the order of its size."""
    if size > population // 2:
        kept = np.ones(population, dtype=bool)
        if size < population:
            kept[_distinct(population, population - size, generator)] = False
        return np.flatnonzero(kept)
    # repeats are dropped in the order they were drawn: what is left is drawn without replacement
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < size:
        drawn = np.concatenate([drawn, generator.integers(population, size=2 * (size - len(drawn)))])
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
    return drawn[:size]


def _decoded(numbers: Int[np.ndarray, " edges"], n: int) -> Int[np.ndarray, "edges 2"]:
    """Ordered pairs of different items, from their numbers 0..n(n-1)-1."""
    sources, others = np.divmod(numbers, n - 1)
    return _edges(sources, others + (others >= sources))


def _edges(sources: Int[np.ndarray, " edges"], targets: Int[np.ndarray, " edges"]) -> Int[np.ndarray, "edges 2"]:
    return np.stack([sources, targets], axis=1).astype(np.int64)


def check_edges(edges: Int[np.ndarray, "edges 2"], n_items: int) -> None:
    """Refuse edges that no directed graph without self-loops has.

    Raises:
        LibraryError: for edges that are none, twice, self-loops or without item; it names the edge (from 1).
    """
    if not len(edges):
        raise LibraryError("edges: at least one, got none")
    outside = np.flatnonzero(((edges < 0) | (edges >= n_items)).any(1))
    if len(outside):
        source, target = edges[outside[0]].tolist()
        raise LibraryError(f"edges: items are 0 to {n_items - 1}, got {source} -> {target} (edge {outside[0] + 1})")
    loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if len(loops):
        raise LibraryError(f"edges: no self-loops, got one of item {edges[loops[0], 0]} (edge {loops[0] + 1})")
    codes = edges[:, 0].astype(np.int64) * n_items + edges[:, 1]
    _, firsts = np.unique(codes, return_index=True)
    if len(firsts) < len(edges):
        again = int(np.setdiff1d(np.arange(len(edges)), firsts)[0])
        raise LibraryError(f"edges: each once, got {edges[again, 0]} -> {edges[again, 1]} again (edge {again + 1})")
