"""The network of the code trained as the code trains it, with its fault and without."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from capax.models.factory import seeded
from capax.papers.changalidis2025.model import Network
from capax.papers.changalidis2025.triples import task
from capax.papers.recipe import Scale
from capax.tasks.facts.encoding import prepared

BATCH, RATE = 128, 1e-3
"""Facts of a batch and Adam's learning rate, as in the code."""
SHUFFLES = 10
"""Ways to batch the facts when they are counted: with the fault each way gives another count."""


class Trained(NamedTuple):
    """What networks of several seeds recall of the facts, with the fault and without.

    Attributes:
        ceiling: concepts, each of which has one answer where its property is not read.
    """

    facts: int
    ceiling: int
    faulty: tuple[float, ...]
    repaired: tuple[float, ...]


class Plan(NamedTuple):
    """Sizes of a scale: facts, epochs and seeds, and what networks are given (`Network`)."""

    facts: int
    epochs: int
    seeds: int
    network: Mapping[str, Any]


PLANS: dict[Scale, Plan] = {
    "demo": Plan(500, 60, 5, {"d_model": 64, "feedforward": 256}),
    "small": Plan(2000, 150, 5, {}),
}
"""Those of demo are ours; at small the network is that of the code's first experiment."""


@cache
def trained(scale: Scale) -> Trained:
    """Train the networks of a scale; the same seeds with the fault and without it."""
    facts, epochs, seeds, network = PLANS[scale]
    spec = task(facts)
    found = prepared(spec)
    rows = torch.from_numpy(found.encoding.rows(found.table, found.width).tokens)
    faulty, repaired = (
        tuple(
            recalled(rows, epochs, seed, vocab_size=spec.known.vocab_size, batch_first=batch_first, **network)
            for seed in range(seeds)
        )
        for batch_first in (False, True)
    )
    return Trained(facts, len(rows[:, 0].unique()), faulty, repaired)


def recalled(rows: Int[Tensor, "facts 3"], epochs: int, seed: int, **network: Any) -> float:
    """Facts that a network answers rightly after so many epochs, on the mean over ways to batch them.

    Args:
        rows: tokens of concept, property and related concept.
        seed: of weights, dropout and batches.
        network: as `Network` is given it.
    """
    questions, answers = rows[:, :2], rows[:, 2]
    with seeded(seed):
        module = Network(**network)
        adam = torch.optim.Adam(module.parameters(), lr=RATE)
        for _ in range(epochs):
            for batch in torch.randperm(len(rows)).split(BATCH):
                adam.zero_grad()
                F.cross_entropy(module(questions[batch]), answers[batch]).backward()
                adam.step()
        module.eval()
        with torch.no_grad():
            right = sum(
                int((module(questions[batch]).argmax(1) == answers[batch]).sum())
                for _ in range(SHUFFLES)
                for batch in torch.randperm(len(rows)).split(BATCH)
            )
    return right / SHUFFLES
