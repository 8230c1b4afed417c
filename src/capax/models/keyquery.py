"""An ensemble of key-query channels (Adler 2025).

Letters: e members, b sources, m items, h heads, c channels (d_model), d d_head. Members of a smaller d_head are padded
with columns of zeros in both W_Q and W_K: these have no gradient, so they stay zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from capax.models.ensemble import Ensemble, Streams, drawn, stacked
from capax.specs import KeyQueryChannel, Task
from capax.specs.plugins import resolve

SCALE_RATE = 0.3
"""How much slower the scale learns than the rest, relative to its first value (ours)."""
BUILDER = "capax.theory.construct.start:channel"
"""What builds the weights that a training starts from."""


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
        sizes: Mapping[str, int],
        *,
        generators: Sequence[torch.Generator],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        d_heads: Sequence[int] | None = None,
    ) -> Any:
        """Draw one member per generator.

        Args:
            sizes: `n_items`.
            d_heads: each member's head size where they differ, padded to the spec's: the same one, however members are
                cut into packs.
        """
        if d_heads is None:
            return super().initialize(spec, sizes, generators=generators, dtype=dtype, device=device)
        padded_to = spec.d_head or max(d_heads)
        members = []
        for d_head, generator in zip(d_heads, generators, strict=True):
            member = drawn(spec.replace(d_head=d_head).parameters(**sizes), generator)
            for name in ("query", "key"):
                member[name] = torch.nn.functional.pad(member[name], (0, padded_to - d_head))
            members.append(member)
        return cls(spec, stacked(spec.replace(d_head=padded_to).parameters(**sizes), members, dtype, device))

    @classmethod
    def untrained(
        cls,
        spec: KeyQueryChannel,
        task: Task,
        streams: Streams,
        *,
        dtype: torch.dtype,
        device: torch.device | str,
        d_heads: Sequence[int] | None = None,
    ) -> Any:
        """The members of a pack before their first step."""
        weights = streams("weights")
        return cls.initialize(spec, task.sizes(), generators=weights, dtype=dtype, device=device, d_heads=d_heads)

    def begin(self, library: Any, streams: Streams, d_heads: Sequence[int] | None = None) -> None:
        """Put built weights in the place of the drawn ones, where the spec says so.

        Scores of edges are about 1 then, and others about 0; both matrices are multiplied by one number, so that a·S is
        about 2 ln m for edges and 0 for others (ours).
        """
        if self.spec.start == "drawn":
            return
        items, edges = (one.double().cpu().numpy() for one in (library.items, library.signs > 0))
        scales = self.parameters["first_scale"][:, 0].tolist()
        for member, (generator, scale) in enumerate(zip(streams("construction"), scales, strict=True)):
            graph, d_head = min(member, len(items) - 1), (d_heads or {member: self.spec.d_head})[member]
            built = resolve(BUILDER)(
                np.argwhere(edges[graph]), items[graph], self.spec.n_heads, d_head, generator.initial_seed()
            )
            strength = 2 * math.log(items.shape[1])
            for name in ("query", "key"):
                weights = torch.from_numpy(getattr(built.weights, name)) * math.sqrt(strength / scale)
                found = torch.zeros_like(self.parameters[name][member])
                found[: len(weights), :, : weights.shape[2]] = weights
                self.parameters[name].data[member] = found
            self.parameters["threshold"].data[member] = strength * built.recognition.threshold

    def shared(self, items: Float[Tensor, "g m c"], training: bool = False) -> dict[str, Tensor]:
        """What all sources of a step share: the keys of all items `(e, h, m, d)`, and the queries' matrices.

        Args:
            items: each member's vectors, or those of all.
        """
        query, key = self.parameters["query"], self.parameters["key"]
        return {
            "query": query,
            "keys": by_heads(items, key),
            "scale": self.scale,
            "threshold": self.parameters["threshold"],
        }

    @property
    def scale(self) -> Float[Tensor, "e 1"]:
        """By what scores are multiplied."""
        return self.parameters["first_scale"] * (1 + SCALE_RATE * self.parameters["scale"])

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
        queries, keys = by_heads(sources, shared["query"]), shared["keys"]
        if self.spec.aggregate == "sum":
            return side_by_side(queries) @ side_by_side(keys).mT
        if self.spec.n_heads == 1:
            return queries[:, 0] @ keys[:, 0].mT
        return (queries @ keys.mT).max(1).values


def by_heads(rows: Float[Tensor, "g r c"], matrices: Float[Tensor, "e h c d"]) -> Float[Tensor, "e h r d"]:
    """Rows times each head's matrix: one product, which for narrow heads is up to 15 times as fast (measured)."""
    return (rows @ side_by_side(matrices)).unflatten(2, (matrices.shape[1], -1)).transpose(1, 2)


def side_by_side(heads: Float[Tensor, "e h r d"]) -> Float[Tensor, "e r h*d"]:
    """The columns of all heads in one matrix."""
    return heads.transpose(1, 2).flatten(2)
