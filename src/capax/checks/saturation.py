"""Which heads attend to one token only, on which examples (Mahdavi et al. 2024 count a largest weight above .99).

It needs only attention weights, so constructed and trained layers are treated alike.
"""

from __future__ import annotations

import numbers
from typing import Annotated

import numpy as np
from jaxtyping import Bool, Float, Int
from pydantic import Field

from capax import arrays
from capax.errors import SpecError, shown
from capax.results import Result

THRESHOLD = 0.99
OFF = 0.02
"""What a sum of weights may differ from 1 by: eight bits round those of bfloat16."""


class HeadSaturation(Result):
    """On how many examples one head attends to a single token; heads count from 1."""

    head: int
    saturated: Annotated[int, Field(description="Examples on which its largest weight is above the threshold.")]
    share: Annotated[float, Field(description="Of all examples.")]
    alone: Annotated[int, Field(description="Examples on which it is the only head that does not saturate.")]
    own: Annotated[int | None, Field(description="Examples that it was built to tell apart; None in a trained layer.")]
    own_share: Annotated[float | None, Field(description="Saturated share of its own examples, if it has any.")]
    others_share: Annotated[float | None, Field(description="Saturated share of the other heads', if there are any.")]


class Saturation(Result):
    """How examples split among heads."""

    threshold: float
    n_examples: int
    heads: tuple[HeadSaturation, ...]
    examples_by_heads: Annotated[
        tuple[int, ...], Field(description="Examples on which 0, 1, ... heads saturate; one number more than heads.")
    ]


def saturated(
    attention: Float[np.ndarray, "heads items context_size"], threshold: float = THRESHOLD
) -> Bool[np.ndarray, "heads items"]:
    """The map of heads and examples: whether the largest weight of a head is above the threshold.

    Raises:
        SpecError: for what are no weights over tokens, which are 0 to 1 and sum to 1, and for a threshold outside
            [0, 1).
    """
    attention = arrays.taken("attention", attention, SpecError)
    if attention.ndim != 3 or attention.size == 0 or not np.issubdtype(attention.dtype, np.floating):
        raise SpecError(f"attention: floats of heads, examples and tokens, got {arrays.kind(attention)}")
    wrong = ~((attention >= -OFF).all(2) & (np.abs(attention.sum(2, dtype=np.float64) - 1) <= OFF))  # true of nan
    if wrong.any():
        head, example = (int(place) for place in np.argwhere(wrong)[0])
        raise SpecError(
            f"attention: weights are 0 to 1 and sum to 1 over a context's tokens; of head {head + 1}, example "
            f"{example + 1} they are {shown(attention[head, example].tolist())}"
        )
    number = isinstance(threshold, numbers.Real) and not isinstance(threshold, bool)
    if not (number and 0 <= threshold < 1):
        raise SpecError(f"threshold: at least 0 and below 1, got {shown(threshold)}")
    return np.asarray(attention.max(2) > threshold)


def saturation(
    attention: Float[np.ndarray, "heads items context_size"],
    owner: Int[np.ndarray, " items"] | None = None,
    threshold: float = THRESHOLD,
) -> Saturation:
    """How examples split among heads, by which heads saturate on them.

    Args:
        attention: weights over a context's tokens, of numpy or torch.
        owner: the head (from 0) that was built to tell an example apart, where there is one.
        threshold: a head saturates where its largest weight is above it.

    Raises:
        SpecError: as `saturated`, and for owners that are no heads of it, one for each example.
    """
    found = saturated(attention, threshold)
    if owner is not None:
        owner = arrays.taken("owner", owner, SpecError)
        heads_of = owner.shape == found.shape[1:] and np.issubdtype(owner.dtype, np.integer)
        if not (heads_of and (owner >= 0).all() and (owner < len(found)).all()):
            wanted = f"a head (0 to {len(found) - 1}) for each of {found.shape[1]} examples"
            raise SpecError(f"owner: {wanted}, got {shown(owner.tolist())}")
    per_example = found.sum(0)
    alone = ~found & (per_example == len(found) - 1)
    heads = []
    for head, row in enumerate(found):
        mine = None if owner is None else owner == head
        heads.append(
            HeadSaturation(
                head=head + 1,
                saturated=int(row.sum()),
                share=float(row.mean()),
                alone=int(alone[head].sum()),
                own=None if mine is None else int(mine.sum()),
                own_share=None if mine is None else _share(row[mine]),
                others_share=None if mine is None else _share(row[~mine]),
            )
        )
    return Saturation(
        threshold=threshold,
        n_examples=found.shape[1],
        heads=tuple(heads),
        examples_by_heads=tuple(np.bincount(per_example, minlength=len(found) + 1).tolist()),
    )


def _share(values: Bool[np.ndarray, " some"]) -> float | None:
    return float(values.mean()) if len(values) else None
