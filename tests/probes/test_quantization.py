"""Kept weights, rounded and counted again, against what was measured and plain computations."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import capax
from capax import memory
from capax.errors import CapaxError
from capax.probes.quantization import Precision, Quantization, mean

SEQUENCES = capax.Sequences(seq_len=6, vocab_size=20, library_size=60)
MODEL = capax.Transformer(n_heads=2, d_model=16, d_head=8, embeddings="trained", readout="tied")
LONG = capax.Training(max_epochs=120, lr=0.003)
FACTS = "key\trelation\tanswer\n" + "".join(f"k{n}\tr{n % 2}\ta{n * 7 % 11}\n" for n in range(40))
MODULE = """
import torch
class Own(torch.nn.Module):
    def __init__(self, vocab_size, context_size):
        super().__init__()
        self.table = torch.nn.Embedding(vocab_size, 8)
        self.out = torch.nn.Linear(8 * context_size, vocab_size)
    def forward(self, tokens):
        return self.out(self.table(tokens).flatten(1))
"""


def measured(store: Path, task: Any, model: Any, training: Any = LONG, **options: Any) -> capax.Measurement:
    return capax.measure(task, model, training, device="cpu", store=store, keep_weights=True, **options)


@pytest.fixture(scope="module")
def kept(torch_on_one_thread: object, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, capax.Measurement]:
    """Three restarts on sequences."""
    store = tmp_path_factory.mktemp("quantize") / "s.db"
    return store, measured(store, SEQUENCES, MODEL, restarts=3)


def known_bits(run: capax.Measurement) -> float:
    return next(unit.amount for unit in run.units if unit.name == "morris_bits")


def row(found: Quantization, name: str, group: int | None = None) -> Precision:
    (one,) = (each for each in found.precisions if (each.name, each.group) == (name, group))
    return one


@pytest.mark.slow
def test_the_weights_as_kept_count_as_they_did(kept: tuple[Path, capax.Measurement]) -> None:
    store, run = kept
    found = capax.quantize(run.key, bits=[16, 3], store=store)
    assert found.networks == 3
    first = found.precisions[0]
    assert (first.name, first.file_bytes) == ("float32", 4 * run.parameters.trainable)
    assert first.items.value == pytest.approx(sum(run.memorized_per_restart) / 3)
    assert first.bits.interval is not None
    assert first.bits.interval.low < known_bits(run) < first.bits.interval.high
    assert first.left == mean([1.0] * 3)
    assert not [note for note in found.notes if "rounding decides" in note]


@pytest.mark.slow
def test_at_16_bits_nothing_changes(kept: tuple[Path, capax.Measurement]) -> None:
    store, run = kept
    found = capax.quantize(run.key, bits=[16], store=store)
    for group in (None, 32):
        one = row(found, "int16", group)
        assert one.items.value == found.precisions[0].items.value
        assert one.bits.value == pytest.approx(found.precisions[0].bits.value, rel=1e-4)


@pytest.mark.slow
def test_a_plain_count_of_rounded_weights_agrees(kept: tuple[Path, capax.Measurement]) -> None:
    """Torch rounds the tensors; the library is drawn again, and every item asked of the network by itself."""
    store, run = kept
    found = capax.quantize(run.key, bits=[5, 4], group=16, store=store)
    for name, bits, group in (("int5", 5, None), ("int4", 4, 16)):
        items = bits_known = 0.0
        for path in memory.find(run.key, store)[1]:
            loaded = capax.load(run.key, store)
            assert isinstance(loaded, memory.Memory)
            weights = memory.kept(run, path).parameters
            loaded.model.parameters = {
                tensor: value if value.dim() < 3 else theirs(value, tensor, bits, group)
                for tensor, value in weights.items()
            }
            tokens = torch.from_numpy(loaded.library)
            with torch.no_grad():
                logits = loaded.model.logits(tokens[None, :, :-1], "all")[0].double()
            items += int((logits[:, -1].argmax(-1) == tokens[:, -1]).sum())
            nats = -logits.log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0].sum(1)
            bits_known += float((5 * math.log2(20) - nats / math.log(2)).clamp_min(0).sum())
        assert row(found, name, group).items.value == pytest.approx(items / 3)
        assert row(found, name, group).bits.value == pytest.approx(bits_known / 3, rel=1e-4)


def theirs(value: torch.Tensor, name: str, bits: int, group: int | None) -> torch.Tensor:
    """Rounded by torch: the inputs of a matrix are its last axis but one, those of a table its last."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    last = value if name in ("token", "position") else value.mT
    if group is None:
        parts = last.reshape(1, -1)
    else:
        assert last.shape[-1] in (group, 2 * group, 4 * group) or last.numel() % group == 0
        parts = last.reshape(-1, group)
    exact = 2 * parts.abs().amax(1) / (2**bits - 1)
    near = exact.bfloat16()
    steps = torch.where(near.float() < exact, (near.view(torch.int16) + 1).view(torch.bfloat16), near).float()
    zeros = torch.zeros_like(steps, dtype=torch.int32)
    back = torch.fake_quantize_per_channel_affine(parts, steps, zeros, 0, low, high).reshape(last.shape)
    return back if name in ("token", "position") else back.mT


