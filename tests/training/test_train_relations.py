"""Training on relations: the loss, the pack, contexts, what is measured of a graph, and what is kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import capax
from capax.errors import LibraryError
from capax.memory import RelationMemory
from capax.protocols import chance
from capax.seeds import numpy_generator
from capax.specs import KeyQueryChannel, Relations, Run, Training
from capax.tasks import contexts, graphs
from capax.tasks.relations import CONTEXTS, RelationLibrary
from capax.training.loop import Interrupted, train
from capax.training.pack import Outcome, Pack, Status
from capax.training.prepare import prepare
from capax.training.workers import Workers, split

SMALL = KeyQueryChannel(n_heads=2, d_model=8, d_head=4)
WHOLE = Relations(n_items=12)
UNIFORM = Relations(n_items=12, contexts="uniform", context_size=5)
TARGETS = Relations(graph="random", n_items=12, n_edges=20, contexts="targets", context_size=4)
TREE = Relations(graph="tree", n_items=12)
SHORT = Training(max_steps=20, eval_steps=5, stop_when_complete=False)
TASKS = pytest.mark.parametrize("task", [WHOLE, UNIFORM, TARGETS], ids=["whole", "uniform", "targets"])


def pack(
    task: Relations = WHOLE,
    members: Sequence[int] = (0, 1, 2),
    model: KeyQueryChannel = SMALL,
    one_library: bool = True,
    training: Training = SHORT,
    **fields: Any,
) -> Pack:
    training = Run(task=task, model=model, training=training).training
    sizes = (task.library_size,) * len(members)
    return Pack(
        task,
        model,
        training,
        (0,) * len(members),
        tuple(members),
        sizes,
        largest=max(sizes),
        mixed=False,
        one_library=one_library,
        **fields,
    )


def facts(outcomes: list[Outcome]) -> list[Any]:
    return [(o.member, o.memorized, o.curve, o.steps, o.stop_reason, o.metrics) for o in outcomes]


def drawn(task: Relations, member: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    """The adjacency matrix of a member's graph, and the contexts its pairs are counted in."""
    library = prepare(pack(task, [member], one_library=False)).library
    assert isinstance(library, RelationLibrary)
    generator = numpy_generator(0, "library", member)
    pairs = graphs.draw(task, generator)
    generator.standard_normal((task.n_items or 0, SMALL.d_model))  # the vectors come before the contexts
    edges = library.signs[0].numpy() > 0
    assert sorted(map(tuple, np.argwhere(edges))) == sorted(map(tuple, pairs))
    return edges, list(contexts.draw(task, pairs, generator, CONTEXTS))


def scores(learner: Any, member: int = 0) -> Tensor:
    """a·S − b of all pairs."""
    library = learner.library
    rows = torch.arange(library.rows).expand(learner.ensemble.n_members, -1)
    with torch.no_grad():
        shared = library.shared(learner.ensemble, "loss", library.rows)
        found: Tensor = library.outputs(learner.ensemble, library.batch(rows), "loss", shared)
    return found[member]


def trained(task: Relations, steps: int, **fields: Any) -> Any:
    one = pack(task, [0], one_library=False, **fields)
    learner = prepare(one)
    for step in range(steps):
        learner.step(one.training.lr_at(step, max(steps, 1)))
    return learner


@TASKS
def test_the_loss_is_a_weighted_binary_cross_entropy(task: Relations) -> None:
    """Edges weigh √(#others/#edges), each pair counts as often as contexts hold it, and all edges together weigh 1."""
    learner = trained(task, 3, training=Training(precision="float64"))
    z, (edges, drawn_contexts) = scores(learner), drawn(task)
    losses, weights = 0.0, {True: 0.0, False: 0.0}
    counted = [(c, i, j) for c in drawn_contexts for i in c for j in c if i != j]
    for _, i, j in counted:
        weights[bool(edges[i, j])] += 1
    positive = math.sqrt(weights[False] / weights[True])
    for _, i, j in counted:
        p = 1 / (1 + math.exp(-z[i, j]))
        losses += -positive * math.log(p) if edges[i, j] else -math.log(1 - p)
    expected = losses / (positive * weights[True])
    assert learner.step(0.0)[0].tolist() == pytest.approx([expected], rel=1e-10)
    uniform = math.log(2) * (1 + positive)
    assert learner.library.uniform_loss == pytest.approx(uniform, rel=1e-10)


