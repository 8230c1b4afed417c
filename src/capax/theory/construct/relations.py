"""Weights of a key-query channel that recognize a given graph, built and not trained.

Adler 2025 (arXiv 2509.22840) states that such weights exist with D_K = O(m' log m' / d_model). The algorithms here are
ours: random signatures, one for each target of a head, written into the query matrix at the sources and into the key
matrix at the targets. We have not read the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from capax.errors import AssumptionError, LibraryError, SpecError
from capax.theory.construct.channel import ChannelWeights, Recognition, check_edges, recognize
from capax.theory.construct.quantize import quantized
from capax.theory.construct.split import Split, split_edges

Method = Literal["whitened", "hebbian", "onehot"]

TARGET_F1 = 0.99
"""The share that counts as recognized (the paper's criterion for D_K*)."""
UNIT = 1e-6
"""How far a norm may be from 1."""
WIDEST = 4
"""The search for d_head ends at this multiple of d_model: errors that remain there do not shrink with d_head."""


@dataclass(frozen=True)
class RelationConstruction:
    """Weights, and what they reach on all ordered pairs.

    Attributes:
        weights: query and key matrices, quantised where bits were given.
        recognition: F1, precision, recall, margin and threshold over the whole graph.
        split: the edges (row numbers) of each head.
        constant: c = D_K · d_model / (m' ln m'); None for a single edge.
    """

    weights: ChannelWeights
    recognition: Recognition
    split: Split
    constant: float | None


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

    Args:
        edges: rows of source and target.
        items: unit vectors x.
        generator: draws the split among heads and the signatures.
        method: as above.
        n_heads: heads. [default: one for onehot, else as many as hold d_model/4 edges each, with no more conflicts
            than first-fit leaves]
        d_head: channels of a query. [default: the smallest found, by bisection, to reach target_f1; signatures of a
            smaller d_head are the first signs of those of a larger one]
        bits: of each weight, after quantisation (see `quantize`). [default: float64]
        split: the edges of each head, where they are given (`split.split_edges`, `incoherence.incoherent_split`).
        target_f1: what the search for d_head is to reach.

    Raises:
        AssumptionError: for items that are not one-hot with onehot, dependent ones with whitened, or when no d_head up
            to 4 d_model reaches target_f1; the message names the best.
        LibraryError: for edges that cannot be, and items that are not of unit norm; it names the edge or the item.
        SpecError: for sizes that cannot be.
    """
    _check(edges, items, method, n_heads, d_head, bits, target_f1)
    d_model = items.shape[1]
    if split is None:
        split = _default_split(edges, d_model, method, n_heads, generator)
    else:
        numbers = np.concatenate([np.empty(0, int), *split])
        whole = np.array_equal(np.sort(numbers), np.arange(len(edges))) and all(map(len, split))
        if not whole or n_heads not in (None, len(split)):
            raise SpecError(f"split: each edge once, in n_heads parts that are not empty, got {len(split)} parts")
    heads = [_Head.of(edges[part], items, whiten=method == "whitened") for part in split]
    seed = int(generator.integers(2**63))
    build = partial(_built, edges, items, heads, seed, bits)
    weights, found = build(d_head) if d_head is not None else _smallest(build, len(items), d_model, target_f1)
    return RelationConstruction(
        weights=weights,
        recognition=found,
        split=split,
        constant=constant(weights.total_key_dim, len(edges), d_model),
    )


def _built(
    edges: Int[np.ndarray, "edges 2"],
    items: Float[np.ndarray, "items channels"],
    heads: list[_Head],
    seed: int,
    bits: int | None,
    size: int,
) -> tuple[ChannelWeights, Recognition]:
    """The weights of heads of some size, and what they recognize."""
    matrices = [head.matrices(size, np.random.default_rng([seed, number])) for number, head in enumerate(heads)]
    query, key = (np.stack(some) for some in zip(*matrices, strict=True))
    if bits is not None:
        query, key = quantized(query, bits), quantized(key, bits)
    return ChannelWeights(query, key), recognize(query, key, items, edges)


def constant(total_key_dim: int, n_edges: int, d_model: int) -> float | None:
    """The constant c = D_K · d_model / (m' ln m'); None for a single edge, whose logarithm is 0."""
    return total_key_dim * d_model / (n_edges * math.log(n_edges)) if n_edges > 1 else None


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
    if sizes.min() <= max(vectors.shape) * np.finfo(np.float64).eps * sizes.max():
        raise AssumptionError("items: those of a head should be linearly independent; more heads make them fewer")
    return np.linalg.solve(r, q.T).T


def _smallest(
    build: Callable[[int], tuple[ChannelWeights, Recognition]], n_items: int, d_model: int, target_f1: float
) -> tuple[ChannelWeights, Recognition]:
    """The smallest d_head that bisection finds: up from log2 m by half, then between the last two."""
    most = WIDEST * d_model
    size, failed = min(max(1, round(math.log2(n_items))), most), 0
    while (built := build(size))[1].f1 < target_f1:
        if size == most:
            raise AssumptionError(
                f"d_head: F1 ≥ {target_f1} is not reached up to {most} (F1 {built[1].f1:.3f}): more n_heads "
                "may (as many as edges are exact), or more bits; or give d_head"
            )
        size, failed = min(size + (size + 1) // 2, most), size
    while size - failed > 1:
        middle = (size + failed) // 2
        smaller = build(middle)
        if smaller[1].f1 >= target_f1:
            size, built = middle, smaller
        else:
            failed = middle
    return built


def _default_split(
    edges: Int[np.ndarray, "edges 2"],
    d_model: int,
    method: Method,
    n_heads: int | None,
    generator: np.random.Generator,
) -> Split:
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
        if size is not None and size < 1:
            raise SpecError(f"{name}: at least 1, got {size}")
    if bits is not None and not 1 <= bits <= 8:
        raise SpecError(f"bits: 1 to 8 a weight, got {bits}")
    if not 0 < target_f1 <= 1:
        raise SpecError(f"target_f1: above 0 and at most 1, got {target_f1}")
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
