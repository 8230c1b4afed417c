"""`measure`: from a task and a model to a measurement, by one of the protocols."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.stats import binomtest

from capax import machine, memory
from capax.errors import SpecError, StoreWriteError
from capax.measures import chance, units
from capax.measures.mac import LEVEL, best_of_restarts_interval
from capax.measures.negative_binomial import fit_negative_binomial
from capax.measures.progress import Callback, Tracker
from capax.measures.search import ThresholdFit, Trial, fit_threshold, search_threshold
from capax.results import Curve, Interval, Measurement, Member, NegativeBinomial, Parameters, Search, ShatterEpochs
from capax.seeds import numpy_generator
from capax.specs import PROTOCOLS, Mac, Mls, Run, Sequences, Shatter, Training, Transformer
from capax.store import Store
from capax.tasks import sequences
from capax.training.loop import Outcome, Pack
from capax.training.workers import Workers


def measure(
    task: Sequences,
    model: Transformer,
    training: Training | None = None,
    *,
    protocol: Literal["mac", "mls", "shatter"] | Mac | Mls | Shatter = "mac",
    restarts: int | None = None,
    seed: int = 0,
    store: Store | Path | str | None = None,
    fresh: bool = False,
    keep_weights: bool = False,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    workers: int | Workers = 1,
    threads: int = 1,
    progress: Callback | None = None,
) -> Measurement:
    """Train the model on the task and count what it remembers.

    Args:
        task: what is to be remembered.
        model: who remembers.
        training: how it learns; the defaults when not given.
        protocol: `"mac"`, `"mls"`, `"shatter"`, or their specs for more than the defaults.
        restarts: restarts of `"mac"` (5 when not given).
        seed: names all random draws; same seed, same result (on the CPU bit for bit, whatever `workers`).
        store: where finished runs are kept; a run that is already there is returned, not repeated.
        fresh: measure again even so, and replace it.
        keep_weights: keep the best restart's parameters beside the store, for `capax.load`.
        workers: processes on a CPU; more than 1 needs the caller's script to be guarded by
            `if __name__ == "__main__"`. A `Workers` is used as it is, and left open for the next measurement.
        threads: torch threads per process.
        progress: called a few times a second with a `Progress`.

    Returns:
        The measurement, with its protocol, chance level, interval and reason for stopping.

    Raises:
        SpecError: for a field that is not allowed.
        DeviceError: for a device that is not there.
        StoreError: for a store that cannot be opened; `StoreWriteError` when the finished run cannot be saved (the
            error's `unsaved` holds it).
    """
    if isinstance(protocol, str):
        if protocol not in PROTOCOLS:
            raise SpecError(f"protocol: should be one of {', '.join(PROTOCOLS)}, got {protocol!r}")
        protocol = PROTOCOLS[protocol]()
    if restarts is not None:
        if not isinstance(protocol, Mac):
            raise SpecError(f"restarts: only for protocol 'mac', got protocol {protocol.protocol!r}")
        protocol = protocol.replace(restarts=restarts)
    run = Run(task=task, model=model, training=training or Training(), protocol=protocol, seed=seed)
    where = machine.choose_device(device)
    if keep_weights and not isinstance(protocol, Mac):
        raise SpecError(f"keep_weights: only for protocol 'mac', got {protocol.protocol!r}")
    if keep_weights and store is None:
        raise SpecError("keep_weights: weights are kept beside a store, but no store was given")
    with ExitStack() as stack:
        if not isinstance(workers, Workers):
            workers = stack.enter_context(Workers(workers if where == "cpu" else 1, threads))
        if store is None:
            return perform(run, workers, where, progress)[0]
        if not isinstance(store, Store):
            store = stack.enter_context(Store(store))
        path = store.weights_path(run.key())
        known = None if fresh or (keep_weights and not path.exists()) else store.get(run.key())
        if known is not None:
            return known
        measurement, best = perform(run, workers, where, progress, keep_weights)
        try:
            if best.weights is not None:
                memory.save(path, best.weights)
            store.add(measurement)
        except StoreWriteError as error:
            error.unsaved = measurement
            raise
        return measurement


def perform(
    run: Run, workers: Workers, device: str, progress: Callback | None = None, keep_weights: bool = False
) -> tuple[Measurement, Outcome]:
    """Do a run, and return its measurement and the outcome of the member that counts."""
    started = time.monotonic()
    tracker = Tracker(progress)

    def train(members: Sequence[int], sizes: Sequence[int], one_library: bool) -> list[Outcome]:
        limit = run.training.time_limit
        pack = Pack(
            run.task,
            run.model,
            run.training,
            run.seed,
            tuple(members),
            tuple(sizes),
            largest=max(sizes),
            mixed=len(set(sizes)) > 1,
            one_library=one_library,
            device=device,
            seconds=None if limit is None else max(limit - (time.monotonic() - started), 0),
            keep_weights=keep_weights,
        )
        tracker.total += len(members)
        return workers.train(pack, tracker)

    found = _PROCEDURES[type(run.protocol)](run, train)
    return _measurement(run, found, time.monotonic() - started), found.best


Train = Callable[[Sequence[int], Sequence[int], bool], list[Outcome]]


@dataclass(frozen=True)
class Found:
    """What a protocol found, before units."""

    memorized: int
    best: Outcome
    outcomes: list[Outcome]
    library_size: int
    interval: Interval | None
    search: Search | None = None
    shatter: ShatterEpochs | None = None


def _mac(run: Run, train: Train) -> Found:
    assert isinstance(run.protocol, Mac)
    restarts, size = run.protocol.restarts, run.task.library_size
    outcomes = train(range(restarts), [size] * restarts, True)
    best = max(outcomes, key=lambda outcome: outcome.memorized)
    counts = [outcome.memorized for outcome in outcomes]
    return Found(best.memorized, best, outcomes, size, best_of_restarts_interval(counts, size))


def _mls(run: Run, train: Train) -> Found:
    assert isinstance(run.protocol, Mls)
    outcomes: list[Outcome] = []

    def learn(round_: list[tuple[int, int]]) -> list[bool]:
        sizes, members = zip(*round_, strict=True)
        trained = train(members, sizes, False)
        if any(_out_of_time(outcome, run.training) for outcome in trained):
            raise _OutOfTime  # what was cut short is no failure: the whole round does not count
        outcomes.extend(trained)
        return [outcome.stop_reason == "complete" for outcome in trained]

    try:
        fit = search_threshold(
            learn,
            first_size=min(run.protocol.first_size, run.task.library_size),
            largest_size=run.task.library_size,
            seeds_per_round=run.protocol.seeds,
            max_trials=run.protocol.max_trainings,
            precision=run.protocol.tolerance,
            seed=int(numpy_generator(run.seed, "search").integers(2**31)),
        )
    except _OutOfTime:
        if not outcomes:
            limit = run.training.time_limit
            raise SpecError(f"time_limit: should allow for the first round of the search, got {limit}") from None
        fit = fit_threshold(Trial(o.library_size, o.member, o.stop_reason == "complete") for o in outcomes)
    memorized = _whole_library(fit)
    complete = [outcome for outcome in outcomes if outcome.stop_reason == "complete"] or outcomes
    best = min(complete, key=lambda outcome: abs(outcome.library_size - memorized))
    interval = Interval(
        low=fit.low,
        high=fit.high if np.isfinite(fit.high) else None,
        level=fit.level,
        of="library size at which half of the trainings memorize the whole library",
    )
    search = Search.model_validate(fit, from_attributes=True)
    return Found(memorized, best, outcomes, run.task.library_size, interval, search=search)


class _OutOfTime(Exception):
    """The time limit ended a round of a search."""


def _out_of_time(outcome: Outcome, training: Training) -> bool:
    return outcome.stop_reason == "budget" and outcome.epochs != training.max_epochs


def _whole_library(fit: ThresholdFit) -> int:
    return 0 if fit.stop_reason == "all_failed" else int(fit.threshold)


def _shatter(run: Run, train: Train) -> Found:
    assert isinstance(run.protocol, Shatter)
    trials, size = run.protocol.trials, run.task.library_size
    outcomes = train(range(trials), [size] * trials, False)
    epochs = [o.epochs for o in outcomes if o.stop_reason == "complete"]
    censored = [o.epochs for o in outcomes if o.stop_reason != "complete"]
    share = binomtest(len(epochs), trials).proportion_ci(LEVEL)
    fit = fit_negative_binomial(np.array(epochs), np.array(censored, dtype=int)) if epochs and min(epochs) > 0 else None
    shatter = ShatterEpochs(
        epochs=tuple(epochs),
        censored=tuple(censored),
        completed_share=Interval(low=share.low, high=share.high, level=LEVEL, of="share of trials that complete"),
        median=_median(epochs, len(censored)),
        fit=None if fit is None else NegativeBinomial.model_validate(fit, from_attributes=True),
    )
    best = max(outcomes, key=lambda outcome: outcome.memorized)
    return Found(best.memorized, best, outcomes, size, None, shatter=shatter)


def _median(epochs: list[int], censored: int) -> float | None:
    """Median over all trials; None when fewer than half completed."""
    every = sorted(epochs) + [np.inf] * censored
    middle = float(np.median(every)) if epochs else np.inf
    return middle if np.isfinite(middle) else None


_PROCEDURES: dict[type, Callable[[Run, Train], Found]] = {Mac: _mac, Mls: _mls, Shatter: _shatter}


def _measurement(run: Run, found: Found, seconds: float) -> Measurement:
    task, best = run.task, found.best
    size = max(found.memorized, 1) if isinstance(run.protocol, Mls) else found.library_size
    lucky = chance.mean(size, chance.guess_probability(task))
    above = units.above_chance(found.memorized, lucky, size)
    bits = above * units.bits_per_item(task)
    recallable, notes = size, list(dict.fromkeys(note for outcome in found.outcomes for note in outcome.notes))
    if isinstance(run.protocol, Mac) and (task.recall == "all" or task.duplicates == "keep"):
        library = sequences.draw(task, size, numpy_generator(run.seed, "library", 0))
        recallable = sequences.reachable_items(library, task.recall)
        if recallable < size:
            why = "one prefix, two targets" if task.recall == "last" else "one first token leads to one sequence only"
            notes.append(f"{size - recallable} of {size} items contradict others ({why})")
    unreachable = sorted({token for outcome in found.outcomes for token in outcome.unreachable})
    return Measurement(
        memorized=found.memorized,
        memorized_per_restart=tuple(outcome.memorized for outcome in found.outcomes),
        chance=lucky,
        memorized_above_chance=above,
        interval=found.interval,
        library_size=found.library_size,
        recallable=recallable,
        bits=bits,
        bits_per_parameter=bits / best.parameters["trainable"],
        tokens_per_parameter=units.tokens_per_parameter(found.memorized, task.seq_len, best.parameters["trainable"]),
        parameters=Parameters(**best.parameters),
        epochs=best.epochs if isinstance(run.protocol, Mac) else max(o.epochs for o in found.outcomes),
        steps=best.steps if isinstance(run.protocol, Mac) else max(o.steps for o in found.outcomes),
        seconds=seconds,
        stop_reason=best.stop_reason,
        unreachable=None if run.model.readout == "trained" else tuple(unreachable),
        members=tuple(_member(outcome, whole_curve=isinstance(run.protocol, Mac)) for outcome in found.outcomes),
        search=found.search,
        shatter=found.shatter,
        notes=tuple(notes),
        spec=run,
        key=run.key(),
        versions=machine.versions(),
    )


def _member(outcome: Outcome, whole_curve: bool) -> Member:
    points, highest = [], -1
    for point in outcome.curve:
        if whole_curve or point[1] > highest or point is outcome.curve[-1]:
            points.append(point)
        highest = max(highest, point[1])
    epochs, memorized, losses = zip(*points, strict=True)
    return Member(
        member=outcome.member,
        library_size=outcome.library_size,
        memorized=outcome.memorized,
        epoch_of_best=outcome.epoch_of_best,
        epochs=outcome.epochs,
        steps=outcome.steps,
        stop_reason=outcome.stop_reason,
        unreachable=outcome.unreachable,
        curve=Curve(epoch=epochs, memorized=memorized, loss=losses),
    )
