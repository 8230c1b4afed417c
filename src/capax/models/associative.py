"""An ensemble of attention layers that a query asks about its context.

One query an example, so keys and values are never formed (speed rule 3): the query takes W_Q W_Kᵀ, and with a context
that all examples share that product with its tokens is one small matrix a head. Letters: e members, b examples,
n tokens, h heads, c channels (d_model), d d_head, v d_value, o outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, partial

import torch
import torch.nn.functional as F
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
            How a query asks: `asked` (e, c, h·m), of which it takes scores of m = n tokens of the shared context, or
            without one what is scored against raw tokens (m = c); or, where that costs less, `asking` (e, c, h·d) and
            `keys` (e, h, m, d). The same of the positions, where the layer has them. `values`, `out`, ...: what
            attention then mixes, and what reads the mixture out.
        """
        query, key, value = (self.parameters[name] for name in ("query", "key", "value"))
        shared = self._reading(n_examples)
        if self.spec.profile == "plain":
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
            query = query * self.spec.d_model**-0.5
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
    ) -> Float[Tensor, "e b o"]:
        """Scores of the classes, or the numbers of a real label.

        Args:
            contexts: each example's own; None where `shared` was made of one that they share.
            shared: what `self.shared` gave for this state of the parameters.
        """
        attention = self.attention(queries, contexts, shared)
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
        """What each head attends to; the arguments are those of `outputs`."""
        if self.spec.profile == "mahdavi2024":
            queries = F.pad(queries, (0, 1), value=1.0)  # for what is added to an embedded query
        scores = self._asked(queries, shared, "")
        if contexts is not None:
            scores = scores @ contexts.mT
            if {"place_asked", "place_keys"} & shared.keys():
                scores = scores + self._asked(queries, shared, "place_")
        return scores.softmax(-1)

    def _asked(self, queries: Float[Tensor, "e b c"], shared: dict[str, Tensor], of: str) -> Float[Tensor, "e b h m"]:
        heads = (self.spec.n_heads, -1)
        if f"{of}asked" in shared:
            return (queries @ shared[f"{of}asked"]).unflatten(2, heads)
        projected = (queries @ shared["asking"]).unflatten(2, heads)
        return torch.einsum("ebhd,ehmd->ebhm", projected, shared[f"{of}keys"])

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


@cache
def sinusoids(
    positions: int, channels: int, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "positions channels"]:
    """Sin and cos of position / 10000^(2i / channels), in turn (Vaswani et al. 2017)."""
    rates = 10_000.0 ** (-torch.arange(0, channels, 2, dtype=torch.float64) / channels)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)[:, :channels].to(device, dtype)


def floats_per_example(spec: AssociativeAttention, context_size: int, n_outputs: int, shared: bool) -> int:
    """Numbers in the widest activation of one example of one member; micro-batches and packs are sized by it."""
    scores = spec.n_heads * (context_size if shared else spec.d_model + context_size)
    values = spec.n_heads * spec.value_size(n_outputs)
    return max(scores, values, n_outputs, 0 if shared else context_size * spec.d_model)


def _uniform(generator: torch.Generator, *shape: int, bound: float) -> Tensor:
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)


def _xavier(generator: torch.Generator, *shape: int) -> Tensor:
    return _uniform(generator, *shape, bound=math.sqrt(6 / (shape[-2] + shape[-1])))


def _draw(spec: AssociativeAttention, n_outputs: int, generator: torch.Generator) -> dict[str, Tensor]:
    """One member's tensors."""
    h, c, d, v = spec.n_heads, spec.d_model, spec.d_head, spec.value_size(n_outputs)
    uniform, xavier = partial(_uniform, generator), partial(_xavier, generator)
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
