"""How many tokens of a prefix can be wrong before its item is no longer recalled (basin of attraction)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from pydantic import Field

from capax.models.transformer import TransformerEnsemble
from capax.probes.asking import right
from capax.probes.shares import Share, share, spread
from capax.results import Result


class BasinPoint(Result):
    """Recall when that many tokens of the prefix are replaced by others."""

    corrupted: int
    last: Annotated[Share, Field(description="The item's last token is the arg-max.")]
    whole: Annotated[
        Share | None, Field(description="Every next token of the item is; None where recall counts the last token.")
    ]
    other_item: Annotated[
        float, Field(description="Share of trials whose corrupted prefix is, whole, that of another item.")
    ]


class BasinProbe(Result):
    """Recall against the number of corrupted tokens, on the items that are recalled uncorrupted."""

    items: Annotated[int, Field(description="Items recalled uncorrupted: the trials are on these.")]
    chance: Annotated[float, Field(description="Probability that a guess is the last token.")]
    chance_whole: Annotated[float, Field(description="Probability that guesses are every next token.")]
    points: Annotated[tuple[BasinPoint, ...], Field(description="Empty where no item is recalled.")]
    radius: Annotated[
        int | None,
        Field(
            description="Most corrupted tokens up to which at least half of the trials recall, by what recall counts."
        ),
    ]


def basin_probe(
    model: TransformerEnsemble,
    library: Int[np.ndarray, "items seq_len"],
    known: Bool[np.ndarray, " items"],
    recall: Literal["last", "all"],
    vocab_size: int,
    trials: int,
    generator: np.random.Generator,
) -> BasinProbe:
    """Recall against corruption: k positions at random, no two the same, each given a different, uniform token.

    Args:
        library: the items.
        known: those recalled uncorrupted.
        trials: for each number of corrupted tokens, spread evenly over the items.
    """
    items, context = library[known], library.shape[1] - 1
    prefixes = {row.tobytes() for row in np.ascontiguousarray(library[:, :-1])}
    points = []
    for count in range(context + 1 if len(items) else 0):
        item = spread(len(items), trials, generator)
        places = generator.permuted(np.tile(np.arange(context) < count, (trials, 1)), axis=1)
        asked = corrupt(items[item, :-1], places, vocab_size, generator)
        hits = right(model, torch.from_numpy(asked), torch.from_numpy(items[item]), recall)
        points.append(
            BasinPoint(
                corrupted=count,
                last=share(hits[:, -1].numpy(), item),
                whole=share(hits.all(1).numpy(), item) if recall == "all" else None,
                other_item=float(np.mean([row.tobytes() in prefixes for row in asked])) if count else 0.0,
            )
        )
    return BasinProbe(
        items=len(items),
        chance=1 / vocab_size,
        chance_whole=float(vocab_size) ** -context,
        points=tuple(points),
        radius=radius(points),
    )


def corrupt(
    prefixes: Int[np.ndarray, "b n"], places: Bool[np.ndarray, "b n"], vocab_size: int, generator: np.random.Generator
) -> Int[np.ndarray, "b n"]:
    """The prefixes with a different token at each of these places, uniform over the others of the vocabulary."""
    moved = (prefixes + generator.integers(1, vocab_size, size=prefixes.shape)) % vocab_size
    return np.where(places, moved, prefixes)


def radius(points: list[BasinPoint]) -> int | None:
    """The number of corrupted tokens before the first at which fewer than half of the trials recall."""
    found = None
    for point in points:
        if (point.whole or point.last).rate < 0.5:
            break
        found = point.corrupted
    return found
