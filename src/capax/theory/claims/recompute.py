"""What weights do to their data by the plain definition, in float64: none of the faster ways that capax trains by.

docs/verify.md has the same in twenty lines of numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from capax.errors import ClaimError
from capax.theory.claims.file import AssociationHeader, ClaimFile, RelationHeader

ROWS = 512
"""Sources whose scores are in memory at once."""


@dataclass(frozen=True)
class Recognized:
    """What a threshold on the scores of all ordered pairs of different items tells.

    Attributes:
        f1: 2 TP / (2 TP + FP + FN).
        margin: smallest score of an edge minus the largest of a non-edge; None where every pair is an edge.
        scale: larger one of the two scores that make the margin, in absolute value; 0 without a margin.
    """

    f1: float
    margin: float | None
    scale: float


@dataclass(frozen=True)
class Remembered:
    """How far a layer's outputs are from their labels.

    Attributes:
        errors: largest distance of a number of each example, a class as one-hot vector, `(items,)`.
        sizes: largest absolute number of each example's label, `(items,)`.
        recalled: examples whose arg-max is their class, or with every number within the tolerance.
        spread: the tolerance within which one and the same answer is right for all examples.
    """

    errors: np.ndarray
    sizes: np.ndarray
    recalled: int
    spread: float

    @property
    def max_error(self) -> float:
        """Largest of the errors."""
        return float(self.errors.max())


def recognized(file: ClaimFile) -> Recognized:
    """S_ij = max_h ⟨x_i W_Q,h, x_j W_K,h⟩, or the sum, of every pair; an edge where it is above the threshold.

    Raises:
        ClaimError: for scores that are not finite.
    """
    assert isinstance(file.header, RelationHeader)
    tensors = _wide(file.tensors)
    items, edges, threshold = tensors["items"], file.tensors["edges"], float(tensors["threshold"][0])
    join = np.maximum if file.header.aggregate == "max" else np.add
    hits = false = 0
    lowest, highest = np.inf, -np.inf
    for first in range(0, len(items), ROWS):
        sources = items[first : first + ROWS]
        scores = None
        for query, key in zip(tensors["query"], tensors["key"], strict=True):
            with np.errstate(all="ignore"):
                of_head = (sources @ query) @ (items @ key).T
                scores = of_head if scores is None else join(scores, of_head)
            _refuse_overflow("scores", of_head)
        assert scores is not None
        _refuse_overflow("scores", scores)
        is_edge = np.zeros(scores.shape, bool)
        inside = edges[(edges[:, 0] >= first) & (edges[:, 0] < first + len(sources))]
        is_edge[inside[:, 0] - first, inside[:, 1]] = True
        others = ~is_edge
        others[np.arange(len(sources)), np.arange(first, first + len(sources))] = False
        hits += int((scores[is_edge] > threshold).sum())
        false += int((scores[others] > threshold).sum())
        lowest = min(lowest, float(scores[is_edge].min(initial=np.inf)))
        highest = max(highest, float(scores[others].max(initial=-np.inf)))
    f1 = 2 * hits / (hits + false + len(edges))
    if np.isinf(highest):
        return Recognized(f1=f1, margin=None, scale=0.0)
    return Recognized(f1=f1, margin=lowest - highest, scale=max(abs(lowest), abs(highest)))


def worst_norm(file: ClaimFile) -> float:
    """The norm that is farthest from 1, of all items."""
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(file.tensors["items"].astype(np.float64), axis=1)
    norms = np.minimum(norms, np.finfo(np.float64).max)  # JSON has no infinity
    return float(norms[abs(norms - 1).argmax()])


def remembered(file: ClaimFile) -> Remembered:
    """Outputs against labels, example by example.

    Raises:
        ClaimError: for outputs that are not finite.
    """
    assert isinstance(file.header, AssociationHeader)
    with np.errstate(all="ignore"):
        found, labels = outputs(file), file.tensors["labels"]
    _refuse_overflow("outputs", found)
    classes = labels.ndim == 1
    wanted = np.eye(found.shape[1])[labels] if classes else labels.astype(np.float64)
    distance = abs(found - wanted).max(1)
    right = found.argmax(1) == labels if classes else distance <= (file.header.claim.tolerance or 0.0)
    spread = float(np.ptp(wanted, axis=0).max() / 2)
    return Remembered(errors=distance, sizes=abs(wanted).max(1), recalled=int(right.sum()), spread=spread)


def outputs(file: ClaimFile) -> Float[np.ndarray, "items d_out"]:
    """f(E, e) = Σ_h W_O,hᵀ W_V,hᵀ Eᵀ softmax(E W_K,h W_Q,hᵀ e).

    The layer of the published experiments first embeds query and tokens, adds sinusoidal positions (the query's is 0),
    divides the logits by √d_model, and reads the sum out linearly.
    """
    assert isinstance(file.header, AssociationHeader)
    tensors, scale = _wide(file.tensors), 1.0
    queries, contexts = tensors["queries"], tensors["contexts"]
    if file.header.profile == "mahdavi2024":
        places = _sinusoids(contexts.shape[1] + 1, contexts.shape[2])
        queries = queries @ tensors["embedding"] + tensors["embedding_bias"] + places[0]
        contexts = contexts @ tensors["embedding"] + tensors["embedding_bias"] + places[1:]
        scale = contexts.shape[2] ** -0.5
    found = 0.0
    for query, key, value, out in zip(*(tensors[name] for name in ("query", "key", "value", "out")), strict=True):
        logits = scale * ((contexts @ key) @ (queries @ query)[:, :, None])[:, :, 0]
        weights = np.exp(logits - logits.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        found = found + (weights[:, None] @ (contexts @ value))[:, 0] @ out
    if file.header.profile == "mahdavi2024":
        found = found @ tensors["readout"] + tensors["readout_bias"]
    return np.asarray(found)


def _refuse_overflow(name: str, numbers: np.ndarray) -> None:
    if not np.isfinite(numbers).all():
        raise ClaimError(f"{name}: should be finite, these weights and items give NaN or infinity")


def _sinusoids(positions: int, channels: int) -> Float[np.ndarray, "positions channels"]:
    """Sin and cos of position / 10000^(2i / channels), in turn."""
    angles = np.arange(positions)[:, None] / 10_000.0 ** (np.arange(0, channels, 2) / channels)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(positions, -1)[:, :channels]


def _wide(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array.astype(np.float64) for name, array in tensors.items() if array.dtype.kind == "f"}