def test_more_bits_keep_more_and_take_more_bytes(kept: tuple[Path, capax.Measurement]) -> None:
    store, run = kept
    found = capax.quantize(run.key, bits=[8, 6, 4, 2], store=store)
    for group in (None, 32):
        rows = [row(found, f"int{bits}", group) for bits in (8, 6, 4, 2)]
        assert [one.file_bytes for one in rows] == sorted((one.file_bytes for one in rows), reverse=True)
        lefts = [one.left.value for one in rows if one.left is not None]
        assert lefts == sorted(lefts, reverse=True)
        assert lefts[0] > 0.9 > lefts[-1]
    best = found.precisions[found.most]
    assert best.bits_per_byte.value == max(one.bits_per_byte.value for one in found.precisions)
    assert best.bits_per_byte.value == pytest.approx(best.bits.value / best.file_bytes)
    assert found.alike is not None
    assert found.most not in found.alike


def test_bytes_are_of_what_was_trained_alone(tmp_path: Path) -> None:
    """Frozen tables are drawn by the seed: they are not in the file, and stay as they are."""
    run = measured(
        tmp_path / "s.db", SEQUENCES, capax.Transformer(d_model=8, d_head=4), capax.Training(max_epochs=30), restarts=1
    )
    found = capax.quantize(run.key, bits=[4], store=tmp_path / "s.db")
    assert found.trainable_parameters == run.parameters.trainable < run.parameters.total
    assert found.precisions[0].file_bytes == 4 * run.parameters.trainable
    vectors = 8 * 3 + 32 + 8  # gains, and the biases of the FFN
    matrices = run.parameters.trainable - vectors
    assert row(found, "int4").file_bytes == 4 * vectors + matrices // 2 + 2 * 7  # 7 matrices: positions, 4 of heads, 2
    assert found.precisions[0].left is not None
    assert found.precisions[0].left.interval is None
    assert any("frozen" in note for note in found.notes)
    assert any("one network" in note for note in found.notes)
    assert found.precisions[0].bits.value == pytest.approx(known_bits(run), rel=1e-5)


@pytest.mark.very_slow
def test_by_capacity_the_bits_are_those_of_its_restarts(tmp_path: Path) -> None:
    training = capax.Training(schedule="cycles", max_steps=60, cycle_steps=20)
    run = measured(tmp_path / "s.db", SEQUENCES, MODEL, training, protocol=capax.Capacity(restarts=2))
    assert run.capacity is not None
    found = capax.quantize(run.key[:9], bits=[8], store=tmp_path / "s.db")
    assert found.library_size == run.library_size
    assert found.precisions[0].bits.value == pytest.approx(run.capacity.bits, rel=1e-6)
    signed = [member.cycles[-1].signed_bits for member in run.members]
    assert found.precisions[0].signed_bits == pytest.approx(sum(signed) / 2, rel=1e-6)


