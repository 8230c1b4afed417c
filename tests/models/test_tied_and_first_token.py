"""A read-out that is the token table, and a token before each sequence: against plain computations in float64."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from reference import plain_logits

import capax
from capax.errors import SpecError
from capax.memory import PrefixError
from capax.models.reachability import unreachable_tokens
from capax.probes.probe import probe
from capax.results import Measurement
from capax.specs import Run

TIED = capax.Transformer(d_model=6, n_heads=2, d_head=3, embeddings="trained", readout="tied")
TASK = capax.Sequences(seq_len=4, vocab_size=7, library_size=30, bos=True)
TRAINING = capax.Training(max_epochs=60, lr=0.01, precision="float64", patience=None)
TRIED = pytest.mark.parametrize("loss", ["all", "last"])


def measured(folder: Path, task: capax.Task, model: capax.Model = TIED) -> Measurement:
    return capax.measure(task, model, TRAINING, restarts=1, store=folder / "s.db", keep_weights=True, device="cpu")


def amounts(run: Measurement) -> dict[str, float]:
    return {unit.name: unit.amount for unit in run.units}


@pytest.mark.slow
@TRIED
def test_what_is_known_and_recalled_is_that_of_a_plain_network_that_reads_the_first_token(
    loss: str, tmp_path: Path
) -> None:
    run = measured(tmp_path, TASK.replace(loss=loss))
    memory = capax.load(run.key, tmp_path / "s.db")
    tokens = torch.from_numpy(memory.library)
    assert tokens.shape == (30, 5)
    assert (tokens[:, 0] == 7).all()
    assert tokens[:, 1:].max() < 7
    member = {name: tensor[0] for name, tensor in memory.model.parameters.items()}
    logits = plain_logits(TIED, member, tokens[:, :-1]).detach()
    assert logits.shape == (30, 4, 8)
    nats = -logits.log_softmax(-1).gather(2, tokens[:, 1:, None])[..., 0][:, 0 if loss == "all" else -1 :]
    gained = (math.log(7) - nats).sum(1) / math.log(2)
    assert amounts(run)["morris_bits"] == pytest.approx(gained.clamp_min(0).sum().item(), rel=1e-10)
    assert amounts(run)["allen_zhu_bits"] == pytest.approx(gained.sum().item(), rel=1e-10)
    assert run.memorized == (logits[:, -1].argmax(-1) == tokens[:, -1]).sum()
    for row in range(5):
        said = memory.recall(tokens[row, 1:-1].tolist())
        assert said.token == logits[row, -1].argmax()
        assert said.library_token == tokens[row, -1]
    for prefix in ([0, 1], [0, 1, 2, 3], [0, 1, 7]):
        with pytest.raises(PrefixError):
            memory.recall(prefix)


@pytest.mark.slow
def test_the_first_token_can_be_known_and_only_then(tmp_path: Path) -> None:
    """Sequences that all begin with one token: what a network can know of the first one is all of it."""
    file = tmp_path / "library.txt"
    file.write_text("\n".join(f"3 {a} {b}" for a in range(4) for b in range(2) if (a, b) != (3, 1)))
    task = capax.Sequences(library=str(file), duplicates="keep", bos=True)
    assert (task.vocab_size, task.seq_len) == (4, 3)
    whole, rest = (
        amounts(measured(tmp_path, one, TIED.replace(d_model=12)))["allen_zhu_bits"]
        for one in (task, task.replace(bos=False))
    )
    assert whole - rest == pytest.approx(7 * 2, abs=3)  # seven items, two bits each


def test_sizes_and_units_are_those_of_all_tokens_of_a_sequence() -> None:
    plain = TASK.replace(bos=False)
    assert TASK.sizes() == {"vocab_size": 8, "context": 4}
    assert TASK.information_per_item() == pytest.approx(4 * math.log2(7))
    assert plain.information_per_item() == pytest.approx(3 * math.log2(7))
    assert TASK.replace(loss="last").information_per_item() == pytest.approx(math.log2(7))
    assert TASK.tokens_per_item == plain.tokens_per_item == 4
    assert TASK.guess_probability() == plain.guess_probability() == 1 / 7
    assert TASK.bits_per_item() == plain.bits_per_item()
    assert TASK.columns()["seq_len"] == 4
    assert TASK.columns()["vocab_size"] == 7
    assert TASK.bound_sizes()["seq_len"] == 4


def test_keys_of_runs_without_it_stay() -> None:
    fields = Run(task=TASK.replace(bos=False), model=TIED).canonical_json()
    assert "bos" not in fields
    assert "bos" in Run(task=TASK, model=TIED).canonical_json()


def test_every_token_right_is_no_count_where_all_sequences_begin_alike() -> None:
    with pytest.raises(SpecError, match="recall: 'last' with bos"):
        TASK.replace(recall="all")


def test_probes_are_of_sequences_alone(tmp_path: Path) -> None:
    run = measured(tmp_path, TASK.replace(library_size=3))
    with pytest.raises(SpecError, match=r"without a token before the first, run .* learned sequences with one"):
        probe(capax.load(run.key, tmp_path / "s.db"))


def test_a_tied_table_is_counted_once() -> None:
    sizes = {"vocab_size": 8, "context": 4}
    untied = TIED.replace(readout="trained")
    counts, other = (model.parameter_counts(**sizes) for model in (TIED, untied))
    assert counts["total"] == counts["trainable"] == other["total"] - 8 * 6
    assert untied.product_parameters(**sizes) - TIED.product_parameters(**sizes) == 8 * 6
    assert "readout" not in {one.name for one in TIED.parameters(**sizes)}
    assert not TIED.frozen_readout


@pytest.mark.slow
def test_targets_that_a_frozen_table_cannot_rank_first_are_named(tmp_path: Path) -> None:
    model = TIED.replace(embeddings="frozen", d_model=2, n_heads=1)
    task = TASK.replace(vocab_size=20)
    run = measured(tmp_path, task, model)
    memory = capax.load(run.key, tmp_path / "s.db")
    table = memory.model.parameters["token"][0].detach().numpy()
    assert table.shape == (21, 2)
    assert model.frozen_readout
    assert run.unreachable
    assert list(run.unreachable) == unreachable_tokens(table, sorted(set(memory.library[:, -1].tolist())))
