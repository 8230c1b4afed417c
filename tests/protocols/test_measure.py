"""Measurements against known truth."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcomes import told
from scipy.stats import binom

import capax
from capax.errors import SpecError
from capax.protocols import mac, units
from capax.protocols.count import out_of_time
from capax.protocols.mac import best_of_restarts_interval, interval_of_counts
from capax.protocols.perform import _Trainer, perform, perform_together
from capax.protocols.progress import Tracker
from capax.results import Measurement, ResultError, Search
from capax.results.overview import trained
from capax.specs import Run
from capax.training import loop
from capax.training.ensemble import Learner
from capax.training.pack import Outcome, Pack, Status
from capax.training.workers import Workers

SMALL = capax.Sequences(seq_len=4, vocab_size=10, library_size=60, loss="last")
NARROW = capax.Transformer(d_model=8, d_head=4)


def outcome(run: Measurement) -> dict[str, object]:
    """All of a measurement but how long it took."""
    return run.model_dump(exclude={"seconds"})


@pytest.mark.slow
@pytest.mark.parametrize("vocab_size", [2, 10, 100])
def test_untrained_models_recall_as_often_as_luck(vocab_size: int) -> None:
    """The first evaluation, before any step: M/T of M, within the binomial's 99.9 % interval (frozen at random)."""
    task = capax.Sequences(seq_len=6, vocab_size=vocab_size, library_size=30 if vocab_size == 2 else 500)
    run = capax.measure(task, capax.Transformer(d_model=32), capax.Training(max_epochs=1), restarts=8)
    untrained = [member.curve.memorized[0] for member in run.members]
    assert [member.curve.epoch[0] for member in run.members] == [0] * 8
    low, high = binom.interval(0.999, task.library_size, task.guess_probability())
    assert sum(low <= count <= high for count in untrained) == 8
    assert run.chance_uniform == pytest.approx(task.library_size / vocab_size)
    assert run.chance == run.chance_constant > run.chance_uniform


def test_untrained_models_recall_whole_sequences_as_often_as_luck() -> None:
    task = capax.Sequences(seq_len=3, vocab_size=4, library=("all"), recall="all")
    assert task.guess_probability() == 1 / 16
    run = capax.measure(task, NARROW, capax.Training(max_epochs=1), restarts=2)
    assert run.chance_uniform == 1
    assert run.bits == pytest.approx(run.memorized_above_chance * 4)


@pytest.mark.slow
def test_whole_sequences_are_recalled_once_per_first_token_at_most() -> None:
    """4 tokens and all 64 prefixes: a predictor that follows one path from each first token recalls 4 items."""
    task = capax.Sequences(seq_len=4, vocab_size=4, library="all", recall="all")
    run = capax.measure(task, capax.Transformer(d_model=16), capax.Training(max_epochs=200, lr=1e-2), restarts=2)
    assert run.recallable == 4
    assert run.memorized <= 4
    assert any("at most 4 of 64 items can be recalled" in note for note in run.notes)


def test_same_seed_same_result_and_another_seed_another() -> None:
    training = capax.Training(max_epochs=3)
    first, again, other = (capax.measure(SMALL, NARROW, training, restarts=2, seed=seed) for seed in (5, 5, 6))
    assert outcome(first) == outcome(again)
    assert outcome(first) != outcome(other)
    assert first.key == again.key != other.key


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "batch_size", "n_runs", "loss", "recall"),
    [
        (60, 512, 2, "last", "last"),
        (60, 512, 2, "all", "all"),
        (700, 256, 3, "all", "last"),
        pytest.param(12, 512, 10, "all", "all", marks=pytest.mark.very_slow),
    ],
)
def test_runs_measured_together_are_those_measured_alone(
    loss: str, recall: str, size: int, batch_size: int, n_runs: int
) -> None:
    """Small libraries are complete at different times; of the largest, an epoch has several batches."""
    task = SMALL.replace(library_size=size, loss=loss, recall=recall)
    training = capax.Training(max_epochs=40 if size < 100 else 3, batch_size=batch_size, lr=1e-2)
    seeds = np.random.default_rng(1).permutation(1000)[:n_runs].tolist()
    runs = [
        Run(task=task, model=NARROW, training=training, protocol=capax.Mac(restarts=2), seed=seed) for seed in seeds
    ]
    with Workers(1) as workers:
        together = perform_together(runs, workers, "cpu")
    alone = [capax.measure(task, NARROW, training, restarts=2, seed=seed) for seed in seeds]
    assert [outcome(run) for run in together] == [outcome(run) for run in alone]


