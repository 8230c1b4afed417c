"""Restarts of a pretrained factory are one and the same: they are told, and have no interval."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from smallest import SMALL

import capax

FACTORY = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, vocab_size, drawn=False):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(7)  # as a checkpoint would be
            self.trunk = nn.Embedding(vocab_size, 8)
            self.head = nn.Linear(8, vocab_size)
        if drawn:
            self.head = nn.Linear(8, vocab_size)

    def forward(self, tokens):
        return self.head(self.trunk(tokens))
"""


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("pretrained")
    (folder / "pretrained_net.py").write_text(FACTORY)
    sys.path.insert(0, str(folder))
    yield "pretrained_net:Net"
    sys.path.remove(str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("drawn", [False, True])
def test_restarts_of_a_pretrained_factory_are_told_and_have_no_interval(pretrained: str, drawn: bool) -> None:
    model = capax.Module(factory=pretrained, arguments={"drawn": drawn})
    run = capax.measure(SMALL, model, capax.Training(max_epochs=2), restarts=2)
    seeds = next(one for one in capax.check_model(model, SMALL).checks if one.check == "seeds")
    assert seeds.verdict == "failed"
    (note,) = (note for note in run.notes if note.startswith("seeds: "))
    assert note.startswith(f"seeds: {seeds.evidence}")
    assert (run.interval is None) is not drawn
    assert all((unit.interval is None) is not drawn for unit in run.units)
    assert ("no interval" in note) is not drawn
    held = capax.measure(SMALL, model, capax.Training(max_epochs=2), protocol=capax.Capacity(restarts=2))
    assert (held.interval is None) is not drawn
    long = capax.Training(cycle_steps=5, cycle_tolerance=0.3)
    converged = capax.measure(SMALL, model, long, protocol=capax.Capacity(restarts=2)).capacity
    assert converged is not None
    assert converged.extrapolated is not None
    assert (converged.interval is None) is not drawn
    first, second = run.members
    assert drawn or first.curve.memorized[0] == second.curve.memorized[0]
