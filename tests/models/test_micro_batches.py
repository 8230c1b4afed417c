"""Steps in micro-batches, and steps by plain losses and torch's own Adam, are the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from reference import (
    assert_same,
    members_of,
    plain_logits,
    plain_loss,
    randomized,
)
from torch import Tensor
from transformer_paths import ALL_TRAINED, TIED

from capax.models.mixers import softmax
from capax.models.transformer import Scored
from capax.specs import Sequences, Training, Transformer
from capax.tasks.sequences import SequenceLibrary
from capax.training import ensemble as training_ensemble
from capax.training.batches import BatchOrder
from capax.training.ensemble import Learner


def learner_of(spec: Transformer, task: Sequences, sizes: tuple[int, ...], batch_size: int) -> Learner:
    ensemble = randomized(spec, vocab_size=task.vocab_size, context=task.seq_len - 1, members=len(sizes), seed=3)
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(task.vocab_size, (len(sizes), max(sizes), task.seq_len), generator=generator)
    generators = [torch.Generator().manual_seed(member) for member in range(len(sizes))]
    order = BatchOrder(sizes, batch_size, generators, "cpu", torch.float64)
    training = Training(precision="float64", batch_size=batch_size, lr=1e-2)
    floats = {purpose: spec.floats_per_row(task.sizes(), task.scored(purpose)) for purpose in ("loss", "recall")}
    return Learner(ensemble, SequenceLibrary(task, tokens, sizes), training, order, floats)


def trained(learner: Learner, steps: int) -> dict[str, Tensor]:
    """Losses, gradients and parameters of every step."""
    seen: dict[str, Tensor] = {}
    for step in range(steps):

        def update(*arguments: Any, step: int = step, update: Any = learner._optimizer.step) -> None:
            for name, p in learner.ensemble.trainable.items():
                seen[f"step {step}: gradient of {name}"] = torch.zeros_like(p) if p.grad is None else p.grad.clone()
            update(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(learner._optimizer, "step", update)
            seen[f"step {step}: losses"], _ = learner.step()
        seen.update({f"step {step}: {name}": p.detach().clone() for name, p in learner.ensemble.parameters.items()})
    return seen


@pytest.mark.parametrize(
    ("fields", "loss", "vocab_size", "sign"),
    [
        ({}, "all", 5, "asked"),
        ({}, "all", 60, None),
        ({"d_head": 2}, "all", 5, None),
        ({}, "last", 5, "token_part"),
        ({}, "last", 5000, None),
        ({"n_layers": 2, **ALL_TRAINED}, "last", 5, "asked"),
        ({"positions": "frozen"}, "all", 5, "asked"),
        ({"positions": "frozen"}, "all", 60, None),  # nothing that is shared needs a gradient
        ({"positions": "frozen"}, "last", 5, "token_part"),
        ({"norms": False, "embeddings": "trained"}, "last", 5, "token_part"),
        (TIED, "all", 5, "asked"),
        (TIED, "last", 5, "token_part"),
    ],
)
def test_micro_batches_change_nothing(
    fields: dict[str, Any], loss: Scored, vocab_size: int, sign: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(softmax, "LOOK_UP", 1)
    spec = Transformer(**{"n_heads": 2, "d_model": 6, "d_head": 4, **fields})
    task = Sequences(seq_len=5, vocab_size=vocab_size, library_size=30, loss=loss)
    pieces: list[int] = []
    batch = SequenceLibrary.batch

    def counted(library: SequenceLibrary, rows: Tensor) -> Tensor:
        pieces[-1] += 1
        return batch(library, rows)

    monkeypatch.setattr(SequenceLibrary, "batch", counted)
    results = []
    for sequences in 13, 5, 1:
        floats = sequences * spec.floats_per_row(task.sizes(), task.scored("loss"))
        monkeypatch.setattr(training_ensemble, "CACHE_FLOATS", floats)
        pieces.append(0)
        learner = learner_of(spec, task, sizes=(30, 21), batch_size=13)
        assert {"asked", "token_part"} & learner.ensemble.shared(loss, 13).keys() == ({sign} if sign else set())
        results.append(trained(learner, steps=4))
    assert pieces == [4 * 1, 4 * 3, 4 * 13]
    whole, some, single = results
    for name, expected in whole.items():
        assert_same(some[name], expected, 1e-10, f"pieces of five sequences, {name}")
        assert_same(single[name], expected, 1e-10, f"pieces of one sequence, {name}")


def test_a_step_is_adams_on_the_plain_loss_of_each_member() -> None:
    spec = Transformer(n_heads=2, d_model=6, d_head=4)
    task = Sequences(seq_len=5, vocab_size=5, library_size=10, loss="all")
    learner = learner_of(spec, task, sizes=(10, 7), batch_size=16)  # whole libraries, the second one padded
    plain = members_of(learner.ensemble)
    adams = [torch.optim.Adam([p for p in member.values() if p.requires_grad], lr=1e-2) for member in plain]
    for _ in range(3):
        measured, ended = learner.step()
        assert ended == [0, 1]
        for member, adam in enumerate(adams):
            items = learner.library.tokens[member, : learner.library.sizes[member]]
            expected = plain_loss(plain_logits(spec, plain[member], items[:, :-1]), items[:, 1:])
            assert_same(measured[member], expected, 1e-10, "loss")
            adam.zero_grad()
            expected.backward()
            adam.step()
    for name, parameter in learner.ensemble.parameters.items():
        for member in range(2):
            assert_same(parameter[member], plain[member][name], 1e-9, name)
