"""On a GPU a training takes the steps that it takes on the CPU, up to rounding; all is left out where there is none."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch

from capax import devices
from capax.models import operations
from capax.models.operations import by_matrix, parts_of
from capax.specs import (
    Associations,
    AssociativeAttention,
    KeyQueryChannel,
    Model,
    Relations,
    Sequences,
    Task,
    Training,
    Transformer,
)
from capax.testing.trained import assert_same, pack
from capax.training.loop import Course
from capax.training.pack import Pack
from capax.training.snapshots import Snapshot

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

SEQUENCES = Sequences(seq_len=6, vocab_size=16, library_size=50)
CASES: dict[str, tuple[Task, Model]] = {
    "sequences": (SEQUENCES, Transformer(n_heads=2, d_model=16, d_head=8)),
    "layers": (
        SEQUENCES.replace(loss="all", recall="all"),
        Transformer(n_layers=2, n_heads=2, d_model=16, d_head=8, embeddings="trained", readout="tied"),
    ),
    "variants": (
        SEQUENCES,
        Transformer(
            n_heads=4, n_kv_heads=2, d_model=16, d_head=4, positions="rotary", norm="rms", gated=True, activation="silu"
        ),
    ),
    "delta": (SEQUENCES, Transformer(n_heads=2, d_model=16, d_head=8, attention="gated-delta")),
    "associations": (
        Associations(context_size=8, library_size=60, labels="classes", contexts="fresh"),
        AssociativeAttention(n_heads=4, d_model=8, d_head=8, profile="mahdavi2024"),
    ),
    "relations": (Relations(n_items=20), KeyQueryChannel(n_heads=2, d_model=8, d_head=4)),
}


@pytest.fixture(autouse=True)
def _cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of these small batches are cut as those of large ones are."""
    monkeypatch.setattr(operations, "PART_ROWS", 16)


def on(device: str, of: Pack, snapshot: Snapshot | None = None) -> Course:
    return Course(replace(of, device=device), deepcopy(snapshot))


def after(course: Course, steps: int) -> Course:
    for _ in range(steps):
        course.step(lambda: False)
    return course


def assert_agree(one: Course, other: Course, tolerance: float) -> None:
    """In all that is trained, and in what evaluations found."""
    for name, expected in one.learner.ensemble.trainable.items():
        received = other.learner.ensemble.trainable[name]
        assert received.device.type == "cuda"
        assert_same(received.detach().cpu(), expected.detach(), tolerance, name)
    for expected, received in zip(one.outcomes(), other.outcomes(), strict=True):
        assert [point[:2] for point in received.curve] == [point[:2] for point in expected.curve]
        assert (received.memorized, received.steps) == (expected.memorized, expected.steps)


def training(**given: Any) -> Training:
    return Training(
        **{"precision": "float64", "lr": 0.01, "batch_size": 32, "patience": None, "stop_when_complete": False} | given
    )


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("case", CASES)
def test_steps_are_those_of_the_cpu(case: str, optimizer: str) -> None:
    """From the same start, which is drawn alike; batches and evaluations too."""
    task, model = CASES[case]
    given = pack(task, model, training(optimizer=optimizer, max_steps=30), range(3))
    assert_agree(after(on("cpu", given), 30), after(on("cuda", given), 30), 1e-9)


@pytest.mark.parametrize("case", ["sequences", "layers", "associations"])
def test_a_training_goes_on_from_the_cpu_by_the_same_steps(case: str) -> None:
    """By SOAP, through three refreshes of its bases: signs of its eigenvectors, which may differ, are taken along."""
    task, model = CASES[case]
    chosen = training(optimizer="soap", basis_every=5, basis_beta=0.9, beta1=0.8, beta2=0.95, max_steps=100)
    given = pack(task, model, chosen, range(3))
    snapshot = after(on("cpu", given), 41).snapshot(0.0)
    assert_agree(*(after(on(device, given, snapshot), 15) for device in ("cpu", "cuda")), 1e-6)


@pytest.mark.parametrize(("half", "tolerance"), [(False, 1e-5), (True, 2e-2)])
def test_a_product_has_the_gradients_of_torchs(half: bool, tolerance: float) -> None:
    draw = torch.Generator().manual_seed(0)
    rows, matrix, weight = (torch.randn(2, *s, generator=draw).cuda() for s in ((96, 8), (8, 5), (96, 5)))
    assert parts_of(rows, matrix) == 6
    found = []
    for product in (by_matrix, torch.matmul):
        leaves = [one.clone().requires_grad_() for one in (rows, matrix)]
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            made = product(*leaves)
        assert made.dtype == (torch.bfloat16 if half else torch.float32)
        found.append(torch.autograd.grad((made.float() * weight).sum(), leaves))
    for received, expected in zip(*found, strict=True):
        assert_same(received.cpu(), expected.cpu(), tolerance, "gradient")


def test_tf32_rounds_the_products_of_steps_alone() -> None:
    """To 10 bits after the point: evaluations before the step are the same, losses nearly."""
    draw = torch.Generator().manual_seed(0)
    left, right = (torch.randn(256, 256, generator=draw).cuda() for _ in range(2))
    exact = left.double() @ right.double()
    off = []
    for precision in ("float32", "tf32"):
        with devices.multiplying(precision):
            off.append(float((left @ right - exact).norm() / exact.norm()))
    assert off[0] < 1e-6 < 1e-4 < off[1] < 1e-3
    task = SEQUENCES.replace(loss="all", recall="all", library_size=500)
    model = Transformer(n_layers=2, n_heads=2, d_model=64, d_head=32, embeddings="trained", readout="tied")
    found = []
    for precision in ("float32", "tf32"):
        course = on("cuda", pack(task, model, training(precision=precision, batch_size=500, max_steps=3), range(2)))
        known = course.learner.information([0, 1])
        losses, _ = course.learner.step()
        found.append((known, losses.cpu()))
    (known, losses), (same, rounded) = found
    assert known == same
    assert losses.dtype == rounded.dtype == torch.float32
    assert not torch.equal(losses, rounded)
    assert_same(rounded, losses, 1e-3, "losses")
