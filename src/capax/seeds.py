"""Independent random streams for the parts of a run, all derived from its one seed.

A part's stream depends on the run's seed, the part's name and the member alone: not on the pack a member is trained in,
the device or the other parts. Numbers are drawn on the CPU, so a GPU starts from the same weights and library.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def stream(seed: int, part: str, member: int = 0) -> np.random.SeedSequence:
    """The seed sequence of one part (`"library"`, `"weights"`, `"order"`) of one member."""
    return np.random.SeedSequence([seed, zlib.crc32(part.encode()), member])


def numpy_generator(seed: int, part: str, member: int = 0) -> np.random.Generator:
    """A numpy generator on that stream."""
    return np.random.default_rng(stream(seed, part, member))


def torch_generator(seed: int, part: str, member: int = 0) -> torch.Generator:
    """A torch CPU generator on that stream."""
    import torch  # here: commands that train nothing draw by numpy alone

    state = int(stream(seed, part, member).generate_state(1, np.uint64)[0] >> np.uint64(1))
    return torch.Generator().manual_seed(state)
