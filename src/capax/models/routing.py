"""Key-query channels whose scores are attention over the context (after Adler 2025, third version).

The paper's third version normalises scores by a scaled softmax, routes values, and has experiments with a whole block;
its designs are not known to us, so these are ours. Letters as in `keyquery`; n items of a context, which are all
items or a subset; v channels of a value; o is what heads route (c channels).

    a_ij = softmax over the items j ≠ i of the context of ⟨x_i W_Q, x_j W_K⟩ / √d_head
    o_i  = Σ_h Σ_j a_ij x_j W_V W_O, W_V c×v, W_O v×c; without `d_value` W_V c×c alone; without `values` neither
    y_i  = o_i (softmax), or a block in post-norm order with given vectors in the place of embeddings:
           u = norm(x_i + o_i), y_i = norm(u + MLP(u)), norms with gains, an MLP of 4·c hidden GELUs with biases
    z_ij = a·⟨y_i, x_j⟩ − b: what is routed is compared with every item of the context

Values of d_model channels, and an MLP more so, can store relations too, where all items are in the one context: for a
permutation of 64 items in 16 channels D_K* is 16 with a threshold, 2 with softmax, 1 with a block (measured).
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from capax.models.keyquery import KeyQueryEnsemble, by_heads, side_by_side
from capax.models.mixers.mixer import normed
from capax.models.operations import gelu, looked_up, of_members, softmax


class RoutingEnsemble(KeyQueryEnsemble):
    """`n_members` channels of softmax attention with values, alone or in a block, computed together.

    Attributes:
        parameters: those of `KeyQueryEnsemble` (its `first_scale` is 2 ln m, over the norm √d_model of a block's
            output), the constant `temperature` = 1/√d_head (e, 1); with values `value` (e, h, c, c), or (e, h, c, v)
            and `output` (e, h, v, c); of a block also `norm`, `ffn_norm`, `down_bias` (e, c), `up` (e, c, 4c),
            `up_bias` (e, 4c) and `down` (e, 4c, c).
    """

    def shared(self, items: Float[Tensor, "g m c"], training: bool = False) -> dict[str, Tensor]:
        """What all sources of a step share: queries' matrices, keys, values, the items themselves, the block."""
        own = ("temperature", "output", "norm", "up", "up_bias", "down", "down_bias", "ffn_norm")
        parts = {name: self.parameters[name] for name in own if name in self.parameters}
        if "value" in self.parameters:
            parts["values"] = by_heads(items, self.parameters["value"])
        return super().shared(items) | parts | {"items": items}

    def outputs(
        self, sources: Float[Tensor, "e b c"], rows: Int[Tensor, "e b"], shared: dict[str, Tensor]
    ) -> Float[Tensor, "e b m"]:
        """a·⟨y_i, x_j⟩ − b of each source and every item: an edge where it is above zero.

        Args:
            rows: which items the sources are; none attends to itself.
        """
        attention = self.attention(sources, rows, shared)
        routed = (
            self._joined(attention @ shared["values"], shared)
            if self.spec.values
            else attention.sum(1) @ shared["items"]
        )
        scores = self._compared(sources, routed, shared) @ shared["items"].mT
        return scores * shared["scale"][:, None] - shared["threshold"][:, None]

    def attention(
        self, sources: Float[Tensor, "e b c"], rows: Int[Tensor, "e b"], shared: dict[str, Tensor]
    ) -> Float[Tensor, "e h b m"]:
        """How much each head of a source attends to every item; to itself not at all."""
        scores = by_heads(sources, shared["query"]) @ shared["keys"].mT * shared["temperature"][:, :, None, None]
        itself = rows[:, None, :, None].expand(-1, self.spec.n_heads, -1, 1)
        return softmax(scores.scatter(3, itself, -math.inf))

    def shared_by_contexts(self, items: Float[Tensor, "e m c"], n_read: int) -> dict[str, Tensor]:
        """What all contexts of a step share: the matrices, and what they make of the items.

        Args:
            items: each member's vectors.
            n_read: items of all contexts of the step, each as often as it is read.
        """
        shared = self.parameters | {"scale": self.scale}
        if items.shape[1] > n_read:  # most of them are in no context
            return shared
        return shared | {"made": items @ torch.cat([*self._of_items(shared).values()], 2)}

    def outputs_in_contexts(
        self,
        items: Float[Tensor, "e m c"],
        chosen: Int[Tensor, "e b n"],
        shared: dict[str, Tensor],
        training: bool = False,
    ) -> Float[Tensor, "e b n n"]:
        """a·⟨y_i, x_j⟩ − b of each ordered pair of items of each context; an item with itself says nothing.

        Args:
            items: each member's vectors.
            chosen: which of them each context holds.
            shared: as `shared_by_contexts` gives it.
        """
        made = self._in_contexts(items, chosen, shared)
        heads = {name: one.unflatten(3, (self.spec.n_heads, -1)).movedim(3, 1) for name, one in made.items()}
        scores = heads["query"] @ heads["key"].mT * shared["temperature"][:, :, None, None, None]  # e h b n n
        scores.diagonal(dim1=3, dim2=4).fill_(-math.inf)
        attention = softmax(scores)
        if "compared" in made:
            mixed = (attention @ heads["value"]).movedim(1, 3).flatten(3)
            similar = mixed @ made["compared"].mT
        else:
            x = of_members(items, chosen)
            if self.spec.values:
                routed = self._joined((attention @ heads["value"]).flatten(2, 3), shared)
            else:
                routed = (attention.sum(1) @ x).flatten(1, 2)
            similar = self._compared(x.flatten(1, 2), routed, shared).unflatten(1, chosen.shape[1:]) @ x.mT
        return similar * shared["scale"][:, None, None] - shared["threshold"][:, None, None]

    def _in_contexts(
        self, items: Float[Tensor, "e m c"], chosen: Int[Tensor, "e b n"], shared: dict[str, Tensor]
    ) -> dict[str, Float[Tensor, "e b n _"]]:
        """What the matrices make of each context's items, all heads side by side."""
        matrices = self._of_items(shared)
        if "made" in shared:
            first = torch.arange(len(chosen), device=chosen.device)[:, None, None] * items.shape[1]
            made = looked_up(shared["made"].flatten(0, 1), first + chosen)
        else:
            made = of_members(items, chosen) @ torch.cat([*matrices.values()], 2)[:, None]
        return dict(zip(matrices, made.split([one.shape[2] for one in matrices.values()], 3), strict=True))

    def _of_items(self, parameters: dict[str, Tensor]) -> dict[str, Float[Tensor, "e c _"]]:
        """What items are multiplied by, all heads side by side.

        Values of few channels are compared in those, not in all: ⟨v W_O, x⟩ = ⟨v, x W_Oᵀ⟩.
        """
        found: dict[str, Tensor] = {name: parameters[name] for name in ("query", "key", "value") if name in parameters}
        if self.spec.channel == "softmax" and "output" in parameters:
            found["compared"] = parameters["output"].mT
        return {name: side_by_side(one) for name, one in found.items()}

    def _joined(self, mixed: Float[Tensor, "e h b v"], shared: dict[str, Tensor]) -> Float[Tensor, "e b c"]:
        """What the heads route, together."""
        return side_by_side(mixed) @ shared["output"].flatten(1, 2) if "output" in shared else mixed.sum(1)

    def _compared(
        self, sources: Float[Tensor, "e b c"], routed: Float[Tensor, "e b c"], shared: dict[str, Tensor]
    ) -> Float[Tensor, "e b c"]:
        """What is compared with the items: what is routed, or a block's output."""
        return self._block(sources + routed, shared) if self.spec.channel == "block" else routed

    def _block(self, x: Float[Tensor, "e b c"], shared: dict[str, Tensor]) -> Float[Tensor, "e b c"]:
        """The block after its attention."""
        u = normed(x) * shared["norm"][:, None]
        hidden = gelu(u @ shared["up"] + shared["up_bias"][:, None])
        out = u + hidden @ shared["down"] + shared["down_bias"][:, None]
        return normed(out) * shared["ffn_norm"][:, None]
