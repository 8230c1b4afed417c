"""An ensemble of key-query channels (Adler 2025).

Letters: e members, b sources, m items, h heads, c channels (d_model), d d_head. Members of a smaller d_head are padded
with columns of zeros in both W_Q and W_K: these have no gradient, so they stay zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from capax.models.ensemble import Ensemble
from capax.specs import KeyQueryChannel

SCALE_RATE = 0.3
"""How much slower the scale learns than the rest, relative to its first value (ours)."""


class KeyQueryEnsemble(Ensemble[KeyQueryChannel]):
    """`n_members` key-query channels of one shape, computed together.

    Attributes:
        parameters: `query`, `key` (e, h, c, d); `scale`, by which scores are multiplied, as a share of the constant
            `first_scale` = 1/√d_head that is added to it, and `threshold`, which is taken off them; all three (e, 1).
    """

    @classmethod
    def initialize(
        cls,
        spec: KeyQueryChannel,
        *,
        n_items: int,
        d_heads: Sequence[int],
        generators: Sequence[torch.Generator],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> KeyQueryEnsemble:
        """Draw one member per generator: standard normal entries, a threshold of ln m + √(2 ln h) (ours).

        Args:
            d_heads: each member's head size, padded to the spec's: the same one, however members are cut into packs.
        """
        padded_to = max(d_heads) if spec.d_head is None else spec.d_head
        members = [
            cls.drawn(spec, n_items, d_head, padded_to, generator)
            for d_head, generator in zip(d_heads, generators, strict=True)
        ]
        parameters = {
            name: torch.stack([member[name] for member in members])
            .to(device, dtype)
            .requires_grad_(name not in CONSTANT)
            for name in members[0]
        }
        return cls(spec, parameters)

    @staticmethod
    def drawn(
        spec: KeyQueryChannel, n_items: int, d_head: int, padded_to: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """The parameters of one member."""
        shape = (spec.n_heads, spec.d_model, d_head)
        query, key = (torch.empty(shape).normal_(generator=generator) for _ in range(2))
        pad = (0, padded_to - d_head)
        return {
            "query": torch.nn.functional.pad(query, pad),
            "key": torch.nn.functional.pad(key, pad),
            "scale": torch.zeros(1),
            "threshold": number(math.log(n_items) + math.sqrt(2 * math.log(spec.n_heads))),
            "first_scale": number(1 / math.sqrt(d_head)),
        }

    def shared(self, items: Float[Tensor, "g m c"]) -> dict[str, Tensor]:
        """What all sources of a step share: the keys of all items, and the queries' matrices.

        Args:
            items: each member's vectors, or those of all.
        """
        query, key = self.parameters["query"], self.parameters["key"]
        scale = self.parameters["first_scale"] * (1 + SCALE_RATE * self.parameters["scale"])
        return {
            "query": query.transpose(1, 2).flatten(2),
            "keys": items[:, None] @ key,
            "scale": scale,
            "threshold": self.parameters["threshold"],
        }

    def outputs(
        self, sources: Float[Tensor, "e b c"], rows: Int[Tensor, "e b"], shared: dict[str, Tensor]
    ) -> Float[Tensor, "e b m"]:
        """a·S − b of each source and every item: an edge where it is above zero.

        S_ij is the largest of the heads' scores ⟨x_i W_Q, x_j W_K⟩, or their sum.

        Args:
            rows: which items the sources are; here they make no difference.
        """
        scores = self.scores(sources, shared)
        return scores * shared["scale"][:, None] - shared["threshold"][:, None]

    def scores(self, sources: Float[Tensor, "e b c"], shared: dict[str, Tensor]) -> Float[Tensor, "e b m"]:
        """The heads' scores, joined."""
        queries = (sources @ shared["query"]).unflatten(2, (self.spec.n_heads, -1))  # e b h d
        if self.spec.aggregate == "sum":
            return queries.flatten(2) @ shared["keys"].transpose(2, 3).flatten(1, 2)
        if self.spec.n_heads == 1:
            return queries[:, :, 0] @ shared["keys"][:, 0].mT
        return (queries.transpose(1, 2) @ shared["keys"].mT).max(1).values


CONSTANT = ("first_scale", "temperature")
"""Parameters that are not learned."""


def number(value: float) -> Float[Tensor, "1"]:
    """A parameter of one number, not yet rounded."""
    return torch.tensor([value], dtype=torch.float64)


def floats_per_source(spec: KeyQueryChannel, n_items: int) -> int:
    """Numbers in the widest activation of one source of one member."""
    whole = spec.aggregate == "max" or spec.channel != "threshold"
    scores = (spec.n_heads if whole else 1) * n_items
    return max(scores, 4 * spec.d_model) if spec.channel == "block" else scores
