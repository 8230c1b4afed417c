"""Training on associations: the schedule, the pack, the measures, and what is kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import capax
from capax.memory import AssociativeMemory
from capax.specs import Associations, AssociativeAttention, Mls, Run, Training
from capax.tasks.associations import draw
from capax.training.loop import Interrupted, train
from capax.training.pack import Outcome, Pack, Status
from capax.training.prepare import prepare
from capax.training.workers import split

SMALL = AssociativeAttention(n_heads=3, d_model=6, d_head=5, profile="mahdavi2024")
CLASSES = Associations(context_size=4, library_size=40, n_classes=5)
REAL = Associations(context_size=4, library_size=30, contexts="fresh", labels="normal", d_out=2, tolerance=0.3)
SHORT = Training(max_steps=60, batch_size=16, eval_steps=20)


def pack(task: Associations, members: int = 3, sizes: tuple[int, ...] | None = None, **fields: Any) -> Pack:
    training = Run(task=task, model=SMALL, training=fields.pop("training", SHORT)).training
    given = sizes or (task.library_size,) * members
    return Pack(
        task,
        SMALL,
        training,
        (0,) * len(given),
        tuple(range(len(given))),
        given,
        largest=max(given),
        mixed=len(set(given)) > 1,
        one_library=sizes is None,
        **fields,
    )


def facts(outcomes: list[Outcome]) -> list[Any]:
    return [(o.memorized, o.curve, o.steps, o.stop_reason, o.metrics) for o in outcomes]


def test_the_learning_rate_rises_and_falls_as_published() -> None:
    training = Training(lr=2.0, schedule="cosine", warmup=0.05, max_steps=1000)
    rates = [training.lr_at(step, 1000) for step in range(1000)]
    assert rates[0] == pytest.approx(0.02)
    assert rates[25] == pytest.approx(2 * (0.01 + 0.99 / 2))
    assert rates[50] == 2
    assert rates[525] == pytest.approx(1)
    assert 0 < rates[-1] < 1e-5
    assert rates[:51] == sorted(rates[:51])
    assert rates[50:] == sorted(rates[50:], reverse=True)
    assert {Training(lr=3.0).lr_at(step, None) for step in range(9)} == {3.0}


@pytest.mark.parametrize("steps", [100, 5000])
def test_the_published_schedule_is_that_of_torch(steps: int) -> None:
    """Linear from 1 % over the first 5 % of the steps, then a cosine to 0."""
    optimizer, rising = torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=1e-3), steps // 20
    linear = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=rising)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - rising)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [linear, cosine], [rising])
    expected = []
    for _ in range(steps):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    training = Run(task=CLASSES, model=SMALL, training=Training(max_steps=steps)).training
    rates = [training.lr_at(step, steps) for step in range(steps)]
    assert np.abs(np.array(rates) - expected).max() < 1e-14


@pytest.mark.parametrize("task", [CLASSES, REAL], ids=["classes", "real"])
def test_training_is_adam_with_that_schedule_on_the_plain_loss(task: Associations) -> None:
    """Against torch's Adam and LambdaLR on each member alone, in float64, the batch order the learner's own."""
    one = pack(task, 2, training=Training(max_steps=12, batch_size=16, precision="float64", lr=0.01))
    learner, orders = prepare(one), prepare(one).order
    started = {name: p.detach().clone() for name, p in learner.ensemble.parameters.items()}
    for step in range(12):
        learner.step(one.training.lr_at(step, 12))
    batches = [orders.next()[:2] for _ in range(12)]
    for member in range(2):
        ensemble = type(learner.ensemble)(
            SMALL, {n: p[member : member + 1].requires_grad_() for n, p in started.items()}
        )
        adam = torch.optim.Adam(ensemble.parameters.values(), lr=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: one.training.lr_at(step, 12) / 0.01)
        for rows, weight in batches:
            taken = rows[member][weight[member] > 0]
            batch = learner.library.select([member]).batch(taken[None])
            outputs = learner.library.outputs(
                ensemble, batch, "loss", learner.library.shared(ensemble, "loss", len(taken))
            )[0]
            real = task.labels != "classes"
            loss = F.mse_loss(outputs, batch.labels[0]) if real else F.cross_entropy(outputs, batch.labels[0])
            adam.zero_grad()
            loss.backward()
            adam.step()
            schedule.step()
        for name, parameter in ensemble.parameters.items():
            found = learner.ensemble.parameters[name][member]
            assert torch.allclose(found, parameter[0], rtol=0, atol=1e-9), name


@pytest.mark.slow
@pytest.mark.parametrize("task", [CLASSES, REAL], ids=["classes", "real"])
def test_a_member_is_the_same_in_another_pack(task: Associations) -> None:
    together = facts(train(pack(task)))
    assert together[:2] == facts(train(pack(task, 2)))
    assert together[1:] == facts(train(replace(pack(task, 2), members=(1, 2))))


def test_sizes_of_one_budget_share_a_pack_and_others_do_not() -> None:
    by_steps = pack(CLASSES, sizes=(8, 20, 40))
    assert [part.sizes for part in split(by_steps, 1)] == [(8, 20, 40)]
    training = Training(max_epochs=30, batch_size=16)
    by_epochs = pack(CLASSES, sizes=(8, 20, 40, 16), training=training)
    parts = split(by_epochs, 1)
    assert [part.sizes for part in parts] == [(8, 16), (20,), (40,)]
    several = parts[0]
    for place, member in enumerate(several.members):
        other = replace(several, members=(member, 9), sizes=several.sizes[place : place + 1] * 2)
        assert facts(train(several))[place] == facts(train(other))[0]


def test_evaluations_and_the_end_are_counted_in_steps() -> None:
    training = Training(max_steps=50, batch_size=16, eval_steps=20)  # three steps an epoch
    outcome = train(pack(CLASSES, 1, training=training))[0]
    assert [epoch for epoch, _, _ in outcome.curve] == [0, 6, 13, 16]
    assert (outcome.steps, outcome.stop_reason) == (50, "budget")


@pytest.mark.slow
def test_a_complete_library_ends_a_training_unless_it_is_to_go_on() -> None:
    easy = Associations(context_size=4, library_size=5, n_classes=3)
    fields = {"max_steps": 200, "eval_steps": 10, "lr": 0.03}
    ended = train(pack(easy, 1, training=Training(**fields)))[0]
    assert (ended.memorized, ended.stop_reason) == (5, "complete")
    assert ended.steps < 200
    on = train(pack(easy, 1, training=Training(**fields, stop_when_complete=False)))[0]
    assert (on.memorized, on.stop_reason, on.steps) == (5, "complete", 200)


def test_the_weights_of_the_lowest_loss_are_kept() -> None:
    """At a high learning rate losses rise and fall; trainings that end earlier show what each was."""
    fields = {"lr": 0.5, "patience": None, "stop_when_complete": False, "schedule": "constant", "warmup": 0.0}

    def known(steps: int, every: int, best_by: str = "loss") -> list[Outcome]:
        training = Training(**fields, max_steps=steps, eval_steps=every, best_by=best_by)
        return train(pack(CLASSES, 6, training=training))

    whole, most = known(80, 10), known(80, 10, "recalled")
    alone = [known(steps, steps) for steps in range(10, 81, 10)]
    for member, outcome in enumerate(whole):
        lowest = max((one[member] for one in alone), key=lambda one: one.information.signed if one.information else 0.0)
        assert (outcome.epoch_of_best, outcome.memorized) == (lowest.epoch_of_best, lowest.memorized)
        assert outcome.information == lowest.information
    assert [one.curve for one in most] == [one.curve for one in whole]
    assert [one.epoch_of_best for one in most] != [one.epoch_of_best for one in whole]


@pytest.mark.slow
@pytest.mark.parametrize("task", [CLASSES, REAL], ids=["classes", "real"])
def test_an_interrupted_training_ends_as_a_whole_one(
    tmp_path: Path, task: Associations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after a step, after an evaluation, and between two."""
    monkeypatch.setattr("capax.training.loop.REPORT_SECONDS", -1.0)
    for stretch in (1, 20, 24):
        reports = iter(range(stretch))

        def interrupt(_: list[Status], reports: Iterator[int] = reports) -> None:
            if next(reports, None) is None:
                raise Interrupted

        with pytest.raises(Interrupted):
            train(pack(task), interrupt, tmp_path)
    assert facts(train(pack(task), checkpoint=tmp_path)) == facts(train(pack(task)))