def test_only_runs_that_differ_in_their_seeds_are_measured_together() -> None:
    run = Run(task=SMALL, model=NARROW, training=capax.Training(max_epochs=1), protocol=capax.Mac(restarts=1))
    wrong = [
        [],
        [run, run],
        [run, run.replace(seed=1, training=capax.Training(max_epochs=2))],
        [run.replace(protocol=capax.Mls(), seed=seed) for seed in (0, 1)],
    ]
    for runs in wrong:
        with pytest.raises(ValueError, match="runs: "):
            perform_together(runs, Workers(1), "cpu")


@pytest.mark.slow
def test_an_interrupted_search_goes_on_without_repeating_a_pack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the third round and taken up: the same measurement, and the rounds before are not trained anew."""
    run = Run(
        task=capax.Sequences(seq_len=3, vocab_size=8, library_size=64, loss="last"),
        model=capax.Transformer(d_model=4, d_head=4, ffn="none"),
        training=capax.Training(lr=3e-2, max_epochs=40),
        protocol=capax.Mls(first_size=4, seeds=2, max_trainings=8),
    )
    prepared: list[Pack] = []
    draw = loop.prepare

    def prepare(pack: Pack, at_once: int) -> Learner:
        prepared.append(pack)
        return draw(pack, at_once)

    def interrupt(progress: capax.Progress) -> None:
        if progress.done >= 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "prepare", prepare)
    whole, _ = perform(run, Workers(1), "cpu")
    rounds = len(prepared)
    with pytest.raises(KeyboardInterrupt):
        perform(run, Workers(1), "cpu", interrupt, checkpoints=tmp_path)
    begun = len(prepared) - rounds
    assert 2 < begun <= rounds
    again, _ = perform(run, Workers(1), "cpu", checkpoints=tmp_path)
    assert len(prepared) - rounds == rounds + 1  # the one that was interrupted is taken up a second time
    assert outcome(again) == outcome(whole)


def test_runs_done_together_are_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(task=SMALL, model=NARROW, training=capax.Training(max_epochs=2), protocol=capax.Mac(restarts=2))
    runs = [run.replace(seed=seed) for seed in range(3)]
    first = perform_together(runs, Workers(1), "cpu", checkpoints=tmp_path)
    monkeypatch.delattr(loop, "prepare")
    again = perform_together(runs, Workers(1), "cpu", checkpoints=tmp_path)
    assert [outcome(run) for run in again] == [outcome(run) for run in first]


def test_seconds_of_a_run_taken_up_again_count_those_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is turned by hand: a second a reading."""
    clock = itertools.count()
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    run = Run(task=SMALL, model=NARROW, training=capax.Training(max_epochs=9), protocol=capax.Mac(restarts=2))
    first, _ = perform(run, Workers(1), "cpu", checkpoints=tmp_path)
    again, _ = perform(run, Workers(1), "cpu", checkpoints=tmp_path)
    assert outcome(again) == outcome(first)
    assert again.seconds >= first.seconds - 3 > 9  # the end of the first is not on the file


def test_restarts_share_the_library_and_differ_in_weights() -> None:
    run = capax.measure(SMALL, NARROW, capax.Training(max_epochs=2), restarts=3)
    losses = {member.curve.loss[1] for member in run.members}
    assert len(losses) == 3
    more = capax.measure(SMALL, NARROW, capax.Training(max_epochs=2), restarts=5)
    assert more.members[:3] == run.members  # a restart is the same whoever else there is


def test_units_agree_with_their_formulas() -> None:
    run = capax.measure(SMALL, NARROW, capax.Training(max_epochs=20), restarts=2)
    assert run.memorized == max(run.memorized_per_restart)
    assert run.chance_uniform == 6
    above = (run.memorized - run.chance) / (1 - run.chance / 60)
    assert run.memorized_above_chance == pytest.approx(above)
    assert run.bits == pytest.approx(above * np.log2(10))
    assert run.bits_per_parameter == pytest.approx(run.bits / run.parameters.trainable)
    assert run.tokens_per_parameter == pytest.approx(4 * run.memorized / run.parameters.trainable)
    assert units.above_chance(60, 6, 60) == pytest.approx(60)


