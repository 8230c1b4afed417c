"""The simple noise scale: gradients by a plain loop, no bias by enumeration, intervals by simulation."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import capax
from capax.memory import Memory
from capax.models.transformer import TransformerEnsemble
from capax.probes import gradient_noise
from capax.probes.gradient_noise import item_gradients, noise_and_signal, noise_scale
from capax.seeds import torch_generator
from capax.specs.model import Scored
from capax.tasks.sequences import SequenceLibrary


def plain(model: TransformerEnsemble, items: np.ndarray, loss: Scored) -> np.ndarray:
    """Gradients one item at a time, by torch's cross-entropy of the plain scores, in float64."""
    parameters = {name: p.detach().double() for name, p in model.parameters.items()}
    trained = list(model.trainable)
    found = []
    for item in torch.from_numpy(items):
        leaves = {name: p.clone().requires_grad_(name in trained) for name, p in parameters.items()}
        scores = TransformerEnsemble(model.spec, leaves).logits(item[None, None, :-1], "all")[0, 0]
        first = len(scores) - 1 if loss == "last" else 0
        F.cross_entropy(scores[first:], item[1:][first:]).backward()
        found.append(torch.cat([leaves[name].grad.flatten() for name in trained]).numpy())
    return np.array(found)


@pytest.mark.parametrize("loss", ["all", "last"])
@pytest.mark.parametrize(
    "spec",
    [
        capax.Transformer(n_layers=2, n_heads=2, d_model=6, d_head=4),
        capax.Transformer(d_model=6, d_head=4, positions="frozen", ffn="identity"),
        capax.Transformer(d_model=6, d_head=4, positions="rotary", embeddings="trained", norm="rms"),
    ],
)
def test_gradients_of_single_items_are_those_of_a_plain_loop(
    spec: capax.Transformer, loss: Scored, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = capax.Sequences(seq_len=5, vocab_size=7, library_size=9, loss=loss)
    model = TransformerEnsemble.initialize(spec, task.sizes(), generators=[torch_generator(3, "weights", 0)])
    items = SequenceLibrary.draw(task, 9, np.random.default_rng(0))
    library = SequenceLibrary(task, torch.from_numpy(items)[None], (9,))
    expected = plain(model, items, loss)
    whole = torch.cat(list(item_gradients(model, library, torch.arange(9)))).numpy()
    monkeypatch.setattr(gradient_noise, "NUMBERS_AT_ONCE", 4 * expected.shape[1])
    parts = list(item_gradients(model, library, torch.arange(9)))
    assert [len(part) for part in parts] == [4, 4, 1]
    for found in (whole, torch.cat(parts).numpy()):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_two_batch_sizes_give_noise_and_signal_without_bias() -> None:
    gradients = np.random.default_rng(0).normal(0.3, 1, (6, 3))
    mean = gradients.mean(0)
    noise, signal = ((gradients - mean) ** 2).sum() / 5, mean @ mean

    def squared(size: int) -> float:
        """The mean over all batches of this size."""
        batches = [gradients[list(rows)].mean(0) for rows in itertools.combinations(range(6), size)]
        return float(np.mean([batch @ batch for batch in batches]))

    for small, large in itertools.combinations(range(1, 7), 2):
        found = noise_and_signal(squared(small), small, squared(large), large, 6)
        assert found == pytest.approx((noise, signal), rel=1e-12)
    independent = 2.0, 0.5  # E|G_b|² = |G|² + tr(Σ)/b without an end of items
    found = noise_and_signal(0.5 + 2 / 4, 4, 0.5 + 2 / 32, 32, float("inf"))
    assert found == pytest.approx(independent, rel=1e-12)


def grouped(gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    groups = np.array_split(gradients, 20)
    sums = np.array([group.sum(0) for group in groups])
    return sums, np.array([(group**2).sum() for group in groups]), np.array([len(group) for group in groups])


def test_all_items_leave_nothing_to_chance() -> None:
    gradients = np.random.default_rng(1).normal(0.2, 1, (50, 4))
    mean = gradients.mean(0)
    expected = ((gradients - mean) ** 2).sum() / 49 / (mean @ mean)
    found = noise_scale(*grouped(gradients), 50)
    assert found.scale == found.low == found.high == pytest.approx(expected)


@pytest.mark.parametrize("population", [600, 5_000])
def test_intervals_hold_the_true_scale_as_often_as_they_say(population: int) -> None:
    generator = np.random.default_rng(2)
    items = generator.normal(0, 1, (population, 8)) * generator.exponential(1, (population, 1)) + 0.25
    mean = items.mean(0)
    true = ((items - mean) ** 2).sum() / (population - 1) / (mean @ mean)
    found = [noise_scale(*grouped(items[generator.permutation(population)[:400]]), population) for _ in range(300)]
    held = [one.low <= true and (one.high is None or true <= one.high) for one in found]
    assert 0.91 <= np.mean(held) <= 0.99
    assert all(one.low <= one.scale <= (one.high or np.inf) for one in found if one.scale is not None)


def test_without_a_signal_the_interval_has_no_end() -> None:
    gradients = np.random.default_rng(3).normal(0, 1, (200, 30))
    found = noise_scale(*grouped(gradients), float("inf"))
    assert found.high is None
    assert found.low > 100  # items: the mean of 200 is no longer than chance has it
    opposed = noise_scale(*grouped(np.tile([[1.0], [-1.0]], (50, 1))), float("inf"))
    assert opposed.signal < 0
    assert (opposed.scale, opposed.low, opposed.high) == (None, 0, None)


@pytest.mark.slow
def test_a_kept_run_before_and_after_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, model = capax.Sequences(seq_len=4, vocab_size=9, library_size=60), capax.Transformer(d_model=6, d_head=4)
    training = capax.Training(max_epochs=20, lr=0.02, batch_size=16)
    run = capax.measure(task, model, training, restarts=1, store=tmp_path / "s.db", keep_weights=True)
    memory = capax.load(run.key, tmp_path / "s.db")
    assert isinstance(memory, Memory)
    exact = capax.probe(memory, trials=1).gradient_noise
    assert exact is not None
    assert (exact.items, exact.batch_size) == (60, 16)
    initial = TransformerEnsemble.initialize(model, task.sizes(), generators=[torch_generator(0, "weights", 0)])
    gradients = plain(initial, memory.library, "all")
    assert exact.initial is not None
    assert exact.initial.signal == pytest.approx(float(gradients.mean(0) @ gradients.mean(0)), rel=1e-9)
    assert exact.initial.noise == pytest.approx(float(gradients.var(0, ddof=1).sum()), rel=1e-9)
    monkeypatch.setattr(gradient_noise, "ITEMS", 40)
    drawn = capax.probe(memory, trials=1).gradient_noise
    assert drawn is not None
    assert drawn.items == 40
    assert drawn.initial is not None
    assert drawn.initial.low < exact.initial.scale < (drawn.initial.high or np.inf)
