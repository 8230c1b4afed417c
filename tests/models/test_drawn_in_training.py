"""Transformers that draw random numbers in training: what is drawn, when, and that nothing else depends on it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from capax.errors import SpecError
from capax.models.transformer import TransformerEnsemble
from capax.specs import Mac, Run, Sequences, Training, Transformer
from capax.testing.trained import pack, same_when_taken_up
from capax.training.prepare import prepare

TASK = Sequences(seq_len=5, vocab_size=12, library_size=30)
MODEL = Transformer(d_model=8, d_head=4, n_layers=2, dropout=0.25, activation="rrelu")


def ensemble_of(model: Transformer, *members: int) -> TransformerEnsemble:
    found: TransformerEnsemble = prepare(pack(TASK, model, Training(), members)).ensemble
    return found


def scores(ensemble: TransformerEnsemble, *rows: int, training: bool = True) -> Tensor:
    """Of some rows of one batch."""
    tokens = torch.randint(12, (ensemble.n_members, 40, 4), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return ensemble.logits(tokens[:, rows[0] : rows[1]], training=training)


def test_a_share_is_dropped_and_the_rest_made_larger() -> None:
    ensemble = ensemble_of(MODEL, 0, 1)
    for scored, places in (("all", (200, 200)), ("last", (200, 1))):
        noise = ensemble._noise(torch.zeros(2, 50, 200, dtype=torch.long), scored)  # type: ignore[arg-type]
        assert len(noise) == 2
        for layer, expected in zip(noise, places, strict=True):
            for left in layer[:2]:
                assert left is not None
                assert left.shape == (2, 50, expected, 8)
                assert left.unique().tolist() == [0, pytest.approx(4 / 3)]
                assert float((left == 0).double().mean()) == pytest.approx(0.25, abs=0.05)
            slopes = layer[2]
            assert slopes is not None
            assert slopes.shape == (2, 50, expected, 32)
            assert 1 / 8 <= slopes.min() < 0.13
            assert 0.32 < slopes.max() <= 1 / 3
    assert not torch.equal(left[0], left[1])  # each member its own


def test_what_a_row_draws_does_not_depend_on_how_rows_are_batched() -> None:
    whole, parts = ensemble_of(MODEL, 0, 1), ensemble_of(MODEL, 0, 1)
    at_once, one_by_one = scores(whole, 0, 40), torch.cat([scores(parts, 0, 13), scores(parts, 13, 40)], 1)
    torch.testing.assert_close(at_once, one_by_one, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(scores(whole, 0, 40), at_once)  # drawn anew


def test_nothing_is_drawn_out_of_training() -> None:
    ensemble = ensemble_of(MODEL, 0, 1)
    before = ensemble.random_states()
    first, second = scores(ensemble, 0, 40, training=False), scores(ensemble, 0, 40, training=False)
    assert torch.equal(first, second)
    assert all(torch.equal(state, before[name]) for name, state in ensemble.random_states().items())
    slope = MODEL.replace(dropout=0.0, activation="relu")
    assert not ensemble_of(slope, 0).generators


def test_a_training_goes_on_where_it_was() -> None:
    assert same_when_taken_up(pack(TASK, MODEL, Training(max_epochs=6), (0, 1)), 3)


def test_it_is_not_compiled() -> None:
    for model in (Transformer(dropout=0.1), Transformer(activation="rrelu")):
        with pytest.raises(SpecError, match=r"^compile: "):
            Run(task=TASK, model=model, training=Training(compile=True), protocol=Mac())
