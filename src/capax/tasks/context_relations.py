"""Relations in contexts, for channels whose scores depend on the context: a row is a context, not a source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from capax.errors import LibraryError
from capax.models.ensemble import ContextReader
from capax.specs import Relations
from capax.tasks import contexts, recognition
from capax.tasks.library import Evaluation, Library, Purpose
from capax.tasks.recognition import CONTEXTS

TIMES = 500
"""How often each ordered pair occurs in the contexts that are learned from, on the mean. Ours: with 15 a channel of 64
items in 16 channels knows the contexts rather than the graph (F1 .99 in them, .64 in others)."""
COUNTED = 8
"""How often it occurs, on the mean, in those that are counted in: one in 3000 pairs then is in none."""
MOST = 2**17
"""Contexts of either kind, at most."""


@dataclass(frozen=True)
class ContextBatch:
    """Some rows of each member: contexts to learn from, or to count in."""

    rows: Int[Tensor, "e b"]


@dataclass(frozen=True)
class ContextLibrary(Library[Any]):
    """The graphs of an ensemble's members on a device, and the contexts in which they are learned and counted.

    Attributes:
        items: the items' vectors.
        signs: 1 for a pair of source and item that is an edge, −1 for any other, 0 for an item with itself.
        learned: the items of each context of the loss.
        unseen: those of contexts that are drawn anew, in which edges are counted; these are the library's rows. Of
            graphs so small that they have few contexts, learned ones are among them.
        importance: what the loss counts of an edge and of another pair, edges √(#other/#edges) times as much as
            others; one for all edges of all contexts together.
    """

    spec: Relations
    items: Float[Tensor, "e m c"]
    signs: Float[Tensor, "e m m"]
    learned: Int[Tensor, "e learned n"]
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
        """The loss of scores of zero, of the first member."""
        return self.uniform_loss_of(0)

    def uniform_loss_of(self, member: int) -> float:
        """The loss of scores of zero: contexts that are drawn hold more edges, or fewer."""
        edge, other = self.importance[member].tolist()
        return math.log(2) * (1 + (edge / other if other else 0))

    @property
    def rows(self) -> int:
        """Contexts that edges are counted in."""
        return self.unseen.shape[1]

    @property
    def row_counts(self) -> tuple[int, ...]:
        """As many for each member."""
        return (self.rows,) * len(self.sizes)

    @property
    def learned_counts(self) -> tuple[int, ...]:
        """Contexts that are learned from."""
        return (self.learned.shape[1],) * len(self.sizes)

    def batch(self, rows: Int[Tensor, "e b"]) -> ContextBatch:
        """The contexts at `rows`."""
        return ContextBatch(rows)

    def _chosen(self, contexts: Int[Tensor, "e _ n"], batch: ContextBatch) -> Int[Tensor, "e b n"]:
        return contexts[torch.arange(len(contexts), device=contexts.device)[:, None], batch.rows]

    def _signs(self, chosen: Int[Tensor, "e b n"]) -> Float[Tensor, "e b n n"]:
        """The signs of the pairs of some contexts of the first members."""
        pairs = _pairs(chosen, self.items.shape[1])
        return self.signs[: len(chosen)].flatten(1).gather(1, pairs.flatten(1)).view(pairs.shape)

    def shared(self, model: ContextReader, purpose: Purpose, n_rows: int) -> dict[str, Tensor]:
        """What the channel makes of the items; `n_rows` contexts are read."""
        return model.shared_by_contexts(self.items, n_rows * self.unseen.shape[2])

    def outputs(
        self, model: ContextReader, batch: ContextBatch, purpose: Purpose, shared: dict[str, Tensor]
    ) -> Float[Tensor, "e b n n"]:
        """Scores above the threshold: in contexts to learn from, or when counting in unseen ones, over the scale."""
        training = purpose == "loss"
        chosen = self._chosen(self.learned if training else self.unseen, batch)
        outputs = model.outputs_in_contexts(self.items, chosen, shared, training=training)
        return outputs if training else outputs / shared["scale"][:, None, None].abs()

    def pair_outputs(self, model: ContextReader) -> Float[np.ndarray, "m m"]:
        """A single member's mean outputs for all ordered pairs over the contexts that are counted in."""
        rows = torch.arange(self.rows, device=self.items.device)[None]
        shared = self.shared(model, "recall", self.rows)
        return self.mean_outputs(0, self.outputs(model, self.batch(rows), "recall", shared)[0])

    def losses(
        self, outputs: Float[Tensor, "e b n n"], batch: ContextBatch, weight: Float[Tensor, "e b"]
    ) -> Float[Tensor, " e"]:
        """Binary cross-entropy over all pairs (nats), weighed by their importance. Ours: the paper's is not known."""
        signs = self._signs(self._chosen(self.learned, batch))
        edge, other = self.importance[:, :, None, None, None].unbind(1)
        importance = torch.where(signs > 0, edge, other) * signs.abs()
        each = (F.logsigmoid(signs * outputs) * importance).flatten(2).sum(2)
        return -self.learned.shape[1] * (each * weight).sum(1)

    def recalled(self, outputs: Float[Tensor, "e b n n"], batch: ContextBatch) -> Int[Tensor, "e b"]:
        """Edges of each unseen context that are above the threshold."""
        signs = self._signs(self._chosen(self.unseen, batch))
        return ((outputs > 0) & (signs > 0)).flatten(2).sum(2)

    def row_metrics(self, outputs: Float[Tensor, "e b n n"], batch: ContextBatch) -> dict[str, Tensor]:
        """The outputs for the pairs of each unseen context."""
        return {"outputs": outputs}

    def evaluation(self, member: int, memorized: int, rows: dict[str, Tensor]) -> Evaluation:
        """Micro-F1 over the pairs of all unseen contexts, each as often as it occurs.

        A pair of the graph is taken for an edge where its mean score over the contexts that hold it is above the
        threshold.
        """
        outputs = rows["outputs"]
        edges = (self.signs[member] > 0).take(_pairs(self.unseen[member], self.items.shape[1]))
        itself = torch.eye(outputs.shape[-1], dtype=torch.bool, device=outputs.device)
        above = (outputs > 0) & ~itself
        taken = self.mean_outputs(member, outputs) > 0
        return recognition.evaluation(
            int((taken & (self.signs[member].cpu().numpy() > 0)).sum()),
            hits=float((above & edges).count_nonzero()),
            predicted=float(above.count_nonzero()),
            edges=float(edges.count_nonzero()),
            lowest=float(outputs.masked_fill(~edges, torch.inf).amin()),
            highest=float(outputs.masked_fill(edges | itself, -torch.inf).amax()),
            pairs=float(taken.sum()),
        )

    def mean_outputs(self, member: int, outputs: Float[Tensor, "contexts n n"]) -> Float[np.ndarray, "m m"]:
        """A member's mean output for each ordered pair over the unseen contexts that hold it; −∞ where none does."""
        m = self.items.shape[1]
        at = _pairs(self.unseen[member].cpu().numpy(), m).ravel()
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
    Int[np.ndarray, "learned n"],
    Int[np.ndarray, "contexts n"],
    Float[np.ndarray, "2"],
]:
    """The items' vectors, the signs, both kinds of contexts, and what an edge and another pair count."""
    items, edges, signs = recognition.draw(spec, d_model, generator)
    np.fill_diagonal(signs, 0)
    n = spec.context_size or len(items)
    unseen, learned = (contexts.draw(spec, edges, generator, _contexts(spec, times)) for times in (COUNTED, TIMES))
    n_edges, counted = (_edges_in(signs > 0, chosen) for chosen in (learned, unseen))
    if not (n_edges and counted):
        raise LibraryError(f"context_size: no edge in {len(unseen)} contexts of {n} items: take more")
    n_others = learned.size * (n - 1) - n_edges
    return items, signs, learned, unseen, np.array([1 / n_edges, 1 / math.sqrt(n_others * n_edges) if n_others else 0])


def learned_contexts(spec: Relations) -> int:
    """Contexts that are learned from."""
    return _contexts(spec, TIMES)


def _contexts(spec: Relations, times: int) -> int:
    """So many contexts that each pair is in as many of them on the mean; within limits."""
    m = spec.sizes()["n_items"]
    n = spec.context_size or m
    return min(max(CONTEXTS, math.ceil(times * m * (m - 1) / (n * (n - 1)))), MOST)


def _pairs(chosen: Any, m: int) -> Any:
    """Where the pairs of contexts `(..., n)` are in a flat table of m × m: one index is faster than two by far."""
    return chosen[..., :, None] * m + chosen[..., None, :]


def _edges_in(edge: Bool[np.ndarray, "m m"], chosen: Int[np.ndarray, "contexts n"]) -> int:
    """Edges of all contexts, a thousand contexts at a time: each as often as it occurs."""
    parts = np.array_split(chosen, math.ceil(len(chosen) / 1000))
    return sum(int(np.count_nonzero(edge.take(_pairs(part, len(edge))))) for part in parts)
