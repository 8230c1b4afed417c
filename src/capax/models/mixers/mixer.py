"""What a sequence mixer is: its definition, and what a subclass may compute faster.

Letters: e members, b sequences, n positions, h heads, g key and value heads, c channels (d_model), d d_head,
v d_value, t vocabulary, p positions that are answered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from capax import devices
from capax.specs.model import Scored
from capax.specs.transformer import Norm

NORM_EPS = 1e-5
ROTARY_BASE = 10_000.0


class Mixer:
    """One block's sequence mixer, of all members of an ensemble. This one is causal attention by its definition.

    `definition` says what a mixer computes, in the plainest way; the other methods may compute the same faster. A
    mixer of your own overrides `heads` (what queries, keys and values are), or `definition` (a recurrence, say), and
    nothing else until speed matters; `capax.testing.MixerSuite` tests that what is fast equals the definition.

    Attributes:
        spec: the model's.
        weights: one block's tensors `(e, ...)`, by the names of `spec.mixer_parameters()`.
        gain: that of the norm before the mixer `(e, c)`, which inputs do not have yet; None where there is no norm.

    Example:
        >>> class Mean(Mixer):
        ...     def definition(self, x):
        ...         return self.gained(x).cumsum(2) / torch.arange(1, x.shape[2] + 1)[:, None]
    """

    def __init__(self, spec: Any, weights: Mapping[str, Tensor], gain: Tensor | None = None) -> None:
        self.spec, self.weights, self.gain = spec, weights, gain

    def gained(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b n c"]:
        """Inputs with the gain of the norm before them."""
        return x if self.gain is None else x * self.gain[:, None, None]

    def heads(
        self, x: Float[Tensor, "e b n c"]
    ) -> tuple[Float[Tensor, "e b h n d"], Float[Tensor, "e b g n d"], Float[Tensor, "e b g n v"]]:
        """Queries, keys and values; h / g heads share a key and a value. Without values the inputs stand for them."""
        x = self.gained(x)
        projected = {
            name: torch.einsum("ebnc,ehcd->ebhnd", x, self.weights[name])
            for name in ("query", "key", "value")
            if name in self.weights
        }
        query, key = projected["query"], projected["key"]
        value = projected.get("value", x[:, :, None].expand(*key.shape[:3], *x.shape[2:]))
        return (turned(query), turned(key), value) if self.spec.positions == "rotary" else (query, key, value)

    def joined(self, mixed: Float[Tensor, "e b h n v"]) -> Float[Tensor, "e b n c"]:
        """What the heads found, by the output matrix; their mean where there is none."""
        if "out" not in self.weights:
            return mixed.mean(2)
        return torch.einsum("ebhnv,ehvc->ebnc", mixed, self.weights["out"])

    def bias(self, n: int, x: Tensor) -> Float[Tensor, "h n n"] | None:
        """What is added to each head's scores of n positions; None where all before each are seen alike.

        It is −∞ where a position is not seen. The first axis is 1 where heads do not differ.

        Args:
            x: a tensor of the type, and on the device, that it is to have.
        """
        stride = self.spec.stride
        window = stride if self.spec.window is None else self.spec.window
        if self.spec.positions != "alibi" and (window is None or window >= n):
            return None
        place = torch.arange(n, device=x.device)
        distance = (place[:, None] - place).to(x.dtype)
        if self.spec.positions == "alibi":
            slopes = torch.tensor(alibi_slopes(self.spec.n_heads), dtype=x.dtype, device=x.device)
            lowered = -slopes[:, None, None] * distance
        else:
            lowered = torch.zeros_like(distance)[None]
        far = distance >= (n if window is None else window)
        unseen = (distance < 0) | (far if stride is None else far & (distance % stride != 0))
        return lowered.masked_fill(unseen, -torch.inf)

    def definition(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b n c"]:
        """What every position makes of itself and of those before it: softmax(Q Kᵀ / √d + bias) V W_O.

        Args:
            x: the block's inputs, normed where the model has norms, but without the norm's gain.
        """
        query, key, value = (part.flatten(0, 1) for part in self.heads(x))
        grouped, bias = query.shape[1] != key.shape[1], self.bias(x.shape[2], x)
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=bias, is_causal=bias is None, enable_gqa=grouped
        )
        return self.joined(mixed.unflatten(0, x.shape[:2]))

    def all_queries(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b n c"]:
        """The definition's result."""
        return self.definition(x)

    def last_query(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b c"]:
        """The definition's result at the last position."""
        return self.definition(x)[:, :, -1]

    def from_rows(
        self, rows: Float[Tensor, "e t c"], tokens: Int[Tensor, "e b n"], scored: Scored
    ) -> Float[Tensor, "e b p c"] | None:
        """The result (p = n or 1) where an input is its token's row, wherever it stands; None where that saves nothing.

        Args:
            rows: inputs of the vocabulary, without the gain of the norm before.
            scored: positions that are answered.
        """
        return None

    def shared(self, inputs: Inputs, scored: Scored, n_sequences: int) -> dict[str, Tensor]:
        """What all sequences of a step share where this is the first block's mixer; differentiable.

        Args:
            scored: positions that are answered.
            n_sequences: in a step; by it a mixer decides what pays.
        """
        return {}

    def from_shared(self, shared: dict[str, Tensor], tokens: Int[Tensor, "e b n"]) -> Float[Tensor, "e b p c"] | None:
        """The first block's result (p = n or 1) from what `shared` gave; None where that holds nothing for it."""
        return None


@dataclass(frozen=True)
class Inputs:
    """The first block's inputs before tokens are known: sums of a token's row and a position's, normed.

    Attributes:
        token: rows of the vocabulary `(e, t, c)`.
        position: rows of the positions `(e, n, c)`.
        norm: kind of the norm; None where there is none.
    """

    token: Tensor
    position: Tensor
    norm: Norm | None

    def vectors(self) -> Float[Tensor, "e n t c"]:
        """Every position's input for each token, without the norm's gain."""
        return normed(self.token[:, None] + self.position[:, :, None], self.norm)

    def parts(self) -> dict[str, Tensor]:
        """Token and position rows whose scaled sum is the input; the deviation comes from inner products."""
        token, position = self.token, self.position
        if self.norm is None:
            return {"token_part": token, "position_part": position}
        if self.norm == "layer":
            token = token - token.mean(-1, keepdim=True)
            position = position - position.mean(-1, keepdim=True)
        squares = position.square().sum(-1)[:, :, None] + token.square().sum(-1)[:, None]
        variance = (squares + 2 * position @ token.mT).clamp_min(0) / token.shape[-1]  # e n t
        return {
            "token_part": token,
            "position_part": position,
            "inverse_deviation": (variance + eps_of(self.norm, variance.dtype)).rsqrt(),
        }


def eps_of(norm: Norm, dtype: torch.dtype) -> float:
    """What is added to the mean square: as torch has it; x-transformers adds nothing in an RMS norm."""
    return NORM_EPS if norm == "layer" else torch.finfo(dtype).eps


def normed(x: Float[Tensor, "*batch c"], norm: Norm | None = "layer") -> Float[Tensor, "*batch c"]:
    """The norm without its gain: that is multiplied into the matrices that follow, which are smaller."""
    if norm is None:
        return x
    if norm == "layer":
        return F.layer_norm(x, x.shape[-1:], eps=NORM_EPS)
    return F.rms_norm(x, x.shape[-1:], eps=eps_of(norm, x.dtype))


def turned(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
    """Each pair of neighbouring channels turned by its position times its own frequency (rotary positions)."""
    n, d = x.shape[-2:]
    cosine, sine = turns(0, n, d, x)
    first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([first * cosine - second * sine, first * sine + second * cosine], -1).flatten(-2)


def turned_to_all(x: Float[Tensor, "*batch d"], first: int, n: int) -> Float[Tensor, "*batch n d"]:
    """Each vector turned, as `turned` does, to each of n positions from the first on."""
    cosine, sine = (part.repeat_interleave(2, -1) for part in turns(first, n, x.shape[-1], x))
    ahead = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    return torch.addcmul(x[..., None, :] * cosine, ahead[..., None, :], sine)


def turned_halves(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
    """As `turned`, of channels whose pairs lie half of them apart: neighbours in memory are then turned together."""
    n, d = x.shape[-2:]
    cosine, sine = turns(0, n, d, x)
    first, second = x.chunk(2, -1)
    return torch.cat([(first * cosine).addcmul(second, -sine), (second * cosine).addcmul(first, sine)], -1)


def turns(first: int, n: int, d: int, like: Tensor) -> tuple[Float[Tensor, "n p"], Float[Tensor, "n p"]]:
    """Cosine and sine of what each pair of d channels is turned by at n positions from the first on."""
    wide = devices.wide_on(like.device)
    frequency = ROTARY_BASE ** -(torch.arange(0, d, 2, dtype=torch.float64, device=wide) / d)
    angle = torch.arange(first, first + n, dtype=torch.float64, device=wide)[:, None] * frequency
    return angle.cos().to(like.device, like.dtype), angle.sin().to(like.device, like.dtype)


def alibi_slopes(heads: int) -> list[float]:
    """2^(−8 i/H) for i = 1 … H; where H is no power of two, those of the one below, and every other of twice that."""
    whole = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * place / whole) for place in range(1, whole + 1)]
    between = [2 ** (-4 * place / whole) for place in range(1, 2 * whole + 1, 2)]
    return [*slopes, *between[: heads - whole]]


def with_gain(matrix: Float[Tensor, "e *h c d"], gain: Float[Tensor, "e c"] | None) -> Float[Tensor, "e *h c d"]:
    """A matrix with the gain of the norm before it."""
    if gain is None:
        return matrix
    return matrix * gain.view(gain.shape[0], *(1,) * (matrix.dim() - 3), -1, 1)
