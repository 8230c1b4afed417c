"""An ensemble of transformers: every parameter carries a leading member axis, and members never mix.

The block is x-transformers' (pre-norm, gains without biases, attention without biases, exact GELU, 4× FFN, final norm,
absolute positions scaled by 1/√d_model, untied read-out without bias). Letters as in `attention.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from capax.models import attention
from capax.models.ensemble import TokenEnsemble
from capax.specs import Transformer
from capax.specs.task import Scored

NORM_EPS = 1e-5
LOOK_UP = 8
"""Sequences per token of the vocabulary from which looking projections up is faster than computing them (measured)."""
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
    "softmax": lambda x: x.softmax(-1),
}


class TransformerEnsemble(TokenEnsemble[Transformer]):
    """`n_members` transformers of one shape, computed together."""

    def shared(self, scored: Scored, n_sequences: int) -> dict[str, Tensor]:
        """What all sequences of a step share, computed once (speed rules 3 and 4); differentiable in the parameters.

        Which tensors there are says how the first attention layer is computed: `token_part` for the factored last
        query, `asked` for looked-up queries and values, neither for projecting every vector. The choice counts
        operations for `n_sequences` sequences.
        """
        token, position = self.parameters["token"], self._position()
        (t, c), n = token.shape[-2:], position.shape[-2]
        shared = {"position": position}
        if scored == "last" and self.spec.n_layers == 1:
            if _factoring_pays(n_sequences, n, t, c, self.spec.n_heads):
                shared |= self._factored_input(token, position)
        elif t * LOOK_UP <= n_sequences and attention.mixes_inputs(self._weights(0), n):
            inputs = self._normed(token[:, None] + position[:, :, None])
            shared |= attention.tabulate(inputs, self._weights(0))
        return shared

    def logits(
        self,
        tokens: Int[Tensor, "e b n"],
        scored: Scored = "all",
        shared: dict[str, Tensor] | None = None,
        training: bool = False,
    ) -> Float[Tensor, "e b p t"]:
        """Next-token scores at all positions (p = n) or at the last (p = 1).

        Args:
            tokens: the context, every position of the position table filled.
            shared: what `self.shared` gave for this state of the parameters; computed here when not given.
        """
        if shared is None:
            shared = self.shared(scored, tokens.shape[1])
        depth = self.spec.n_layers
        factored = "token_part" in shared
        ahead = tokens[:, :, -1:] if factored else tokens
        x = self._embed(ahead, shared["position"][:, -ahead.shape[2] :])
        for layer in range(depth):
            weights = self._weights(layer)
            if scored == "last" and layer == depth - 1:
                if factored:
                    parts = (shared["token_part"], shared["position_part"], shared.get("inverse_deviation"))
                    mixed = attention.last_query_factored(*parts, tokens, weights)
                else:
                    mixed = attention.last_query(self._normed(x), weights)
                x, mixed = x[:, :, -1:], mixed[:, :, None]
            elif layer == 0 and "asked" in shared:
                mixed = attention.all_queries_from_tables(shared, tokens)
            else:
                mixed = attention.all_queries(self._normed(x), weights)
            x = x + mixed if self.spec.skips else mixed
            x = self._feed_forward(x, layer)
        return self._read_out(x)

    def continued(
        self, tokens: Int[Tensor, "e b"], before: Float[Tensor, "layers e b p c"]
    ) -> tuple[Float[Tensor, "e b t"], Float[Tensor, "layers e b p+1 c"]]:
        """Next-token scores after one token more, and what to give for the next one.

        Attention is causal: what the layers made of earlier tokens stays, so only the new one is computed.

        Args:
            before: the normed inputs of each layer's attention so far (p = 0 at the beginning).
        """
        place = before.shape[3]
        x = self._embed(tokens[:, :, None], self._position()[:, place : place + 1])
        inputs = []
        for layer in range(self.spec.n_layers):
            inputs.append(torch.cat([before[layer], self._normed(x)], 2))
            mixed = attention.last_query(inputs[-1], self._weights(layer))[:, :, None]
            x = self._feed_forward(x + mixed if self.spec.skips else mixed, layer)
        return self._read_out(x)[:, :, 0], torch.stack(inputs)

    def _embed(self, tokens: Int[Tensor, "e b n"], position: Float[Tensor, "e n c"]) -> Float[Tensor, "e b n c"]:
        table = self.parameters["token"]
        e, t, c = table.shape
        member = torch.arange(e, device=tokens.device).view(e, 1, 1) * t
        return F.embedding(tokens + member, table.view(e * t, c)) + position[:, None]

    def _position(self) -> Float[Tensor, "e n c"]:
        table = self.parameters["position"]
        return table * table.shape[-1] ** -0.5

    def _normed(self, x: Float[Tensor, "*batch c"]) -> Float[Tensor, "*batch c"]:
        """The norm without its gain: that is multiplied into the matrices that follow, which are smaller."""
        return F.layer_norm(x, x.shape[-1:], eps=NORM_EPS) if self.spec.norms else x

    def _gained(self, matrix: Float[Tensor, "e *h c d"], gain: str) -> Float[Tensor, "e *h c d"]:
        """A matrix with the gain of the norm before it."""
        if not self.spec.norms:
            return matrix
        scale = self.parameters[gain]
        return matrix * scale.view(scale.shape[0], *(1,) * (matrix.dim() - 3), -1, 1)

    def _weights(self, layer: int) -> attention.Weights:
        query, key, value = (
            self._gained(self.parameters[f"layers.{layer}.{name}"], f"layers.{layer}.norm")
            for name in ("query", "key", "value")
        )
        return attention.Weights(query, key, value, self.parameters[f"layers.{layer}.out"])

    def _factored_input(self, token: Float[Tensor, "e t c"], position: Float[Tensor, "e n c"]) -> dict[str, Tensor]:
        """Token and position rows whose scaled sum is the normed input; the deviation comes from inner products."""
        if not self.spec.norms:
            return {"token_part": token, "position_part": position}
        token = token - token.mean(-1, keepdim=True)
        position = position - position.mean(-1, keepdim=True)
        squares = position.square().sum(-1)[:, :, None] + token.square().sum(-1)[:, None]
        variance = (squares + 2 * position @ token.mT).clamp_min(0) / token.shape[-1]  # e n t
        return {
            "token_part": token,
            "position_part": position,
            "inverse_deviation": (variance + NORM_EPS).rsqrt(),
        }

    def _feed_forward(self, x: Float[Tensor, "e b p c"], layer: int) -> Float[Tensor, "e b p c"]:
        if self.spec.ffn == "none":
            return x
        y, gain = self._normed(x), f"layers.{layer}.ffn_norm"
        if self.spec.ffn == "mlp":
            up, up_bias, down, down_bias = (
                self.parameters[f"layers.{layer}.{name}"] for name in ("up", "up_bias", "down", "down_bias")
            )
            hidden = torch.baddbmm(up_bias[:, None], y.flatten(1, 2), self._gained(up, gain))
            y = torch.baddbmm(down_bias[:, None], ACTIVATIONS[self.spec.activation](hidden), down).view(y.shape)
        elif self.spec.norms:
            y = y * self.parameters[gain][:, None, None]
        return x + y if self.spec.skips else y

    def _read_out(self, x: Float[Tensor, "e b p c"]) -> Float[Tensor, "e b p t"]:
        table = self._gained(self.parameters["readout"].mT, "final_norm")
        return (self._normed(x).flatten(1, 2) @ table).view(*x.shape[:3], -1)


def _factoring_pays(b: int, n: int, t: int, c: int, h: int) -> bool:
    """Whether scoring and mixing token and position rows costs less than forming and reading every input vector.

    Counts multiplications; a vector that is gathered and normed is charged as many as were measured to take as long.
    """
    gathered = 24
    return 2 * b * h * (t + n) * c + n * t * c < b * n * c * (2 * h * 2 + gathered)
