"""When a member stops, evaluation by evaluation."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from capax.specs import Training
from capax.tasks.library import Evaluation
from capax.training.stopping import Information, Record


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


@pytest.mark.parametrize(("stop_when_complete", "reason"), [(False, "converged"), (True, "complete")])
def test_a_complete_training_converges_where_it_does_not_stop_at_that(stop_when_complete: bool, reason: str) -> None:
    """Also where its budget ends with the cycle."""
    training = Training(
        schedule="cycles", cycle_steps=10, cycle_tolerance=0.05, max_steps=30, stop_when_complete=stop_when_complete
    )
    record = Record(library_size=100, budget=30)
    for steps, bits in ((10, 80.0), (30, 81.0)):
        record.steps = steps
        record.observe(steps, recalled(90 if steps == 10 else 100), 1.0, training, 1.0, "end")
        record.observe_cycle(recalled(100), Information(bits, bits), training)
    assert record.stop_reason == reason