def test_of_as_many_recalled_the_smaller_error_is_the_best() -> None:
    outcome = train(pack(REAL, 1, training=Training(max_steps=120, eval_steps=15, lr=0.03)))[0]
    recalled = [count for _, count, _ in outcome.curve]
    assert outcome.memorized == max(recalled)
    assert outcome.metrics["mean_squared_error"] < 1
    assert outcome.metrics["largest_error"] ** 2 >= outcome.metrics["mean_squared_error"]


# measuring


@pytest.mark.slow
@pytest.mark.parametrize("contexts", ["shared", "fresh"])
def test_a_measurement_and_its_kept_memory_agree(tmp_path: Path, contexts: Any) -> None:
    task = CLASSES.replace(contexts=contexts)
    store = tmp_path / "s.db"
    training = Training(max_steps=120, batch_size=16, eval_steps=20, lr=0.05)
    run = capax.measure(task, SMALL, training, restarts=2, store=store, keep_weights=True)
    assert run.chance_uniform == 8 <= run.chance
    assert run.memorized > 20
    assert run.tokens_per_parameter is None
    assert run.unreachable is None
    assert run.bits == pytest.approx(run.memorized_above_chance * math.log2(5))
    memory = capax.load(run.key, store)
    assert isinstance(memory, AssociativeMemory)
    assert (memory.answers().argmax(1) == memory.library.labels).sum() == run.memorized
    assert memory.attention().shape == (3, 40, 4)
    assert capax.Measurement.from_json(run.to_json()) == run
    rows = capax.read(store)
    assert rows["task"].to_list() == ["associations"]
    assert rows["context_size"].to_list() == [4]


