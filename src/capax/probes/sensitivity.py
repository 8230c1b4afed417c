"""Sensitivity: how far a measured number moves with each choice in which papers differ, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from capax import devices
from capax.probes.choices import Source, Value, Variation, Variations, text, variations_of
from capax.protocols import units
from capax.protocols.measure import measure, run_of
from capax.protocols.progress import Callback
from capax.results import Interval, Measurement, Result, StopReason
from capax.specs import Model, Run, Task, Training
from capax.specs.protocols import Compared, Protocol, ProtocolName
from capax.store import Store
from capax.training.workers import Workers

Announce = Callable[[str], AbstractContextManager[Callback | None]]

NOISE_OF_RESTARTS = (
    "beyond noise: outside the base's interval, the {level:.0%} range of its best of {restarts} restarts in a repeated "
    "study (new weights and batch order, same library); an alternative that changes nothing falls outside in {share} "
    "of cases, and in up to {four} at least one of four such alternatives does"
)
NOISE_OF_SEARCH = "beyond noise: the {level:.0%} intervals of alternative and base do not overlap (a strict rule)"
NO_NOISE = "noise is unknown: the base has no interval (mac needs at least two restarts)"


class Alternative(Result):
    """The base run with one other value, measured."""

    value: Value
    sources: Annotated[tuple[Source, ...], Field(description="Who uses it; empty where only the caller names it.")]
    number: Annotated[float | None, Field(description="What is compared; None where no head size is enough.")]
    change: Annotated[float | None, Field(description="Number minus the base's.")]
    relative_change: Annotated[float | None, Field(description="Of the base's number; None where that is 0 or less.")]
    beyond_noise: Annotated[bool | None, Field(description="By the rule in `noise`; None where that gives no answer.")]
    same_training: Annotated[
        bool, Field(description="Whether every training is the same as the base's, evaluation by evaluation.")
    ]
    interval: Annotated[Interval | None, Field(description="Its own, in units of the number.")]
    memorized: int
    memorized_per_restart: tuple[int, ...]
    epochs: int
    steps: int
    seconds: float
    stop_reason: StopReason
    key: Annotated[str, Field(description="Of the run: it is one like any other, in the store too.")]


class Choice(Result):
    """One choice: what the base has, and its alternatives."""

    choice: str
    base_value: Value
    base_sources: Annotated[tuple[Source, ...], Field(description="Papers that use the base's value.")]
    alternatives: tuple[Alternative, ...]
    swing: Annotated[
        float | None, Field(description="Highest number minus lowest, the base's among them; None without two numbers.")
    ]
    beyond_noise: Annotated[bool | None, Field(description="Whether any alternative is beyond noise.")]


class Sensitivity(Result):
    """How far a number moves with each choice; the choices by falling swing."""

    compared: Annotated[Compared, Field(description="The number: counts above chance (mac, mls), or D_K* (budget).")]
    number: Annotated[float | None, Field(description="The base's.")]
    interval: Annotated[Interval | None, Field(description="The base's, in units of the number.")]
    noise: Annotated[str, Field(description="When a change counts as beyond noise.")]
    memorized: int
    memorized_per_restart: tuple[int, ...]
    chance: float
    library_size: int
    stop_reason: StopReason
    key: str
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]
    spec: Run
    versions: dict[str, str]
    schema_version: Literal[1] = 1

    def to_json(self) -> str:
        """One JSON object (docs/schemas/sensitivity.json)."""
        return self.model_dump_json()


def sensitivity(
    task: Task,
    model: Model,
    training: Training | None = None,
    *,
    choices: Sequence[str] | Mapping[str, Sequence[Value] | None] = ("lr", "batch_size", "epochs", "precision"),
    protocol: ProtocolName | Protocol = "mac",
    restarts: int | None = None,
    seed: int = 0,
    store: Store | Path | str | None = None,
    fresh: bool = False,
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    workers: int | Workers = 1,
    threads: int = 1,
    announce: Announce | None = None,
) -> Sensitivity:
    """Measure a base run, then again with one choice changed at a time.

    Every variation is a run of its own, measured as `measure` does: same seed, so the same library and initial weights,
    and with a store nothing is trained twice.

    Args:
        task, model, training, protocol, restarts, seed, store, fresh, device, workers, threads: as in `measure`.
        choices: names of `capax.probes.choices.CHOICES`, whose alternatives are then the papers'; or a mapping of
            names to the values to try (None: the papers').
        announce: called with what is measured next; it gives a context with a progress callback for that run.

    Returns:
        Numbers, changes and verdicts, by falling swing. A change within the base's noise says nothing about the choice.

    Raises:
        SpecError: for choices or values that are not allowed, before anything is trained. Else as `measure`.
    """
    run = run_of(task, model, training, protocol, restarts, seed)
    groups, where = variations_of(run, choices), devices.choose_device(device)
    if not devices.multiplies_bfloat16(where):
        _leave_out_bfloat16(groups)
    total = 1 + sum(len(one.variations) for one in groups)
    announced = 0
    with ExitStack() as stack:
        if not isinstance(workers, Workers):
            workers = stack.enter_context(Workers(workers if where == "cpu" else 1, threads))
        if store is not None and not isinstance(store, Store):
            store = stack.enter_context(Store(store))

        def trained(run: Run, name: str) -> Measurement:
            nonlocal announced
            announced += 1
            with announce(f"{announced}/{total}: {name}") if announce else nullcontext() as progress:
                return measure(
                    run.task,
                    run.model,
                    run.training,
                    protocol=run.protocol,
                    seed=run.seed,
                    store=store,
                    fresh=fresh,
                    device=where,
                    workers=workers,
                    progress=progress,
                )

        base = trained(run, "base")
        found = [[trained(one.run, f"{one.choice} {text(one.value)}") for one in each.variations] for each in groups]
    return compare(base, groups, found)


def _leave_out_bfloat16(groups: list[Variations]) -> None:
    for one in groups:
        kept = [variation for variation in one.variations if variation.run.training.precision != "bfloat16"]
        if len(kept) < len(one.variations) and one.choice == "precision":
            one.variations = kept
            one.notes.append("precision: bfloat16 is left out: this GPU cannot multiply in it")


def compare(base: Measurement, groups: Sequence[Variations], found: Sequence[Sequence[Measurement]]) -> Sensitivity:
    """The record of a base measurement and of each choice's variations, measured."""
    choices = [
        _choice(base, one, [_alternative(base, *pair) for pair in zip(one.variations, runs, strict=True)])
        for one, runs in zip(groups, found, strict=True)
        if one.variations
    ]
    return Sensitivity(
        compared=_compared(base),
        number=number(base),
        interval=interval(base),
        noise=_noise(base),
        memorized=base.memorized,
        memorized_per_restart=base.memorized_per_restart,
        chance=base.chance,
        library_size=base.library_size,
        stop_reason=base.stop_reason,
        key=base.key,
        choices=tuple(sorted(choices, key=lambda one: -1.0 if one.swing is None else one.swing, reverse=True)),
        notes=(*(note for one in groups for note in one.notes), *_notes(base)),
        spec=base.spec,
        versions=base.versions,
    )


def number(run: Measurement) -> float | None:
    """What is compared: D_K* of a budget search (None where no head size is enough), else the count above chance."""
    value: float | None = getattr(run, _compared(run))
    return value


def _compared(run: Measurement) -> Compared:
    compared = run.spec.protocol.compared
    assert compared is not None
    return compared


def interval(run: Measurement) -> Interval | None:
    """The run's interval in units of its number: counts of restarts move to counts above chance as the best does."""
    if run.key_search is not None:
        return run.key_search.interval
    if run.interval is None or not run.spec.protocol.one_library:
        return run.interval  # mls: a library that is memorized whole counts whole
    ends = {
        end: units.above_chance(value, run.chance, run.library_size)
        for end, value in (("low", run.interval.low), ("high", run.interval.high))
        if value is not None
    }
    return run.interval.model_copy(update=ends | {"of": f"{run.interval.of}, above chance"})


def beyond_noise(base: Measurement, other: Measurement) -> bool | None:
    """Whether another value's number differs from the base's by more than noise; None where that is not known.

    mac: the number lies outside the base's interval, a 95 % prediction interval of the best of as many new restarts,
    which the alternative would be a draw of if the choice did nothing. mls and budget: the two intervals, of
    estimates, do not overlap (stricter than 5 %).
    """
    here, there, value = interval(base), interval(other), number(other)
    if here is None or value is None or number(base) is None:
        return None
    if base.spec.protocol.one_library:
        return not here.low <= value <= _top(here)
    return None if there is None else there.low > _top(here) or here.low > _top(there)


def _top(interval: Interval) -> float:
    return float("inf") if interval.high is None else interval.high


def _alternative(base: Measurement, variation: Variation, run: Measurement) -> Alternative:
    here, there = number(base), number(run)
    change = None if here is None or there is None else there - here
    return Alternative(
        value=variation.value,
        sources=variation.sources,
        number=there,
        change=change,
        relative_change=None if change is None or here is None or here <= 0 else change / here,
        beyond_noise=beyond_noise(base, run),
        same_training=run.members == base.members,
        interval=interval(run),
        memorized=run.memorized,
        memorized_per_restart=run.memorized_per_restart,
        epochs=run.epochs,
        steps=run.steps,
        seconds=run.seconds,
        stop_reason=run.stop_reason,
        key=run.key,
    )


def _choice(base: Measurement, one: Variations, alternatives: list[Alternative]) -> Choice:
    numbers = [value for value in (number(base), *(other.number for other in alternatives)) if value is not None]
    verdicts = [other.beyond_noise for other in alternatives if other.beyond_noise is not None]
    return Choice(
        choice=one.choice,
        base_value=one.base_value,
        base_sources=one.base_sources,
        alternatives=tuple(alternatives),
        swing=None if number(base) is None or len(numbers) < 2 else max(numbers) - min(numbers),
        beyond_noise=any(verdicts) if verdicts else None,
    )


def _noise(base: Measurement) -> str:
    here = interval(base)
    if here is None:
        return NO_NOISE
    if base.spec.protocol.one_library:
        share, four = f"{1 - here.level:.0%}", f"{1 - here.level**4:.0%}"
        return NOISE_OF_RESTARTS.format(level=here.level, restarts=len(base.members), share=share, four=four)
    return NOISE_OF_SEARCH.format(level=here.level)


def _notes(base: Measurement) -> list[str]:
    here, notes = interval(base), []
    if base.spec.protocol.one_library and base.memorized == base.library_size:
        notes.append("the base recalls its whole library, so a higher count cannot show; take a larger library")
    elif base.spec.protocol.one_library and here is not None and here.low == here.high:
        notes.append("the base's restarts all give one count: its interval has no width, and any change is beyond it")
    if number(base) is None:
        notes.append("no head size suffices for the base: there is nothing to compare with")
    return notes
