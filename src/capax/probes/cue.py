"""How much of a sequence must be given for the memory to say the rest (minimum cue)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from capax.models.transformer import TransformerEnsemble
from capax.probes.shares import Share, share
from capax.results import Result
from capax.tasks.sequences import recallable_from

NUMBERS_AT_ONCE = 2**24
"""Numbers that the layers' inputs of the sequences generated together may hold: 64 MB in float32."""


class CuePoint(Result):
    """Recall from the first tokens of every item of the library, the rest generated greedily."""

    length: Annotated[int, Field(description="Tokens given.")]
    share: Annotated[float, Field(description="Of the sequence: length / seq_len.")]
    recalled: Annotated[Share, Field(description="Items whose whole rest is right, of all items of the library.")]
    possible: Annotated[
        int, Field(description="Items that any predictor could recall from cues of this length: some share theirs.")
    ]
    chance: Annotated[float, Field(description="Probability that guesses get the whole rest right.")]
    error: Annotated[float, Field(description="Share of wrong tokens in the rest, over all items.")]


class CueProbe(Result):
    """Recall against the length of the cue, and the shortest cue of each item.

    The minimum cue is the shortest share of a sequence from which the memory says the whole rest.
    """

    points: tuple[CuePoint, ...]
    minimum: Annotated[
        tuple[int | None, ...],
        Field(description="Shortest cue of each library item, in tokens; None where the whole prefix is not enough."),
    ]
    items: Annotated[int, Field(description="All items of the library.")]
    recalled: Annotated[int, Field(description="Items recalled from the whole prefix: those that the median is of.")]
    median: Annotated[float | None, Field(description="Median shortest cue in tokens; None where no item has one.")]
    median_share: Annotated[float | None, Field(description="The same as a share of the sequence.")]


def cue_probe(model: TransformerEnsemble, library: Int[np.ndarray, "items seq_len"], vocab_size: int) -> CueProbe:
    """Recall against the length of the cue, from 1 to seq_len − 1 tokens."""
    items, seq_len = library.shape
    wrong = wrong_tokens(model, torch.from_numpy(library)).numpy()
    # What is recalled from a cue is recalled from a longer one: its own rest is the longer cue, and goes on the same.
    enough = (wrong == 0).sum(1)
    shortest = seq_len - enough[enough > 0]
    median = float(np.median(shortest)) if len(shortest) else None
    possible = recallable_from(library, range(1, seq_len))
    points = tuple(
        CuePoint(
            length=length,
            share=length / seq_len,
            recalled=share(wrong[:, length - 1] == 0),
            possible=possible[length - 1],
            chance=float(vocab_size) ** -(seq_len - length),
            error=float(wrong[:, length - 1].mean()) / (seq_len - length),
        )
        for length in range(1, seq_len)
    )
    return CueProbe(
        points=points,
        minimum=tuple(seq_len - count if count else None for count in enough.tolist()),
        items=items,
        recalled=len(shortest),
        median=median,
        median_share=None if median is None else median / seq_len,
    )


def wrong_tokens(model: TransformerEnsemble, library: Int[Tensor, "items seq_len"]) -> Int[Tensor, "items context"]:
    """Wrong tokens in the rest that is generated greedily from each cue (column c − 1: from the first c tokens)."""
    each = library.shape[1] ** 2 * model.spec.d_model * model.spec.n_layers
    with torch.no_grad():
        return torch.cat([_generated(model, part) for part in library.split(max(1, NUMBERS_AT_ONCE // each))])


def _generated(model: TransformerEnsemble, items: Int[Tensor, "b seq_len"]) -> Int[Tensor, "b context"]:
    """As `wrong_tokens`, all at once.

    All cues are followed together, token by token. A rest whose first token is right goes on as the rest of the longer
    cue, so only those that begin with a wrong token are written, from there on: at most one per item and length.
    """
    b, seq_len = items.shape
    written, item, cue, wrong = items[:0], *(torch.zeros(0, dtype=torch.long),) * 3
    layers = model.parameters["token"].new_empty(model.spec.n_layers, 1, b, 0, model.spec.d_model)
    for length in range(1, seq_len):
        read = torch.cat([items, written])[:, length - 1]
        scores, layers = model.continued(read[None], layers)
        said = scores[0].argmax(-1)
        first, later = said[:b], said[b:]
        written[:, length] = later
        wrong = wrong + (later != items[item, length])
        missed = (first != items[:, length]).nonzero()[:, 0]
        begun = items[missed]
        begun[:, length] = first[missed]
        written, item = torch.cat([written, begun]), torch.cat([item, missed])
        cue = torch.cat([cue, torch.full_like(missed, length - 1)])
        wrong = torch.cat([wrong, torch.ones_like(missed)])
        layers = torch.cat([layers, layers[:, :, missed]], 2)
    counts = torch.full((b, seq_len), -1)
    counts[:, -1] = 0  # nothing is left to say
    counts[item, cue] = wrong
    for column in range(seq_len - 2, -1, -1):
        counts[:, column] = torch.where(counts[:, column] < 0, counts[:, column + 1], counts[:, column])
    return counts[:, :-1]
