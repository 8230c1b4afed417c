"""`measure`: from a task and a model to a measurement, by one of the protocols."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.stats import binomtest

from capax import machine, memory
from capax.errors import SpecError, StoreWriteError
from capax.measures import budget, chance, units
from capax.measures.mac import LEVEL, best_of_restarts_interval
from capax.measures.negative_binomial import fit_negative_binomial
from capax.measures.progress import Callback, Tracker
from capax.measures.search import ThresholdFit, Trial, fit_threshold, search_threshold
from capax.models.size import channel_parameters
from capax.results import (
    Curve,
    HeadCount,
    Interval,
    Measurement,
    Member,
    NegativeBinomial,
    Parameters,
    Search,
    ShatterEpochs,
)
from capax.seeds import numpy_generator
from capax.specs import (
    PROTOCOLS,
    Budget,
    KeyQueryChannel,
    Mac,
    Mls,
    Model,
    Relations,
    Run,
    Sequences,
    Shatter,
    Task,
    Training,
    Transformer,
)
from capax.store import Store
from capax.tasks import relation_files, sequences
from capax.training.pack import Outcome, Pack
from capax.training.workers import Workers


def measure(
    task: Task,
    model: Model,
    training: Training | None = None,
    *,
    protocol: Literal["mac", "mls", "shatter", "budget"] | Mac | Mls | Shatter | Budget = "mac",
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
        training: how it learns; what it leaves open is as the task's paper has it.
        protocol: `"mac"`, `"mls"`, `"shatter"`, `"budget"`, or their specs for more than the defaults.
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
    run: Run,
    workers: Workers,
    device: str,
    progress: Callback | None = None,
    keep_weights: bool = False,
    checkpoints: Path | None = None,
) -> tuple[Measurement, Outcome]:
    """Do a run, and return its measurement and the outcome of the member that counts.

    Args:
        checkpoints: a folder where trainings leave their state: a run that was killed goes on from there, and its
            seconds and time limit count those before. The caller removes it once the measurement is kept.
    """
    trainer = _Trainer([run], workers, device, Tracker(progress), keep_weights, checkpoints)
    found = _PROCEDURES[type(run.protocol)](run, trainer)
    return _measurement(run, found, trainer.seconds), found.best


def perform_together(
    runs: Sequence[Run],
    workers: Workers,
    device: str,
    progress: Callback | None = None,
    checkpoints: Path | None = None,
) -> list[Measurement]:
    """Do MAC runs that differ in their seeds alone, all their restarts in one pack.

    Each measurement is that of the run alone (on the CPU bit for bit) but for its `seconds`: the time of all, divided
    by the number of runs. A time limit is for each run, so the pack has as many times the seconds. Where the last
    digits may depend on the pack (a GPU, compiled code), a note names the seeds that trained together.

    Args:
        checkpoints: as in `perform`.

    Raises:
        ValueError: for runs of another protocol, that differ in more than their seeds, or that have equal seeds.
    """
    if not runs or any(not isinstance(run.protocol, Mac) for run in runs):
        raise ValueError("runs: at least one, and only of protocol 'mac', train together")
    if len({run.replace(seed=0).key() for run in runs}) > 1:
        raise ValueError("runs: only runs that differ in nothing but their seed train together")
    if len({run.seed for run in runs}) < len(runs):
        raise ValueError("runs: each needs a seed of its own to train together")
    trainer = _Trainer(runs, workers, device, Tracker(progress), checkpoints=checkpoints)
    founds = _best_of_restarts(runs, trainer)
    exact = device == "cpu" and not runs[0].training.compile
    packed = () if exact else (f"pack: trained with seeds {', '.join(str(run.seed) for run in runs)}",)
    seconds = trainer.seconds / len(runs)
    return [_measurement(run, found, seconds, packed) for run, found in zip(runs, founds, strict=True)]


class _Trainer:
    """Trains what a protocol asks for, on one clock; runs that differ in their seeds alone share packs.

    Attributes:
        seconds_before: time that went into the trainings before this process took them up.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        workers: Workers,
        device: str,
        tracker: Tracker,
        keep_weights: bool = False,
        checkpoints: Path | None = None,
    ) -> None:
        self._runs, self._workers, self._device, self._tracker = runs, workers, device, tracker
        self._keep_weights, self._checkpoints = keep_weights, checkpoints
        self._started, self.seconds_before = time.monotonic(), 0.0

    @property
    def seconds(self) -> float:
        """Time since the runs began, in whatever process."""
        return time.monotonic() - self._started + self.seconds_before

    def __call__(
        self,
        members: Sequence[int],
        sizes: Sequence[int],
        one_library: bool,
        model: Model | None = None,
        d_heads: Sequence[int] | None = None,
    ) -> list[Outcome]:
        """Train some members of each run; outcomes run by run.

        Args:
            model: another one than the runs'.
            d_heads: the members' head sizes, where these differ.
        """
        run, times = self._runs[0], len(self._runs)
        limit = run.training.time_limit
        pack = Pack(
            run.task,
            model or run.model,
            run.training,
            tuple(run.seed for run in self._runs for _ in members),
            tuple(members) * times,
            tuple(sizes) * times,
            largest=max(sizes),
            mixed=len(set(sizes)) > 1,
            one_library=one_library,
            device=self._device,
            seconds=None if limit is None else max(limit * times - self.seconds, 0.0),
            keep_weights=self._keep_weights,
            d_heads=None if d_heads is None else tuple(d_heads) * times,
        )
        self._tracker.total += len(pack.members)
        outcomes = self._workers.train(pack, self._tracker, self._checkpoints)
        at_once = min(self._workers.workers, len(outcomes))
        self.seconds_before += sum(outcome.seconds_before for outcome in outcomes) / at_once
        return outcomes


