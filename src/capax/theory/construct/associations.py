"""Weights of one attention layer that memorize associations: as many as the bound of Mahdavi et al. 2024 says.

The theorem is the paper's (arXiv 2306.02010, theorem 1), known to us from those who restate it. The construction is
ours: it reaches the same number head by head, but need not be the paper's proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from capax.errors import AssumptionError, SpecError
from capax.tasks import association_files
from capax.tasks.association_files import Examples
from capax.text import counted
from capax.theory.bounds.associations import mahdavi2024
from capax.theory.construct.heads import query_and_key
from capax.theory.construct.layer import Weights, attention, features

Precision = Literal["float64", "float32"]

MOST_NUMBERS = 2**27
"""Numbers that contexts or features may consist of: 1 GB."""


@dataclass(frozen=True)
class Construction:
    """Weights and what they reach on the examples they were made for.

    Attributes:
        weights: the layer.
        owner: the head (from 0) that tells an example apart.
        attention: weights of each head and example over the tokens.
        condition_number: of the features Z, on which the read-out is solved.
        max_error: largest distance of a number of an output from its label, evaluated twice: the channels added
            up forwards, as the read-out was solved, and backwards, so that it says what rounding costs.
        max_label: largest absolute number of a label.
        recalled: examples whose arg-max is their class, or with every number of a real label within the tolerance,
            both times.
    """

    weights: Weights
    owner: Int[np.ndarray, " items"]
    attention: Float[np.ndarray, "heads items context_size"]
    condition_number: float
    max_error: float
    max_label: float
    recalled: int


def largest_library(n_heads: int, context_size: int, d_model: int, d_head: int) -> int:
    """T = H(min(n, d_head) − 1) + 1.

    Raises:
        AssumptionError: when a context has as many tokens as channels, or more.
        SpecError: for a size below 1.
    """
    value = mahdavi2024(n_heads, context_size, d_model, d_head).value
    if value is None:
        raise AssumptionError(f"context_size: the bound needs fewer than d_model = {d_model}, got {context_size}")
    return int(value)


def check_size(library_size: int, n_heads: int, context_size: int, d_model: int, d_head: int) -> None:
    """Refuse libraries that the construction cannot hold.

    Raises:
        AssumptionError: when the bound is smaller, or does not apply.
        SpecError: for sizes below 1, and where contexts or features would not fit in memory.
    """
    most = largest_library(n_heads, context_size, d_model, d_head)
    if library_size > most:
        sizes = f"{counted(n_heads, 'head')} of {d_head} and {counted(context_size, 'token')}"
        raise AssumptionError(
            f"library_size: at most {most} with {sizes} (H(min(n, d_head) − 1) + 1), got {library_size}"
        )
    numbers = library_size * d_model * max(n_heads, context_size)
    if numbers > MOST_NUMBERS:
        raise SpecError(
            f"library_size: library_size · d_model · max(n_heads, context_size) may be at most {MOST_NUMBERS}, "
            f"{library_size} examples have {numbers}"
        )


def build(
    examples: Examples,
    *,
    n_heads: int,
    d_head: int,
    generator: np.random.Generator,
    dtype: Precision = "float64",
    n_classes: int | None = None,
    tolerance: float = 0.0,
) -> Construction:
    """Weights with f(E, e) = label for every example, up to H(min(n, d_head) − 1) + 1 of them.

    Examples are split among the heads in their order, as evenly as can be. A head gives each of its own examples
    attention of its choice, one token each, by the dual basis of their queries; one more direction, orthogonal to these
    queries, makes all other examples attend to one token alone. A head with min(n, d_head) examples of its own (the
    first, when the library is as large as the bound) has no such direction to spare. The read-out is then linear
    equations in the features Z = [E_tᵀ a_h]: min(d, d_out) channels a value are enough.

    A class is the one-hot vector of `n_classes`: arg-max is right when no error reaches 1/2. In float32 the query and
    key matrices are rounded first and the read-out is solved for the features that float32 arithmetic gives.

    Args:
        examples: queries, contexts and labels; every n queries, and the tokens of a context, linearly independent.
        n_heads: H.
        d_head: channels of a projected query; those that are not needed are zero.
        generator: draws the logits, and the directions among which the best are kept.
        dtype: of the weights and of what they are evaluated in.
        n_classes: numbers of an output when labels are classes. [default: the highest class + 1, at least 2]
        tolerance: a real label counts as recalled when no number of it is further off.

    Raises:
        AssumptionError: when the examples are too many, or not independent; the message names the examples.
        LibraryError: for arrays of wrong shape, not finite, or with one query in one context and two labels.
        SpecError: for sizes that cannot be.
    """
    given = association_files.checked(examples.queries, examples.contexts, examples.labels)
    context_size, d_model = given.contexts.shape[1:]
    check_size(len(given), n_heads, context_size, d_model, d_head)
    wanted = targets(given, n_classes)
    query, key, owner = query_and_key(given, n_heads, d_head, generator)
    with np.errstate(over="ignore", invalid="ignore"):  # said below in our words
        query, key = query.astype(dtype), key.astype(dtype)
        attended = attention(query, key, given)
        z = features(attended, given.contexts)
    if not np.isfinite(z).all():
        raise AssumptionError(f"dtype: queries or contexts are too large or too small for weights in {dtype}")
    solved, _, rank, sizes = np.linalg.lstsq(z.astype(np.float64), wanted, rcond=None)
    if rank < len(given):
        raise AssumptionError(
            f"library_size: {len(given)} examples need features of that rank, those in {dtype} have {rank}: queries or "
            "contexts are too close to dependent"
        )
    weights = Weights(query, key, *split_read_out(solved.reshape(n_heads, d_model, -1).astype(dtype)))
    joined = (weights.value @ weights.out).reshape(len(solved), -1)
    backwards = Examples(given.queries[:, ::-1], given.contexts[:, :, ::-1], given.labels)
    again = features(attention(query[:, ::-1], key[:, ::-1], backwards), given.contexts)
    reached = np.stack([z @ joined, again @ joined])
    classes = np.issubdtype(given.labels.dtype, np.integer)
    right = reached.argmax(2) == given.labels if classes else (np.abs(reached - wanted) <= tolerance).all(2)
    return Construction(
        weights=weights,
        owner=owner,
        attention=attended,
        condition_number=float(sizes[0] / sizes[-1]),
        max_error=float(np.abs(reached - wanted).max()),
        max_label=float(np.abs(wanted).max()),
        recalled=int(right.all(0).sum()),
    )


def targets(examples: Examples, n_classes: int | None = None) -> Float[np.ndarray, "items d_out"]:
    """Labels as vectors in float64: real ones as they are, a class as its one-hot vector.

    Raises:
        SpecError: for too few classes, or a number of classes when labels are real.
    """
    if not np.issubdtype(examples.labels.dtype, np.integer):
        if n_classes is not None:
            raise SpecError(f"n_classes: only for classes, got {n_classes} and real labels")
        return examples.labels.reshape(len(examples), -1).astype(np.float64)
    highest = int(examples.labels.max())
    if n_classes is None:
        n_classes = max(highest + 1, 2)
    if n_classes <= highest:
        raise SpecError(f"n_classes: at least {highest + 1} (labels are 0 to {highest}), got {n_classes}")
    wanted = np.zeros((len(examples), n_classes))
    wanted[np.arange(len(examples)), examples.labels] = 1
    return wanted


def split_read_out(
    read_out: Float[np.ndarray, "heads channels d_out"],
) -> tuple[Float[np.ndarray, "heads channels d_value"], Float[np.ndarray, "heads d_value d_out"]]:
    """W_V and W_O whose product is the read-out, with d_value = min(d, d_out): one of them is the identity."""
    n_heads, d_model, d_out = read_out.shape
    identity = np.tile(np.eye(min(d_model, d_out), dtype=read_out.dtype), (n_heads, 1, 1))
    return (identity, read_out) if d_out >= d_model else (read_out, identity)
