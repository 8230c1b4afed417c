"""Which heads and positions recall depends on: each is ablated alone."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from pydantic import Field

from capax.models.transformer import TransformerEnsemble
from capax.probes.asking import recalled, right
from capax.probes.basin import corrupt
from capax.probes.shares import Share, share, spread
from capax.results import Result


class HeadAblation(Result):
    """What is still recalled without one head; layers and heads count from 1."""

    layer: int
    head: int
    kept: Annotated[Share, Field(description="Items still recalled, of those that the whole model recalls.")]


class PositionAblation(Result):
    """What is still recalled when one position's token is replaced at random; positions count from 1."""

    position: int
    kept: Annotated[Share, Field(description="Trials that still recall their item.")]


class AblationProbe(Result):
    """Recall without each head and without each position's token, on the items that the whole model recalls."""

    items: Annotated[int, Field(description="Items that the whole model recalls.")]
    chance: Annotated[float, Field(description="Probability that guesses recall an item.")]
    heads: Annotated[tuple[HeadAblation, ...], Field(description="Empty where no item is recalled.")]
    positions: Annotated[tuple[PositionAblation, ...], Field(description="Empty where no item is recalled.")]


def ablation_probe(
    model: TransformerEnsemble,
    library: Int[np.ndarray, "items seq_len"],
    known: Bool[np.ndarray, " items"],
    recall: Literal["last", "all"],
    vocab_size: int,
    chance: float,
    trials: int,
    generator: np.random.Generator,
) -> AblationProbe:
    """Ablate each head (all known items) and replace each position's token (trials spread over the known items).

    Args:
        library: the items.
        known: those that the whole model recalls.
        chance: probability that guesses recall an item.
        trials: replaced tokens for each position; each is a different token, uniform over the others.
    """
    items, spec, context = library[known], model.spec, library.shape[1] - 1
    heads, positions = [], []
    if len(items):
        for layer in range(spec.n_layers):
            for head in range(spec.n_heads):
                left = recalled(without_head(model, layer, head), torch.from_numpy(items), recall)
                heads.append(HeadAblation(layer=layer + 1, head=head + 1, kept=share(left.numpy())))
        for position in range(context):
            item = spread(len(items), trials, generator)
            places = np.tile(np.arange(context) == position, (trials, 1))
            asked = corrupt(items[item, :-1], places, vocab_size, generator)
            hits = right(model, torch.from_numpy(asked), torch.from_numpy(items[item]), recall).all(1)
            positions.append(PositionAblation(position=position + 1, kept=share(hits.numpy(), item)))
    return AblationProbe(items=len(items), chance=chance, heads=tuple(heads), positions=tuple(positions))


def without_head(model: TransformerEnsemble, layer: int, head: int) -> TransformerEnsemble:
    """The model with one head's output zero (layer and head from 0); the parameters of the first stay as they are."""
    name = f"layers.{layer}.out"
    out = model.parameters[name].detach().clone()
    out[:, head] = 0
    return TransformerEnsemble(model.spec, model.parameters | {name: out})