def test_training_is_adam_on_that_loss() -> None:
    """Against torch's Adam on each member alone, in float64; the scale learns 0.3 times as fast, in its own units."""
    one = pack(WHOLE, [0, 1], one_library=False, training=Training(precision="float64", max_steps=15))
    learner = prepare(one)
    started = {name: p.detach().clone() for name, p in learner.ensemble.parameters.items()}
    for step in range(15):
        learner.step(one.training.lr_at(step, 15))
    for member in range(2):
        x, signs = learner.library.items[member], learner.library.signs[member]
        query, key = (started[name][member].clone().requires_grad_() for name in ("query", "key"))
        first = started["first_scale"][member]
        scale, threshold = torch.zeros(1).double().requires_grad_(), started["threshold"][member].clone()
        threshold.requires_grad_()
        adam = torch.optim.Adam([query, key, scale, threshold], betas=(0.9, 0.99))
        off = ~torch.eye(12, dtype=torch.bool)
        positive = torch.tensor(math.sqrt(12 * 10 / 12), dtype=torch.float64)
        for step in range(15):
            z = first * (1 + 0.3 * scale) * ((x @ query) @ (x @ key).mT).amax(0) - threshold
            loss = F.binary_cross_entropy_with_logits(
                z[off], (signs[off] > 0).double(), pos_weight=positive, reduction="sum"
            ) / (12 * positive)
            adam.param_groups[0]["lr"] = one.training.lr_at(step, 15)
            adam.zero_grad()
            torch.autograd.backward(loss)
            adam.step()
        found = learner.ensemble.parameters
        for name, parameter in {"query": query, "key": key, "scale": scale, "threshold": threshold}.items():
            assert torch.allclose(found[name][member], parameter, rtol=0, atol=1e-9), name


@pytest.mark.parametrize("one_library", [True, False])
@TASKS
def test_a_member_is_the_same_in_another_pack(task: Relations, one_library: bool) -> None:
    together = facts(train(pack(task, one_library=one_library)))
    assert together[:2] == facts(train(pack(task, [0, 1], one_library=one_library)))
    assert together[1:] == facts(train(pack(task, [1, 2], one_library=one_library)))
    assert len({str(fact[2]) for fact in together}) == 3


CHANNELS = pytest.mark.parametrize("channel", ["softmax", "block"])


@CHANNELS
def test_members_that_route_values_are_the_same_in_another_pack(channel: Any) -> None:
    wide = SMALL.replace(d_head=5, channel=channel)
    fields: dict[str, Any] = {"model": wide, "one_library": False}
    together = facts(train(pack(**fields, d_heads=(2, 5, 3))))
    assert together[:2] == facts(train(pack(members=[0, 1], **fields, d_heads=(2, 5))))
    assert together[1:] == facts(train(pack(members=[1, 2], **fields, d_heads=(5, 3))))


@CHANNELS
def test_channels_that_route_values_learn(channel: Any) -> None:
    run = capax.measure(WHOLE, SMALL.replace(channel=channel), Training(max_steps=300), restarts=2)
    assert [member.memorized for member in run.members] == [12, 12]
    assert run.metrics["f1"] == 1
    assert run.parameters.trainable == 2 * 8 * 2 * 4 + 2 + 2 * 64 + (8 * 64 + 7 * 8 if channel == "block" else 0)


@pytest.mark.slow
@CHANNELS
def test_the_best_of_a_search_counts_all_parameters(channel: Any) -> None:
    model, protocol = KeyQueryChannel(d_model=8, channel=channel), capax.specs.Budget(head_counts=(1, 2), restarts=2)
    run = capax.measure(WHOLE, model, Training(max_steps=60), protocol=protocol.replace(max_trainings=8))
    assert run.total_key_dim is not None
    best = model.replace(n_heads=run.n_heads, d_head=run.d_head)
    assert run.parameters.trainable == best.parameter_counts(**run.spec.task.sizes())["trainable"]


def test_a_block_needs_hardly_any_keys() -> None:
    """Its MLP stores the relations, as `capax.models.routing` says."""
    task, model = Relations(n_items=64), KeyQueryChannel(n_heads=1, d_model=16, d_head=1)
    f1 = {
        channel: capax.measure(task, model.replace(channel=channel), Training(max_steps=200), restarts=1).metrics["f1"]
        for channel in ("threshold", "block")
    }
    assert f1["threshold"] < 0.3
    assert f1["block"] > 0.99


