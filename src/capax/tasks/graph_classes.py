"""How many graphs there are of a kind, in bits: what weights that recognize any of them must tell apart.

All counts are ours or textbook: labelled directed graphs without self-loops on m items.
"""

from __future__ import annotations

from math import lgamma, log
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field
from scipy.special import gammaln

from capax.errors import SpecError
from capax.results import Result
from capax.specs import Relations
from capax.specs.spec import whole

LN2 = log(2)
EXACT_DERANGEMENTS = 20
"""Above so many items, m!/e is their number to all digits of a float."""


class GraphClass(Result):
    """A set of graphs, and the logarithm of its size."""

    name: str
    bits: Annotated[float, Field(description="log2 of the number of graphs, or of a number not above it.")]
    exact: Annotated[bool, Field(description="Whether it is the number itself, not a bound below it.")]
    formula: str
    standing: Literal["derived"] = "derived"


def derangements(n_items: int) -> GraphClass:
    """Permutations without fixed points, one target each: log2 !m = log2 m! − 1.44 + ...."""
    whole("n_items", n_items, 2)
    if n_items > EXACT_DERANGEMENTS:
        bits = _factorial(n_items) - 1 / LN2
    else:
        before, number = 1, 0  # of 0 items and of 1
        for size in range(2, n_items + 1):
            before, number = number, (size - 1) * (before + number)
        bits = log(number) / LN2
    return GraphClass(name="derangements", bits=bits, exact=True, formula="log2 !m ≈ log2(m!/e)")


def digraphs(n_items: int, n_edges: int) -> GraphClass:
    """All graphs of m' edges: log2 C(m(m − 1), m')."""
    whole("n_items", n_items, 2)
    pairs = n_items * (n_items - 1)
    if not 0 <= n_edges <= pairs:
        raise SpecError(f"n_edges: 0 to {pairs} (n_items {n_items}), got {n_edges}")
    return GraphClass(
        name="digraphs", bits=float(log2_choose(pairs, n_edges)), exact=True, formula="log2 C(m(m − 1), m')"
    )


def regular_digraphs(n_items: int, degree: int) -> GraphClass:
    """A bound below the number of graphs with k edges from and to every item; of k = 1 exact.

    Such a graph is k disjoint derangements. The j-th can be any perfect matching of the m − j pairs an item that are
    left, at least m! ((m − j)/m)^m (van der Waerden's bound, Egorychev and Falikman); one graph is taken apart in at
    most Π_j (j!)^(m/j) ways, j = 1 to k (Bregman's bound).
    """
    whole("n_items", n_items, 2)
    if not 1 <= degree < n_items:
        raise SpecError(f"degree: 1 to {n_items - 1} (n_items {n_items}), got {degree}")
    formula = "Σ_{j ≤ k} [log2 m! + m log2((m − j)/m) − (m/j) log2 j!]"
    if degree == 1:
        return derangements(n_items).model_copy(update={"name": "regular_digraphs"})
    bits = 0.0
    for j in range(1, degree + 1):
        bits += _factorial(n_items) + n_items * log((n_items - j) / n_items) / LN2 - n_items / j * _factorial(j)
    return GraphClass(name="regular_digraphs", bits=max(0.0, bits), exact=False, formula=formula)


def rooted_trees(n_items: int) -> GraphClass:
    """All trees with edges to the parent and any root: log2 m^(m − 1) (Cayley)."""
    whole("n_items", n_items, 2)
    return GraphClass(
        name="rooted_trees", bits=(n_items - 1) * log(n_items) / LN2, exact=True, formula="(m − 1) log2 m"
    )


def drawn_from(task: Relations) -> GraphClass:
    """The class that a task draws from; power-law graphs and the user's count as any of as many edges."""
    n, edges = task.sizes()["n_items"], task.library_size
    match task.graph:
        case "permutation":
            return derangements(n)
        case "tree":
            return rooted_trees(n)
        case "regular":
            return regular_digraphs(n, edges // n)
    return digraphs(n, edges)


def least_bits(task: Relations) -> float | None:
    """The largest b known such that a task draws no graph with a probability above 2^−b; None where none is."""
    n, edges = task.sizes()["n_items"], task.library_size
    if task.graph == "permutation" or (task.graph == "regular" and edges == n):
        return derangements(n).bits
    if task.graph == "random":
        return digraphs(n, edges).bits
    return recursive_tree_bits(n) if task.graph == "tree" else None


def recursive_tree_bits(n_items: int) -> float:
    """log2 m!: no tree of `tasks.graphs` is drawn with a probability above 1/m!, which is that of a star.

    A tree comes from one choice of parents, of probability 1/(m − 1)!, for each order that its parents precede their
    children in; of the m! orders at most (m − 1)! are such, as the root is first.
    """
    return _factorial(n_items)


def _factorial(n: int) -> float:
    return lgamma(n + 1) / LN2


def narrowed(n_items: int, recalled: float, missed: float, wrong: float) -> float:
    """The share of log2 C(m(m − 1), m') that a set of pairs tells of a graph: 1 of its edges, 0 of pairs at random.

    Left to tell is which k of the p pairs are edges and which m' − k of the others are, log2 C(p, k) +
    log2 C(m(m − 1) − p, m' − k). Ours: of all graphs of m' edges it is exact (`stored_bits.graph_information`). Where
    fewer of them are edges than of pairs at random nothing is recalled.

    Args:
        n_items: m.
        recalled, missed: the graph's edges that are in the set, k, and are not.
        wrong: pairs of the set that are no edges, p − k.
    """
    pairs, predicted, edges = n_items * (n_items - 1), recalled + wrong, recalled + missed
    if recalled * pairs <= predicted * edges:
        return 0.0
    left = log2_choose(predicted, recalled) + log2_choose(pairs - predicted, missed)
    return max(1 - float(left / log2_choose(pairs, edges)), 0.0)


def log2_choose(n: ArrayLike, k: ArrayLike) -> Any:
    """log2 C(n, k), of numbers or of arrays of one shape."""
    n, k = np.asarray(n), np.asarray(k)
    return (gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)) / LN2
