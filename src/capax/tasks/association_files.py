"""Associations that the user brings: arrays `queries`, `contexts` and `labels`.

One .safetensors file holds them by these names, or a folder holds queries.npy, contexts.npy and labels.npy.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from safetensors import SafetensorError
from safetensors.numpy import load_file
from scipy.spatial import cKDTree

from capax import arrays
from capax.errors import LibraryError
from capax.inputs import is_folder, read_npy, regular, whole_path

NAMES = ("queries", "contexts", "labels")


@dataclass(frozen=True)
class Examples:
    """Labelled examples.

    Attributes:
        queries: one vector an example.
        contexts: the tokens of one context that all examples share (g = 1), or of each example's own.
        labels: a class each (integers), or real numbers.
    """

    queries: Float[np.ndarray, "items channels"]
    contexts: Float[np.ndarray, "g context_size channels"]
    labels: Shaped[np.ndarray, "items *d_out"]

    def __len__(self) -> int:
        return len(self.queries)

    def context(self, example: int) -> Float[np.ndarray, "context_size channels"]:
        """The context of an example."""
        return self.contexts[example if len(self.contexts) > 1 else 0]


def read(path: Path) -> Examples:
    """The examples of a file or folder, as they are.

    Raises:
        LibraryError: when arrays are missing, of wrong shapes, empty or not finite, or when one pair of query and
            context has two labels; the message names the array and the example (from 1).
    """
    if is_folder(path, "library", LibraryError):
        arrays = {name: read_npy(path / f"{name}.npy", f"library: {name}", LibraryError) for name in NAMES}
    elif path.suffix == ".safetensors":
        try:
            arrays = load_file(regular(path, "library", LibraryError))
        except (OSError, SafetensorError, KeyError, TypeError) as error:
            raise LibraryError(f"library: cannot read {path}: {error}") from None
    else:
        raise LibraryError(
            f"library: 'random', a .safetensors file, or a folder with queries.npy, contexts.npy and labels.npy, "
            f"got {str(path)!r}"
        )
    for name in NAMES:
        if name not in arrays:
            raise LibraryError(f"library: {path} has no array {name!r}; it has {', '.join(arrays) or 'none'}")
    return checked(*(arrays[name] for name in NAMES))


def checked(queries: Any, contexts: Any, labels: Any) -> Examples:
    """Arrays as examples, after every check that does not depend on a model.

    Raises:
        LibraryError: as `read`.
    """
    queries, contexts = pairs(queries, contexts)
    labels = arrays.taken("labels", labels, LibraryError)
    if len(labels) != len(queries) if labels.ndim else True:
        raise LibraryError(f"labels: one for each of {len(queries)} queries, got an array of shape {labels.shape}")
    if np.issubdtype(labels.dtype, np.integer):
        if labels.ndim != 1:
            raise LibraryError(f"labels: classes are one integer an example, got an array of shape {labels.shape}")
        if labels.min() < 0:
            at = int(np.flatnonzero(labels < 0)[0])
            raise LibraryError(f"labels: classes are 0 or more, example {at + 1} has {labels[at]}")
        labels = native(labels)
    elif not np.issubdtype(labels.dtype, np.floating):
        raise LibraryError(f"labels: integers (classes) or floats, got {labels.ndim}-D of {labels.dtype}")
    else:
        labels = vectors("labels", labels.reshape(len(labels), -1) if labels.ndim < 2 else labels, (2,))
    examples = Examples(queries, contexts, labels)
    refuse_contradictions(examples)
    return examples


def pairs(queries: Any, contexts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Queries (items, channels) and contexts (1 or items, context size, channels) that belong together.

    Raises:
        LibraryError: that names the array; and the example (from 1) that is not finite.
    """
    queries, contexts = vectors("queries", queries, (2,)), vectors("contexts", contexts, (2, 3))
    contexts = contexts[None] if contexts.ndim == 2 else contexts
    if contexts.shape[2] != queries.shape[1]:
        raise LibraryError(f"contexts: {queries.shape[1]} channels as the queries, got {contexts.shape[2]}")
    if len(contexts) not in (1, len(queries)):
        raise LibraryError(f"contexts: one for all or one for each of {len(queries)} queries, got {len(contexts)}")
    return queries, contexts