@pytest.mark.parametrize("channel", ["threshold", "softmax", "block"])
def test_half_precision_trains_about_as_well(channel: Any) -> None:
    training = Training(max_steps=300, precision="bfloat16")
    run = capax.measure(WHOLE, SMALL.replace(d_head=8, channel=channel), training, restarts=2)
    assert run.metrics["f1"] > 0.9


def test_members_of_several_head_sizes_are_what_they_are_in_packs_of_their_own() -> None:
    """Bit for bit where all are padded to one size (the round's); without padding, to rounding."""
    sizes, wide = (2, 5, 3), SMALL.replace(d_head=5)
    fields: dict[str, Any] = {"one_library": False}
    together = train(pack(model=wide, d_heads=sizes, **fields))
    for member, size in enumerate(sizes):
        padded = train(pack(members=[member, 7], model=wide, d_heads=(size, size), **fields))
        assert facts(padded)[0] == facts(together)[member]
        plain = train(pack(members=[member], model=SMALL.replace(d_head=size), **fields))[0]
        assert (plain.memorized, plain.steps) == (together[member].memorized, together[member].steps)
        assert plain.metrics == pytest.approx(together[member].metrics, rel=1e-3)
        losses = [[loss or 0.0 for _, _, loss in outcome.curve] for outcome in (plain, together[member])]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["soap", "muon"])
def test_with_optimizers_of_matrices_too(optimizer: str) -> None:
    """Padding gets no values by the rounding of bases.

    Results are those without padding: Muon's in float64 to rounding; SOAP's nearly, since its first bases are of one
    gradient, whose null space has any.
    """
    own = {"basis_every": 3} if optimizer == "soap" else {}
    training = SHORT.replace(optimizer=optimizer, lr=0.02, precision="float64", **own)
    sizes, wide = (2, 5, 3), SMALL.replace(d_head=5)
    fields: dict[str, Any] = {"one_library": False, "training": training, "keep_weights": True}
    together = train(pack(model=wide, d_heads=sizes, **fields))
    for member, size in enumerate(sizes):
        padded = train(pack(members=[member, 7], model=wide, d_heads=(size, size), **fields))
        assert facts(padded)[0] == facts(together)[member]
        weights = together[member].weights
        assert weights is not None
        assert not weights["query"][..., size:].any()
        assert not weights["key"][..., size:].any()
        plain = train(pack(members=[member], model=SMALL.replace(d_head=size), **fields))[0]
        losses = [[loss or 0.0 for _, _, loss in outcome.curve] for outcome in (plain, together[member])]
        assert losses[0] == pytest.approx(losses[1], rel=1e-9 if optimizer == "muon" else 1e-2)


def test_cutting_a_round_changes_nothing() -> None:
    """Each piece keeps the padding of the round."""
    whole = pack(members=range(6), model=SMALL.replace(d_head=7), d_heads=(1, 2, 1, 3, 7, 4), one_library=False)
    pieces = split(whole, 1, pack_size=2)
    assert [piece.d_heads for piece in pieces] == [(1, 2), (1, 3), (7, 4)]
    expected = facts(train(whole))
    assert [facts(Workers(pack_size=size).train(whole)) for size in (2, 3, 4)] == [expected] * 3


