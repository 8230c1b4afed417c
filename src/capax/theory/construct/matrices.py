"""Weight matrices to a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save

from capax import outputs
from capax.errors import ReportError


def save_matrices(path: Path, matrices: dict[str, np.ndarray]) -> None:
    """Write matrices by their names (.safetensors), whole or not at all.

    Raises:
        ReportError: for another suffix, or when the file cannot be written.
    """
    check_matrices(path)
    outputs.write(path, save({name: np.ascontiguousarray(matrix) for name, matrix in matrices.items()}), "save")


def check_matrices(path: Path) -> None:
    """Refuse a path that `save_matrices` cannot write to.

    Raises:
        ReportError: for another suffix, or when the file cannot be written.
    """
    if path.suffix != ".safetensors":
        raise ReportError(f"save: a .safetensors file, got {str(path)!r}")
    outputs.check(path, "save")
