"""Relations in contexts by channels that attend within them: the loss, what is counted, and what is kept."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import capax
from capax.errors import LibraryError, SpecError
from capax.memory import RelationMemory
from capax.seeds import numpy_generator
from capax.specs import Budget, KeyQueryChannel, Mac, Relations, Run, Training
from capax.tasks import context_relations, contexts, graphs
from capax.tasks.context_relations import ContextLibrary
from capax.tasks.recognition import CONTEXTS
from capax.training.pack import Pack
from capax.training.prepare import prepare

UNIFORM = Relations(n_items=12, contexts="uniform", context_size=5)
TARGETS = Relations(graph="random", n_items=12, n_edges=20, contexts="targets", context_size=4)
TASKS = pytest.mark.parametrize("task", [UNIFORM, TARGETS], ids=["uniform", "targets"])
SOFTMAX = KeyQueryChannel(n_heads=2, d_model=8, d_head=3, d_value=4, channel="softmax")
EXACT = Training(precision="float64", max_steps=6, eval_steps=3)


def learner_of(task: Relations, members: int = 1, **fields: Any) -> Any:
    model = SOFTMAX
    training = Run(task=task, model=model, training=EXACT.replace(**fields)).training
    sizes = (task.library_size,) * members
    pack = Pack(task, model, training, (0,) * members, tuple(range(members)), sizes, max(sizes), False, members == 1)
    return prepare(pack)


def drawn(task: Relations, member: int = 0) -> tuple[np.ndarray, list[list[int]], list[list[int]]]:
    """The edges of a member's graph, the contexts that it learns, and those that it is counted in."""
    generator = numpy_generator(0, "library", member)
    pairs = graphs.draw(task, generator)
    generator.standard_normal((task.n_items or 0, SOFTMAX.d_model))  # the vectors come before the contexts
    edges = np.zeros((task.n_items, task.n_items), bool)
    edges[pairs[:, 0], pairs[:, 1]] = True
    unseen = contexts.draw(task, pairs, generator, CONTEXTS).tolist()
    size, n = task.n_items or 0, task.context_size or 0
    number = max(CONTEXTS, math.ceil(500 * size * (size - 1) / (n * (n - 1))))
    return edges, contexts.draw(task, pairs, generator, number).tolist(), unseen


def scores(learner: Any, member: int, context: list[int]) -> np.ndarray:
    """a·⟨y_i, x_j⟩ − b of the pairs of one context, each source alone among the others."""
    p = {name: one[member].detach().numpy() for name, one in learner.ensemble.parameters.items()}
    x = learner.library.items[member].numpy()[context]
    found = np.full((len(x), len(x)), np.nan)
    for i in range(len(x)):
        others = np.delete(x, i, axis=0)
        y = np.zeros(x.shape[1])
        for query, key, value, output in zip(p["query"], p["key"], p["value"], p["output"], strict=True):
            weights = np.exp(others @ key @ (x[i] @ query) / math.sqrt(query.shape[1]))
            y += weights / weights.sum() @ others @ value @ output
        found[i] = p["first_scale"] * (1 + 0.3 * p["scale"]) * (x @ y) - p["threshold"]
    return found


@pytest.mark.slow
@TASKS
def test_the_loss_is_a_weighted_binary_cross_entropy_in_each_context(task: Relations) -> None:
    """Edges weigh √(#others/#edges), each pair counts as often as contexts hold it, and all edges together weigh 1."""
    learner = learner_of(task, batch_size=10_000)
    for _ in range(3):
        learner.step(0.05)
    edges, learned, _ = drawn(task)
    counted = [
        (bool(edges[a, b]), float(z[i, j]))
        for context in learned
        for z in [scores(learner, 0, context)]
        for i, a in enumerate(context)
        for j, b in enumerate(context)
        if i != j
    ]
    n_edges = sum(edge for edge, _ in counted)
    positive = math.sqrt((len(counted) - n_edges) / n_edges)
    losses = sum(positive * math.log1p(math.exp(-z)) if edge else math.log1p(math.exp(z)) for edge, z in counted)
    assert learner.step(0.0)[0].tolist() == pytest.approx([losses / (positive * n_edges)], rel=1e-10)
    assert learner.library.uniform_loss == pytest.approx(math.log(2) * (1 + positive), rel=1e-10)


