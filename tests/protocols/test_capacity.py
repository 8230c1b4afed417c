"""Protocol capacity: restarts trained until a cycle adds too little, in bits."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from outcomes import told

import capax
from capax.cli import main
from capax.errors import SpecError
from capax.protocols.capacity import capacity
from capax.protocols.convergence import SHARE, trend
from capax.results import Measurement
from capax.specs import Run
from capax.specs.model import freedom
from capax.training.loop import train
from capax.training.pack import Outcome, Pack

TASK = capax.Sequences(seq_len=3, vocab_size=12)
MODEL = capax.Transformer(d_model=4, d_head=4, ffn="none")
QUICK = capax.Training(cycle_steps=20, cycle_tolerance=0.2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("capacity") / "capax.db"


@pytest.fixture(scope="module")
def measured(store: Path) -> Measurement:
    return capax.measure(TASK, MODEL, QUICK, protocol="capacity", store=store, keep_weights=True)


def test_the_library_has_twice_the_bits_that_are_expected() -> None:
    task = Run(task=TASK, model=MODEL, protocol=capax.Capacity()).task
    expected = 2 * 2.3 * MODEL.product_parameters(**task.sizes())
    assert task.library_size == math.ceil(expected / (2 * math.log2(12)))
    assert Run(task=TASK.replace(library_size=7), model=MODEL, protocol=capax.Capacity()).task.library_size == 7
    assert Run(task=TASK.replace(vocab_size=3), model=MODEL, protocol=capax.Capacity()).task.library_size == 9


@pytest.mark.slow
def test_bits_are_those_of_the_weights_at_the_end_of_the_best_cycle(store: Path, measured: Measurement) -> None:
    memory = capax.load(measured.key, store)
    tokens = torch.from_numpy(memory.library)
    with torch.no_grad():
        scores = memory.model.logits(tokens[None, :, :-1])[0].double()
    chances = scores.log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    known = (2 * math.log2(12) + chances.sum(1) / math.log(2)).clamp_min(0).sum()
    best = max(max(end.bits for end in member.cycles) for member in measured.members)
    assert float(known) == pytest.approx(best, rel=1e-5)
    morris = next(unit for unit in measured.units if unit.name == "morris_bits")
    assert morris.amount == pytest.approx(best, rel=1e-5)
    assert morris.per_effective_parameter == pytest.approx(best / measured.parameters.effective, rel=1e-5)


@pytest.mark.slow
def test_a_member_converges_when_a_cycle_adds_too_little(measured: Measurement) -> None:
    assert measured.stop_reason == "converged"
    for member in measured.members:
        ends = [end.bits for end in member.cycles]
        assert [end.steps for end in member.cycles] == [20 * (2**k - 1) for k in range(1, len(ends) + 1)]
        gains = np.diff(ends) / np.maximum.accumulate(ends)[:-1]
        assert (gains[:-1] >= 0.2).all()
        assert gains[-1] < 0.2
        assert member.stop_reason == "converged"
    found = measured.capacity
    assert found is not None
    assert found.converged
    assert found.bits == pytest.approx(np.mean([max(end.bits for end in m.cycles) for m in measured.members]))
    assert found.bits < found.library_bits


def test_a_budget_is_no_capacity() -> None:
    budget = QUICK.replace(max_steps=60, cycle_tolerance=0.01)
    found = capax.measure(TASK, MODEL, budget, protocol="capacity", restarts=2)
    assert found.stop_reason == "budget"
    assert found.capacity is not None
    assert (found.capacity.converged, found.capacity.extrapolated, found.capacity.interval) == (False, None, None)
    assert found.capacity.bits > 0


@pytest.mark.very_slow
def test_a_library_that_is_known_is_doubled() -> None:
    wider, short = MODEL.replace(d_model=6), QUICK.replace(cycle_tolerance=0.4)
    found = capax.measure(TASK.replace(library_size=4), wider, short, protocol="capacity", restarts=2)
    assert found.capacity is not None
    assert found.capacity.library_sizes == tuple(4 * 2**k for k in range(len(found.capacity.library_sizes)))
    assert len(found.capacity.library_sizes) > 1
    assert found.library_size == found.capacity.library_sizes[-1]
    assert found.capacity.bits <= 0.7 * found.capacity.library_bits
    assert {member.library_size for member in found.members} == {found.library_size}


@pytest.mark.slow
def test_a_larger_library_that_time_cuts_short_is_left_out() -> None:
    """Real trainings; the time of those on the second library is over after their first step."""
    task, model = TASK.replace(library_size=4), MODEL.replace(d_model=6)
    run = Run(task=task, model=model, training=QUICK.replace(time_limit=600), protocol=capax.Capacity(restarts=2))
    whole: list[tuple[int, ...]] = []

    def trained(members: range, sizes: list[int], one_library: bool) -> list[Outcome]:
        seconds = 1e-9 if whole else None
        whole.append(tuple(sizes))
        pack = Pack(
            *(run.task, run.model, run.training),
            seeds=(run.seed,) * len(members),
            members=tuple(members),
            sizes=tuple(sizes),
            largest=max(sizes),
            mixed=False,
            one_library=one_library,
            seconds=seconds,
        )
        return train(pack)

    count = capacity(run, run.protocol, trained)
    assert whole == [(4, 4), (8, 8)]
    assert count.capacity is not None
    assert (count.library_size, count.capacity.library_sizes) == (4, (4,))
    assert {outcome.library_size for outcome in count.outcomes} == {4}
    assert count.capacity.bits > 0.7 * count.capacity.library_bits
    assert not count.capacity.converged
    assert "one of twice the size was cut short: the network may hold more" in count.notes[0]


@pytest.mark.slow
def test_nothing_is_known_beyond_the_library() -> None:
    """A library that cannot grow: its bits end the estimate, and a note says so."""
    task = capax.Sequences(seq_len=3, vocab_size=6, library="all", loss="last")
    model, training = capax.Transformer(d_model=8, d_head=8), QUICK.replace(cycle_steps=10)
    found = capax.measure(task, model, training, protocol="capacity", restarts=2)
    held = found.capacity
    assert held is not None
    assert held.bits > 0.7 * held.library_bits
    assert held.converged
    for bits in (held.extrapolated, *([held.interval.low, held.interval.high] if held.interval else [])):
        assert bits is None or bits <= held.library_bits
    assert any("no larger one was trained: the network may hold more" in note for note in found.notes)
    cut = trend([[10.0, 20.0, 22.0]] * 3, most=23.0)
    assert cut.interval is not None
    assert (cut.later, cut.interval.low, cut.interval.high) == (23.0, pytest.approx(22.0), 23.0)


@pytest.mark.slow
def test_more_workers_and_json_change_nothing(measured: Measurement, store: Path) -> None:
    again = Measurement.from_json(measured.to_json())
    assert again == measured
    assert capax.measure(TASK, MODEL, QUICK, protocol="capacity", store=store) == measured
    row = capax.read(store).row(0, named=True)
    assert row["capacity_reached"] == measured.capacity.bits  # type: ignore[union-attr]
    assert row["effective_parameters"] == measured.parameters.effective


@pytest.mark.slow
def test_associations_have_a_capacity_too() -> None:
    found = capax.measure(
        capax.Associations(context_size=3, n_classes=4),
        capax.AssociativeAttention(d_model=4, d_head=4),
        QUICK,
        protocol="capacity",
        restarts=2,
    )
    assert found.capacity is not None
    assert 0 < found.capacity.bits < found.capacity.library_bits


@pytest.mark.parametrize(
    ("task", "model", "training", "field"),
    [
        (capax.Relations(n_items=8), capax.KeyQueryChannel(d_model=4, d_head=2), {}, "protocol"),
        (capax.Associations(labels="normal"), capax.AssociativeAttention(), {}, "protocol"),
        (TASK, MODEL, {"schedule": "constant"}, "schedule"),
        (TASK, MODEL, {"cycle_steps": 0}, "cycle_steps"),
        (TASK, MODEL.replace(norms=False), {"gain_lr": 2}, "gain_lr"),
        (TASK, MODEL, {"optimizer": "lion"}, "optimizer"),
    ],
)
def test_what_cannot_be_measured_is_refused(task: Any, model: Any, training: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecError, match=f"^{field}: "):
        Run(task=task, model=model, training=capax.Training(**training), protocol=capax.Capacity())


@pytest.mark.parametrize("field", ["cycle_steps", "cycle_tolerance"])
def test_cycles_alone_have_their_fields(field: str) -> None:
    with pytest.raises(SpecError, match=field):
        Run(task=TASK, model=MODEL, training=capax.Training(**{field: 0.5 if "tol" in field else 5}))


@pytest.mark.parametrize("rows, inner, columns", [(4, 2, 4), (4, 4, 4), (4, 7, 4), (5, 3, 2), (6, 1, 6)])  # noqa: PT006
def test_freedom_is_the_rank_of_what_a_product_says(rows: int, inner: int, columns: int) -> None:
    """The rank of the derivative of A B by all numbers of A and B, at random ones."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(rows, inner, generator=generator, dtype=torch.float64)
    b = torch.randn(inner, columns, generator=generator, dtype=torch.float64)
    by_a, by_b = torch.autograd.functional.jacobian(torch.matmul, (a, b))
    derivative = torch.cat([by_a.reshape(rows * columns, -1), by_b.reshape(rows * columns, -1)], 1)
    assert int(torch.linalg.matrix_rank(derivative)) == freedom(rows, inner, columns)


