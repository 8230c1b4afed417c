"""When a member stops, evaluation by evaluation."""

from __future__ import annotations

from dataclasses import asdict

import pytest

import capax
from capax.specs import Training
from capax.tasks.library import Evaluation
from capax.training.stopping import Information, Record, converged_at


def recalled(count: int, score: float | None = None) -> Evaluation:
    return Evaluation(count, {}, (float(count if score is None else score),), complete=count == 100)


@pytest.mark.parametrize("cycle", [None, "within"])
def test_patience_counts_evaluations_since_the_most_was_recalled(cycle: str | None) -> None:
    """Within a cycle, too, where none of them is the best yet."""
    record, training = Record(library_size=100), Training(patience=2)
    counts = (27, 34, 40, 45, 41, 43)
    for epoch, count in enumerate(counts):
        assert record.stop_reason is None, counts[epoch - 1]
        record.observe(epoch, recalled(count), 1.0, training, 1.0, cycle)  # type: ignore[arg-type]
    assert record.stop_reason == "plateau"


def test_an_older_record_knows_the_most_by_its_curve() -> None:
    fields = asdict(Record(library_size=100, curve=[(0, 60, 1.0), (1, 40, 1.0)], best=60, stale=1, lowest_loss=1.0))
    del fields["highest"]
    record = Record(**fields)
    record.observe(2, recalled(40), 1.0, Training(patience=2), 1.0)
    assert record.stop_reason == "plateau"


def test_patience_counts_items_where_the_best_is_another() -> None:
    """Of relations the best has the largest F1, which may recall fewer items than one before."""
    record, training = Record(library_size=100), Training(patience=2)
    record.observe(0, recalled(60, score=0.4), 1.0, training, 1.0)
    record.observe(1, recalled(50, score=0.5), 1.0, training, 1.0)
    assert record.best == 50
    record.observe(2, recalled(55, score=0.3), 1.0, training, 1.0)
    assert record.stop_reason == "plateau"


@pytest.mark.parametrize(("best_by", "epoch"), [("recalled", 1), ("loss", 2)])
def test_the_best_evaluation_recalls_most_or_has_the_lowest_loss(best_by: str, epoch: int) -> None:
    record = Record(library_size=100)
    training = Training(best_by=best_by, stop_when_complete=False)
    found = [(0, -3.0), (70, 5.0), (60, 6.0), (65, 5.5)]
    for at, (count, bits) in enumerate(found):
        record.observe(at, recalled(count), 1.0, training, 1.0, information=Information(bits, bits))
    record.observe(len(found), recalled(70), 1.0, training, 1.0)  # a loss that is not finite
    assert record.best_epoch == epoch
    assert record.best == found[epoch][0]


@pytest.mark.parametrize(("stop_when_complete", "reason"), [(False, "converged"), (True, "complete")])
def test_a_complete_training_converges_where_it_does_not_stop_at_that(stop_when_complete: bool, reason: str) -> None:
    """Also where its budget ends with the cycle."""
    training = Training(
        schedule="cycles", cycle_steps=10, cycle_tolerance=0.05, max_steps=70, stop_when_complete=stop_when_complete
    )
    record = Record(library_size=100, budget=70)
    for steps, bits in ((10, 80.0), (30, 90.0), (70, 91.0)):
        record.steps = steps
        record.observe(steps, recalled(100 if steps == 70 else 90), 1.0, training, 1.0, "end")
        record.observe_cycle(recalled(100), Information(bits, bits), training)
    assert record.stop_reason == reason


def test_a_network_that_starts_far_off_may_learn() -> None:
    """A loss has diverged where it is far above that of a uniform guess, and of the first step."""
    training = Training(patience=9)
    record = Record(library_size=100, first_loss=90.0)
    for epoch, loss in enumerate((80.0, 60.0, 70.0, 899.0)):
        record.observe(epoch, recalled(0), loss, training, 1.0)
    assert record.stop_reason is None
    record.observe(4, recalled(0), 901.0, training, 1.0)
    assert record.stop_reason == "diverged"
    for first in (0.5, None):  # of an older checkpoint
        risen = Record(library_size=100, first_loss=first)
        risen.observe(1, recalled(3), 9.9, training, 1.0)
        assert risen.stop_reason is None
        risen.observe(2, recalled(3), 10.1, training, 1.0)
        assert risen.stop_reason == "diverged"


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_has_diverged(loss: float) -> None:
    record = Record(library_size=100)
    record.observe(1, recalled(100), loss, Training(), 1.0)
    assert record.stop_reason == "diverged"


def test_a_complete_library_is_complete_whatever_the_loss_is_over() -> None:
    """The loss is a mean over the epochs since the last evaluation, the first ones among them."""
    record = Record(library_size=100, curve=[(0, 0, 20.0)])
    record.observe(1, recalled(100), 30.0, Training(), 1.0)
    assert record.stop_reason == "complete"


def test_it_takes_three_cycles_to_converge() -> None:
    assert converged_at([100.0, 102.0], 0.05) is None
    assert converged_at([100.0, 102.0, 103.0], 0.05) == 3
    assert converged_at([50.0, 100.0, 110.0, 112.0], 0.05) == 4


def test_the_best_end_of_a_cycle_stays_where_time_ends_a_later_one() -> None:
    """An evaluation within a cycle is the best only where it is better than the ends before it."""
    training = Training(schedule="cycles", cycle_steps=10, cycle_tolerance=0.05, max_steps=70)
    record = Record(library_size=100)
    record.steps = 10
    record.observe(10, recalled(60), 1.0, training, 1.0, "end")
    assert record.observe_cycle(recalled(60), Information(80.0, 80.0), training)
    record.steps = 15
    assert not record.observe(15, recalled(50), 1.0, training, 1.0, "within", out_of_time=True)
    assert (record.best, record.best_epoch) == (60, 10)


def test_within_a_cycle_no_evaluation_is_the_best() -> None:
    """There the learning rate is high: what counts, and whose weights are kept, are ends of cycles."""

    training = capax.Training(schedule="cycles", cycle_steps=2, patience=None)
    record = Record(library_size=10)
    five, four = (Evaluation(count, {}, (float(count),), False) for count in (5, 4))
    assert not record.observe(1, five, 1.0, training, 2.0, "within")
    assert record.best == -1
    assert not record.observe(2, four, 1.0, training, 2.0, "end")
    assert record.observe_cycle(four, Information(8.0, 8.0), training)
    assert not record.observe(3, five, 1.0, training, 2.0, "within")
    assert (record.best, record.best_epoch, record.information) == (4, 2, Information(8.0, 8.0))
