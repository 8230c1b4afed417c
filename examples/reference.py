"""Fits the laws that ship with capax to the study that ships with it, and writes them into a folder.

python examples/reference.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import capax
from capax import tables


def main(folder: str = "src/capax/data/reference") -> None:
    study = tables.from_file("reference")
    for law in (capax.PowerLaw(), capax.ECM(), capax.BitsLaw()):
        fitted = law.fit(study)
        fitted.source_ = "reference"
        fitted.notes_.append(
            "the study that ships with capax: vocabulary 100, loss on all positions, best of 3 restarts on libraries "
            "of 2000, at most 150 epochs"
        )
        capax.save_law(fitted, Path(folder) / f"{law.name}.json")


if __name__ == "__main__":
    main(*sys.argv[1:])
