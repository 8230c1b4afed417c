"""Weights rounded to nearest in a few bits.

The grid is the symmetric one of GPTQ (Frantar et al. 2022, arXiv 2210.17323, `sym`) and torchao: the codes −2^(b−1) to
2^(b−1) − 1 times a step of 2 max|w| / (2^b − 1), one for a tensor or for each group of consecutive weights. GPTQ itself
goes on to correct later weights for the errors of earlier ones by examples; nothing is corrected here.

How this differs: a step is a number of 16 bits (bfloat16, rounded up, so that nothing is clipped), where theirs is one
of the weights' own kind. An error is half a step at most.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from capax.probes.written import Rounding, is_vector


def read_back(name: str, weights: Float[Tensor, "..."], how: Rounding, inputs: int) -> Float[Tensor, "..."]:
    """A tensor as a file holds it.

    Args:
        name: of the tensor.
        inputs: the axis of its inputs, where it is a matrix.
    """
    if not how.on_grid:
        return weights.to(getattr(torch, how.name)).to(weights.dtype)
    return weights if is_vector(name, weights.shape) else rounded(weights, how.bits, how.group, inputs)


def rounded(weights: Float[Tensor, "..."], bits: int, group: int | None, inputs: int = -1) -> Float[Tensor, "..."]:
    """The nearest multiples of a step, of 2^bits.

    Args:
        group: weights that share a step, along the axis of the inputs; where that is shorter, or no multiple, a group
            runs on into the next output's. None for one step for all.
        inputs: that axis.
    """
    last = weights.movedim(inputs, -1)
    codes, steps = grid(last.flatten(), bits, group)
    return (codes * steps).flatten()[: weights.numel()].view(last.shape).movedim(-1, inputs)


def grid(
    weights: Float[Tensor, " n"], bits: int, group: int | None
) -> tuple[Float[Tensor, "groups size"], Float[Tensor, "groups 1"]]:
    """Codes, whole numbers, and the step of each group; the last group is filled up with zeros."""
    count = weights.numel()
    size = count if group is None else min(group, count)
    parts = F.pad(weights, (0, -count % size)).view(-1, size)
    steps = _rounded_up(2 * parts.abs().amax(1, keepdim=True) / (2**bits - 1))
    codes = (parts / steps).round().clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return torch.where(steps > 0, codes, 0.0), steps


def _rounded_up(steps: Float[Tensor, "groups 1"]) -> Float[Tensor, "groups 1"]:
    """The least bfloat16 that is no smaller."""
    near = steps.to(torch.bfloat16)
    above = torch.nextafter(near, torch.full_like(near, torch.inf))
    return torch.where(near.to(steps.dtype) < steps, above, near).to(steps.dtype)
