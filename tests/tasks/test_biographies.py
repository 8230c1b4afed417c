"""Biographies: how people are drawn, and that what is known of them is the paper's capacity ratio."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import capax
from capax.errors import SpecError
from capax.tasks.biographies import BiographyLibrary
from capax.testing import TaskSuite

MODEL = capax.Transformer(d_model=8, d_head=4, embeddings="trained", readout="tied")
TASK = capax.Biographies(library_size=40, reduction=50)
TRAINING = capax.Training(max_epochs=30, lr=0.02, precision="float64", patience=None)


class TestBiographies(TaskSuite):
    task = TASK
    model = MODEL


def drawn(task: capax.Biographies, seed: int = 0) -> np.ndarray:
    return BiographyLibrary.draw(task, task.library_size, np.random.default_rng(seed))


def test_names_are_distinct_and_every_position_has_a_vocabulary_of_its_own() -> None:
    task = capax.Biographies(library_size=1000, reduction=10)
    people = drawn(task)
    assert people.shape == (1000, 12)
    assert len(np.unique(people[:, 1:4], axis=0)) == 1000
    assert (people[:, 0] == task.sizes()["vocab_size"] - 1).all()
    least = 0
    for column, count in zip(people[:, 1:].T, (40, 40, 100, 2, 12, 28, 20, 20, 30, 10, 26), strict=True):
        assert least <= column.min()
        assert column.max() < least + count
        assert len(np.unique(column)) > 0.9 * count
        least += count
    assert least == task.sizes()["vocab_size"] - 1


def test_every_name_is_used_where_all_are_asked_for() -> None:
    task = capax.Biographies(library_size=4 * 4 * 10, reduction=100)
    assert len(np.unique(drawn(task)[:, 1:4], axis=0)) == 160
    with pytest.raises(SpecError, match="at most 160 distinct names"):
        task.replace(library_size=161)


def test_a_person_has_the_papers_bits() -> None:
    task = capax.Biographies()
    assert task.bits_per_item() == pytest.approx(47.59, abs=0.005)
    assert 2**task.name_bits == pytest.approx(400 * 400 * 1000)
    assert task.information_per_item() == pytest.approx(task.name_bits + task.bits_per_item())


def test_what_is_known_is_the_capacity_ratio_of_theorem_32(tmp_path: Path) -> None:
    """R · P = N log2(N0 / e^p1) + N log2(S0 / e^p2), with p1 and p2 from the logits of the kept weights."""
    run = capax.measure(TASK, MODEL, TRAINING, restarts=1, store=tmp_path / "s.db", keep_weights=True, device="cpu")
    memory = capax.load(run.key, tmp_path / "s.db")
    tokens = torch.from_numpy(memory.library)
    with torch.no_grad():
        logits = memory.model.logits(tokens[None, :, :-1], "all")[0]
    nats = -logits.log_softmax(-1).gather(2, tokens[:, 1:, None])[..., 0]
    p1, p2 = nats[:, :3].sum(1).mean().item(), nats[:, 3:].sum(1).mean().item()
    names, values = 8 * 8 * 20, 2 * 12 * 28 * 4 * 4 * 6 * 2 * 5
    known = 40 * math.log2(names / math.exp(p1)) + 40 * math.log2(values / math.exp(p2))
    found = {unit.name: unit.amount for unit in run.units}
    assert found["allen_zhu_bits"] == pytest.approx(known, rel=1e-10)
    assert run.metrics == pytest.approx({"name_nats": p1, "value_nats": p2}, rel=1e-10)
    assert run.memorized == (logits[:, 3:].argmax(-1) == tokens[:, 4:]).all(1).sum()


def test_the_evaluation_that_counts_knows_most() -> None:
    """Where nobody is recalled whole, too: the last of few steps, not the first weights."""
    run = capax.measure(TASK, MODEL, TRAINING.replace(max_epochs=5), restarts=1, device="cpu")
    assert run.memorized == 0
    assert run.members[0].epoch_of_best == 5