@pytest.mark.slow
def test_runs_of_other_seeds_count_together(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    runs = [
        measured(store, SEQUENCES, MODEL, capax.Training(max_epochs=20), restarts=1, seed=seed) for seed in range(2)
    ]
    found = capax.quantize([run.key for run in runs], bits=[4], store=store)
    assert found.networks == 2
    assert found.precisions[0].items.value == pytest.approx(sum(run.memorized for run in runs) / 2)
    assert capax.quantize([runs[0].key] * 2, bits=[4], store=store).networks == 1


def others(folder: Path) -> dict[str, tuple[Any, Any]]:
    """Tasks and models of every kind."""
    (folder / "f.tsv").write_text(FACTS)
    (folder / "t.txt").write_text("".join(chr(97 + n * n % 26) for n in range(200)))
    return {
        "facts": (capax.Facts(library=str(folder / "f.tsv")), MODEL),
        "text": (capax.Text(library=str(folder / "t.txt"), tokenization="bytes", seq_len=4), MODEL),
        "biographies": (capax.Biographies(library_size=5, reduction=50), MODEL),
        "associations": (capax.Associations(context_size=3, library_size=20, n_classes=3), None),
        "relations": (capax.Relations(n_items=8), None),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["facts", "text", "biographies", "associations", "relations"])
def test_every_task_is_counted_as_it_was_measured(tmp_path: Path, name: str) -> None:
    task, model = others(tmp_path)[name]
    model = model or task.learner(d_model=8, d_head=4)
    training = {} if name == "relations" else {"max_epochs": 40}
    if name == "relations":
        training = {"max_steps": 40}
    run = measured(tmp_path / "s.db", task, model, capax.Training(**training), restarts=2)
    found = capax.quantize(run.key, bits=[8, 2], group=8, store=tmp_path / "s.db")
    assert found.precisions[0].items.value == pytest.approx(sum(run.memorized_per_restart) / 2)
    assert (found.precisions[0].tokens is None) == (run.tokens_per_parameter is None)
    if task.has_probabilities and found.bits_are == "known":
        assert found.precisions[0].bits.value <= known_bits(run) * (1 + 1e-6)
    else:
        assert name == "relations"
        assert found.precisions[0].bits.value <= run.bits * (1 + 1e-6)


def test_counts_below_chance_are_no_bits(tmp_path: Path) -> None:
    task = capax.Associations(context_size=4, library_size=20, labels="uniform", tolerance=0.3)
    model = capax.AssociativeAttention(d_model=8, d_head=4)
    run = measured(tmp_path / "s.db", task, model, capax.Training(max_steps=3), restarts=3)
    assert run.bits < 0
    found = capax.quantize(run.key, bits=[8, 2], store=tmp_path / "s.db")
    for one in found.precisions:
        for each in (one.bits, one.bits_per_byte):
            assert each.interval is not None
            assert each.interval.high is not None
            assert 0 <= each.interval.low <= each.value <= each.interval.high
    assert found.precisions[0].left is None
    assert any(f"{run.memorized} of 20 items are not significantly more than the" in note for note in found.notes)


def test_a_module_is_counted_with_trust_and_refused_where_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "quantized_own.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    store, module = tmp_path / "s.db", capax.Module(factory="quantized_own:Own")
    run = measured(store, SEQUENCES.replace(loss="last"), module, capax.Training(max_epochs=10), restarts=2)
    with pytest.raises(CapaxError, match="trust"):
        capax.quantize(run.key, store=store)
    found = capax.quantize(run.key, bits=[4], store=store, trust=True)
    assert found.precisions[0].items.value == pytest.approx(sum(run.memorized_per_restart) / 2)
    matrices, vectors = 20 * 8 + 40 * 20, 20
    assert row(found, "int4", 32).file_bytes == matrices // 2 + 2 * (160 // 32 + 800 // 32) + 4 * vectors
    (tmp_path / "quantized_own.py").write_text(MODULE + "\n# changed\n")
    sys.modules.pop("quantized_own")
    with pytest.raises(CapaxError, match="changed"):
        capax.quantize(run.key, store=store, trust=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bits": [1]}, "bits: 2 to 16, got 1"),
        ({"bits": [40]}, "bits: 2 to 16, got 40"),
        ({"bits": [4.5]}, "bits"),
        ({"bits": []}, "bits"),
        ({"group": 0}, "group: at least 1, got 0"),
        ({"keys": []}, "keys"),
        ({"keys": ["zz"]}, "no run"),
    ],
)
def test_bad_arguments_are_refused(kept: tuple[Path, capax.Measurement], options: dict[str, Any], said: str) -> None:
    store, run = kept
    with pytest.raises(CapaxError, match=said) as error:
        capax.quantize(**{"keys": run.key, "store": store} | options)
    assert "\n" not in str(error.value)


def test_other_networks_and_runs_without_weights_are_refused(kept: tuple[Path, capax.Measurement]) -> None:
    store, run = kept
    brief = capax.Training(max_epochs=1)
    other = measured(store, SEQUENCES, MODEL, brief, restarts=1)
    with pytest.raises(CapaxError, match="seed alone"):
        capax.quantize([run.key, other.key], store=store)
    plain = capax.measure(SEQUENCES, MODEL, brief, restarts=2, store=store)
    with pytest.raises(CapaxError, match="kept no weights"):
        capax.quantize(plain.key, store=store)


def test_every_restart_is_kept_and_deleted(tmp_path: Path) -> None:
    run = measured(tmp_path / "s.db", SEQUENCES, MODEL, capax.Training(max_epochs=2), restarts=3)
    assert len(list((tmp_path / "s.db-weights").iterdir())) == 3
    with capax.Store(tmp_path / "s.db") as store:
        assert store.kept_weights(run.key)[0] == store.weights_path(run.key)
        assert store.delete(run.key)
    assert not list((tmp_path / "s.db-weights").iterdir())
