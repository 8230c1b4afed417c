"""The FFN of a block, or several of which a router chooses.

Letters as in `mixers/mixer.py`; k experts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from capax.models.mixers.mixer import with_gain
from capax.models.operations import by_matrix, gelu, silu
from capax.specs import Transformer

RRELU = (1 / 8, 1 / 3)
"""Bounds of the slopes below 0, as in the paper and in torch; out of training the slope is their mean."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": gelu,
    "relu": F.relu,
    "silu": silu,
    "softmax": lambda x: x.softmax(-1),
    "rrelu": lambda x: F.leaky_relu(x, sum(RRELU) / 2),
}


def feed_forward(
    y: Float[Tensor, "e b p c"],
    spec: Transformer,
    weights: Mapping[str, Tensor],
    gain: Float[Tensor, "e c"] | None,
    slopes: Float[Tensor, "e b p f"] | None = None,
) -> Float[Tensor, "e b p c"]:
    """What an FFN makes of normed vectors, without what they are added to.

    Args:
        weights: one block's tensors `(e, ...)`, by the names of `feed_forward_parameters`.
        gain: that of the norm before it, which y does not have yet.
        slopes: of a randomized ReLU below 0, in training; all experts have the same.
    """
    flat = y.flatten(1, 2)
    drawn = None if slopes is None else slopes.flatten(1, 2)
    if spec.n_experts == 1:
        return _of_one(flat, spec, weights, gain, drawn).view(y.shape)
    chances = by_matrix(flat, with_gain(weights["router"], gain)).softmax(-1)
    best = chances.topk(spec.top_k, -1).indices
    chosen = torch.zeros_like(chances).scatter(-1, best, chances.gather(-1, best))
    parts = (
        chosen[..., one : one + 1]
        * _of_one(flat, spec, {n: w[:, one] for n, w in weights.items() if n != "router"}, gain, drawn)
        for one in range(spec.n_experts)
    )
    return sum(parts, torch.zeros_like(flat)).view(y.shape)


def _of_one(
    flat: Float[Tensor, "e r c"],
    spec: Transformer,
    weights: Mapping[str, Tensor],
    gain: Float[Tensor, "e c"] | None,
    slopes: Float[Tensor, "e r f"] | None,
) -> Float[Tensor, "e r c"]:
    # added in place: `baddbmm` would write the bias to every row first
    hidden = by_matrix(flat, with_gain(weights["up"], gain)).add_(weights["up_bias"][:, None])
    if spec.gated:
        opened = by_matrix(flat, with_gain(weights["gate"], gain)).add_(weights["gate_bias"][:, None])
        hidden = hidden * _active(opened, spec, slopes)
    else:
        hidden = _active(hidden, spec, slopes)
    return by_matrix(hidden, weights["down"]).add_(weights["down_bias"][:, None])


def _active(x: Float[Tensor, "e r f"], spec: Transformer, slopes: Float[Tensor, "e r f"] | None) -> Tensor:
    return ACTIVATIONS[spec.activation](x) if slopes is None else torch.where(x < 0, slopes * x, x)