def test_interval_of_the_best_restart_covers() -> None:
    """Of 2000 pairs of studies with 5 normal restarts, the second's best lies in the first's interval 95 % of times."""
    generator = np.random.default_rng(7)
    hits = 0
    for _ in range(2000):
        counts, repeated = np.round(generator.normal(500, 30, size=(2, 5)))
        interval = best_of_restarts_interval([int(count) for count in counts], 10_000)
        assert interval is not None
        assert interval.high is not None
        hits += interval.low <= repeated.max() <= interval.high
    assert 1875 <= hits <= 1925  # the 99 % range of binomial(2000, .95)


@pytest.mark.parametrize("together", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("restarts", [2, 3])
def test_the_count_of_the_restart_that_knows_most_bits_is_held(restarts: int, together: float) -> None:
    """However far counts and bits go together."""
    generator = np.random.default_rng(9)
    hits = 0
    for _ in range(1000):
        counts, repeated, other = generator.normal(500, 30, size=(3, restarts))
        bits = together * (repeated - 500) + (1 - together) * (other - 500)
        interval = interval_of_counts([round(count) for count in counts], 10_000, by_bits=True)
        assert interval is not None
        assert interval.high is not None
        assert "knows most bits" in interval.of
        hits += interval.low <= round(repeated[bits.argmax()]) <= interval.high
    assert hits >= 930


def test_interval_needs_two_restarts_and_stays_in_the_library() -> None:
    assert best_of_restarts_interval([3], 10) is None
    interval = best_of_restarts_interval([9, 10, 2], 10)
    assert interval is not None
    assert (interval.low >= 0, interval.high) == (True, 10)


@pytest.mark.parametrize(("restarts", "spread"), [(2, 0.5), (5, 0.5), (2, 1.0), (3, 5.0)])
def test_the_interval_of_equal_counts_is_no_point(restarts: int, spread: float) -> None:
    """Whole numbers that vary little are often equal by rounding: a repeated study is in the interval all the same."""
    generator = np.random.default_rng(8)
    hits = 0
    for _ in range(1000):
        counts, repeated = np.round(generator.normal(500.3, spread, size=(2, restarts)))
        interval = interval_of_counts([int(count) for count in counts], 1000)
        assert interval is not None
        assert interval.high is not None
        hits += interval.low <= repeated.max() <= interval.high
    assert hits >= 930
    complete = interval_of_counts([1000, 1000], 1000)
    assert complete is not None
    assert (complete.low, complete.high) == (1000, 1000)
    nothing = interval_of_counts([0] * restarts, 1000)
    assert nothing is not None
    assert nothing.low == 0
    assert nothing.high is not None
    assert nothing.high >= 1  # a new training may recall an item


@pytest.mark.slow
def test_no_interval_ends_beyond_what_can_be_recalled() -> None:
    """Of 14 items of 4 tokens few can be recalled from their first tokens: others begin alike."""
    task = capax.Sequences(seq_len=3, vocab_size=4, library_size=14, recall="all")
    run = capax.measure(task, NARROW, capax.Training(max_epochs=200, lr=0.02, patience=None), restarts=2)
    assert run.memorized == run.recallable < 14
    assert run.interval is not None
    assert (run.interval.low, run.interval.high) == (run.recallable, run.recallable)


def test_many_restarts_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers, drawn a part at a time."""
    whole = mac._best_of_quantiles.__wrapped__(3, 3)
    monkeypatch.setattr(mac, "AT_ONCE", 100_000)
    assert mac._best_of_quantiles.__wrapped__(3, 3) == whole


@pytest.mark.very_slow
@pytest.mark.parametrize(("max_epochs", "restarts"), [(100, 2), (150, 3)])
def test_capacity_falls_with_length_under_the_all_position_loss_alone(max_epochs: int, restarts: int) -> None:
    """With one head, tokens (counts times seq_len − 1) are constant when every position is learned; else counts are."""
    model, training = capax.Transformer(d_model=24), capax.Training(max_epochs=max_epochs)

    def above_chance(loss: str, seq_len: int) -> float:
        task = capax.Sequences(seq_len=seq_len, vocab_size=64, library_size=500, loss=loss)
        run = capax.measure(task, model, training, restarts=restarts)
        assert run.chance_uniform is not None
        return units.above_chance(float(np.mean(run.memorized_per_restart)), run.chance_uniform, 500)

    ratio = {loss: above_chance(loss, 5) / above_chance(loss, 17) for loss in ("all", "last")}
    assert 2.7 < ratio["all"] < 6  # 16 / 4
    assert 0.85 < ratio["last"] < 1.15


@pytest.mark.very_slow
@pytest.mark.parametrize(("lr", "seeds", "max_trainings"), [(3e-2, 4, 24), (1e-2, 8, 48)])
def test_mls_finds_the_largest_whole_library_of_a_small_model(lr: float, seeds: int, max_trainings: int) -> None:
    """A library well below the threshold is complete in every seed, one well above in none."""
    model = capax.Transformer(d_model=4, d_head=4, ffn="none")
    task = capax.Sequences(seq_len=3, vocab_size=8, library_size=64, loss="last")
    training = capax.Training(lr=lr, patience=15)
    search = capax.Mls(first_size=4, seeds=seeds, max_trainings=max_trainings)
    run = capax.measure(task, model, training, protocol=search)
    assert run.search is not None
    assert run.interval is not None
    assert run.interval.high is not None
    assert run.interval.low <= run.memorized <= run.search.threshold <= run.interval.high
    assert run.memorized == int(run.search.threshold)
    assert run.chance_uniform == pytest.approx(run.memorized / 8)
    assert run.chance_constant is not None
    assert run.chance == max(run.chance_uniform, run.chance_constant)
    for size, whole in ((max(1, run.memorized // 4), True), (min(64, run.memorized * 4), False)):
        check = capax.measure(task.replace(library_size=size), model, training, restarts=4, seed=11)
        assert all((count == size) == whole for count in check.memorized_per_restart)


@pytest.mark.slow
def test_shatter_counts_and_censors() -> None:
    task = capax.Sequences(seq_len=4, vocab_size=10, library_size=4)
    run = capax.measure(task, NARROW, capax.Training(max_epochs=60, lr=1e-2), protocol=capax.Shatter(trials=40))
    shatter = run.shatter
    assert shatter is not None
    assert len(shatter.epochs) + len(shatter.censored) == 40
    assert len(shatter.epochs) > 10
    assert len(shatter.censored) > 0
    assert set(shatter.censored) == {60}
    endings = f"{len(shatter.epochs)} ended as the library was complete, {len(shatter.censored)} ended as its budget"
    assert f"40 of at most 60 epochs, {run.steps} steps, " in trained(run)
    assert endings in trained(run)
    assert max(shatter.epochs) <= 60
    complete = [member for member in run.members if member.stop_reason == "complete"]
    assert [member.epochs for member in complete] == list(shatter.epochs)
    assert shatter.fit is not None
    assert shatter.fit.mean > np.mean(shatter.epochs)  # censored trials pull the fit up


@pytest.mark.slow
def test_a_library_is_whole_where_no_search_says_that_it_could_be_larger() -> None:
    """The 50 % point of few failures may lie beyond the largest size that was tried."""
    task, training = capax.Sequences(seq_len=4, vocab_size=12, library_size=2), capax.Training(max_steps=200, lr=0.01)
    model = capax.Transformer(d_model=8, d_head=4)
    found = capax.measure(task, model, training, protocol=capax.Mls(first_size=2, max_trainings=20))
    search = found.search
    assert isinstance(search, Search)
    assert search.threshold > 2 >= found.memorized
    assert found.interval is not None
    assert found.interval.low <= found.memorized
    assert found.whole == (search.stop_reason == "all_succeeded")
    larger = capax.measure(task.replace(library_size=40), model, training, protocol=capax.Mls(max_trainings=20))
    assert not larger.whole
    assert "all that can be recalled" not in str(larger)


@pytest.mark.slow
def test_shatter_looks_at_every_epoch() -> None:
    """Whatever is usual for the task; where it does not, or a trial needs no training, no distribution is fitted."""
    task = capax.Associations(context_size=4, library_size=4, n_classes=3)
    model, trials = capax.AssociativeAttention(n_heads=2, d_model=8), capax.Shatter(trials=12)
    training = capax.Training(max_epochs=400, lr=0.01, min_steps=None)
    run = capax.measure(task, model, training, protocol=trials)
    assert run.shatter is not None
    assert run.shatter.fit is not None
    assert len(set(run.shatter.epochs)) > 4
    assert not run.notes
    for every in (1, 2):
        given = Run(task=task, model=model, training=training.replace(eval_every=every), protocol=trials).training
        assert (given.eval_every, given.eval_steps) == (every, None)
    rare = capax.measure(task, model, training.replace(eval_steps=50), protocol=trials)
    assert rare.shatter is not None
    assert {epoch % 50 for epoch in rare.shatter.epochs} == {0}
    assert rare.shatter.fit is None
    assert any("every 50 epochs only" in note for note in rare.notes)
    several = task.replace(library_size=3)
    often = capax.measure(several, model, training.replace(eval_steps=2, batch_size=1), protocol=trials)
    assert any("every 0.666667 epochs, within them too" in note for note in often.notes)
    tiny = capax.Sequences(seq_len=3, vocab_size=4, library_size=2)
    lucky = capax.measure(tiny, NARROW, capax.Training(max_epochs=200, lr=1e-2), protocol=capax.Shatter(trials=60))
    assert lucky.shatter is not None
    assert min(lucky.shatter.epochs) == 0
    assert lucky.shatter.fit is None
    assert any("needed no training" in note for note in lucky.notes)


def test_unreachable_targets_are_named() -> None:
    """At width 2 most tokens lie inside the hull of the read-out's rows."""
    task = capax.Sequences(seq_len=4, vocab_size=30, library_size=200, loss="last")
    run = capax.measure(task, capax.Transformer(d_model=2), capax.Training(max_epochs=2), restarts=1)
    assert run.unreachable is not None
    assert len(run.unreachable) > 10
    trained = capax.Transformer(d_model=2, readout="trained")
    assert capax.measure(task, trained, capax.Training(max_epochs=2), restarts=1).unreachable is None


def test_a_measurement_survives_json_and_nothing_else_is_one() -> None:
    run = capax.measure(SMALL, NARROW, capax.Training(max_epochs=1), restarts=2)
    assert Measurement.from_json(run.to_json()) == run
    with pytest.raises(ResultError, match="memorized"):
        Measurement.from_json("{}")
    with pytest.raises(ResultError):
        Measurement.from_json(run.to_json().replace('"schema_version":1', '"schema_version":2'))


def test_progress_is_reported() -> None:
    seen: list[capax.Progress] = []
    capax.measure(SMALL, NARROW, capax.Training(max_epochs=2), restarts=3, progress=seen.append)
    assert seen[-1].done == seen[-1].total == 3
    assert seen[-1].leader.library_size == 60


def test_time_limit_ends_as_budget() -> None:
    training = capax.Training(time_limit=0.5, patience=10**6)
    run = capax.measure(SMALL.replace(library_size=900), NARROW, training, restarts=2)
    assert run.stop_reason == "budget"
    assert run.seconds < 30


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(SpecError, match="keep_weights"):
        capax.measure(SMALL, NARROW, keep_weights=True)
    with pytest.raises(SpecError, match="restarts"):
        capax.measure(SMALL, NARROW, protocol="mls", restarts=2)
    with pytest.raises(SpecError, match="restarts: once, got 2 by the protocol and 3"):
        capax.measure(SMALL, NARROW, protocol=capax.Mac(restarts=2), restarts=3)
    with pytest.raises(SpecError, match="progress: a function of a Progress, got 3"):
        capax.measure(SMALL, NARROW, progress=3)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="protocol"):
        capax.measure(SMALL, NARROW, protocol="most")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="library"):
        capax.measure(SMALL.replace(library="all", library_size=1000), NARROW, protocol="mls")


