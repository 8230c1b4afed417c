"""What the construction inverts, contexts and queries, factored; vectors should be linearly independent.

Every check names the examples that fail it, from 1.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from jaxtyping import Float, Int

from capax.errors import AssumptionError

NAMED = 5
"""Examples that a message lists."""


def tolerance(matrix: np.ndarray, eps: float) -> float:
    """Relative size below which a singular value or a residual is rounding (numpy's `matrix_rank`)."""
    return max(matrix.shape[-2:]) * eps


def factor_contexts(
    contexts: Float[np.ndarray, "g n c"], eps: float
) -> tuple[Float[np.ndarray, "g n n"], Float[np.ndarray, "g n"], Float[np.ndarray, "g n c"]]:
    """The singular value decomposition of every context, all of full rank.

    Raises:
        AssumptionError: names the first context whose tokens are dependent.
    """
    left, sizes, right = np.linalg.svd(contexts, full_matrices=False)
    small = sizes <= sizes[:, :1] * tolerance(contexts, eps)
    dependent = np.flatnonzero(small.any(1))
    if len(dependent):
        first = int(dependent[0])
        rank = int((~small[first]).sum())
        raise AssumptionError(
            f"contexts: the {contexts.shape[1]} tokens of each should be linearly independent, those of context "
            f"{first + 1} have rank {rank}"
        )
    return left, sizes, right


def factor_queries(
    queries: Float[np.ndarray, "items c"], own: Int[np.ndarray, " own"], others: Int[np.ndarray, " others"], eps: float
) -> tuple[Float[np.ndarray, "c own"], Float[np.ndarray, "own c"]]:
    """The dual basis P of a head's own queries (p_t · e_s = 1 if s = t, else 0), and an orthonormal one.

    Raises:
        AssumptionError: names the own queries that are dependent, or another query that depends on own ones.
    """
    lengths = np.linalg.norm(queries, axis=1)
    if not lengths.all():
        raise AssumptionError(f"queries: none may be zero, that of example {int(lengths.argmin()) + 1} is")
    units = queries / lengths[:, None]
    mine, theirs = units[own], units[others]
    small = tolerance(mine, eps)
    left, sizes, right = np.linalg.svd(mine, full_matrices=False)
    if len(own) and sizes[-1] <= sizes[0] * small:
        _refuse(own[_support(left[:, -1])])
    dual = (right.T / sizes) @ left.T
    rest = np.linalg.norm(theirs - (theirs @ right.T) @ right, axis=1)
    inside = np.flatnonzero(rest <= 10 * small)
    if len(inside):
        first = inside[0]
        _refuse(np.array([*own[_support(theirs[first] @ dual)], others[first]]))
    return dual / lengths[own], right


def _support(coefficients: Float[np.ndarray, " own"]) -> Int[np.ndarray, " some"]:
    sizes = np.abs(coefficients)
    return np.flatnonzero(sizes > sizes.max(initial=0) * 1e-6)


def _refuse(examples: Int[np.ndarray, " some"]) -> NoReturn:
    numbers = sorted((examples + 1).tolist())
    named = ", ".join(map(str, numbers[:NAMED]))
    more = f" and {len(numbers) - NAMED} more" if len(numbers) > NAMED else ""
    raise AssumptionError(
        f"queries: every context_size of them should be linearly independent, those of examples {named}{more} are not"
    )
