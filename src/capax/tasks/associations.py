"""Libraries of associations: how they are drawn, what a batch of them is, when one counts as recalled."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from capax.errors import LibraryError
from capax.specs import Associations
from capax.tasks import association_files
from capax.tasks.association_files import Examples


def draw(spec: Associations, size: int, d_model: int, generator: np.random.Generator) -> Examples:
    """The examples of a spec, in float64: independent entries and labels, or the user's.

    Contexts of a bag are written out: each is the first tokens of a permutation of the bag (as in the authors' code).

    Raises:
        LibraryError: when the user's arrays have other channels than `d_model`, or changed since they were read.
    """
    if spec.library != "random":
        return _given(spec, d_model)
    n = spec.context_size
    entries = {"uniform": generator.random, "normal": generator.standard_normal}[spec.entries]
    queries = entries((size, d_model))
    if spec.contexts == "bag":
        bag = entries((spec.bag_size, d_model))
        chosen = generator.permuted(np.tile(np.arange(spec.bag_size), (size, 1)), axis=1)[:, :n]
        contexts = bag[chosen]
    else:
        contexts = entries((1 if spec.contexts == "shared" else size, n, d_model))
    if spec.labels == "classes":
        return Examples(queries, contexts, generator.integers(spec.n_classes, size=size))
    labels = {"uniform": generator.random, "normal": generator.standard_normal}[spec.labels]((size, spec.d_out))
    return Examples(queries, contexts, labels)


def _given(spec: Associations, d_model: int) -> Examples:
    examples = association_files.read(Path(spec.library))
    if association_files.content_hash(examples) != spec.library_sha256:
        raise LibraryError(f"library: {spec.library} has changed since it was read")
    channels = examples.queries.shape[1]
    if channels != d_model:
        raise LibraryError(f"d_model: the vectors of {spec.library} have {channels} channels, got {d_model}")
    return examples