def vectors(name: str, given: Any, dimensions: tuple[int, ...]) -> np.ndarray:
    """A finite array of floats that is not empty.

    Raises:
        LibraryError: that names the array, and the example (from 1) that is not finite.
    """
    array = arrays.taken(name, given, LibraryError)
    if not np.issubdtype(array.dtype, np.floating) or array.ndim not in dimensions:
        allowed = " or ".join(f"{number}-D" for number in dimensions)
        raise LibraryError(f"{name}: a {allowed} array of floats, got {array.ndim}-D of {array.dtype}")
    if array.size == 0:
        raise LibraryError(f"{name}: an empty array of shape {array.shape}")
    finite = np.isfinite(array).reshape(len(array), -1).all(1)
    if not finite.all():
        raise LibraryError(f"{name}: should be finite, number {int(np.flatnonzero(~finite)[0]) + 1} is not")
    return native(array)


def native(array: np.ndarray) -> np.ndarray:
    """The numbers in this machine's order of bytes, and no wider than 64 bits: what torch can read."""
    kind = array.dtype.newbyteorder("=")
    return array.astype(np.float64 if kind.itemsize > 8 else kind, copy=False)


def refuse_contradictions(examples: Examples) -> int:
    """Refuse equal pairs of query and context with different labels: no function remembers both.

    Returns:
        How many different pairs there are.

    Raises:
        LibraryError: that names the first two such examples (from 1).
    """
    first: dict[bytes, int] = {}
    for later, query in enumerate(examples.queries):
        parts = [query] if len(examples.contexts) == 1 else [query, examples.contexts[later]]
        pair = hashlib.sha256(b"".join((part + 0.0).tobytes() for part in parts)).digest()  # -0 is 0
        earlier = first.setdefault(pair, later)
        if not np.array_equal(examples.labels[earlier], examples.labels[later]):
            raise LibraryError(
                f"labels: examples {earlier + 1} and {later + 1} are one query in one context with different labels: "
                "nothing can remember both"
            )
    return len(first)


def content_hash(examples: Examples) -> str:
    """Sha256 of the arrays' shapes and numbers, in whatever file they are."""
    found = hashlib.sha256()
    for array, kind in ((examples.queries, "<f8"), (examples.contexts, "<f8"), (examples.labels, None)):
        kind = kind or ("<i8" if np.issubdtype(array.dtype, np.integer) else "<f8")
        found.update(f"{kind} {list(array.shape)}".encode() + array.astype(kind).tobytes())
    return found.hexdigest()


def describe(path: Path, given: dict[str, Any]) -> dict[str, Any]:
    """A spec's fields that follow from the arrays, after those that were given have been checked against them.

    Raises:
        LibraryError: as `read`, and for a field that contradicts the arrays.
    """
    examples = read(path)
    classes = np.issubdtype(examples.labels.dtype, np.integer)
    found: dict[str, Any] = {
        "library_size": len(examples),
        "context_size": examples.contexts.shape[1],
        "contexts": "shared" if len(examples.contexts) == 1 else "fresh",
        "entries": "given",
        "labels": "classes" if classes else "given",
    }
    if not classes:
        found["d_out"] = examples.labels.shape[1]
    for name, value in found.items():
        if given.get(name, value) != value:
            raise LibraryError(f"{name}: {path} has {value!r}, got {given[name]!r}")
    if classes:
        highest = int(examples.labels.max())
        found["n_classes"] = given.get("n_classes", max(highest + 1, 2))
        if highest >= found["n_classes"]:
            at = int(examples.labels.argmax())
            raise LibraryError(
                f"labels: example {at + 1} is of class {highest}, but classes are 0..{found['n_classes'] - 1}"
            )
    return {**found, "library": whole_path(path, "library", LibraryError), "library_sha256": content_hash(examples)}


def constant_share(labels: Float[np.ndarray, "items d_out"], tolerance: float) -> float:
    """Share of labels that one constant is close to: the centres of each number's fullest window, or a label.

    Of labels of one number there is no better constant; of several numbers there may be one between labels.
    """
    hits = np.ones(len(labels), dtype=bool)
    for column in labels.T:
        ordered = np.sort(column)
        ends = np.searchsorted(ordered, ordered + 2 * tolerance, side="right")
        start = int((ends - np.arange(len(ordered))).argmax())
        hits &= (column >= ordered[start]) & (column <= ordered[start] + 2 * tolerance)
    most = int(hits.sum())
    if labels.shape[1] > 1:
        near = cKDTree(labels).query_ball_point(labels, tolerance, p=np.inf, return_length=True)
        most = max(most, int(near.max()))
    return max(most, 1) / len(labels)
