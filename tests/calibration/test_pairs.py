"""A linear memory that trains: its loss, its recall, padding, and members that do not mix."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capax.calibration.linear_memory import unit
from capax.calibration.pairs import LinearMemory, PairLibrary, recalls_all
from capax.specs import Training

QUICK = Training(lr=1.0, schedule="cosine", warmup=0.01, max_steps=200, eval_steps=20)


def test_loss_and_recall_of_padded_libraries_are_those_of_each_alone() -> None:
    generator = np.random.default_rng(0)
    sizes, d = (5, 9), 4
    vectors = torch.zeros(2, 2, 9, d)
    for member, size in enumerate(sizes):
        vectors[:, member, :size] = torch.from_numpy(unit(generator, 2, size, d))
    matrix = torch.from_numpy(3 * generator.standard_normal((2, d, d))).float()
    library, model = PairLibrary(vectors[0], vectors[1], sizes), LinearMemory(None, {"memory": matrix})
    rows = torch.arange(9).expand(2, -1)
    real = rows < torch.tensor(sizes)[:, None]
    batch = library.batch(torch.where(real, rows, 0))
    outputs = library.outputs(model, batch, "loss", library.shared(model, "loss", 9))
    losses = library.losses(outputs, batch, real / torch.tensor(sizes)[:, None])
    recalled = (library.recalled(outputs, batch) * real).sum(1)
    for member, size in enumerate(sizes):
        scores = vectors[0, member, :size] @ matrix[member] @ vectors[1, member, :size].T
        alone = torch.nn.functional.cross_entropy(scores, torch.arange(size))
        assert losses[member].item() == pytest.approx(alone.item(), rel=1e-5)
        assert recalled[member] == (scores.argmax(1) == torch.arange(size)).sum()


def test_small_libraries_are_recalled_and_large_ones_are_not() -> None:
    pairs = [(6, 0), (12, 1), (64, 2), (60, 3)]
    assert recalls_all(pairs, 6, QUICK, "test", 0) == [True, True, False, False]


@pytest.mark.very_slow
def test_a_trial_does_not_depend_on_the_others_of_its_round() -> None:
    pairs = [(size, trial) for trial, size in enumerate((13, 14, 15, 16, 15, 14, 13, 16))]
    together = recalls_all(pairs, 6, QUICK, "test", 1)
    assert together == [recalls_all([pair], 6, QUICK, "test", 1)[0] for pair in pairs]
    assert len(set(together)) == 2