Train = Callable[..., list[Outcome]]
"""As `_Trainer`."""


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
    per_heads: tuple[HeadCount, ...] | None = None


def _mac(run: Run, train: Train) -> Found:
    return _best_of_restarts([run], train)[0]


def _best_of_restarts(runs: Sequence[Run], train: Train) -> list[Found]:
    """What MAC finds of runs that differ in their seeds alone."""
    protocol, size = runs[0].protocol, runs[0].task.library_size
    assert isinstance(protocol, Mac)
    restarts, founds = protocol.restarts, []
    trained = train(range(restarts), [size] * restarts, True)
    for place in range(len(runs)):
        outcomes = trained[place * restarts : (place + 1) * restarts]
        best = max(outcomes, key=lambda outcome: outcome.memorized)
        interval = best_of_restarts_interval([outcome.memorized for outcome in outcomes], size)
        founds.append(Found(best.memorized, best, outcomes, size, interval))
    return founds


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
            precision=run.protocol.interval_width,
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
    return outcome.stop_reason == "budget" and outcome.steps != training.budget(outcome.library_size)


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


def _budget(run: Run, train: Train) -> Found:
    protocol, model, size = run.protocol, run.model, run.task.library_size
    assert isinstance(protocol, Budget)
    assert isinstance(model, KeyQueryChannel)
    outcomes: dict[int, list[tuple[int, Outcome]]] = {}
    guess = size * math.log2(max(size, 2)) / model.d_model

    def of(n_heads: int) -> Callable[[Sequence[tuple[int, int]]], list[float]]:
        def learn(pairs: Sequence[tuple[int, int]]) -> list[float]:
            d_heads, members = zip(*pairs, strict=True)
            channel = model.replace(n_heads=n_heads, d_head=max(d_heads))
            found = train(members, [size] * len(pairs), False, channel, d_heads)
            if any(_out_of_time(outcome, run.training) for outcome in found):
                raise SpecError(f"time_limit: too short for the search, got {run.training.time_limit}")
            outcomes.setdefault(n_heads, []).extend(zip(d_heads, found, strict=True))
            return [outcome.metrics["f1"] for outcome in found]

        return learn

    seed = int(numpy_generator(run.seed, "search").integers(2**31))
    counts = [budget.smallest(of(h), protocol, h, model.d_model, guess, seed) for h in protocol.head_counts]
    enough = [count for count in counts if count.total_key_dim is not None]
    chosen = min(enough, key=lambda count: (count.total_key_dim, count.n_heads)) if enough else counts[-1]
    wanted = chosen.d_head or model.d_model
    near = min(outcomes[chosen.n_heads], key=lambda pair: (abs(pair[0] - wanted), -pair[1].metrics["f1"]))[1]
    every = [outcome for pairs in outcomes.values() for _, outcome in pairs]
    counted = channel_parameters(model.replace(n_heads=chosen.n_heads, d_head=wanted))
    best = replace(near, parameters=counted)
    return Found(best.memorized, best, every, size, None, per_heads=tuple(counts))


