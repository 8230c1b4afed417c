# gqa.py
"""A transformer whose query heads share keys and values (Ainslie et al. 2023, arXiv 2305.13245)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator

import capax


class GQA(capax.Transformer):
    """Grouped-query attention: n_heads queries, and a key and a value for each of n_kv_heads groups of them."""

    mixer_class: ClassVar[str] = f"{__name__}:GroupedQueries"
    axes: ClassVar[tuple[str, ...]] = ("d_head", "n_layers", "n_heads", "n_kv_heads", "d_model")

    model: Literal["gqa"] = "gqa"
    n_kv_heads: Annotated[int, Field(ge=1, description="Heads of keys and values; a divisor of n_heads.")] = 1

    @model_validator(mode="after")
    def _groups(self) -> Self:
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_kv_heads: should divide n_heads ({self.n_heads}), got {self.n_kv_heads}")
        return self

    @property
    def total_key_dim(self) -> int:
        """Channels of all keys of a position: n_kv_heads · d_head."""
        return self.n_kv_heads * self.d_head

    def mixer_parameters(self) -> tuple[capax.Parameter, ...]:
        """Those of attention, with fewer keys and values."""
        query, key, value, out = super().mixer_parameters()
        key, value = (one._replace(shape=(self.n_kv_heads, *one.shape[1:])) for one in (key, value))
        return (query, key, value, out)


class GroupedQueries(capax.Mixer):
    """The definition is that of `capax.Mixer`; where only the last position is asked, this costs less."""

    def last_query(self, x: torch.Tensor) -> torch.Tensor:
        """What the last position makes of x `(e, b, n, c)`: members, sequences, positions, channels."""
        query, key, value = (part.flatten(0, 1) for part in self.heads(x))
        bias = self.bias(x.shape[2], x)
        seen = None if bias is None else bias[:, -1:]
        mixed = F.scaled_dot_product_attention(query[:, :, -1:], key, value, attn_mask=seen, enable_gqa=True)
        return torch.einsum("ebhv,ehvc->ebc", mixed[:, :, 0].unflatten(0, x.shape[:2]), self.weights["out"])
