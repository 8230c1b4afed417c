"""Are items incoherent enough for edges to share a head? Restricted incoherence, checked numerically.

Adler 2025 (arXiv 2509.22840) has results for embeddings with "restricted incoherence"; its definition is not known to
us. The two conditions here are what our own analysis of the constructions needs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from capax.errors import AssumptionError
from capax.theory.construct.channel import BLOCK
from capax.theory.construct.split import Split, split_edges


@dataclass(frozen=True)
class Incoherence:
    """The largest values over all heads and items.

    Attributes:
        rho: max_i Σ_{a ≠ i} ⟨x_i, x_a⟩² over the sources a of a head, or over its targets: what noise of signatures
            is multiplied by.
        nu: max_ij |Σ_{(a,b) ≠ (i,j)} ⟨x_i, x_a⟩ ⟨x_b, x_j⟩| over the edges (a, b) of a head: noise of the embeddings
            in the hebbian score of (i, j), which d_head does not shrink.
    """

    rho: float
    nu: float


def incoherence(
    edges: Int[np.ndarray, "edges 2"], items: Float[np.ndarray, "items channels"], split: Split
) -> Incoherence:
    """ρ and ν of a split, in time n_items² · n_edges; scores in blocks of rows."""
    rho = nu = 0.0
    n_items = len(items)
    rows = max(1, BLOCK // n_items)
    for part in split:
        sources, targets = edges[part].T
        for side in (np.unique(sources), np.unique(targets)):
            squares = (items @ items[side].T) ** 2
            squares[side, np.arange(len(side))] = 0
            rho = max(rho, float(squares.sum(1).max()))
        answers = items[targets] @ items.T
        for first in range(0, n_items, rows):
            noise = (items[first : first + rows] @ items[sources].T) @ answers
            inside = (sources >= first) & (sources < first + rows)
            own_source, own_target = sources[inside], targets[inside]
            noise[own_source - first, own_target] -= (items[own_source] ** 2).sum(1) * (items[own_target] ** 2).sum(1)
            nu = max(nu, float(np.abs(noise).max()))
    return Incoherence(rho, nu)


def incoherent_split(
    edges: Int[np.ndarray, "edges 2"],
    items: Float[np.ndarray, "items channels"],
    block: int,
    generator: np.random.Generator,
    *,
    rho: float = 1.0,
    nu: float = 1 / 8,
    draws: int = 10,
) -> Split:
    """The first of some random splits with no larger ρ and ν; the defaults are those of our analysis.

    They suffice for hebbian weights with d_head = O((1 + ρ)² ln(m h)), and are far from necessary: Gaussian items
    meet ν ≤ 1/8 only with thousands of channels.

    Raises:
        AssumptionError: when none of the draws has; it says the best.
    """
    best: Incoherence | None = None
    for _ in range(draws):
        split = split_edges(edges, block, generator)
        found = incoherence(edges, items, split)
        if found.rho <= rho and found.nu <= nu:
            return split
        if best is None or found.nu < best.nu:
            best = found
    said = "" if best is None else f": at best ρ = {best.rho:.3g}, ν = {best.nu:.3g}"
    raise AssumptionError(f"items: none of {draws} splits has ρ ≤ {rho:g} and ν ≤ {nu:g}{said}; a smaller block may")
