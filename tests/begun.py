"""Checkpoints of packs that were only begun."""

from __future__ import annotations

from pathlib import Path

import capax
from capax.sweeps.packs import whole_pack
from capax.training.checkpoints import Checkpoint
from capax.training.loop import Course


def begun(folder: Path, *runs: capax.Run) -> Path:
    """The file of a pack of some runs, before its first step."""
    pack = whole_pack(runs, "cpu")
    Checkpoint(folder, pack).save(Course(pack).snapshot(0.0))
    (file,) = folder.glob("*.safetensors")
    return file
