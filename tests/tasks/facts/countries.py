"""Facts of countries, and others in files."""

from pathlib import Path

import torch

import capax
from capax.seeds import numpy_generator
from capax.tasks.facts.library import FactLibrary

COUNTRIES = Path(__file__).parents[3] / "examples" / "facts" / "countries.tsv"
TOKENIZATIONS = ("words", "code", "bpe", "bytes")
MODEL = capax.Transformer(d_model=12, n_heads=2, d_head=6, n_layers=2)


def task(**fields) -> capax.Facts:
    pairs = {"bpe_size": 300} if fields.get("tokenization") == "bpe" else {}
    return capax.Facts(**{"library": str(COUNTRIES), **pairs, **fields})


def written(path: Path, *lines: str) -> str:
    path.write_text("\n".join(("key\tanswer", *lines)) + "\n")
    return str(path)


def library(spec: capax.Facts) -> FactLibrary:
    size = spec.library_size
    return FactLibrary.build(spec, MODEL, (size,), [numpy_generator(0, "library", 0)], dtype=torch.float64)
