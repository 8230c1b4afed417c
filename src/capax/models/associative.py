"""An ensemble of attention layers that a query asks about its context.

One query an example, so keys and values are never formed (speed rule 3): the query takes W_Q W_Kᵀ, and with a context
that all examples share that product with its tokens is one small matrix a head. Letters: e members, b examples,
n tokens, h heads, c channels (d_model), d d_head, v d_value, o outputs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from capax.models.ensemble import Ensemble
from capax.models.operations import sinusoids, softmax
from capax.specs import AssociativeAttention


class AssociativeEnsemble(Ensemble[AssociativeAttention]):
    """`n_members` attention layers of one shape, computed together.

    Attributes:
        parameters: `query`, `key` (e, h, c, d), `value` (e, h, c, v), `out` (e, h, v, o); the published layer's `out`
            is (e, h, v, c) and it has `embedding` (e, c, c), `embedding_bias` (e, c), `readout` (e, c, o) and
            `readout_bias` (e, o). Those of layers before the last are `layers.I.query`, ..., with `out` (e, h, v, c).
    """

    def shared(
        self, n_examples: int, context_size: int, context: Float[Tensor, "g n c"] | None = None
    ) -> dict[str, Tensor]:
        """What all examples of a step share, computed once; differentiable in the parameters.

        Args:
            context: where all examples have one, its tokens (a member's own, or one for all).

        Returns:
            How a query asks: `asked` (e, c, h·m), of which it takes scores of m = n tokens of the shared context, or
            without one what is scored against raw tokens (m = c); or, where that costs less, `asking` (e, c, h·d) and
            `keys` (e, h, m, d). The same of the positions, where the layer has them. `values`, `out`, ...: what
            attention then mixes, and what reads the mixture out. `read.I` (e, 1, n, c): tokens of a shared context as
            they enter layer I, where there are layers before the last.
        """
        query, key, value = (self.parameters[name] for name in ("query", "key", "value"))
        shared = self._reading(n_examples)
        if self.spec.n_layers > 1:
            query = query * self._scale
            if context is not None:
                states = self._embedded(context[:, None], slice(1, 1 + context_size))
                for layer in range(self.spec.n_layers - 1):
                    shared[f"read.{layer}"] = states
                    states = self._layer(layer, states, states)
                context = states[:, 0]
        if not self._folded:
            tokens = None if context is None else context[:, None]
            keys = {"": key if tokens is None else tokens @ key}
            shared["values"] = value if tokens is None else tokens @ value
        else:
            embedding, bias = self.parameters["embedding"], self.parameters["embedding_bias"]
            offset = bias[:, None] + sinusoids(context_size + 1, self.spec.d_model, bias.dtype, bias.device)
            query = torch.cat([embedding, offset[:, :1]], 1)[:, None] @ query
            if context is not None:
                tokens = (context @ embedding + offset[:, 1:])[:, None]
                keys, shared["values"] = {"": tokens @ key}, tokens @ value
            else:
                parts = {"": embedding[:, None], "place_": offset[:, None, 1:]}
                keys = {name: part @ key for name, part in parts.items()}
                shared |= {f"{name}values": part @ value for name, part in parts.items()}
            query = query * self._scale
        (c, d), m = query.shape[2:], sum(matrix.shape[2] for matrix in keys.values())
        if d * m * c + n_examples * c * m < d * c + n_examples * d * (c + m):
            asked = {f"{name}asked": query @ matrix.mT for name, matrix in keys.items()}
            return shared | {name: matrix.transpose(1, 2).flatten(2) for name, matrix in asked.items()}
        shared["asking"] = query.transpose(1, 2).flatten(2)
        return shared | {f"{name}keys": matrix for name, matrix in keys.items()}

    def outputs(
        self,
        queries: Float[Tensor, "e b c"],
        contexts: Float[Tensor, "e b n c"] | None,
        shared: dict[str, Tensor],
        training: bool = False,
    ) -> Float[Tensor, "e b o"]:
        """Scores of the classes, or the numbers of a real label, the same in training.

        Args:
            contexts: each example's own; None where `shared` was made of one that they share.
            shared: what `self.shared` gave for this state of the parameters.
        """
        queries, contexts = self._last_reads(queries, contexts, shared)
        attention = self._attention(queries, contexts, shared)
        if contexts is None:
            mixed = _mixed(attention, shared["values"])
        else:
            values = shared["values"]
            if values.shape[-1] == 1:  # projecting first costs what mixing would, in one product
                projected = contexts.flatten(1, 2) @ values[..., 0].mT  # e bn h
                mixed = (attention * projected.unflatten(1, contexts.shape[1:3]).mT).sum(-1, keepdim=True)
            else:
                mixed = torch.einsum("ebhc,ehcv->ebhv", attention @ contexts, values)
            if "place_values" in shared:
                mixed = mixed + _mixed(attention, shared["place_values"])
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
        """What each head of the last layer attends to; the arguments are those of `outputs`."""
        return self._attention(*self._last_reads(queries, contexts, shared), shared)

    def _attention(
        self, queries: Float[Tensor, "e b c"], contexts: Float[Tensor, "e b n c"] | None, shared: dict[str, Tensor]
    ) -> Float[Tensor, "e b h n"]:
        """The last layer's, of what it reads."""
        if self._folded:
            queries = F.pad(queries, (0, 1), value=1.0)  # for what is added to an embedded query
        scores = self._asked(queries, shared, "")
        if contexts is not None:
            scores = scores @ contexts.mT
            if {"place_asked", "place_keys"} & shared.keys():
                scores = scores + self._asked(queries, shared, "place_")
        return softmax(scores)

    def _asked(self, queries: Float[Tensor, "e b c"], shared: dict[str, Tensor], of: str) -> Float[Tensor, "e b h m"]:
        heads = (self.spec.n_heads, -1)
        if f"{of}asked" in shared:
            return (queries @ shared[f"{of}asked"]).unflatten(2, heads)
        projected = (queries @ shared["asking"]).unflatten(2, heads)
        return torch.einsum("ebhd,ehmd->ebhm", projected, shared[f"{of}keys"])

    @property
    def _folded(self) -> bool:
        """Whether embedding and positions are part of the matrices of the only layer."""
        return self.spec.profile == "mahdavi2024" and self.spec.n_layers == 1

    @property
    def _scale(self) -> float:
        """Of scores."""
        return 1.0 if self.spec.profile == "plain" else float(self.spec.d_model**-0.5)

    def _embedded(self, vectors: Float[Tensor, "e k m c"], places: slice) -> Float[Tensor, "e k m c"]:
        """Vectors as they enter the first of several layers, at the given positions."""
        if self.spec.profile == "plain":
            return vectors
        embedding, bias = self.parameters["embedding"], self.parameters["embedding_bias"]
        table = sinusoids(places.stop, self.spec.d_model, bias.dtype, bias.device)
        return torch.einsum("ekmc,ecd->ekmd", vectors, embedding) + bias[:, None, None] + table[places]

    def _layer(
        self, layer: int, states: Float[Tensor, "e k m c"], tokens: Float[Tensor, "e k n c"]
    ) -> Float[Tensor, "e k m c"]:
        """States after a layer before the last, in which each of them attends to the tokens of its context."""
        query, key, value, out = (
            self.parameters[f"layers.{layer}.{name}"] for name in ("query", "key", "value", "out")
        )
        asked = torch.einsum("ekmc,ehcd->ekhmd", states, query * self._scale)
        attention = softmax(asked @ torch.einsum("eknc,ehcd->ekhnd", tokens, key).mT)
        mixed = attention @ torch.einsum("eknc,ehcv->ekhnv", tokens, value)
        return states + torch.einsum("ekhmv,ehvc->ekmc", mixed, out)

    def _last_reads(
        self, queries: Float[Tensor, "e b c"], contexts: Float[Tensor, "e b n c"] | None, shared: dict[str, Tensor]
    ) -> tuple[Float[Tensor, "e b c"], Float[Tensor, "e b n c"] | None]:
        """Queries and contexts as they enter the last layer."""
        if self.spec.n_layers == 1:
            return queries, contexts
        layers = range(self.spec.n_layers - 1)
        if contexts is None:
            states = self._embedded(queries[:, None], slice(0, 1))
            for layer in layers:
                states = self._layer(layer, states, shared[f"read.{layer}"])
            return states[:, 0], None
        states = torch.cat([queries[:, :, None], contexts], 2)
        states = self._embedded(states, slice(0, states.shape[2]))
        for layer in layers:
            states = self._layer(layer, states, states[:, :, 1:])
        return states[:, :, 0], states[:, :, 1:]

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


def _mixed(attention: Float[Tensor, "e b h n"], values: Float[Tensor, "e h n v"]) -> Float[Tensor, "e b h v"]:
    """Values that all examples share, weighed."""
    if values.shape[-1] == 1:
        return (attention * values[:, None, :, :, 0]).sum(-1, keepdim=True)
    return torch.einsum("ebhn,ehnv->ebhv", attention, values)
