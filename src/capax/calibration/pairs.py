"""A linear associative memory that trains as any ensemble of capax does: its matrix, its library, its training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from capax.models.ensemble import Ensemble
from capax.models.operations import cross_entropy
from capax.seeds import numpy_generator, torch_generator
from capax.specs import Training
from capax.tasks.library import Library, Purpose
from capax.training.batches import BatchOrder
from capax.training.ensemble import Learner

DTYPE = torch.float32


class LinearMemory(Ensemble[Any]):
    """One matrix `memory` (e, c, c) per member: inputs times it are scored against outputs."""


@dataclass(frozen=True)
class PairBatch:
    """Some pairs of each member: inputs, and the rows of their outputs."""

    inputs: Float[Tensor, "e b c"]
    rows: Int[Tensor, "e b"]


@dataclass(frozen=True)
class PairLibrary(Library[LinearMemory]):
    """Pairs of vectors; rows from a member's size on are padding, whose outputs score −∞."""

    inputs: Float[Tensor, "e items c"]
    outputs_of: Float[Tensor, "e items c"]
    sizes: tuple[int, ...]

    @property
    def uniform_loss(self) -> float:
        """Cross-entropy of a uniform guess, in nats."""
        return math.log(max(self.sizes))

    @property
    def rows(self) -> int:
        """Rows of the largest library."""
        return self.inputs.shape[1]

    def select(self, members: list[int]) -> PairLibrary:
        """The libraries of some members."""
        return PairLibrary(self.inputs[members], self.outputs_of[members], tuple(self.sizes[m] for m in members))

    def batch(self, rows: Int[Tensor, "e b"]) -> PairBatch:
        """The pairs at `rows` of each member's library."""
        return PairBatch(self.inputs.gather(1, rows[..., None].expand(-1, -1, self.inputs.shape[2])), rows)

    def shared(self, model: LinearMemory, purpose: Purpose, n_rows: int) -> dict[str, Tensor]:
        """W times each output, and what keeps padding from being one: both (e, …, items)."""
        sizes = torch.tensor(self.sizes)[:, None]
        padding = torch.arange(self.rows) >= sizes
        absent = torch.zeros(padding.shape, dtype=DTYPE).masked_fill(padding, -math.inf)
        return {"targets": model.parameters["memory"] @ self.outputs_of.mT, "padding": absent[:, None]}

    def outputs(
        self, model: LinearMemory, batch: PairBatch, purpose: Purpose, shared: dict[str, Tensor]
    ) -> Float[Tensor, "e b items"]:
        """The score of each output."""
        return batch.inputs @ shared["targets"] + shared["padding"]

    def losses(
        self, outputs: Float[Tensor, "e b items"], batch: PairBatch, weight: Float[Tensor, "e b"]
    ) -> Float[Tensor, " e"]:
        """Weighted cross-entropy, in nats; padded rows have the weight 0."""
        at = torch.where(weight > 0, batch.rows, 0)
        return (cross_entropy(outputs, at) * weight).sum(1)

    def recalled(self, outputs: Float[Tensor, "e b items"], batch: PairBatch) -> Bool[Tensor, "e b"]:
        """Whether the pair's output scores highest."""
        return outputs.argmax(-1) == batch.rows


def recalls_all(pairs: list[tuple[int, int]], d_model: int, training: Training, name: str, seed: int) -> list[bool]:
    """Train one memory for each (library size, trial): does it recall its whole library within the budget?

    Starts from W = 0: the problem is convex. The whole library is one batch.
    """
    steps = training.budget(max(size for size, _ in pairs))
    assert steps is not None
    sizes = tuple(size for size, _ in pairs)
    vectors = torch.zeros(2, len(pairs), max(sizes), d_model, dtype=DTYPE)
    for place, (size, trial) in enumerate(pairs):
        drawn = numpy_generator(seed, f"calibrate {name}", trial).standard_normal((2, size, d_model))
        vectors[:, place, :size] = torch.from_numpy(drawn / np.linalg.norm(drawn, axis=-1, keepdims=True))
    memory = torch.zeros(len(pairs), d_model, d_model, dtype=DTYPE, requires_grad=True)
    order = BatchOrder(sizes, max(sizes), [torch_generator(seed, name, trial) for _, trial in pairs], "cpu", DTYPE)
    library = PairLibrary(vectors[0], vectors[1], sizes)
    widest: dict[Purpose, int] = {"loss": max(sizes), "recall": max(sizes)}
    learner = Learner(LinearMemory(None, {"memory": memory}), library, training, order, widest)
    done = [False] * len(pairs)
    left = list(range(len(pairs)))
    for step in range(steps):
        learner.step(training.lr_at(step, steps))
        if (step + 1) % (training.eval_steps or 1) and step + 1 < steps:
            continue
        for place, evaluation in enumerate(learner.evaluate(list(range(len(left))))):
            done[left[place]] = evaluation.complete
        staying = [place for place, member in enumerate(left) if not done[member]]
        if not staying:
            break
        if len(staying) < len(left):
            learner.keep(staying)
            left = [left[place] for place in staying]
    return done