def test_effective_parameters_of_models() -> None:
    sizes = TASK.sizes()
    wide, narrow = (capax.Transformer(d_model=16, n_heads=4, d_head=d) for d in (16, 2))
    spare = {
        model: model.parameter_counts(**sizes)["trainable"] - model.product_parameters(**sizes)
        for model in (wide, narrow)
    }
    assert spare == {wide: 4 * (4 * 16 * 16 - 2 * 16 * 16), narrow: 4 * (4 * 16 * 2 - 2 * 2 * (32 - 2))}
    more = capax.Transformer(d_model=16, d_head=64)
    assert more.effective_parameters(**sizes) == more.replace(d_head=16).effective_parameters(**sizes)
    summed = capax.KeyQueryChannel(d_model=8, n_heads=8, d_head=2, aggregate="sum")
    assert summed.effective_parameters(n_items=9) == 8 * 8 + 2
    assert summed.replace(aggregate="max").effective_parameters(n_items=9) == 8 * freedom(8, 2, 8) + 2


@pytest.mark.slow
def test_the_command_says_first_whether_it_converged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "measure",
        "sequences",
        "--protocol",
        "capacity",
        "--seq-len",
        "3",
        "--vocab-size",
        "12",
        "--d-model",
        "4",
        "--d-head",
        "4",
        "--ffn",
        "none",
        "--cycle-steps",
        "20",
        "--max-steps",
        "60",
        "--restarts",
        "2",
        "--workers",
        "1",
    ]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--store", str(tmp_path / "a.db")])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "not converged" in said.splitlines()[1]
    with pytest.raises(SystemExit):
        main([*command, "--store", str(tmp_path / "a.db"), "--json"])
    assert json.loads(capsys.readouterr().out)["capacity"]["converged"] is False


