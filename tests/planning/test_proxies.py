"""Networks that a verification trains in place of one that takes too long, and refusals before anything is trained."""

from __future__ import annotations

from typing import Any

import pytest

import capax
from capax.errors import LawError
from capax.planning import known, proxies
from capax.planning.cost import hours, operations
from capax.planning.results import BitsFrontier


class Measured(Exception):
    """What would have been trained."""


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(task: Any, model: Any, **_: Any) -> None:
        raise Measured(task, model)

    monkeypatch.setattr("capax.planning.proxies.measure", measured)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of one core of 100 GFLOP/s, whatever this one is."""
    monkeypatch.setattr("capax.planning.cost.peak", lambda: 1e11)


def planned(target: int, **sizes: Any) -> BitsFrontier:
    found = capax.plan("reference", target, **sizes)
    assert isinstance(found, BitsFrontier)
    return found


@pytest.mark.usefixtures("trained", "slow")
def test_the_proxy_of_a_large_network_has_fewer_tokens_and_layers_and_takes_no_longer_than_it_may() -> None:
    found = planned(200_000, seq_len=16, vocab_size=32_000)
    for one in found.architectures[:4]:
        with pytest.raises(Measured) as stopped:
            capax.verify_plan("reference", found, one)
        task, model = stopped.value.args
        assert task.seq_len == 16
        assert proxies.FEWEST_TOKENS <= task.vocab_size < 32_000
        assert model.n_layers <= one.n_layers
        assert model.embeddings == one.embeddings
        row = {name: getattr(model, name) for name in ("n_layers", "n_heads", "d_head", "d_model", "embeddings", "ffn")}
        said = capax.predict("reference", vocab_size=task.vocab_size, seq_len=16, **row)
        assert 3 * hours(operations(model, task, 2 * said.value, known.EXPOSURES)) <= 1.02 * proxies.HOURS


@pytest.mark.usefixtures("trained")
def test_what_no_proxy_can_stand_in_for_is_refused_before_it_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxies, "HOURS", 1e-12)
    found = planned(200, seq_len=8, vocab_size=100, n_layers=1)
    with pytest.raises(
        LawError, match=r"^verify: 3 trainings of the smallest network that could stand in .+ take .+ here, and"
    ):
        capax.verify_plan("reference", found)
