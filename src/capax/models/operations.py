"""Some of torch's operations in the forms that are fastest on a CPU, or that round alike in any pack.

Of sigmoid, SiLU, softplus, ELU and, in double precision, GELU torch computes what is left over at the end of a tensor
by other instructions, which round otherwise (exp, log, tanh, erf and log-sigmoid it does not): a number would depend on
how many follow it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

PART_ROWS = 1024
"""Fewest rows of a part, where a GPU forms a matrix's gradient in parts; 4096 are as fast (measured)."""
LANES = 16
"""Numbers that a processor takes at once, at most. Torch's softmax over fewer takes them one by one."""


def softmax(scores: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    """Softmax over the last axis; a short one is padded with −∞, which makes it up to ten times faster."""
    n = scores.shape[-1]
    if n >= LANES or _as_torch_does(scores):
        return scores.softmax(-1)
    return F.pad(scores, (0, LANES - n), value=-torch.inf).softmax(-1)[..., :n]


def sigmoid(x: Float[Tensor, "e *rest"]) -> Float[Tensor, "e *rest"]:
    """Sigmoid, 1 / (1 + exp(−x)), rounded alike in any pack."""
    return x.sigmoid() if _leaves_none_over(x) else F.logsigmoid(x).exp()


def silu(x: Float[Tensor, "e *rest"]) -> Float[Tensor, "e *rest"]:
    """SiLU, x / (1 + exp(−x)), rounded alike in any pack."""
    return F.silu(x) if _leaves_none_over(x) else x * F.logsigmoid(x).exp()


def gelu(x: Float[Tensor, "e *rest"]) -> Float[Tensor, "e *rest"]:
    """GELU, x · (1 + erf(x / √2)) / 2, rounded alike in any pack."""
    if x.dtype != torch.float64 or _leaves_none_over(x):
        return F.gelu(x)
    return x * (1 + (x * math.sqrt(0.5)).erf()) / 2


def softplus(x: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """Softplus, log(1 + exp(x)), rounded alike in any pack."""
    return -F.logsigmoid(-x)


def positive(x: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """1 + elu(x), rounded alike in any pack."""
    return torch.where(x > 0, x + 1, x.clamp_max(0).exp())


def _leaves_none_over(x: Float[Tensor, "e *rest"]) -> bool:
    return x[0].numel() % (2 * LANES) == 0  # torch takes two vectors a turn


def by_matrix(rows: Float[Tensor, "e r i"], matrix: Float[Tensor, "e i j"]) -> Float[Tensor, "e r j"]:
    """Rows times their member's matrix, whose gradient a GPU forms of parts of the rows, where there are many.

    The gradient is a small matrix, and a sum over all rows: at once it would keep few of a GPU's processors busy.
    """
    differentiated = torch.is_grad_enabled() and matrix.requires_grad
    if rows.device.type == "cpu" or not differentiated or torch.compiler.is_compiling() or parts_of(rows, matrix) == 1:
        return rows @ matrix
    found: Tensor = ByMatrix.apply(rows, matrix)  # type: ignore[no-untyped-call]
    return found


class ByMatrix(torch.autograd.Function):
    """`rows @ matrix`, differentiable once; its gradients are under the `torch.autocast` that it was computed under."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")  # type: ignore[untyped-decorator]
    def forward(ctx: Any, rows: Float[Tensor, "e r i"], matrix: Float[Tensor, "e i j"]) -> Float[Tensor, "e r j"]:
        """The product."""
        ctx.save_for_backward(rows, matrix)
        return rows @ matrix

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")  # type: ignore[untyped-decorator]
    @once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, "e r j"]) -> tuple[Tensor | None, Tensor | None]:
        """The matrix's gradient as the sum of those of equal parts of the rows."""
        rows, matrix = ctx.saved_tensors
        of_rows = gradient @ matrix.mT if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return of_rows, None
        (e, r, i), count = rows.shape, parts_of(rows, matrix)
        cut = (e * count, r // count)
        parts = rows.reshape(*cut, i).mT @ gradient.reshape(*cut, gradient.shape[-1])
        return of_rows, parts.view(e, count, *parts.shape[1:]).sum(1)


def parts_of(rows: Float[Tensor, "e r i"], matrix: Float[Tensor, "e i j"]) -> int:
    """Into how many equal parts rows are cut: of `PART_ROWS` at least, and of the matrix's longer side.

    So the parts' gradients are never more numbers than the rows, or their products, are.
    """
    return _equal_parts(rows.shape[1], max(PART_ROWS, *matrix.shape[1:]))


@cache
def _equal_parts(count: int, least: int) -> int:
    return max((parts for parts in range(1, count // least + 1) if count % parts == 0), default=1)


def looked_up(table: Float[Tensor, "r c"], rows: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch c"]:
    """Rows of a table; their gradients are summed up in order."""
    if _as_torch_does(table):
        return F.embedding(rows, table)
    return table.index_select(0, rows.flatten()).view(*rows.shape, -1)


def of_members(tables: Float[Tensor, "e r c"], rows: Int[Tensor, "e b n"]) -> Float[Tensor, "e b n c"]:
    """Rows of each member's own table, which is not trained."""
    return tables[torch.arange(len(rows), device=rows.device)[:, None, None], rows]


def cross_entropy(logits: Float[Tensor, "*batch v"], targets: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """Of each row of scores with its target, in nats."""
    scores, rows = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    if _as_torch_does(logits):
        found = F.cross_entropy(scores, rows, reduction="none")
    else:
        found = _CrossEntropy.apply(scores, rows[:, None])[:, 0]  # type: ignore[no-untyped-call]
    return found.view(targets.shape)


def likeliest(scores: Float[Tensor, "*batch v"]) -> Int[Tensor, "*batch"]:
    """The place of the highest score; −1, which is no token, where a score is not a number."""
    place = scores.argmax(-1, keepdim=True)
    return torch.where(scores.gather(-1, place).isfinite(), place, -1).squeeze(-1)


class _CrossEntropy(torch.autograd.Function):
    """Keeps exponentials and writes the gradient over them, where torch keeps logarithms and makes two tensors more."""

    @staticmethod
    def forward(ctx: Any, scores: Float[Tensor, "r v"], targets: Int[Tensor, "r 1"]) -> Float[Tensor, "r 1"]:
        """Of each row, log Σ exp(scores) − the target's score."""
        highest = scores.amax(1, keepdim=True)
        exponentials = (scores - highest).exp_()
        sums = exponentials.sum(1, keepdim=True)
        ctx.save_for_backward(exponentials, sums, targets)
        return sums.log() + highest - scores.gather(1, targets)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, "r 1"]) -> tuple[Float[Tensor, "r v"], None]:
        """Softmax minus one at the target, times the row's gradient. A second call raises torch's own error."""
        exponentials, sums, targets = ctx.saved_tensors
        return exponentials.mul_(gradient / sums).scatter_add_(1, targets, -gradient), None


def _as_torch_does(x: Tensor) -> bool:
    return x.device.type != "cpu" or torch.compiler.is_compiling()


@cache
def sinusoids(
    positions: int, channels: int, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "positions channels"]:
    """Sin and cos of position / 10000^(2i / channels), in turn (Vaswani et al. 2017)."""
    rates = 10_000.0 ** (-torch.arange(0, channels, 2, dtype=torch.float64) / channels)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)[:, :channels].to(device, dtype)
