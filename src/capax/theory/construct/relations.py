"""Weights of a key-query channel that recognize a given graph, built and not trained.

Adler 2025 (arXiv 2509.22840) states that such weights exist with D_K = O(m' log m' / d_model). The algorithms here are
ours: random signatures, one for each target of a head, written into the query matrix at the sources and into the key
matrix at the targets. Or the other way round: weights of the reversed graph, with queries and keys exchanged, are those
of the graph, and need far fewer heads where a source has more edges than any target. We have not read the paper's.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int

from capax import working
from capax.errors import AssumptionError, LibraryError, SpecError, shown
from capax.specs.spec import positive, whole
from capax.tasks.graphs import check_edges
from capax.theory.construct.channel import ChannelWeights, Recognition, recognize, recognizes
from capax.theory.construct.quantize import quantized
from capax.theory.construct.split import Split, split_edges

Method = Literal["whitened", "hebbian", "onehot"]

TARGET_F1 = 0.99
"""The share that counts as recognized (the paper's criterion for D_K*)."""
UNIT = 1e-6
"""How far a norm may be from 1."""
WIDEST = 4
"""The search for d_head ends at this multiple of d_model: errors that remain there do not shrink with d_head."""
SHARES = (1 / 4, 1 / 3, 1 / 6, 1 / 2, 1 / 8, 1)
"""Edges of a head over d_model that the search for heads tries, the best of most graphs first: the others then mostly
fail at once. D_K against them is U-shaped, and about the same for all of them near its least."""

Built = tuple[ChannelWeights, Recognition]


@dataclass(frozen=True)
class Tried:
    """One number of heads that the search tried.

    Attributes:
        n_heads: heads.
        d_head: the smallest found to reach the target; None where none up to `limit` does.
        limit: the largest that was of interest: with more, the total key dimension is not below the least so far.
    """

    n_heads: int
    d_head: int | None
    limit: int


@dataclass(frozen=True)
class RelationConstruction:
    """Weights, and what they reach on all ordered pairs.

    Attributes:
        weights: query and key matrices, quantised where bits were given.
        recognition: F1, precision, recall, margin and threshold over the whole graph.
        split: the edges (row numbers) of each head.
        constant: c = D_K · d_model / (m' log2 m'); None for a single edge.
        reverse: whether the weights are those of the reversed graph, queries and keys exchanged.
        tried: the numbers of heads that were searched in that direction, in order; none where heads or their size were
            given.
    """

    weights: ChannelWeights
    recognition: Recognition
    split: Split
    constant: float | None
    reverse: bool = False
    tried: tuple[Tried, ...] = ()


@dataclass(frozen=True)
class _Task:
    """What weights are built for, and how.

    Attributes:
        reverse: whether for the reversed graph, queries and keys exchanged.
    """

    edges: Int[np.ndarray, "edges 2"]
    items: Float[np.ndarray, "items channels"]
    method: Method
    bits: int | None
    target_f1: float
    reverse: bool = False

    @property
    def d_model(self) -> int:
        return self.items.shape[1]

    @property
    def directed(self) -> Int[np.ndarray, "edges 2"]:
        """The edges whose targets have the signatures."""
        return self.edges[:, ::-1] if self.reverse else self.edges


def build(
    edges: Int[np.ndarray, "edges 2"],
    items: Float[np.ndarray, "items channels"],
    *,
    generator: np.random.Generator,
    method: Method = "whitened",
    n_heads: int | None = None,
    d_head: int | None = None,
    bits: int | None = None,
    split: Split | None = None,
    target_f1: float = TARGET_F1,
) -> RelationConstruction:
    """Weights W_Q = Aᵀ M R, W_K = Bᵀ R of each head with which scores of edges are about 1 and others about 0.

    R holds a random signature of ±1/√d_head for each target of a head. A source asks for the sum of its targets'. With
    x_S the head's sources, x_T its targets, one row each, and M their edges (1 or 0):

    - whitened: A = pinv(x_S)ᵀ, B = pinv(x_T)ᵀ. Inside a head scores are those of the signatures, exactly.
    - hebbian: A = x_S, B = x_T, so that inner products of items add noise that does not shrink with d_head.
    - onehot: hebbian with one head, for one-hot items: there is no noise but that of signatures.

    A head holds a source once, but a target as often as needed. So where a source has more edges than any target, the
    size of heads is searched for the reversed graph, too, whose queries and keys are then exchanged: signatures belong
    to sources. The smaller total key dimension is built, if equal the usual one.
    Where so many pairs are edges that taking all for edges reaches target_f1, weights are zero, the threshold -1.

    Args:
        edges: rows of source and target.
        items: unit vectors x.
        generator: draws the split among heads and the signatures.
        method: as above.
        n_heads: heads. [default: one for onehot and where all pairs may be taken for edges; with d_head as many as
            hold d_model/4 edges each, with no more conflicts than first-fit leaves; without, those of the least total
            key dimension among some tried. One edge a head with d_head 1 is always among them, so that D_K is never
            above m', but where bits are so few that it is not enough]
        d_head: channels of a query. [default: the smallest found, by bisection, to reach target_f1; signatures of a
            smaller d_head are the first signs of those of a larger one]
        bits: of each weight, after quantisation (see `quantize`). [default: float64]
        split: the edges of each head, where they are given (`split.split_edges`, `incoherence.incoherent_split`).
        target_f1: what the search for d_head is to reach.

    Raises:
        AssumptionError: for items that are not one-hot with onehot, dependent ones with whitened, or when no d_head up
            to 4 d_model reaches target_f1.
        LibraryError: for edges that cannot be, and items that are not of unit norm; it names the edge or the item.
        SpecError: for sizes that cannot be.
    """
    _check(edges, items, method, n_heads, d_head, bits, target_f1)
    task = _Task(edges, items, method, bits, target_f1)
    if split is not None:
        numbers = np.concatenate([np.empty(0, int), *split])
        complete = np.array_equal(np.sort(numbers), np.arange(len(edges))) and all(map(len, split))
        if not complete or n_heads not in (None, len(split)):
            raise SpecError(f"split: each edge once, in n_heads parts that are not empty, got {len(split)} parts")
    if d_head is not None:
        split = _default_split(task, n_heads, generator) if split is None else split
        weights = _builder(task, split, generator)(d_head)
        return _construction(task, split, (weights, recognize(weights.query, weights.key, items, edges)))
    if split is not None:
        return _smallest_heads(task, split, generator, math.inf)
    if _f1_of_all(len(edges), len(items)) >= target_f1 and (n_heads or 1) <= len(edges):
        return _all_pairs(task, n_heads or 1)
    return _either_way(task, n_heads, generator)


def _f1_of_all(n_edges: int, n_items: int) -> float:
    """F1 of taking every pair for an edge."""
    return 2 * n_edges / (n_edges + n_items * (n_items - 1))


def _all_pairs(task: _Task, n_heads: int) -> RelationConstruction:
    """Weights of zero: every score is 0, which is above the threshold."""
    nothing = np.zeros((n_heads, task.d_model, 1))
    found = recognize(nothing, nothing, task.items, task.edges, threshold=-1.0)
    split = tuple(np.array_split(np.arange(len(task.edges)), n_heads))
    return _construction(task, split, (ChannelWeights(nothing, nothing.copy()), found))


def _either_way(task: _Task, n_heads: int | None, generator: np.random.Generator) -> RelationConstruction:
    """The weights of the graph, or those of the reversed one where they are smaller.

    The reversed one is left out where no source has more edges than every target: it would need as many heads, and be
    smaller by luck alone.
    """
    most_from, most_to = (np.bincount(side).max() for side in task.edges.T)
    if most_from <= most_to:
        return _least(task, n_heads, generator, math.inf)
    draws, reverse = copy.deepcopy(generator), replace(task, reverse=True)
    try:
        usual = _least(task, n_heads, generator, math.inf)
    except (AssumptionError, SpecError):
        with suppress(AssumptionError, SpecError):
            return _least(reverse, n_heads, draws, math.inf)
        raise
    with suppress(AssumptionError, SpecError):  # none is smaller
        return _least(reverse, n_heads, draws, usual.weights.total_key_dim)
    return usual


def _least(task: _Task, n_heads: int | None, generator: np.random.Generator, below: float) -> RelationConstruction:
    """The weights of least total key dimension that are found in one direction.

    Raises:
        AssumptionError: when none below a total key dimension reaches the target.
        SpecError: for heads that are too few, or too many.
    """
    if n_heads is None and task.method != "onehot":
        return _fewest(task, generator, below)
    return _smallest_heads(task, _default_split(task, n_heads, generator), generator, below)


def _smallest_heads(task: _Task, split: Split, generator: np.random.Generator, below: float) -> RelationConstruction:
    """Heads of the smallest d_head found.

    Raises:
        AssumptionError: when none below a total key dimension reaches the target.
    """
    most = int(min(WIDEST * task.d_model, (below - 1) // len(split)))
    smallest = None
    if most >= 1:
        smallest = _smallest(task, _builder(task, split, generator), _first(len(task.items)), most)
    if smallest is None:
        also = " (as many as edges are exact)" if task.bits is None else ", or more bits"
        raise AssumptionError(
            f"d_head: F1 ≥ {task.target_f1} is not reached up to {most}: more n_heads may{also}; or give d_head, or "
            "neither"
        )
    return _construction(task, split, smallest)


def _construction(task: _Task, split: Split, built: Built, tried: tuple[Tried, ...] = ()) -> RelationConstruction:
    weights, found = built
    return RelationConstruction(
        weights=weights,
        recognition=found,
        split=split,
        constant=constant(weights.total_key_dim, len(task.edges), task.d_model),
        reverse=task.reverse,
        tried=tried,
    )


def _fewest(task: _Task, generator: np.random.Generator, below: float) -> RelationConstruction:
    """The heads and their size of the least total key dimension among those tried.

    What is not below the least so far is not looked for; the first is one edge a head with d_head 1, whose D_K = m'
    always is enough but for equal or opposite items, and for few bits. Every number of heads begins with the same
    draws, so that none depends on which were tried before.

    Raises:
        AssumptionError: when none below a total key dimension reaches the target.
    """
    d_model, n_edges = task.d_model, len(task.edges)
    tried: dict[int, Tried] = {}
    best: tuple[Split, Built] | None = None

    def look(blocks: Iterable[int], total: float) -> None:
        """Search each number of heads below a total key dimension, which falls with what is found."""
        nonlocal best
        for block in blocks:
            working.say("numbers of heads tried", len(tried))
            draws = copy.deepcopy(generator)
            split = split_edges(task.directed, block, draws)
            most = int(min(WIDEST * d_model, (total - 1) // len(split)))
            if most < 1 or (len(split) in tried and most <= tried[len(split)].limit):
                continue
            try:
                build = _builder(task, split, draws)
                first = _first(len(task.items)) if best is None else most  # most fail: one look at the limit tells
                found = _smallest(task, build, first, most)
            except AssumptionError:  # items of a head that depend on each other
                found = None
            tried.pop(len(split), None)  # it was tried with smaller ones: now it comes later
            tried[len(split)] = Tried(len(split), None if found is None else found[0].query.shape[2], most)
            if found is not None:
                total, best = found[0].total_key_dim, (split, found)

    blocks = list(dict.fromkeys(max(1, int(share * d_model)) for share in SHARES))
    look((block for block in blocks if block > 1), min(n_edges, below))
    if best is None:
        look([1], min(n_edges + 1, below))
    if best is None and below > n_edges:
        look([*blocks, 1], below)
    if best is None:
        ways = "it may with" if task.bits is None else "it may with more bits, or"
        raise AssumptionError(
            f"n_heads: F1 ≥ {task.target_f1} is not reached with {', '.join(map(str, tried))} heads "
            f"of up to {WIDEST * d_model}: {ways} items that are not nearly equal or opposite; or give n_heads and "
            "d_head"
        )
    return _construction(task, *best, tried=tuple(tried.values()))


def _builder(task: _Task, split: Split, generator: np.random.Generator) -> Callable[[int], ChannelWeights]:
    """What builds the weights of a head size, always from the same signs."""
    heads = [_Head.of(task.directed[part], task.items, whiten=task.method == "whitened") for part in split]
    return partial(_built, task, heads, int(generator.integers(2**63)))


def _built(task: _Task, heads: list[_Head], seed: int, size: int) -> ChannelWeights:
    """The weights of heads of some size."""
    matrices = [head.matrices(size, np.random.default_rng([seed, number])) for number, head in enumerate(heads)]
    query, key = (np.stack(some) for some in zip(*matrices, strict=True))
    if task.reverse:
        query, key = key, query
    if task.bits is not None:
        query, key = quantized(query, task.bits), quantized(key, task.bits)
    return ChannelWeights(query, key)


def constant(total_key_dim: int, n_edges: int, d_model: int) -> float | None:
    """The constant c = D_K · d_model / (m' log2 m'); None for a single edge, whose logarithm is 0."""
    return total_key_dim * d_model / (n_edges * math.log2(n_edges)) if n_edges > 1 else None


@dataclass(frozen=True)
class _Head:
    """One head before its signatures R are drawn: W_Q = ask · wanted · R, W_K = answer · R."""

    ask: Float[np.ndarray, "channels sources"]
    answer: Float[np.ndarray, "channels targets"]
    wanted: Float[np.ndarray, "sources targets"]

    @classmethod
    def of(cls, edges: Int[np.ndarray, "edges 2"], items: Float[np.ndarray, "items channels"], whiten: bool) -> _Head:
        sources, rows = np.unique(edges[:, 0], return_inverse=True)
        targets, columns = np.unique(edges[:, 1], return_inverse=True)
        wanted = np.zeros((len(sources), len(targets)))
        wanted[rows, columns] = 1
        project = _pseudo_inverse if whiten else np.transpose
        return cls(project(items[sources]), project(items[targets]), wanted)

    def matrices(
        self, d_head: int, generator: np.random.Generator
    ) -> tuple[Float[np.ndarray, "channels d_head"], Float[np.ndarray, "channels d_head"]]:
        """Sign by sign, so that a larger d_head only adds to the signatures of a smaller one."""
        signs = generator.integers(2, size=(d_head, len(self.wanted.T)), dtype=np.int8).T * 2.0 - 1
        signatures = signs / math.sqrt(d_head)
        return self.ask @ (self.wanted @ signatures), self.answer @ signatures


def _pseudo_inverse(vectors: Float[np.ndarray, "some channels"]) -> Float[np.ndarray, "channels some"]:
    """Of independent rows, by QR: X = RᵀQᵀ, pinv X = Q R⁻ᵀ."""
    q, r = np.linalg.qr(vectors.T)
    sizes = np.abs(np.diag(r))
    if len(vectors) > vectors.shape[1] or sizes.min() <= max(vectors.shape) * np.finfo(np.float64).eps * sizes.max():
        raise AssumptionError("items: those of a head should be linearly independent; more heads make them fewer")
    return np.linalg.solve(r, q.T).T


def _first(n_items: int) -> int:
    """Where the search for d_head starts: log2 m."""
    return max(1, round(math.log2(n_items)))


def _smallest(task: _Task, build: Callable[[int], ChannelWeights], first: int, most: int) -> Built | None:
    """The smallest d_head that bisection finds: up from the first by half, then between the last two.

    None where `most` is not enough.
    """

    def look(size: int) -> Built | None:
        weights = build(size)
        found = recognizes(weights.query, weights.key, task.items, task.edges, task.target_f1)
        return None if found is None else (weights, found)

    size, failed = min(first, most), 0
    while (built := look(size)) is None:
        if size == most:
            return None
        size, failed = min(size + (size + 1) // 2, most), size
    while size - failed > 1:
        middle = (size + failed) // 2
        smaller = look(middle)
        if smaller is None:
            failed = middle
        else:
            size, built = middle, smaller
    return built


def _default_split(task: _Task, n_heads: int | None, generator: np.random.Generator) -> Split:
    edges, d_model, method = task.directed, task.d_model, task.method
    if method == "onehot":
        return (np.arange(len(edges)),)
    if n_heads is None:
        return split_edges(edges, max(1, d_model // 4), generator)
    if n_heads > len(edges):
        raise SpecError(f"n_heads: at most one an edge, {len(edges)}, got {n_heads}")
    most = d_model if method == "whitened" else len(edges)
    for block in range(-(-len(edges) // n_heads), most + 1):
        parts = list(split_edges(edges, block, generator))
        if len(parts) <= n_heads:
            while len(parts) < n_heads:  # fewer hold all: halve the largest
                parts.sort(key=len)
                largest = parts.pop()
                parts += [largest[::2], largest[1::2]]
            return tuple(parts)
    raise SpecError(
        f"n_heads: {method} heads hold at most {most} edges, with a source once each; {n_heads} are too few for "
        f"{len(edges)} edges"
    )


def _check(
    edges: Int[np.ndarray, "edges 2"],
    items: Float[np.ndarray, "items channels"],
    method: Method,
    n_heads: int | None,
    d_head: int | None,
    bits: int | None,
    target_f1: float,
) -> None:
    for name, size in (("n_heads", n_heads), ("d_head", d_head)):
        if size is not None:
            whole(name, size)
    if method not in get_args(Method):
        raise SpecError(f"method: {', '.join(get_args(Method))}, got {shown(method)}")
    if bits is not None and not 1 <= whole("bits", bits, None) <= 8:
        raise SpecError(f"bits: 1 to 8 a weight, got {bits}")
    positive("target_f1", target_f1, 1)
    check_edges(edges, len(items))
    norms = np.linalg.norm(items, axis=1)
    wrong = np.flatnonzero(~(np.abs(norms - 1) <= UNIT))
    if len(wrong):
        raise LibraryError(f"items: of norm 1, got {norms[wrong[0]]:.6g} (item {wrong[0] + 1})")
    if method == "onehot":
        if items.shape[0] != items.shape[1]:
            raise AssumptionError(f"method: onehot needs d_model = n_items = {len(items)}, got {items.shape[1]}")
        if not np.array_equal(items, np.eye(len(items))):
            raise AssumptionError("method: onehot needs one-hot items (embeddings=onehot); whitened takes any")
        if n_heads not in (None, 1):
            raise SpecError(f"n_heads: onehot has one, got {n_heads}")