def test_a_trend_needs_gains_that_shrink() -> None:
    assert trend([[10.0, 15.0, 20.0], [10.0, 15.0, 20.0]]).later is None
    assert trend([[10.0, 15.0], [10.0, 15.0]]).later is None
    alike = trend([[10.0, 20.0, 22.0]] * 3)
    assert (alike.reached, alike.last_gain) == (22, pytest.approx(0.1))
    more = 2 + SHARE * 22
    assert SHARE == 0.02  # of what is reached, as the recorded trainings gained on the mean (docs/capacity.md)
    assert alike.later == 22 + more
    assert alike.interval is not None
    assert (alike.interval.low, alike.interval.high) == pytest.approx((22, 22 + 2 * more))


@pytest.mark.slow
def test_the_interval_of_a_trend_holds_the_mean_of_all_restarts() -> None:
    """Where restarts are normal, and what is still to come is, from nothing to twice the usual in 95 % of cases."""
    generator, held = np.random.default_rng(0), 0
    usual = SHARE * 100
    for _ in range(2000):
        found = trend([[end - 10.0, end, end] for end in generator.normal(100, 5, 3)]).interval
        assert found is not None
        held += found.low <= 100 + generator.normal(usual, usual / 1.96) <= (found.high or math.inf)
    assert 0.93 <= held / 2000 <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("limit", [{"max_steps": 130}, {"time_limit": 1e-9}])
def test_a_training_that_ends_within_a_cycle_counts_what_it_recalls_there(limit: dict[str, float]) -> None:
    """Not what it recalled at the end of the cycle before, which may be far less."""
    task = capax.Sequences(seq_len=3, vocab_size=20, library_size=120)
    model = capax.Transformer(d_model=16, d_head=8)
    training = capax.Training(
        optimizer="soap", lr=0.005, schedule="cycles", cycle_steps=100, eval_steps=10, stop_when_complete=False, **limit
    )
    run = capax.measure(task, model, training, restarts=1)
    (member,) = run.members
    assert run.memorized == member.curve.memorized[-1]
    assert run.memorized > max(member.curve.memorized[:-1], default=0)
    assert member.epoch_of_best == member.curve.epoch[-1]
    alone = capax.measure(task, model, training.replace(max_steps=100, time_limit=None), restarts=1)
    assert run.memorized != alone.memorized
    assert run.units != alone.units  # bits are those of the same weights


def capacity_run(size: int) -> capax.Run:
    """Of items of 7.2 bits each."""
    return capax.Run(
        task=capax.Sequences(seq_len=3, vocab_size=12, library_size=size),
        model=capax.Transformer(d_model=4, d_head=4, ffn="none"),
        training=capax.Training(cycle_steps=20, cycle_tolerance=0.2, time_limit=600),
        protocol=capax.Capacity(restarts=2),
    )


def test_a_larger_library_that_time_cut_short_counts_where_more_of_it_is_known() -> None:

    run = capacity_run(4)  # of 28.7 bits
    rounds = iter([[told([20, 25, 26], 4, "converged")] * 2, [told([20, 30, 34], 8, "budget")] * 2])
    count = capacity(run, run.protocol, lambda *_: next(rounds))  # type: ignore[arg-type]
    assert count.capacity is not None
    assert (count.capacity.library_sizes, count.capacity.bits, count.capacity.converged) == ((4, 8), 34.0, False)


def test_what_one_restart_did_not_converge_to_is_a_lower_bound() -> None:

    run = capacity_run(100)
    each = [told([100, 130, 140], 100, "converged"), told([100, 130, 142], 100, "budget")]
    held = capacity(run, run.protocol, lambda *_: each).capacity  # type: ignore[arg-type]
    assert held is not None
    assert (held.converged, held.extrapolated, held.interval) == (False, None, None)
