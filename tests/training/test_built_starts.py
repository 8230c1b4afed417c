"""Trainings of key-query channels that start from weights that are built for their graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import capax
from capax.errors import SpecError
from capax.specs import KeyQueryChannel, Relations, Training
from capax.testing import trained
from capax.theory.construct.channel import recognize
from capax.theory.construct.start import channel
from capax.training.prepare import prepare

TASK = Relations(graph="random", n_items=16, n_edges=30)
BUILT = KeyQueryChannel(n_heads=6, d_model=8, d_head=4, start="built")
EXACT = Training(precision="float64", max_steps=4, eval_steps=2)


def edges_of(learner: Any, member: int) -> tuple[np.ndarray, np.ndarray]:
    graph = min(member, len(learner.library.items) - 1)
    return np.argwhere(learner.library.signs[graph].numpy() > 0), learner.library.items[graph].numpy()


@pytest.mark.parametrize("one_library", [False, True])
def test_the_first_evaluation_is_that_of_what_is_built(one_library: bool) -> None:
    """Of members of several head sizes, padded; each has signatures of its own."""
    pack = replace(trained.pack(TASK, BUILT, EXACT, range(3), one_library), d_heads=(2, 4, 3))
    learner = prepare(pack)
    query = learner.ensemble.parameters["query"].detach().numpy()
    for member, found in enumerate(learner.evaluate([0, 1, 2])):
        edges, items = edges_of(learner, member)
        size = (pack.d_heads or ())[member]
        assert (query[member, :, :, size:] == 0).all()
        key = learner.ensemble.parameters["key"].detach().numpy()[member]
        known = recognize(query[member], key, items, edges)
        assert found.metrics["f1"] == pytest.approx(known.f1, abs=1e-12)
        assert found.metrics["f1"] > 0.3
    assert not np.allclose(query[1, :, :, :2], query[2, :, :, :2])


def test_one_edge_a_head_is_recognized_before_the_first_step() -> None:
    model = BUILT.replace(n_heads=TASK.library_size + 2, d_head=1)  # two heads have no edge
    for found in prepare(trained.pack(TASK, model, EXACT, range(2))).evaluate([0, 1]):
        assert found.metrics["f1"] == 1


@pytest.mark.parametrize("graph", [[(0, target) for target in range(1, 12)], [(n, (n + 1) % 12) for n in range(12)]])
@pytest.mark.parametrize("n_heads", [1, 2, 20])
def test_any_heads_are_built(graph: list[tuple[int, int]], n_heads: int) -> None:
    """A star, whose source no split keeps in one head, and more edges a head than channels."""
    items = np.random.default_rng(0).standard_normal((12, 5))
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    found = channel(np.array(graph), items, n_heads, 3, 0)
    assert found.weights.query.shape == (min(n_heads, len(graph)), 5, 3)
    assert found.recognition.f1 > 0.2


def test_members_do_not_depend_on_their_pack() -> None:
    assert trained.same_in_any_pack(TASK, BUILT, EXACT.replace(precision="float32"))


@pytest.mark.parametrize("fields", [{"channel": "softmax"}, {"aggregate": "sum"}])
def test_only_thresholds_of_the_largest_score_are_built(fields: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="start: 'built' needs channel 'threshold' and aggregate 'max'"):
        BUILT.replace(**fields)


def test_it_is_a_run_of_its_own_and_says_so() -> None:
    built, drawn = (
        capax.measure(TASK, BUILT.replace(start=start), Training(max_steps=100, lr=0.8), restarts=1)
        for start in ("built", "drawn")
    )
    assert built.key != drawn.key
    assert "start" not in drawn.spec.model.canonical()
    assert "from built weights" in built.spec.model.words()
    assert "built for the graph" not in drawn.spec.model.words()
