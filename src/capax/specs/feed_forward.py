"""The tensors of a block's FFN."""

from __future__ import annotations

from typing import Any

from capax.specs.model import Parameter, Uniform


def feed_forward_parameters(model: Any) -> list[Parameter]:
    """The tensors of one FFN of 4 · d_model hidden channels, with biases; of several experts, stacked, and a router."""
    c, experts = model.d_model, () if model.n_experts == 1 else (model.n_experts,)
    inward, outward = Uniform.fan_in(c), Uniform.fan_in(4 * c)
    table = [Parameter("router", (c, *experts), inward)] if experts else []
    for name in ("up", "gate") if model.gated else ("up",):
        table.append(Parameter(name, (*experts, c, 4 * c), inward))
        table.append(Parameter(f"{name}_bias", (*experts, 4 * c), inward))
    table.append(Parameter("down", (*experts, 4 * c, c), outward))
    table.append(Parameter("down_bias", (*experts, c), outward))
    return table
