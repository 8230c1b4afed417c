"""Libraries of relations: items are vectors, an edge is recalled when the channel puts it above its threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from capax import devices
from capax.errors import LibraryError
from capax.models.ensemble import PairReader
from capax.specs import Relations
from capax.tasks import contexts, recognition, relation_files
from capax.tasks.context_relations import ContextLibrary
from capax.tasks.library import Evaluation, Library, Purpose
from capax.tasks.recognition import CONTEXTS


@dataclass(frozen=True)
class RelationBatch:
    """Some sources of each member.

    Attributes:
        rows: which items they are.
        sources: their vectors.
        signs, weight, importance: of each pair, as in the library.
    """

    rows: Int[Tensor, "e b"]
    sources: Float[Tensor, "e b c"]
    signs: Float[Tensor, "e b m"]
    weight: Float[Tensor, "e b m"]
    importance: Float[Tensor, "e b m"]


@dataclass(frozen=True)
class RelationLibrary(Library[PairReader]):
    """The graphs of an ensemble's members on a device; its rows are the sources.

    Attributes:
        items: the items' vectors, of one graph per member, or of one that all share (g = 1).
        signs: 1 for a pair of source and item that is an edge, −1 for any other.
        weight: how often each pair is counted: in how many contexts it occurs; a source and itself never.
        importance: what its loss counts, edges √(#other/#edges) times as much as others; one for all edges together.
    """

    spec: Relations
    items: Float[Tensor, "g m c"]
    signs: Float[Tensor, "g m m"]
    weight: Float[Tensor, "g m m"]
    importance: Float[Tensor, "g m m"]
    sizes: tuple[int, ...]

    @classmethod
    def remarks(cls, spec: Relations, size: int, generator: np.random.Generator | None) -> tuple[int, tuple[str, ...]]:
        """Notes on the user's files."""
        return size, relation_files.notes(spec)

    @classmethod
    def build(
        cls,
        spec: Relations,
        model: Any,
        sizes: tuple[int, ...],
        generators: list[np.random.Generator],
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        padded_to: int | None = None,
    ) -> RelationLibrary | ContextLibrary:
        """Draw one graph with its items per generator; a single generator means that all members share it.

        Of a channel that routes values, and contexts that are subsets, rows are contexts.

        Raises:
            LibraryError: when no sampled context holds an edge, or the user's files cannot be used.
        """
        if spec.within_contexts(model):
            return ContextLibrary.build(spec, model, sizes, generators, device=device, dtype=dtype)
        drawn = [draw(spec, model.d_model, generator) for generator in generators]
        items, signs, weight = (torch.from_numpy(np.stack(arrays)).to(device) for arrays in zip(*drawn, strict=True))
        edges, others = weight * (signs > 0), weight * (signs < 0)
        n_edges, n_others = (pairs.sum((1, 2), keepdim=True) for pairs in (edges, others))
        if not n_edges.all():
            raise LibraryError(f"context_size: no edge in {CONTEXTS} contexts of {spec.context_size} items: take more")
        ratio = (n_others / n_edges).sqrt()
        importance = (edges + others / torch.where(n_others > 0, ratio, 1.0)) / n_edges
        return cls(spec, items.to(dtype), signs.to(dtype), weight.to(dtype), importance.to(dtype), sizes)

    @property
    def uniform_loss(self) -> float:
        """The loss of scores of zero, of the first member."""
        return self.uniform_loss_of(0)

    def uniform_loss_of(self, member: int) -> float:
        """The loss of scores of zero: contexts that are drawn hold more edges, or fewer."""
        return float(np.log(2) * self.importance[min(member, len(self.importance) - 1)].sum())

    @property
    def rows(self) -> int:
        """Sources: all items."""
        return self.items.shape[1]

    @property
    def row_counts(self) -> tuple[int, ...]:
        """As many for each member."""
        return (self.rows,) * len(self.sizes)

    def batch(self, rows: Int[Tensor, "e b"]) -> RelationBatch:
        """The sources at `rows`."""
        g, m = self.items.shape[:2]
        at = rows + torch.arange(g, device=rows.device)[:, None] * m
        parts = (self.items, self.signs, self.weight, self.importance)
        return RelationBatch(rows, *(part.flatten(0, 1)[at] for part in parts))

    def shared(self, model: PairReader, purpose: Purpose, n_rows: int) -> dict[str, Tensor]:
        """The keys of all items, and their values where they are routed."""
        return model.shared(self.items, training=purpose == "loss")

    def outputs(
        self, model: PairReader, batch: RelationBatch, purpose: Purpose, shared: dict[str, Tensor]
    ) -> Float[Tensor, "e b m"]:
        """Scores above the threshold; when counting, divided by the scale, so that they are scores of the channel."""
        outputs = model.outputs(batch.sources, batch.rows, shared)
        return outputs if purpose == "loss" else outputs / shared["scale"][:, None].abs()

    def pair_outputs(self, model: PairReader) -> Float[np.ndarray, "m m"]:
        """A single member's outputs for all ordered pairs, as they are counted."""
        rows = torch.arange(self.rows, device=self.items.device)[None]
        return self.outputs(model, self.batch(rows), "recall", self.shared(model, "recall", self.rows))[0].cpu().numpy()

    def losses(
        self, outputs: Float[Tensor, "e b m"], batch: RelationBatch, weight: Float[Tensor, "e b"]
    ) -> Float[Tensor, " e"]:
        """Binary cross-entropy over all pairs (nats), weighed by their importance. Ours: the paper's is not known."""
        each = (F.logsigmoid(batch.signs * outputs) * batch.importance).sum(2)
        return -self.rows * (each * weight).sum(1)

    def recalled(self, outputs: Float[Tensor, "e b m"], batch: RelationBatch) -> Int[Tensor, "e b"]:
        """Edges of each source that are above the threshold."""
        return ((outputs > 0) & (batch.signs > 0)).sum(2)

    def row_metrics(self, outputs: Float[Tensor, "e b m"], batch: RelationBatch) -> dict[str, Tensor]:
        """Pairs of each source that are taken for edges, rightly or not, and how close scores come to the threshold.

        All but those with itself are predicted, the others only where they are counted.
        """
        above, pairs, edges = outputs > 0, batch.weight, batch.signs > 0
        counted = pairs > 0
        return {
            "predicted": above.scatter(2, batch.rows[:, :, None], False).sum(2).to(pairs.dtype),
            "weighted_predicted": (above * pairs).sum(2),
            "weighted_recalled": ((above & edges) * pairs).sum(2),
            "weighted_edges": (edges * pairs).sum(2),
            "lowest_edge": outputs.masked_fill(~(edges & counted), torch.inf).amin(2),
            "highest_other": outputs.masked_fill(edges | ~counted, -torch.inf).amax(2),
        }

    def evaluation(self, member: int, memorized: int, rows: dict[str, Tensor]) -> Evaluation:
        """Micro-F1 over the counted pairs, and how far scores are from the threshold (`recognition.evaluation`)."""
        predicted, hits, edges = (
            float(devices.wide(rows[name]).sum())
            for name in ("weighted_predicted", "weighted_recalled", "weighted_edges")
        )
        return recognition.evaluation(
            memorized,
            hits=hits,
            predicted=predicted,
            edges=edges,
            lowest=float(rows["lowest_edge"].amin()),
            highest=float(rows["highest_other"].amax()),
            pairs=float(rows["predicted"].sum()),
        )


def draw(
    spec: Relations, d_model: int, generator: np.random.Generator
) -> tuple[Float[np.ndarray, "m c"], Float[np.ndarray, "m m"], Float[np.ndarray, "m m"]]:
    """The items' vectors, the sign of each ordered pair (1 for edges), and how often it is counted."""
    items, edges, signs = recognition.draw(spec, d_model, generator)
    m = len(items)
    if spec.contexts == "whole":
        weight = np.ones((m, m))
    else:
        inside = np.zeros((CONTEXTS, m))
        np.put_along_axis(inside, contexts.draw(spec, edges, generator, CONTEXTS), 1.0, axis=1)
        weight = inside.T @ inside
    np.fill_diagonal(weight, 0)
    return items, signs, weight