def _median(epochs: list[int], censored: int) -> float | None:
    """Median over all trials; None when fewer than half completed."""
    every = sorted(epochs) + [np.inf] * censored
    middle = float(np.median(every)) if epochs else np.inf
    return middle if np.isfinite(middle) else None


_PROCEDURES: dict[type, Callable[[Run, Train], Found]] = {
    Mac: _mac,
    Mls: _mls,
    Shatter: _shatter,
    Budget: _budget,
}


def _measurement(run: Run, found: Found, seconds: float, packed: tuple[str, ...] = ()) -> Measurement:
    task, best = run.task, found.best
    size = max(found.memorized, 1) if isinstance(run.protocol, Mls) else found.library_size
    lucky = chance.expected(task, size, best.metrics)
    above = units.above_chance(found.memorized, lucky, size)
    bits = above * units.bits_per_item(task)
    told = dict.fromkeys(note for outcome in found.outcomes for note in outcome.notes)
    recallable, notes = size, [*told, *packed]
    trainable = best.parameters["trainable"]
    if (
        isinstance(task, Sequences)
        and isinstance(run.protocol, Mac)
        and (task.recall == "all" or task.duplicates == "keep")
    ):
        library = sequences.draw(task, size, numpy_generator(run.seed, "library", 0))
        recallable = sequences.reachable_items(library, task.recall)
        if recallable < size:
            why = "one prefix, two targets" if task.recall == "last" else "one first token leads to one sequence only"
            notes.append(f"{size - recallable} of {size} items contradict others ({why})")
    if isinstance(task, Relations):
        notes += relation_files.notes(task)
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
        bits_per_parameter=bits / trainable,
        tokens_per_parameter=(
            units.tokens_per_parameter(found.memorized, task.seq_len, trainable)
            if isinstance(task, Sequences)
            else None
        ),
        metrics={} if isinstance(task, Relations) else best.metrics,
        parameters=Parameters(**best.parameters),
        epochs=best.epochs if isinstance(run.protocol, Mac) else max(o.epochs for o in found.outcomes),
        steps=best.steps if isinstance(run.protocol, Mac) else max(o.steps for o in found.outcomes),
        seconds=seconds,
        stop_reason=best.stop_reason,
        unreachable=tuple(unreachable) if _reads_out_frozen(run.model) else None,
        members=tuple(_member(outcome, whole_curve=isinstance(run.protocol, Mac)) for outcome in found.outcomes),
        search=found.search,
        shatter=found.shatter,
        **_of_channel(run, found),
        notes=tuple(notes),
        spec=run,
        key=run.key(),
        versions=machine.versions(),
    )


def _of_channel(run: Run, found: Found) -> dict[str, Any]:
    """What only relations have."""
    model = run.model
    if not isinstance(model, KeyQueryChannel):
        return {}
    facts: dict[str, Any] = {name: found.best.metrics[name] for name in ("f1", "precision", "recall", "margin")}
    if found.per_heads is None:
        return facts | {"n_heads": model.n_heads, "d_head": model.d_head, "total_key_dim": model.total_key_dim}
    enough = [count for count in found.per_heads if count.total_key_dim is not None]
    best = min(enough, key=lambda count: (count.total_key_dim, count.n_heads), default=None)
    facts |= {"per_heads": found.per_heads}
    if best is None:
        return facts
    sizes = {name: getattr(best, name) for name in ("n_heads", "d_head", "total_key_dim")}
    return facts | sizes | {"total_key_dim_interval": best.interval}


def _reads_out_frozen(model: Model) -> bool:
    return isinstance(model, Transformer) and model.readout == "frozen"


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
        metrics=outcome.metrics,
        curve=Curve(epoch=epochs, memorized=memorized, loss=losses),
    )