@pytest.mark.slow
def test_real_labels_are_measured_with_their_errors() -> None:
    run = capax.measure(REAL.replace(library_size=10), SMALL, Training(max_steps=800, lr=0.03), restarts=1)
    assert run.memorized == 10
    assert run.stop_reason == "complete"
    assert run.metrics["largest_error"] <= 0.3
    assert run.chance_uniform == pytest.approx(10 * math.erf(0.3 / math.sqrt(2)) ** 2)
    assert run.chance == max(run.chance_uniform, run.chance_constant)


@pytest.mark.slow
def test_the_largest_library_of_a_layer() -> None:
    task = Associations(context_size=4, library_size=200, n_classes=2)
    model = AssociativeAttention(n_heads=2, d_model=5, d_head=4)
    protocol = Mls(seeds=4, max_trainings=12, first_size=4, interval_width=0.9)
    run = capax.measure(task, model, Training(max_steps=120, lr=0.02, eval_steps=40), protocol=protocol)
    assert run.search is not None
    assert run.interval is not None
    assert run.interval.low <= run.search.threshold
    assert 4 <= run.memorized < 200


def test_a_layer_with_one_token_knows_nothing_of_the_query() -> None:
    """One token takes all attention: with a shared context every answer is the same, so one class at most is right."""
    task = Associations(context_size=1, library_size=60, n_classes=4)
    run = capax.measure(task, SMALL, Training(max_steps=100, lr=0.04), restarts=1)
    labels = draw(task, 60, 6, capax_generator()).labels
    assert run.memorized <= max((labels == label).sum() for label in range(4))


def capax_generator() -> Any:
    from capax.seeds import numpy_generator

    return numpy_generator(0, "library", 0)


def test_weights_are_those_of_the_best_evaluation() -> None:
    one = replace(pack(REAL, 1, training=Training(max_steps=100, eval_steps=10, lr=0.02)), keep_weights=True)
    outcome = train(one)[0]
    learner = prepare(one)
    assert outcome.weights is not None
    kept: dict[str, Tensor] = outcome.weights
    for name, parameter in learner.ensemble.parameters.items():
        with torch.no_grad():
            parameter.copy_(kept[name][None])
    evaluation = learner.evaluate([0])[0]
    assert (evaluation.memorized, evaluation.metrics) == (outcome.memorized, outcome.metrics)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.0, 10.0])
def test_real_labels_far_from_zero_are_learned_too(mean: float, tmp_path: Path) -> None:
    """Of a fresh network, whose answers are near zero, they are further away than their spread."""
    drawn = np.random.default_rng(0)
    arrays = {"queries": drawn.standard_normal((6, 5)), "contexts": drawn.standard_normal((4, 5))}
    for name, array in {**arrays, "labels": mean + 0.5 * drawn.standard_normal((6, 1))}.items():
        np.save(tmp_path / f"{name}.npy", array)
    task = Associations(library=str(tmp_path), tolerance=0.3)
    training = Training(max_steps=1500, lr=0.03, patience=None)
    run = capax.measure(task, AssociativeAttention(n_heads=4, d_model=5, d_head=4), training, restarts=1)
    assert run.stop_reason == "complete"


@pytest.mark.parametrize("kind", [">f8", ">f4", "longdouble"])
def test_numbers_of_another_machine_are_read(kind: str, tmp_path: Path) -> None:
    drawn = np.random.default_rng(0)
    for name, shape in {"queries": (6, 5), "contexts": (4, 5)}.items():
        np.save(tmp_path / f"{name}.npy", drawn.standard_normal(shape).astype(kind))
    np.save(tmp_path / "labels.npy", np.arange(6).astype(">i4") % 2)
    task = Associations(library=str(tmp_path))
    run = capax.measure(task, AssociativeAttention(n_heads=2, d_model=5, d_head=4), SHORT, restarts=1)
    assert run.library_size == 6