@pytest.mark.slow
@TASKS
def test_edges_are_counted_in_contexts_that_were_never_learned(task: Relations) -> None:
    """F1 is over the pairs of those contexts; an edge is recalled where its mean score there is above the threshold."""
    learner = learner_of(task, members=2)
    for _ in range(40):
        learner.step(0.05)
    for member, found in enumerate(learner.evaluate([0, 1])):
        edges, learned, unseen = drawn(task, member)
        assert learned != unseen
        sums, times, hits, predicted, n_edges = np.zeros(edges.shape), np.zeros(edges.shape), 0, 0, 0
        for context in unseen:
            z, off = scores(learner, member, context), ~np.eye(len(context), dtype=bool)
            pairs = np.ix_(context, context)
            sums[pairs] += np.where(off, z, 0)
            times[pairs] += off
            hits += int(((z > 0) & edges[pairs] & off).sum())
            predicted += int(((z > 0) & off).sum())
            n_edges += int(edges[pairs].sum())
        taken = (times > 0) & (sums > 0)
        assert found.metrics["f1"] == pytest.approx(2 * hits / (predicted + n_edges), rel=1e-12)
        assert found.memorized == int((taken & edges).sum())
        assert found.metrics["predicted_pairs"] == int(taken.sum())


def test_batches_are_of_contexts_that_are_learned() -> None:
    """Some of them a step, each once an epoch, and none of those that are counted in."""
    learner = learner_of(UNIFORM)
    assert learner.training.batch_size == 64
    learned, steps = learner.library.learned_counts[0], 0
    assert learned > 10 * learner.library.rows
    while learner.order.epochs == [0]:
        learner.step(0.05)
        steps += 1
    assert steps == math.ceil(learned / 64)


def test_members_that_share_a_graph_share_its_contexts() -> None:
    library = learner_of(UNIFORM).library
    assert isinstance(library, ContextLibrary)
    own = learner_of(UNIFORM, members=3).library
    assert torch.equal(own.learned[0], library.learned[0])
    assert not torch.equal(own.learned[0], own.learned[1])
    kept = own.select([2, 0])
    assert torch.equal(kept.unseen, own.unseen[[2, 0]])


@pytest.mark.slow
def test_a_kept_channel_recognizes_what_was_measured(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    run = capax.measure(UNIFORM, SOFTMAX, Training(max_steps=200), restarts=2, store=store, keep_weights=True)
    memory = capax.load(run.key, store)
    assert isinstance(memory, RelationMemory)
    above = memory.outputs() > 0
    assert (above & (memory.signs > 0)).sum() == run.memorized
    assert above.sum() == run.metrics["predicted_pairs"]


@pytest.mark.very_slow
def test_a_head_size_is_searched_for_in_contexts() -> None:
    protocol = Budget(restarts=2, head_counts=(1,), target_f1=0.3)
    model = KeyQueryChannel(d_model=8, channel="softmax", values=False)
    run = capax.measure(UNIFORM, model, Training(max_steps=60), protocol=protocol)
    assert run.spec.task.contexts == "uniform"


def test_contexts_without_an_edge_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_relations, "MOST", 256)  # as for so many items that they are too few
    task = Relations(graph="random", n_items=100, n_edges=1, contexts="uniform", context_size=2)
    with pytest.raises(LibraryError, match=r"context_size: no edge in [0-9]+ contexts of 2 items: take more"):
        capax.measure(task, SOFTMAX, Training(max_steps=1), protocol=Mac(restarts=1))
    with pytest.raises(SpecError, match="context_size: at most n_items = 12, got 13"):
        UNIFORM.replace(context_size=13)