@pytest.mark.parametrize("channel", ["threshold", "softmax", "block"])
def test_an_interrupted_training_ends_as_a_whole_one(
    tmp_path: Path, channel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after a step, and again near its end."""
    monkeypatch.setattr("capax.training.loop.REPORT_SECONDS", -1.0)
    whole = pack(TREE, model=SMALL.replace(d_head=5, channel=channel), d_heads=(2, 5, 3), one_library=False)
    for stretch in (1, 16):
        reports = iter(range(stretch))

        def interrupt(_: list[Status], reports: Iterator[int] = reports) -> None:
            if next(reports, None) is None:
                raise Interrupted

        with pytest.raises(Interrupted):
            train(whole, interrupt, tmp_path)
    assert facts(train(whole, checkpoint=tmp_path)) == facts(train(whole))


# what is measured


def brute_force(z: Tensor, edges: np.ndarray, inside: list[np.ndarray]) -> dict[str, float]:
    """Counts over every ordered pair of every context."""
    hits = predicted = true = 0
    lowest, highest = math.inf, -math.inf
    for context in inside:
        for i in context:
            for j in context:
                if i == j:
                    continue
                hits += bool(z[i, j] > 0 and edges[i, j])
                predicted += bool(z[i, j] > 0)
                true += bool(edges[i, j])
                if edges[i, j]:
                    lowest = min(lowest, float(z[i, j]))
                else:
                    highest = max(highest, float(z[i, j]))
    precision, recall = hits / predicted if predicted else 0.0, hits / true
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    return {"f1": f1, "precision": precision, "recall": recall, "margin": lowest - highest}


@pytest.mark.slow
@TASKS
@pytest.mark.parametrize("steps", [0, 60])
def test_metrics_are_those_of_all_pairs_of_all_contexts(task: Relations, steps: int) -> None:
    learner = trained(task, steps, training=Training(precision="float64"))
    z, (edges, inside) = scores(learner), drawn(task)
    if task.contexts == "whole":
        assert len(inside) == 1
    expected = brute_force(z, edges, inside)
    expected["margin"] /= learner.library.shared(learner.ensemble, "loss", 12)["scale"].item()
    off = ~np.eye(12, dtype=bool)
    expected["predicted_pairs"] = float(((z.numpy() > 0) & off).sum())
    evaluation = learner.evaluate([0])[0]
    assert evaluation.metrics == pytest.approx(expected, rel=1e-9)
    assert evaluation.memorized == ((z.numpy() > 0) & edges).sum()
    lucky = expected["predicted_pairs"] * task.library_size / (12 * 11)
    found = chance.luck(task, task.library_size, replace(train(pack(task, [0]))[0], metrics=evaluation.metrics))
    assert found.expected == pytest.approx(lucky)


@cache
def recognized() -> Tensor:
    """The scores of a channel that recognizes the graph."""
    learner = trained(WHOLE, 300, model=SMALL.replace(d_head=8))
    assert learner.evaluate([0])[0].metrics["f1"] == 1
    return scores(learner)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["uniform", "targets"])
def test_a_recognized_graph_is_recognized_in_every_context(how: Any) -> None:
    """Lemma 4.1: scores do not depend on the context, so that recall and precision on each are 1."""
    z, (edges, _) = recognized(), drawn(WHOLE)
    for size in (2, 5, 11):
        task = Relations(n_items=12, contexts=how, context_size=size)
        for context in contexts.draw(task, np.argwhere(edges), np.random.default_rng(size), 40):
            some = np.ix_(context, context)
            off = ~np.eye(size, dtype=bool)
            assert (((z.numpy()[some] > 0) & off) == edges[some]).all()
            if edges[some].any():
                found = brute_force(z, edges, [context])
                assert (found["recall"], found["precision"]) == (1, 1)


def test_a_scale_below_zero_changes_no_sign() -> None:
    learner = trained(WHOLE, 5)
    learner.ensemble.parameters["scale"].data.fill_(-5.0)
    learner.ensemble.parameters["threshold"].data.fill_(0.3)
    z = scores(learner).numpy()
    predicted = ((z > 0) & ~np.eye(12, dtype=bool)).sum()
    assert 0 < predicted < 132 - predicted
    assert learner.evaluate([0])[0].metrics["predicted_pairs"] == predicted


def test_a_complete_graph_is_learned_and_kept() -> None:
    """All pairs are edges: the margin is above the threshold, and everything stays finite."""
    task = Relations(graph="random", n_items=5, n_edges=20)
    run = capax.measure(task, SMALL, Training(max_steps=200), restarts=1)
    assert run.memorized == 20
    assert (run.metrics["f1"], run.stop_reason) == (1, "complete")
    assert 0 < run.metrics["margin"] < math.inf
    assert run.memorized_above_chance == 0
    assert run.bits == 0
    assert capax.Measurement.from_json(run.to_json()) == run


def test_contexts_without_an_edge_are_refused() -> None:
    task = Relations(graph="random", n_items=400, n_edges=1, contexts="uniform", context_size=2)
    with pytest.raises(LibraryError, match=r"^context_size: "):
        capax.measure(task, SMALL, Training(max_steps=5), restarts=1)


def test_a_measurement_has_the_channels_facts(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    run = capax.measure(WHOLE, SMALL, Training(max_steps=300), restarts=2, store=store)
    assert run.memorized == 12
    assert (run.n_heads, run.d_head, run.total_key_dim) == (2, 4, 8)
    assert run.metrics["f1"] > 0.95
    assert run.parameters.trainable == 2 * 8 * 2 * 4 + 2
    assert run.chance == pytest.approx(12 / run.metrics["precision"] * 12 / (12 * 11))
    assert run.members[0].metrics.keys() == {"f1", "precision", "recall", "margin", "predicted_pairs"}
    assert capax.Measurement.from_json(run.to_json()) == run
    assert capax.measure(WHOLE, SMALL, Training(max_steps=300), restarts=2, store=store) == run


def test_a_better_f1_is_better_than_more_edges() -> None:
    """An early evaluation that takes all pairs for edges recalls them all, and does not count."""
    library = prepare(pack(WHOLE, [0])).library
    rows = {
        name: torch.tensor(values)
        for name, values in {
            "predicted": [132.0], "weighted_predicted": [132.0], "weighted_recalled": [12.0], "weighted_edges": [12.0],
            "lowest_edge": [1.0], "highest_other": [2.0],
        }.items()
    }  # fmt: skip
    everything = library.evaluation(0, 12, rows)
    careful = library.evaluation(
        0, 9, rows | {"weighted_predicted": torch.tensor([9.0]), "weighted_recalled": torch.tensor([9.0])}
    )
    assert careful.score > everything.score
    assert not careful.complete


def test_the_shatter_protocol_counts_epochs() -> None:
    run = capax.measure(WHOLE, SMALL.replace(d_head=6), Training(max_steps=400), protocol=capax.specs.Shatter(trials=3))
    assert run.shatter is not None
    assert len(run.shatter.epochs) + len(run.shatter.censored) == 3
    assert any(epochs % 50 for epochs in run.shatter.epochs)  # one by one, though 50 is usual for the task


def test_packs_of_one_seed_differ_by_member() -> None:
    """Members of one library share its graph; with libraries of their own they do not."""
    one, own = prepare(pack()).library, prepare(pack(one_library=False)).library
    assert isinstance(one, RelationLibrary)
    assert isinstance(own, RelationLibrary)
    assert one.items.shape[0] == 1
    assert own.items.shape[0] == 3
    assert torch.equal(own.items[0], one.items[0])
    assert not torch.equal(own.signs[0], own.signs[1])
    kept = own.select([2, 0])
    assert torch.equal(kept.items, own.items[[2, 0]])
    assert replace(one, sizes=(12,)).n_bytes == one.n_bytes


@pytest.mark.slow
@pytest.mark.parametrize("channel", ["threshold", "softmax"])
def test_a_kept_channel_recognizes_what_was_measured(tmp_path: Path, channel: Any) -> None:
    store = tmp_path / "s.db"
    model = KeyQueryChannel(n_heads=2, d_model=8, d_head=3, channel=channel)
    run = capax.measure(Relations(n_items=12), model, restarts=2, store=store, keep_weights=True)
    memory = capax.load(run.key, store)
    assert isinstance(memory, RelationMemory)
    above = memory.outputs() > 0
    np.fill_diagonal(above, False)
    assert (above & (memory.signs > 0)).sum() == run.memorized
    assert above.sum() == pytest.approx(run.memorized / run.metrics["precision"])


@pytest.mark.parametrize(
    ("task", "channel", "rows"),
    [
        (Relations(graph="random", n_items=8, n_edges=40), "threshold", 8),
        (Relations(n_items=8, contexts="uniform", context_size=4), "softmax", 2334),
    ],
    ids=["items", "contexts"],
)
def test_an_epoch_is_what_batches_are_made_of(task: Relations, channel: Any, rows: int) -> None:
    """Not the edges, which are counted."""
    training = Training(max_epochs=2, batch_size=rows // 2, patience=None, stop_when_complete=False, eval_every=1)
    run = capax.measure(task, KeyQueryChannel(d_model=8, d_head=8, channel=channel), training, restarts=1)
    assert (run.epochs, run.steps, run.spec.budget) == (2, 4, 4)
