"""Weight matrices to a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save

from capax.errors import ReportError


def save_matrices(path: Path, matrices: dict[str, np.ndarray]) -> None:
    """Write matrices by their names (.safetensors), whole or not at all.

    Raises:
        ReportError: for another suffix, or when the file cannot be written.
    """
    if path.suffix != ".safetensors":
        raise ReportError(f"save: a .safetensors file, got {str(path)!r}")
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(save({name: np.ascontiguousarray(matrix) for name, matrix in matrices.items()}))
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ReportError(f"save: cannot write {path}: {error.strerror}") from None
