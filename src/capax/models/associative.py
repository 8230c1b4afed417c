"""An ensemble of attention layers that a query asks about its context.

One query an example, so keys and values are never formed (speed rule 3): the query takes W_Q W_Kᵀ, and with a context
that all examples share that product with its tokens is one small matrix a head. Letters: e members, b examples,
n tokens, h heads, c channels (d_model), d d_head, v d_value, o outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from capax.models.ensemble import Ensemble
from capax.specs import AssociativeAttention


class AssociativeEnsemble(Ensemble[AssociativeAttention]):
    """`n_members` attention layers of one shape, computed together.

    Attributes:
        parameters: `query`, `key` (e, h, c, d), `value` (e, h, c, v), `out` (e, h, v, o); the published layer's `out`
            is (e, h, v, c) and it has `embedding` (e, c, c), `embedding_bias` (e, c), `readout` (e, c, o) and
            `readout_bias` (e, o).
    """

    @classmethod
    def initialize(
        cls,
        spec: AssociativeAttention,
        *,
        n_outputs: int,
        generators: Sequence[torch.Generator],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> AssociativeEnsemble:
        """Draw one member per generator (on the CPU, in float32, so that devices agree).

        Xavier-uniform per head and PyTorch's default for the linear layers, as published; the plain layer, which has no
        score scale, starts with queries divided by √d_head (ours).
        """
        members = [_draw(spec, n_outputs, generator) for generator in generators]
        parameters = {
            name: torch.stack([member[name] for member in members]).to(device, dtype).requires_grad_()
            for name in members[0]
        }
        return cls(spec, parameters)

    def shared(
        self, n_examples: int, context_size: int, context: Float[Tensor, "g n c"] | None = None
    ) -> dict[str, Tensor]:
        """What all examples of a step share, computed once; differentiable in the parameters.

        Args:
            context: where all examples have one, its tokens (a member's own, or one for all).

        Returns:
            `asked` (e, c, h·m): an embedded query times it is, per head, scored against the m = n tokens of the shared
            context; without one it is to be scored against raw tokens (c), and carries n scores of the positions where
            the layer has positions. `values`, `out`, ...: what attention then mixes, and what reads the mixture out.
        """
        query, key, value = (self.parameters[name] for name in ("query", "key", "value"))
        offset = self._offset(context_size)
        if context is not None:
            tokens = self._embedded(context, offset[:, 1:] if offset is not None else None)[:, None]  # e 1 n c
            asking, shared = tokens @ key, {"values": tokens @ value}
        elif offset is None:
            asking, shared = key, {"values": value}
        else:
            embedding, places = self.parameters["embedding"][:, None], offset[:, None, 1:]
            asking = torch.cat([embedding @ key, places @ key], 2)
            shared = {"values": embedding @ value, "place_values": places @ value}
        scale = 1.0 if self.spec.profile == "plain" else self.spec.d_model**-0.5
        asked = query @ (asking * scale).mT  # e h c m
        return {"asked": asked.transpose(1, 2).flatten(2), **shared, **self._reading(n_examples)}

    def outputs(
        self,
        queries: Float[Tensor, "e b c"],
        contexts: Float[Tensor, "e b n c"] | None,
        shared: dict[str, Tensor],
    ) -> Float[Tensor, "e b o"]:
        """Scores of the classes, or the numbers of a real label.

        Args:
            contexts: each example's own; None where `shared` was made of one that they share.
            shared: what `self.shared` gave for this state of the parameters.
        """
        attention = self.attention(queries, contexts, shared)
        values = shared["values"]
        if contexts is None:
            mixed = torch.einsum("ebhn,ehnv->ebhv", attention, values)
        else:
            if values.shape[-1] == 1:  # projecting first costs what mixing would, in one product
                projected = contexts @ values[:, None, :, :, 0].mT  # e b n h
                mixed = (attention * projected.mT).sum(-1, keepdim=True)
            else:
                mixed = torch.einsum("ebhc,ehcv->ebhv", attention @ contexts, values)
            if "place_values" in shared:
                mixed = mixed + torch.einsum("ebhn,ehnv->ebhv", attention, shared["place_values"])
        answer = mixed.flatten(2) @ shared["out"]
        if "readout" in shared:
            answer = answer @ shared["readout"]
        return answer if self.spec.profile == "plain" else answer + self.parameters["readout_bias"][:, None]

    def attention(
        self,
        queries: Float[Tensor, "e b c"],
        contexts: Float[Tensor, "e b n c"] | None,
        shared: dict[str, Tensor],
    ) -> Float[Tensor, "e b h n"]:
        """What each head attends to; the arguments are those of `outputs`."""
        offset = self._offset(1)
        asking = self._embedded(queries, None if offset is None else offset[:, :1])
        asked = (asking @ shared["asked"]).unflatten(2, (self.spec.n_heads, -1))  # e b h m
        if contexts is None:
            return asked.softmax(-1)
        c = self.spec.d_model
        scores = asked[..., :c] @ contexts.mT
        return (scores + asked[..., c:] if asked.shape[-1] > c else scores).softmax(-1)

    def _offset(self, context_size: int) -> Float[Tensor, "e p c"] | None:
        """What the published layer adds to an embedded query (first row) and to the tokens after it."""
        if self.spec.profile == "plain":
            return None
        bias = self.parameters["embedding_bias"]
        return bias[:, None] + sinusoids(context_size + 1, self.spec.d_model).to(bias)

    def _embedded(self, x: Float[Tensor, "g p c"], offset: Float[Tensor, "e #p c"] | None) -> Float[Tensor, "_ p c"]:
        return x if offset is None else x @ self.parameters["embedding"] + offset

    def _reading(self, n_examples: int) -> dict[str, Tensor]:
        """The output matrix; the published layer's read-out after it, or in it where that costs less."""
        out = self.parameters["out"].flatten(1, 2)
        if self.spec.profile == "plain":
            return {"out": out}
        readout = self.parameters["readout"]
        (inputs, c), o = out.shape[1:], readout.shape[-1]
        if inputs * o * (c + n_examples) < n_examples * c * (inputs + o):
            return {"out": out @ readout}
        return {"out": out, "readout": readout}


def sinusoids(positions: int, channels: int) -> Float[Tensor, "positions channels"]:
    """Sin and cos of position / 10000^(2i / channels), in turn (Vaswani et al. 2017)."""
    rates = 10_000.0 ** (-torch.arange(0, channels, 2, dtype=torch.float64) / channels)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)[:, :channels]


