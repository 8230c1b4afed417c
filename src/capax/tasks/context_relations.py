"""Relations in contexts, for channels whose scores depend on the context: a row is a context, not a source."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from capax.errors import LibraryError
from capax.models.routing import RoutingEnsemble
from capax.specs import Relations
from capax.tasks import contexts, recognition
from capax.tasks.library import Evaluation, Library, Purpose
from capax.tasks.recognition import CONTEXTS


@dataclass(frozen=True)
class Pairs:
    """The ordered pairs of some contexts of each member.

    Attributes:
        items: the vectors of each context.
        signs: 1 for an edge, −1 for any other pair, 0 for an item with itself.
    """

    items: Float[Tensor, "e b n c"]
    signs: Float[Tensor, "e b n n"]


@dataclass(frozen=True)
class ContextBatch:
    """Contexts to learn from, and as many others, which are never learned from, to count in."""

    learned: Pairs
    unseen: Pairs


@dataclass(frozen=True)
class ContextLibrary(Library[Any]):
    """The graphs of an ensemble's members on a device, and the contexts in which they are learned and counted.

    Attributes:
        items: the items' vectors.
        signs: 1 for a pair of source and item that is an edge, −1 for any other, 0 for an item with itself.
        learned, unseen: the items of each context: of those of the loss, and of others, in which edges are counted.
        importance: what the loss counts of an edge and of another pair, edges √(#other/#edges) times as much as
            others; one for all edges of all contexts together.
    """

    spec: Relations
    items: Float[Tensor, "e m c"]
    signs: Float[Tensor, "e m m"]
    learned: Int[Tensor, "e contexts n"]
    unseen: Int[Tensor, "e contexts n"]
    importance: Float[Tensor, "e 2"]
    sizes: tuple[int, ...]

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
    ) -> ContextLibrary:
        """Draw one graph with its items and contexts per generator; members share that of a single generator.

        Raises:
            LibraryError: when no sampled context holds an edge, or the user's files cannot be used.
        """
        drawn = [_draw(spec, model.d_model, generator) for generator in generators]
        items, signs, learned, unseen, importance = (
            torch.from_numpy(np.stack(parts)).to(device).expand(len(sizes), *parts[0].shape)
            for parts in zip(*drawn, strict=True)
        )
        return cls(spec, items.to(dtype), signs.to(dtype), learned, unseen, importance.to(dtype), sizes)

    @property
    def uniform_loss(self) -> float:
        """The loss of scores of zero."""
        zeros = torch.zeros(
            *self.learned.shape, self.learned.shape[2], dtype=self.items.dtype, device=self.items.device
        )
        rows = torch.arange(self.rows, device=self.items.device).expand(len(self.sizes), -1)
        return float(self.losses(zeros, self.batch(rows), torch.ones_like(rows, dtype=zeros.dtype) / self.rows)[0])

    @property
    def rows(self) -> int:
        """Contexts."""
        return self.learned.shape[1]

    @property
    def row_counts(self) -> tuple[int, ...]:
        """As many for each member."""
        return (self.rows,) * len(self.sizes)

    def select(self, members: list[int]) -> ContextLibrary:
        """The graphs of some members."""
        names = ("items", "signs", "learned", "unseen", "importance")
        parts: dict[str, Any] = {name: getattr(self, name)[members] for name in names}
        return replace(self, sizes=tuple(self.sizes[m] for m in members), **parts)

    def batch(self, rows: Int[Tensor, "e b"]) -> ContextBatch:
        """The contexts at `rows`, of those that are learned from and of those that are counted in."""
        member = torch.arange(len(rows), device=rows.device)[:, None]
        both = (self.learned[member, rows], self.unseen[member, rows])
        items = [self.items[member[..., None], chosen] for chosen in both]
        return ContextBatch(*(Pairs(x, self._signs(member, chosen)) for x, chosen in zip(items, both, strict=True)))

    def _signs(self, member: Int[Tensor, "e 1"], chosen: Int[Tensor, "e b n"]) -> Float[Tensor, "e b n n"]:
        """The signs of the pairs of some contexts of some members."""
        return self.signs[member[..., None, None], chosen[..., :, None], chosen[..., None, :]]

    def shared(self, model: RoutingEnsemble, purpose: Purpose, n_rows: int) -> dict[str, Tensor]:
        """The channel's matrices."""
        return model.shared_by_contexts()

    def outputs(
        self, model: RoutingEnsemble, batch: ContextBatch, purpose: Purpose, shared: dict[str, Tensor]
    ) -> Float[Tensor, "e b n n"]:
        """Scores above the threshold: in contexts to learn from, or when counting in unseen ones, over the scale."""
        if purpose == "loss":
            return model.outputs_in_contexts(batch.learned.items, shared)
        return model.outputs_in_contexts(batch.unseen.items, shared) / shared["scale"][:, None, None].abs()

    def pair_outputs(self, model: RoutingEnsemble) -> Float[np.ndarray, "m m"]:
        """A single member's mean outputs for all ordered pairs over the contexts that are counted in."""
        rows = torch.arange(self.rows, device=self.items.device)[None]
        shared = self.shared(model, "recall", self.rows)
        return self.mean_outputs(0, self.outputs(model, self.batch(rows), "recall", shared)[0])

    def losses(
        self, outputs: Float[Tensor, "e b n n"], batch: ContextBatch, weight: Float[Tensor, "e b"]
    ) -> Float[Tensor, " e"]:
        """Binary cross-entropy over all pairs (nats), weighed by their importance. Ours: the paper's is not known."""
        signs, (edge, other) = batch.learned.signs, self.importance[:, :, None, None, None].unbind(1)
        importance = torch.where(signs > 0, edge, other) * signs.abs()
        each = (F.logsigmoid(signs * outputs) * importance).flatten(2).sum(2)
        return -self.rows * (each * weight).sum(1)

    def recalled(self, outputs: Float[Tensor, "e b n n"], batch: ContextBatch) -> Int[Tensor, "e b"]:
        """Edges of each unseen context that are above the threshold."""
        return ((outputs > 0) & (batch.unseen.signs > 0)).flatten(2).sum(2)

    def row_metrics(self, outputs: Float[Tensor, "e b n n"], batch: ContextBatch) -> dict[str, Tensor]:
        """The outputs for the pairs of each unseen context."""
        return {"outputs": outputs}

    def evaluation(self, member: int, memorized: int, rows: dict[str, Tensor]) -> Evaluation:
        """Micro-F1 over the pairs of all unseen contexts, each as often as it occurs.

        A pair of the graph is taken for an edge where its mean score over the contexts that hold it is above the
        threshold.
        """
        outputs = rows["outputs"]
        at = torch.tensor([[member]], device=outputs.device)
        signs = self._signs(at, self.unseen[[member]])[0]
        above, edges, others = outputs > 0, signs > 0, signs < 0
        taken = self.mean_outputs(member, outputs) > 0
        return recognition.evaluation(
            int((taken & (self.signs[member].cpu().numpy() > 0)).sum()),
            hits=float((above & edges).sum()),
            predicted=float((above & (edges | others)).sum()),
            edges=float(edges.sum()),
            lowest=float(outputs.masked_fill(~edges, torch.inf).amin()),
            highest=float(outputs.masked_fill(~others, -torch.inf).amax()),
            pairs=float(taken.sum()),
        )

    def mean_outputs(self, member: int, outputs: Float[Tensor, "contexts n n"]) -> Float[np.ndarray, "m m"]:
        """A member's mean output for each ordered pair over the unseen contexts that hold it; −∞ where none does."""
        chosen, m = self.unseen[member].cpu().numpy(), self.items.shape[1]
        at = (chosen[:, :, None] * m + chosen[:, None, :]).ravel()
        sums = np.bincount(at, outputs.double().cpu().numpy().ravel(), m * m)
        times = np.bincount(at, minlength=m * m)
        means = np.divide(sums, times, out=np.full(m * m, -np.inf), where=times > 0).reshape(m, m)
        np.fill_diagonal(means, -np.inf)
        return means


def _draw(
    spec: Relations, d_model: int, generator: np.random.Generator
) -> tuple[
    Float[np.ndarray, "m c"],
    Float[np.ndarray, "m m"],
    Int[np.ndarray, "contexts n"],
    Int[np.ndarray, "contexts n"],
    Float[np.ndarray, "2"],
]:
    """The items' vectors, the signs, both kinds of contexts, and what an edge and another pair count."""
    items, edges, signs = recognition.draw(spec, d_model, generator)
    np.fill_diagonal(signs, 0)
    learned, unseen = (contexts.draw(spec, edges, generator, CONTEXTS) for _ in range(2))
    counts = [[int((pairs == sign).sum()) for sign in (1, -1)] for pairs in (_of(signs, learned), _of(signs, unseen))]
    if not all(count[0] for count in counts):
        raise LibraryError(f"context_size: no edge in {CONTEXTS} contexts of {spec.context_size} items: take more")
    n_edges, n_others = counts[0]
    ratio = math.sqrt(n_others / n_edges) if n_others else 1.0
    return items, signs, learned, unseen, np.array([1 / n_edges, 1 / (ratio * n_edges)])


def _of(signs: Float[np.ndarray, "m m"], chosen: Int[np.ndarray, "contexts n"]) -> Float[np.ndarray, "contexts n n"]:
    return signs[chosen[:, :, None], chosen[:, None, :]]
