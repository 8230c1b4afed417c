"""Query a trained memory with many sequences at once."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from capax.models.transformer import TransformerEnsemble

NUMBERS_AT_ONCE = 2**22
"""Numbers that the widest activation may hold: 16 MB in float32."""


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
    n = prefixes.shape[1]
    hidden, heads = 4 * model.spec.d_model, model.spec.n_heads * max(model.spec.d_head, n)
    each = n * max(hidden, heads, model.parameters["token"].shape[1])
    with torch.no_grad():
        parts = [
            model.logits(rows[None], recall)[0].argmax(-1) for rows in prefixes.split(max(1, NUMBERS_AT_ONCE // each))
        ]
    found = torch.cat(parts)
    return found == items[:, -found.shape[1] :]


def recalled(
    model: TransformerEnsemble, items: Int[Tensor, "b seq_len"], recall: Literal["last", "all"]
) -> Bool[Tensor, " b"]:
    """Which items are recalled from their own prefixes, as the measurement counts them."""
    return right(model, items[:, :-1], items, recall).all(1)