def floats_per_example(spec: AssociativeAttention, context_size: int, n_outputs: int, shared: bool) -> int:
    """Numbers in the widest activation of one example of one member; micro-batches and packs are sized by it."""
    scores = spec.n_heads * (context_size if shared else spec.d_model + context_size)
    values = spec.n_heads * spec.value_size(n_outputs)
    return max(scores, values, n_outputs, 0 if shared else context_size * spec.d_model)


def _draw(spec: AssociativeAttention, n_outputs: int, generator: torch.Generator) -> dict[str, Tensor]:
    """One member's tensors."""
    h, c, d, v = spec.n_heads, spec.d_model, spec.d_head, spec.value_size(n_outputs)

    def uniform(*shape: int, bound: float) -> Tensor:
        return torch.empty(shape).uniform_(-bound, bound, generator=generator)

    def xavier(*shape: int) -> Tensor:
        return uniform(*shape, bound=math.sqrt(6 / (shape[-2] + shape[-1])))

    tensors = {"query": xavier(h, c, d), "key": xavier(h, c, d), "value": xavier(h, c, v)}
    if spec.profile == "plain":
        tensors["query"] /= math.sqrt(d)
        return tensors | {"out": xavier(h * v, n_outputs).view(h, v, n_outputs)}
    linear = 1 / math.sqrt(c)
    return tensors | {
        "out": xavier(h * v, c).view(h, v, c),
        "embedding": uniform(c, c, bound=linear),
        "embedding_bias": uniform(c, bound=linear),
        "readout": uniform(c, n_outputs, bound=linear),
        "readout_bias": uniform(n_outputs, bound=linear),
    }
