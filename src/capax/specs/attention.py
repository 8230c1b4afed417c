"""What a block's attention may be: its tensors, and how many of their numbers say anything."""

from __future__ import annotations

import math
from typing import Any, Literal

from capax.specs.model import Constant, Parameter, Uniform, freedom

Kind = Literal["softmax", "linear", "delta", "gated-delta"]

MIXERS: dict[Kind, str] = {
    "linear": "capax.models.mixers.recurrent:Linear",
    "delta": "capax.models.mixers.recurrent:Delta",
    "gated-delta": "capax.models.mixers.recurrent:GatedDelta",
}
"""Classes of the mixers that keep a state; that of softmax attention is the model's `mixer_class`."""

FIRST_DECAY = 0.95
"""What a gated state keeps of itself over a position, before training: no more is known than that it is near 1."""


def attention_parameters(model: Any) -> tuple[Parameter, ...]:
    """The tensors of one block's attention, without biases.

    A state that is corrected has a rate, and one that decays a decay, for each key, from the position's input.
    """
    c, h, g, d, v = model.d_model, model.n_heads, model.kv_heads, model.d_head, model.d_value or model.d_head
    table = [Parameter("query", (h, c, d), Uniform.fan_in(c)), Parameter("key", (g, c, d), Uniform.fan_in(c))]
    if model.values:
        table.append(Parameter("value", (g, c, v), Uniform.fan_in(c)))
        table.append(Parameter("out", (h, v, c), Uniform.fan_in(h * v)))
    if model.attention in ("delta", "gated-delta"):
        table.append(Parameter("rate", (c, g), Uniform.fan_in(c)))
    if model.attention == "gated-delta":
        first = math.log(math.expm1(-math.log(FIRST_DECAY)))  # what softplus takes to −log of it
        table.append(Parameter("decay", (c, g), Uniform.fan_in(c)))
        table.append(Parameter("decay_bias", (g,), Constant(first)))
        table.append(Parameter("decay_scale", (g,), Constant(0.0)))
    return tuple(table)


def attention_spare_numbers(model: Any) -> int:
    """Numbers of one block's attention that say nothing more than the others (derived: ranks of derivatives agree).

    Queries that share a key are one matrix above each other, and so are outputs that share a value. Rotary positions
    leave of the freedom of a query and its key one complex number for each pair of channels. A linear attention's
    features of each channel leave none. A delta rule's products of normed keys leave the rotations of the channels, or
    of each pair of them where positions are rotary, and one scale for each matrix.
    """
    c, d, value = model.d_model, model.d_head, model.d_value or model.d_head
    share = model.n_heads // model.kv_heads
    rotary, both = model.positions == "rotary", c * d * (share + 1)
    if model.attention == "linear":
        idle = 0
    elif model.attention == "softmax":
        idle = d if rotary else both - freedom(share * c, d, c)
    else:
        idle = share + 1 + (d // 2 if rotary else _rotations(d) - _rotations(max(d - (share + 1) * c, 0)))
    if model.values:
        idle += c * value * (share + 1) - freedom(c, value, share * c)
    return model.kv_heads * idle


def _rotations(channels: int) -> int:
    """Dimensions of the rotations of so many channels."""
    return channels * (channels - 1) // 2
