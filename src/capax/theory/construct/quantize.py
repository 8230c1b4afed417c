"""Weights in a few bits."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from capax.errors import SpecError

REACH = 3.0
"""Root mean squares of a matrix that its levels span on either side."""


def quantized(
    matrices: Float[np.ndarray, "heads channels d_head"], bits: int
) -> Float[np.ndarray, "heads channels d_head"]:
    """Each entry as the middle of its cell, of 2^bits equal cells on ±3σ; those outside are clipped.

    σ is the root mean square of the head's matrix, so each head has a step of its own.

    Raises:
        SpecError: for less than 1 or more than 8 bits.
    """
    if not 1 <= bits <= 8:
        raise SpecError(f"bits: 1 to 8 a weight, got {bits}")
    reach = REACH * np.sqrt((matrices**2).mean((1, 2), keepdims=True))
    cells = 2**bits
    width = np.where(reach > 0, 2 * reach / cells, 1.0)
    number = np.clip(np.floor(matrices / width), -cells // 2, cells // 2 - 1)
    return np.where(reach > 0, (number + 0.5) * width, 0.0)
