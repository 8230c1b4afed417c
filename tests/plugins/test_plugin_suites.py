"""The example plugins pass the suites that their authors would inherit."""

from types import SimpleNamespace
from typing import Any

import pytest

import capax
from capax.testing import MixerSuite, ModelSuite, TaskSuite


@pytest.fixture(autouse=True, scope="module")
def loaded(ours: SimpleNamespace) -> SimpleNamespace:
    return ours


def pairs(**fields: Any) -> capax.Task:
    return capax.Task.registry["pairs"](**{"n_keys": 20, "n_values": 5, "library_size": 12, **fields})


def gqa(**fields: Any) -> Any:
    return capax.Model.registry["gqa"](**{"n_heads": 4, "n_kv_heads": 2, "d_model": 8, "d_head": 4, **fields})


class TestPairs(TaskSuite):
    @property
    def task(self) -> capax.Task:  # type: ignore[override]
        return pairs()


class TestPairsByGQA(TestPairs):
    @property
    def model(self) -> capax.Model:  # type: ignore[override]
        return gqa()


class TestGQA(ModelSuite):
    task = capax.Sequences(seq_len=5, vocab_size=7, library_size=30)

    @property
    def model(self) -> capax.Model:  # type: ignore[override]
        return gqa()


class TestGQAByTheLastToken(TestGQA):
    task = capax.Sequences(seq_len=5, vocab_size=7, library_size=30, loss="last")


class TestGroupedQueries(MixerSuite):
    @property
    def models(self) -> Any:  # type: ignore[override]
        return (gqa(), gqa(n_kv_heads=1, norms=False), gqa(n_kv_heads=4, d_value=3))


def test_as_many_groups_as_heads_is_the_transformer() -> None:
    fields = {"n_heads": 2, "d_model": 8, "d_head": 4}
    run = capax.Run(task=TestGQA.task, model=gqa(n_kv_heads=2, **fields), training=capax.Training(max_epochs=2))
    plain = run.replace(model=capax.Transformer(**fields))
    assert run.key() != plain.key()
    assert run.model.parameters(vocab_size=7, context=4) == plain.model.parameters(vocab_size=7, context=4)
    found, expected = (
        capax.measure(one.task, one.model, one.training, restarts=2, device="cpu") for one in (run, plain)
    )
    for one, other in zip(found.members, expected.members, strict=True):
        assert one.memorized == other.memorized


def test_a_divisor_is_asked_for() -> None:
    with pytest.raises(capax.CapaxError, match=r"n_kv_heads: .*\(4\), got 3"):
        gqa(n_kv_heads=3)
