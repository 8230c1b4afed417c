"""Libraries of associations: how they are drawn and batched, and when an item counts as recalled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from capax.errors import LibraryError
from capax.models.ensemble import ExampleReader
from capax.models.operations import cross_entropy, likeliest
from capax.specs import Associations
from capax.tasks import association_files
from capax.tasks.association_files import Examples
from capax.tasks.library import Constant, Evaluation, Library, Purpose, constant_answer


def draw(spec: Associations, size: int, d_model: int, generator: np.random.Generator) -> Examples:
    """The examples of a spec, in float64: independent entries and labels, or the user's.

    Contexts of a bag are written out: each is the first tokens of a permutation of the bag (as in the authors' code).

    Raises:
        LibraryError: when the user's arrays have other channels than `d_model`, or changed since they were read.
    """
    if spec.library != "random":
        return _given(spec, d_model)
    n = spec.context_size
    numbers: dict[str, Callable[[tuple[int, ...]], np.ndarray]] = {
        "uniform": generator.random,
        "normal": generator.standard_normal,
    }
    entries = numbers[spec.entries]
    queries = entries((size, d_model))
    if spec.contexts == "bag":
        bag = entries((spec.bag_size, d_model))
        chosen = generator.permuted(np.tile(np.arange(spec.bag_size), (size, 1)), axis=1)[:, :n]
        contexts = bag[chosen]
    else:
        contexts = entries((1 if spec.contexts == "shared" else size, n, d_model))
    if spec.labels == "classes":
        return Examples(queries, contexts, generator.integers(spec.n_classes, size=size))
    return Examples(queries, contexts, numbers[spec.labels]((size, spec.d_out)))


def _given(spec: Associations, d_model: int) -> Examples:
    examples = association_files.read(Path(spec.library))
    if association_files.content_hash(examples) != spec.library_sha256:
        raise LibraryError(f"library: {spec.library} has changed since it was read")
    channels = examples.queries.shape[1]
    if channels != d_model:
        raise LibraryError(f"d_model: the vectors of {spec.library} have {channels} channels, got {d_model}")
    return examples


@dataclass(frozen=True)
class AssociationBatch:
    """Some items of each member; no contexts where all examples of a member share one."""

    queries: Float[Tensor, "e b c"]
    contexts: Float[Tensor, "e b n c"] | None
    labels: Shaped[Tensor, "e b *d_out"]


@dataclass(frozen=True)
class AssociationLibrary(Library[ExampleReader]):
    """The libraries of an ensemble's members on a device.

    Attributes:
        queries, contexts, labels: one library per member, or one that all share (g = 1); rows from a member's size on
            are padding. A context that all examples share is there once (k = 1).
    """

    spec: Associations
    queries: Float[Tensor, "g items c"]
    contexts: Float[Tensor, "g k n c"]
    labels: Shaped[Tensor, "g items *d_out"]
    sizes: tuple[int, ...]

    @classmethod
    def build(
        cls,
        spec: Associations,
        model: Any,
        sizes: tuple[int, ...],
        generators: list[np.random.Generator],
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        padded_to: int | None = None,
    ) -> AssociationLibrary:
        """Draw one library per generator; a single generator for several sizes means that all members share it."""
        drawn = [draw(spec, size, model.d_model, generator) for size, generator in zip(sizes, generators, strict=False)]

        def stacked(arrays: list[np.ndarray], padded: bool = True) -> Tensor:
            rows = (padded_to or max(sizes)) if padded else 1
            joined = np.zeros((len(arrays), rows, *arrays[0].shape[1:]), dtype=arrays[0].dtype)
            for row, array in enumerate(arrays):
                joined[row, : len(array)] = array
            tensor = torch.from_numpy(joined)
            return tensor.to(device, dtype if tensor.is_floating_point() else torch.long)

        contexts = stacked([examples.contexts for examples in drawn], padded=spec.contexts != "shared")
        queries, labels = ([getattr(examples, name) for examples in drawn] for name in ("queries", "labels"))
        return cls(spec, stacked(queries), contexts, stacked(labels), sizes)

    @property
    def uniform_loss(self) -> float:
        """Cross-entropy of a uniform guess, in nats; for real labels the mean square, the loss of an answer of zero."""
        if self.spec.labels == "classes":
            return math.log(self.spec.n_classes)
        if self.spec.labels == "given":
            return self.uniform_loss_of(0)
        return {"uniform": 1 / 3, "normal": 1.0}[self.spec.labels]

    def uniform_loss_of(self, member: int) -> float:
        """The same of one member, by the labels that it has where they are given."""
        if self.spec.labels != "given":
            return self.uniform_loss
        own = self.labels[0, : self.sizes[member]]
        return max(float(own.double().square().mean()), self.spec.tolerance**2)

    @property
    def rows(self) -> int:
        """Rows of the largest library, padding included."""
        return self.queries.shape[1]

    def batch(self, rows: Int[Tensor, "e b"]) -> AssociationBatch:
        """The items at `rows` of each member's library."""
        g, items = self.queries.shape[:2]
        at = rows + torch.arange(g, device=rows.device)[:, None] * items
        contexts = None if self.spec.contexts == "shared" else self.contexts.flatten(0, 1)[at]
        return AssociationBatch(self.queries.flatten(0, 1)[at], contexts, self.labels.flatten(0, 1)[at])

    def shared(self, model: ExampleReader, purpose: Purpose, n_rows: int) -> dict[str, Tensor]:
        """What the model computes once for all examples of a step."""
        context = self.contexts[:, 0] if self.spec.contexts == "shared" else None
        return model.shared(n_rows, self.spec.context_size, context)

    def outputs(
        self, model: ExampleReader, batch: AssociationBatch, purpose: Purpose, shared: dict[str, Tensor]
    ) -> Float[Tensor, "e b o"]:
        """Scores of the classes, or the numbers of a real label."""
        return model.outputs(batch.queries, batch.contexts, shared, training=purpose == "loss")

    def losses(
        self, outputs: Float[Tensor, "e b o"], batch: AssociationBatch, weight: Float[Tensor, "e b"]
    ) -> Float[Tensor, " e"]:
        """Each member's weighted sum over items of the cross-entropy (nats), or of the mean squared error."""
        classes = self.spec.labels == "classes"
        each = self.nats(outputs, batch) if classes else (outputs - batch.labels).square().mean(2)
        return (each * weight).sum(1)

    @property
    def uniform_nats(self) -> float | None:
        """Cross-entropy of a uniform guess of a class; None for real labels."""
        return self.uniform_loss if self.spec.labels == "classes" else None

    def nats(self, outputs: Float[Tensor, "e b o"], batch: AssociationBatch) -> Float[Tensor, "e b"]:
        """Cross-entropy of each class."""
        return cross_entropy(outputs, batch.labels)

    def constant(self, member: int) -> Constant:
        """The commonest class, or in each number of a real label the centre of the fullest window."""
        labels = self.labels[0 if self.labels.shape[0] == 1 else member][: self.sizes[member]]
        if self.spec.labels == "classes":
            return constant_answer(labels[:, None])
        share = association_files.constant_share(labels.double().cpu().numpy(), self.spec.tolerance)
        return Constant(round(share * len(labels)), None)

    def recalled(self, outputs: Float[Tensor, "e b o"], batch: AssociationBatch) -> Bool[Tensor, "e b"]:
        """Whether the class is the arg-max, or no number of the label is further off than the tolerance."""
        if self.spec.labels == "classes":
            return likeliest(outputs) == batch.labels
        return (outputs - batch.labels).abs().amax(2) <= self.spec.tolerance

    def row_metrics(self, outputs: Float[Tensor, "e b o"], batch: AssociationBatch) -> dict[str, Tensor]:
        """Errors of real labels: the mean of the squares, and the largest."""
        if self.spec.labels == "classes":
            return {}
        errors = outputs - batch.labels
        return {"mean_squared_error": errors.square().mean(2), "largest_error": errors.abs().amax(2)}

    def evaluation(self, member: int, memorized: int, rows: dict[str, Tensor]) -> Evaluation:
        """More recalled is better, and of as many the smaller mean squared error of real labels."""
        complete = memorized == self.sizes[member]
        if not rows:
            return Evaluation(memorized, {}, (float(memorized),), complete)
        mean, largest = float(rows["mean_squared_error"].mean()), float(rows["largest_error"].max())
        metrics = {"mean_squared_error": mean, "largest_error": largest}
        return Evaluation(memorized, metrics, (float(memorized), -mean), complete)
