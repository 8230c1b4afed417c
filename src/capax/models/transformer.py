"""An ensemble of transformers: every parameter carries a leading member axis, and members never mix.

The block is x-transformers' (pre-norm, gains without biases, attention without biases, exact GELU, 4× FFN, final norm,
absolute positions scaled by 1/√d_model, read-out without bias, untied by default). Letters as in `mixers/mixer.py`.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from capax.models.ensemble import TokenEnsemble
from capax.models.feed_forward import RRELU, feed_forward
from capax.models.mixers.mixer import Inputs, Mixer, normed, with_gain
from capax.models.operations import by_matrix, looked_up
from capax.specs import Transformer
from capax.specs.feed_forward import feed_forward_parameters
from capax.specs.model import Scored

TABLES = ("token", "position", "readout")
"""Parameters that are a row of channels for each token or position."""
Noise = list[tuple[Tensor | None, ...]]
"""What a step of training draws for each layer: what dropout leaves of attention and of the FFN, slopes of the FFN."""


class TransformerEnsemble(TokenEnsemble[Transformer]):
    """`n_members` transformers of one shape, computed together. The spec says which mixer their blocks have."""

    reentrant = True

    def __init__(self, spec: Transformer, parameters: dict[str, Tensor]) -> None:
        super().__init__(spec, parameters)
        self._mixer_class: type[Mixer] = spec.mixer_type()
        self._mixed = [one.name for one in spec.mixer_parameters()]
        self._fed = [one.name for one in feed_forward_parameters(spec)] if spec.ffn == "mlp" else []
        self._first = spec.norms and spec.norm_place == "pre"

    @property
    def readout(self) -> Float[Tensor, "e t c"]:
        """The output matrix: one of its own, or the token table."""
        return self.parameters["token" if self.spec.readout == "tied" else "readout"]

    def input_axis(self, name: str) -> int:
        """That of W in x @ W; of tables the channels of a row."""
        return -1 if name in TABLES else -2

    def shared(self, scored: Scored, n_sequences: int) -> dict[str, Tensor]:
        """What all sequences of a step share, computed once; differentiable in the parameters.

        The position rows, and what the first block's mixer makes of them and of the vocabulary's rows.
        """
        position = self._position()
        if position is None:
            return {}
        inputs = Inputs(self.parameters["token"], position, self.spec.norm_kind if self._first else None)
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
        noise = self._noise(tokens, scored) if training and self.generators else None
        mixed = self.mixer(0).from_shared(shared, tokens)
        if not self.spec.has_table:
            rows = self._before(self.parameters["token"])
            mixed = self.mixer(0).from_rows(rows, tokens, scored if depth == 1 else "all")
        read = tokens if mixed is None else tokens[:, :, -mixed.shape[2] :]
        position = shared.get("position")
        x = self._embed(read, None if position is None else position[:, -read.shape[2] :])
        for layer in range(depth):
            if layer or mixed is None:
                if scored == "last" and layer == depth - 1:
                    mixed = self.mixer(layer).last_query(self._before(x))[:, :, None]
                    x = x[:, :, -1:]
                else:
                    mixed = self.mixer(layer).all_queries(self._before(x))
            x = self._block(x, mixed, layer, noise)
        return self._read_out(x)

    def continued(
        self, tokens: Int[Tensor, "e b"], before: Float[Tensor, "layers e b p c"]
    ) -> tuple[Float[Tensor, "e b t"], Float[Tensor, "layers e b p+1 c"]]:
        """Next-token scores after one token more, and what to give for the next one.

        Attention is causal: what the layers made of earlier tokens stays, so only the new one is computed.

        Args:
            before: the inputs of each layer's attention so far, normed where norms come first (p = 0 at the beginning).
        """
        place = before.shape[3]
        position = self._position()
        x = self._embed(tokens[:, :, None], None if position is None else position[:, place : place + 1])
        inputs = []
        for layer in range(self.spec.n_layers):
            inputs.append(torch.cat([before[layer], self._before(x)], 2))
            x = self._block(x, self.mixer(layer).last_query(inputs[-1])[:, :, None], layer)
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
        return self._mixer_class(self.spec, weights, self._gain(f"layers.{layer}.norm") if self._first else None)

    def _block(
        self, x: Float[Tensor, "e b p c"], mixed: Float[Tensor, "e b p c"], layer: int, noise: Noise | None = None
    ) -> Float[Tensor, "e b p c"]:
        """One block's result, given what its mixer gave."""
        left, left_of_ffn, slopes = (None, None, None) if noise is None else noise[layer]
        if self.spec.parallel:
            return x + kept(mixed, left) + kept(self._feed_forward(x, layer, slopes), left_of_ffn)
        x = self._added(x, kept(mixed, left), f"layers.{layer}.norm")
        if self.spec.ffn == "none":
            return x
        return self._added(x, kept(self._feed_forward(x, layer, slopes), left_of_ffn), f"layers.{layer}.ffn_norm")

    def _feed_forward(
        self, x: Float[Tensor, "e b p c"], layer: int, slopes: Tensor | None = None
    ) -> Float[Tensor, "e b p c"]:
        """What the FFN makes of a block's vectors, without what it is added to."""
        y, gain = self._before(x), self._gain(f"layers.{layer}.ffn_norm") if self._first else None
        if self.spec.ffn == "mlp":
            weights = {name: self.parameters[f"layers.{layer}.{name}"] for name in self._fed}
            return feed_forward(y, self.spec, weights, gain, slopes)
        return y if gain is None else y * gain[:, None, None]

    def _before(self, x: Float[Tensor, "*batch c"]) -> Float[Tensor, "*batch c"]:
        """The input of attention, FFN and read-out: normed where norms come first, without the norm's gain."""
        return normed(x, self.spec.norm_kind) if self._first else x

    def _added(self, x: Float[Tensor, "e b p c"], y: Float[Tensor, "e b p c"], norm: str) -> Float[Tensor, "e b p c"]:
        """What came out of attention or FFN with its input, normed where norms come after."""
        x = x + y if self.spec.skips else y
        if not self.spec.norms or self._first:
            return x
        return normed(x, self.spec.norm_kind) * self.parameters[norm][:, None, None]

    def _gain(self, name: str) -> Tensor | None:
        return self.parameters[name] if self.spec.norms else None

    def _noise(self, tokens: Int[Tensor, "e b n"], scored: Scored) -> Noise:
        """Random numbers of a step, row by row from each member's generator: the same however rows are batched."""
        n, c, rate = tokens.shape[2], self.spec.d_model, self.spec.dropout
        answered = [n] * (self.spec.n_layers - 1) + [1 if scored == "last" else n]
        widths = (c, c, 4 * c) if self.spec.activation == "rrelu" else (c, c)
        sizes = [places * width for places in answered for width in widths]
        drawn = torch.stack([torch.rand(tokens.shape[1], sum(sizes), generator=one) for one in self.generators])
        like = self.parameters["token"]
        parts = iter(drawn.to(like.device, like.dtype).split(sizes, -1))
        noise: Noise = []
        for places in answered:
            left = [(next(parts) >= rate).to(like.dtype) / (1 - rate) for _ in range(2)]
            slopes = RRELU[0] + (RRELU[1] - RRELU[0]) * next(parts) if len(widths) == 3 else None
            noise.append(tuple(None if one is None else one.unflatten(-1, (places, -1)) for one in (*left, slopes)))
        return noise

    def _read_out(self, x: Float[Tensor, "e b p c"]) -> Float[Tensor, "e b p t"]:
        table = with_gain(self.readout.mT, self._gain("final_norm") if self._first else None)
        return by_matrix(self._before(x).flatten(1, 2), table).view(*x.shape[:3], -1)


def kept(x: Float[Tensor, "e b p c"], left: Float[Tensor, "e b p c"] | None) -> Float[Tensor, "e b p c"]:
    """What dropout leaves."""
    return x if left is None else x * left
