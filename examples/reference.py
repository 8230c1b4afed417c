"""Fits the laws that ship with capax to the studies that ship with it, and writes them into a folder.

python examples/reference.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import capax
from capax.laws.compare import ITEMS
from capax.laws.law import Law
from capax.store import table_files

GRID = (
    "the study that ships with capax: items at convergence, extrapolated to eight times as many steps; one layer, "
    "heads of 64, frozen embeddings, 100 tokens, loss on all positions"
)
ASSOCIATIONS = (
    "the study that ships with capax: the published layer, one context for all, 100 classes, one training of 6000 "
    "steps at a learning rate of 0.003 on libraries of 4000; longer trainings remember more"
)
FEWEST_CHANNELS = 16
"""With fewer, many more are needed than the law says: inner products of the vectors are no longer small."""
RELATIONS = (
    "the study that ships with capax, where it has 16 channels or more: permutations, trees, random, regular and "
    "power-law graphs of 32 to 512 Gaussian items, trained at a rate of 0.8 for at most 1500 steps; half of the "
    "trainings reach F1 .99; without the logarithm (relation-linear) the fit is as good"
)
CAPACITY = (
    "the study that ships with capax: bits at convergence of small networks, 2 or 3 restarts each, extrapolated to "
    "eight times as many steps"
)
EXPOSURES = "the study that ships with capax: curves of small networks trained by the recipe of protocol capacity"
STUDIES: dict[str, tuple[tuple[Law, ...], str]] = {
    "reference": ((capax.CapacityLaw(),), CAPACITY),
    "reference:grid": (tuple(law(target=ITEMS) for law in (capax.PowerLaw, capax.ECM, capax.BitsLaw)), GRID),
    "reference:exposures": ((capax.ExposureLaw(),), EXPOSURES),
    "reference:associations": ((capax.AssociationLaw(),), ASSOCIATIONS),
    "reference:relations": ((capax.RelationLaw(),), RELATIONS),
}


def main(folder: str = "src/capax/data/reference") -> None:
    for name, (laws, note) in STUDIES.items():
        study = table_files.from_file(name)
        if name == "reference:relations":
            study = study.filter(study["d_model"] >= FEWEST_CHANNELS)
        if name == "reference:exposures":
            study = study.filter(study["optimizer"] == "soap")
        for law in laws:
            fitted = law.fit(study)
            fitted.source_ = name
            fitted.notes_.append(note)
            capax.save_law(fitted, Path(folder) / f"{law.name}.json")


if __name__ == "__main__":
    main(*sys.argv[1:])
