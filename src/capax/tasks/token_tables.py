"""The table of token vectors in a folder of Hugging Face, read from its .safetensors files alone: no code is run."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError, safe_open

from capax.errors import LibraryError
from capax.inputs import Stamp, is_folder, regular, stamps

TABLES = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight", "tok_embeddings.weight")
"""How the tables' names end: of Llama and most others, GPT-2, BERT, GPT-NeoX, and Llama's own files."""


def read(folder: Path) -> Float[np.ndarray, "tokens channels"]:
    """The table in float32.

    Raises:
        LibraryError: as `files`, where none of them holds one table, and where it cannot be used.
    """
    return _read(stamps(files(folder)))


def files(folder: Path) -> list[Path]:
    """The files that a table is read from.

    Raises:
        LibraryError: where there is no such folder, or it has no .safetensors file.
    """
    if not is_folder(folder, "embeddings", LibraryError):
        raise LibraryError(f"embeddings: no folder {str(folder)!r} (nothing is downloaded)")
    paths = [regular(path, "embeddings", LibraryError) for path in sorted(folder.glob("*.safetensors"))]
    if not paths:
        raise LibraryError(f"embeddings: {folder} has no .safetensors file")
    return paths


@lru_cache(maxsize=1)  # restarts and seeds draw from one table
def _read(files: tuple[Stamp, ...]) -> Float[np.ndarray, "tokens channels"]:
    import torch  # here, since theory needs none of it, and numpy has no bfloat16

    found: dict[str, Any] = {}
    for path, _ in files:
        try:
            with safe_open(path, "pt") as tensors:
                found |= {name: tensors.get_tensor(name) for name in tensors.keys() if name.endswith(TABLES)}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError) as error:
            raise LibraryError(f"embeddings: {path} cannot be read: {' '.join(str(error).split()):.120}") from None
    if len(found) != 1:
        known = ", ".join(sorted(found)) or f"none that ends with {', '.join(TABLES)}"
        raise LibraryError(f"embeddings: {files[0][0].parent} should have one table of token vectors, got {known:.200}")
    ((name, table),) = found.items()
    if table.ndim != 2 or not table.is_floating_point():
        raise LibraryError(f"embeddings: {name}: a matrix of real numbers, got shape {tuple(table.shape)}")
    if not torch.isfinite(table).all():
        raise LibraryError(f"embeddings: {name}: every number should be finite")
    array: np.ndarray = table.float().numpy()
    return array
