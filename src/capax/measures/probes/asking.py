"""Asking a trained memory, many sequences at once."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from capax.models.transformer import TransformerEnsemble, floats_per_sequence

NUMBERS_AT_ONCE = 2**22
"""Numbers that the widest activation may hold: 16 MB in float32."""


def next_tokens(model: TransformerEnsemble, prefixes: Int[Tensor, "b p"]) -> Int[Tensor, " b"]:
    """The arg-max after prefixes of any one length up to the model's context, by an ensemble of one member.

    Attention is causal, so what follows a prefix has no influence: a model whose position table ends with the prefix
    is asked for its last position alone. At full length this is what `recall="last"` counts.
    """
    position = model.parameters["position"][:, : prefixes.shape[1]]
    short = TransformerEnsemble(model.spec, model.parameters | {"position": position})
    return _arg_max(short, prefixes, "last")[:, 0]


def right(
    model: TransformerEnsemble,
    prefixes: Int[Tensor, "b n"],
    items: Int[Tensor, "b seq_len"],
    recall: Literal["last", "all"],
) -> Bool[Tensor, "b p"]:
    """Whether each token that counts is the arg-max: every next one (p = n), or the last (p = 1).

    Args:
        prefixes: what the model reads; it may differ from the items' own prefixes.
        items: the tokens that are right.
    """
    found = _arg_max(model, prefixes, recall)
    return found == items[:, -found.shape[1] :]


def recalled(
    model: TransformerEnsemble, items: Int[Tensor, "b seq_len"], recall: Literal["last", "all"]
) -> Bool[Tensor, " b"]:
    """Which items are recalled from their own prefixes, as the measurement counts them."""
    return right(model, items[:, :-1], items, recall).all(1)


def _arg_max(
    model: TransformerEnsemble, prefixes: Int[Tensor, "b n"], scored: Literal["last", "all"]
) -> Int[Tensor, "b p"]:
    vocab_size, context = model.parameters["token"].shape[1], prefixes.shape[1]
    each = floats_per_sequence(model.spec, vocab_size, context, scored)
    with torch.no_grad():
        return torch.cat(
            [model.logits(rows[None], scored)[0].argmax(-1) for rows in prefixes.split(max(1, NUMBERS_AT_ONCE // each))]
        )
