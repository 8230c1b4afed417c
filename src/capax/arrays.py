"""Arrays that the user gives: numpy's, torch's, or nested lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from capax.errors import CapaxError, shown


def taken(name: str, given: Any, error: type[CapaxError]) -> np.ndarray:
    """What was given as an array of numpy: of torch also what records gradients, and bfloat16, which numpy lacks.

    Args:
        name: what a message begins with.
        error: class of the error.

    Raises:
        error: for what no array can be made of, as lists of different lengths.
    """
    if hasattr(given, "detach"):
        tensor = given.detach().cpu()
        given = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
    try:
        return np.asarray(given)
    except (TypeError, ValueError):
        raise error(f"{name}: should be an array of numbers, with rows of one length, got {shown(given)}") from None


def kind(array: np.ndarray) -> str:
    """What an array is, for a message: its numbers would fill it."""
    return f"an array of shape {array.shape} of {array.dtype}"
