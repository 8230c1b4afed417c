"""What a block's attention may be, and its tensors."""

from __future__ import annotations

import math
from typing import Any, Literal

from capax.specs.model import Constant, Parameter, Uniform

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