@pytest.mark.very_slow
def test_time_limit_ends_a_search_without_counting_what_it_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = itertools.count()  # of a clock that knows no other processes
    monkeypatch.setattr("time.monotonic", lambda: next(readings) * 0.008)
    task = capax.Sequences(seq_len=4, vocab_size=50, library_size=5000, loss="last")
    training = capax.Training(time_limit=4.0)
    run = capax.measure(task, capax.Transformer(d_model=16), training, protocol=capax.Mls(seeds=2))
    assert run.search is not None
    assert run.members
    assert all(member.stop_reason != "budget" for member in run.members)
    with pytest.raises(SpecError, match="time_limit"):
        capax.measure(task, capax.Transformer(d_model=16), capax.Training(time_limit=1e-3), protocol="mls")


def test_epochs_of_a_checkpoint_are_no_part_of_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two trainings of 1000 epochs one went on from its 900th; after 10 s they are at 950 and, begun anew, at 50."""
    clock, seen = [0.0], list[capax.Progress]()
    monkeypatch.setattr("capax.protocols.progress.time.monotonic", lambda: clock[0])
    tracker = Tracker(seen.append, None)
    tracker.begin(2)
    for seconds, first, second in ((0.0, 900, 0), (10.0, 950, 50)):
        clock[0] = seconds
        tracker(
            [Status(0, 0, 20, first, 1, 0.1, None, 1000 - first), Status(0, 1, 20, second, 1, 0.1, None, 1000 - second)]
        )
    assert seen[0].seconds_left is None
    assert (seen[1].epochs, seen[1].seconds_left) == (100, pytest.approx(100.0))


@pytest.mark.slow
def test_progress_ends_where_numbers_of_trainings_come_again() -> None:
    """A capacity run goes on to a larger library with the same restarts."""
    seen: list[capax.Progress] = []
    task = capax.Sequences(seq_len=4, vocab_size=16, library_size=4)
    training = capax.Training(max_steps=30, cycle_steps=10)
    run = capax.measure(
        task, capax.Transformer(d_model=8), training, protocol=capax.Capacity(restarts=2), progress=seen.append
    )
    assert run.library_size > 4
    assert seen[-1].done == seen[-1].total > 2
    assert seen[-1].seconds_left == 0


def test_a_search_that_found_no_library_may_have_missed_one() -> None:
    """Ends of an interval are libraries of their own, that count whole."""
    training = capax.Training(max_epochs=1, lr=0.0001)
    protocol = capax.Mls(first_size=12, max_trainings=8)
    run = capax.measure(capax.Sequences(seq_len=3, vocab_size=6, library_size=12), NARROW, training, protocol=protocol)
    assert (run.memorized, run.memorized_above_chance) == (0, 0.0)
    assert run.interval is not None
    assert run.interval.high is not None
    (bits,) = (unit for unit in run.units if unit.name == "bits")
    assert bits.interval is not None
    assert bits.interval.high == pytest.approx(run.interval.high * np.log2(6))


@pytest.mark.parametrize(
    ("reason", "steps", "stop_when_complete", "patience", "cut"),
    [
        ("budget", 40, True, None, True),
        ("budget", 100, True, None, False),
        ("complete", 40, True, None, False),
        ("complete", 40, False, None, True),
        ("complete", 40, False, 5, False),
        ("plateau", 40, True, 5, False),
    ],
)
def test_what_the_time_limit_alone_has_ended(
    reason: Any, steps: int, stop_when_complete: bool, patience: int | None, cut: bool
) -> None:
    """Of a training that goes on when all is recalled, time may end one that was complete."""
    training = capax.Training(max_steps=100, stop_when_complete=stop_when_complete, patience=patience)
    run = Run(task=SMALL, model=NARROW, training=training, protocol=capax.Mac(restarts=1))
    ended = Outcome(0, 0, SMALL.library_size, 3, 1, 1, steps, reason, (), (), {})
    assert out_of_time(ended, run) is cut


def test_a_limit_of_time_is_of_the_whole_measurement() -> None:
    """What a search's rounds before took is not there for those that follow."""

    run = capax.Run(
        task=capax.Sequences(seq_len=4, vocab_size=8, library_size=20),
        model=capax.Transformer(d_model=8, d_head=8),
        training=capax.Training(time_limit=100.0),
    )
    left: list[float] = []

    class Told:
        busy = 1

        def train(self, pack: Any, *_: Any) -> list[Any]:
            left.append(pack.seconds)
            return [told([1.0], 20, "plateau")]

    trainer = _Trainer([run], Told(), "cpu", Tracker(None, run))  # type: ignore[arg-type]
    for spent in (0.0, 30.0, 90.0):
        trainer.seconds_before = spent
        trainer([0], [20], True)
    assert left == [pytest.approx(100, abs=1), pytest.approx(70, abs=1), pytest.approx(10, abs=1)]
