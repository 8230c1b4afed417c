"""An ensemble of transformers: every parameter carries a leading member axis, and members never mix.

The block is x-transformers' (pre-norm, gains without biases, attention without biases, exact GELU, 4× FFN, final norm,
absolute positions scaled by 1/√d_model, read-out without bias, untied by default). Letters as in `mixers/mixer.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from capax.models.ensemble import TokenEnsemble
from capax.models.mixers.mixer import Inputs, Mixer, normed, with_gain
from capax.models.operations import looked_up
from capax.specs import Transformer
from capax.specs.model import Scored
from capax.specs.plugins import resolve

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
    "softmax": lambda x: x.softmax(-1),
}


class TransformerEnsemble(TokenEnsemble[Transformer]):
    """`n_members` transformers of one shape, computed together. The spec says which mixer their blocks have."""

    reentrant = True

    def __init__(self, spec: Transformer, parameters: dict[str, Tensor]) -> None:
        super().__init__(spec, parameters)
        self._mixer_class: type[Mixer] = resolve(spec.mixer_class)
        self._mixed = [one.name for one in spec.mixer_parameters()]

    @property
    def readout(self) -> Float[Tensor, "e t c"]:
        """The output matrix: one of its own, or the token table."""
        return self.parameters["token" if self.spec.readout == "tied" else "readout"]

    def shared(self, scored: Scored, n_sequences: int) -> dict[str, Tensor]:
        """What all sequences of a step share, computed once; differentiable in the parameters.

        The position rows, and what the first block's mixer makes of them and of the vocabulary's rows.
        """
        position = self._position()
        if position is None:
            return {}
        inputs = Inputs(self.parameters["token"], position, self.spec.norm_kind)
        answered: Scored = scored if self.spec.n_layers == 1 else "all"
        return {"position": position} | self.mixer(0).shared(inputs, answered, n_sequences)

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
        mixed = self.mixer(0).from_shared(shared, tokens)
        read = tokens if mixed is None else tokens[:, :, -mixed.shape[2] :]
        position = shared.get("position")
        x = self._embed(read, None if position is None else position[:, -read.shape[2] :])
        for layer in range(depth):
            if layer or mixed is None:
                if scored == "last" and layer == depth - 1:
                    mixed = self.mixer(layer).last_query(self._normed(x))[:, :, None]
                    x = x[:, :, -1:]
                else:
                    mixed = self.mixer(layer).all_queries(self._normed(x))
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
        position = self._position()
        x = self._embed(tokens[:, :, None], None if position is None else position[:, place : place + 1])
        inputs = []
        for layer in range(self.spec.n_layers):
            inputs.append(torch.cat([before[layer], self._normed(x)], 2))
            mixed = self.mixer(layer).last_query(inputs[-1])[:, :, None]
            x = self._feed_forward(x + mixed if self.spec.skips else mixed, layer)
        return self._read_out(x)[:, :, 0], torch.stack(inputs)

    def _embed(self, tokens: Int[Tensor, "e b n"], position: Float[Tensor, "e n c"] | None) -> Float[Tensor, "e b n c"]:
        table = self.parameters["token"]
        e, t, c = table.shape
        member = torch.arange(e, device=tokens.device).view(e, 1, 1) * t
        rows = looked_up(table.view(e * t, c), tokens + member)
        return rows if position is None else rows + position[:, None]

    def _position(self) -> Float[Tensor, "e n c"] | None:
        """Rows of the positions; None where they are no table's."""
        table = self.parameters.get("position")
        return None if table is None else table * table.shape[-1] ** -0.5

    def mixer(self, layer: int) -> Mixer:
        """A block's mixer."""
        weights = {name: self.parameters[f"layers.{layer}.{name}"] for name in self._mixed}
        return self._mixer_class(self.spec, weights, self._gain(f"layers.{layer}.norm"))

    def _normed(self, x: Float[Tensor, "*batch c"]) -> Float[Tensor, "*batch c"]:
        return normed(x, self.spec.norm_kind)

    def _gain(self, name: str) -> Tensor | None:
        return self.parameters[name] if self.spec.norms else None

    def _feed_forward(self, x: Float[Tensor, "e b p c"], layer: int) -> Float[Tensor, "e b p c"]:
        if self.spec.ffn == "none":
            return x
        y, gain = self._normed(x), self._gain(f"layers.{layer}.ffn_norm")
        if self.spec.ffn == "mlp":
            up, up_bias, down, down_bias = (
                self.parameters[f"layers.{layer}.{name}"] for name in ("up", "up_bias", "down", "down_bias")
            )
            # added in place: `baddbmm` would write the bias to every row first
            flat, activation = y.flatten(1, 2), ACTIVATIONS[self.spec.activation]
            hidden = (flat @ with_gain(up, gain)).add_(up_bias[:, None])
            if self.spec.gated:
                gate, gate_bias = (self.parameters[f"layers.{layer}.{name}"] for name in ("gate", "gate_bias"))
                opened = (flat @ with_gain(gate, gain)).add_(gate_bias[:, None])
                hidden = hidden * activation(opened)
            else:
                hidden = activation(hidden)
            y = (hidden @ down).add_(down_bias[:, None]).view(y.shape)
        elif gain is not None:
            y = y * gain[:, None, None]
        return x + y if self.spec.skips else y

    def _read_out(self, x: Float[Tensor, "e b p c"]) -> Float[Tensor, "e b p t"]:
        table = with_gain(self.readout.mT, self._gain("final_norm"))
        return (self._normed(x).flatten(1, 2) @ table).view(*x.shape[:3], -1)
