"""Images as a vision model reads them: from a folder of files, or an array."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float
from PIL import Image, UnidentifiedImageError

from capax import working
from capax.errors import EmbeddingError
from capax.inputs import read_npy

SUFFIXES = (".png", ".jpg", ".jpeg")
MODES = {1: "L", 3: "RGB"}

Pixels = Float[np.ndarray, "items channels height width"]


def read(path: Path, shape: tuple[int, int, int]) -> tuple[Pixels, tuple[str, ...]]:
    """The images, and what was done to them.

    Args:
        path: a folder of .png and .jpg files, each resized (bilinear) and scaled to [-1, 1], in the order of their
            names; or a .npy array of items × channels × height × width, whose numbers are taken as they are.
        shape: channels, height and width that the model reads.

    Raises:
        EmbeddingError: for what cannot be read, and arrays of other shapes or of what is no finite number; it names the
            file.
    """
    if path.is_dir():
        return _of_files(path, shape)
    pixels = read_npy(path, "images", EmbeddingError)
    if pixels.ndim != 4 or pixels.shape[1:] != shape or not len(pixels):
        wanted = " × ".join(map(str, shape))
        raise EmbeddingError(f"images: an array of T × {wanted}, got {' × '.join(map(str, pixels.shape))}")
    if not np.issubdtype(pixels.dtype, np.number) or np.iscomplexobj(pixels) or not np.isfinite(pixels).all():
        raise EmbeddingError(f"images: finite real numbers, got {path} of {pixels.dtype}")
    return pixels.astype(np.float64 if pixels.dtype == np.float64 else np.float32), ("pixels are those of the array",)


def _of_files(folder: Path, shape: tuple[int, int, int]) -> tuple[Pixels, tuple[str, ...]]:
    files = sorted(one for one in folder.iterdir() if one.suffix.lower() in SUFFIXES)
    if not files:
        raise EmbeddingError(f"images: no {', '.join(SUFFIXES)} in {folder}")
    channels, height, width = shape
    if channels not in MODES:
        raise EmbeddingError(f"images: files have 1 or 3 channels, the model reads {channels}; give a .npy array")
    found = []
    for file in working.through(files, "images read"):
        try:
            with Image.open(file) as image:
                sized = image.convert(MODES[channels]).resize((width, height), Image.Resampling.BILINEAR)
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise EmbeddingError(f"images: cannot read {file}: {str(error).partition(chr(10))[0]}") from None
        found.append(np.asarray(sized, np.float32).reshape(height, width, channels).transpose(2, 0, 1))
    return np.stack(found) / 127.5 - 1, (f"images are resized to {height} × {width} and scaled to [-1, 1]",)
