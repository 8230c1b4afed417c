"""`measure`: from a task and a model to a measurement, by one of the protocols."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

from capax import devices, memory
from capax.errors import SpecError, StoreError, StoreWriteError, shown
from capax.protocols.perform import perform
from capax.protocols.progress import Callback, finish
from capax.results import Measurement
from capax.specs import PROTOCOLS, Model, Run, Task, Training
from capax.specs.labels import Labels
from capax.specs.papers import as_in
from capax.specs.protocols import Protocol, ProtocolName
from capax.specs.spec import truth
from capax.store import Store
from capax.training import checkpoints
from capax.training.room import refuse_too_large
from capax.training.workers import Workers

GOES_ON = "the same command goes on from its checkpoint"
"""Noted on an interrupt of a training that left one."""


def measure(
    task: Task,
    model: Model,
    training: Training | None = None,
    *,
    protocol: ProtocolName | Protocol = "mac",
    restarts: int | None = None,
    paper: str | None = None,
    seed: int = 0,
    name: str | None = None,
    tags: Sequence[str] = (),
    store: Store | Path | str | None = None,
    fresh: bool = False,
    keep_weights: bool = False,
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    workers: int | Workers = 1,
    threads: int = 1,
    progress: Callback | None = None,
) -> Measurement:
    """Train the model on the task and count what it remembers.

    Args:
        task: what is to be remembered.
        model: the model that remembers.
        training: how it learns; what it leaves open is as in the task's paper, or of protocol `"capacity"` its own.
        protocol: `"mac"`, `"mls"`, `"shatter"`, `"budget"`, `"capacity"`, or their specs for more than the defaults.
        restarts: restarts of `"mac"` (5 when not given) and `"capacity"` (3), where a spec does not say them.
        paper: `"harma2024"` or `"mahdavi2024"`: what is not given is as that paper states it (`capax.specs.papers`).
        seed: names all random draws; same seed, same result (on the CPU bit for bit, whatever `workers`).
        name: what you call the run; with its tags it is no part of the key, and kept in the store.
        tags: words for what the run belongs to; those that it has in the store stay.
        store: where finished runs are kept; a run that is already there is returned, not repeated. One that was
            interrupted or killed goes on from its checkpoint (`<store>-checkpoints`), with the same result.
        fresh: measure again from the start even so, and replace it.
        keep_weights: keep every restart's parameters beside the store: the best one's for `capax.load`, all of them for
            `capax.quantize`.
        device: `"auto"` (a GPU where there is one), `"cpu"`, `"cuda"` or `"mps"`.
        workers: processes on a CPU; more than 1 needs the caller's script to be guarded by
            `if __name__ == "__main__"`. A `Workers` is used as it is, and left open for the next measurement.
        threads: torch threads per process.
        progress: called a few times a second with a `Progress`; where it has a method `finish`, that is given the
            finished run (`capax.trackers`), but for one that was in the store before.

    Returns:
        The measurement, with its protocol, chance level, interval and reason for stopping.

    Raises:
        SpecError: for a field that is not allowed.
        ModuleError: for a user's module that cannot be measured.
        DeviceError: for a device that is not there.
        StoreError: for a store that cannot be opened; `StoreWriteError` when the finished run cannot be saved (the
            error's `unsaved` holds it).
    """
    run = run_of(task, model, training, protocol, restarts, seed, paper)
    labels = Labels(name, tags)  # type: ignore[arg-type]
    where = devices.choose_device(device)
    devices.refuse(where, run.training.precision, run.training.optimizer)
    if not (progress is None or callable(progress)):
        raise SpecError(f"progress: a function of a Progress, got {shown(progress)}")
    for flag, value in (("fresh", fresh), ("keep_weights", keep_weights)):
        truth(flag, value)
    if keep_weights and not run.protocol.one_library:
        raise SpecError(f"keep_weights: only for protocols 'mac' and 'capacity', got {run.protocol.protocol!r}")
    if keep_weights and store is None:
        raise SpecError("keep_weights: weights are kept beside a store, but no store was given")
    run.task.refuse_faults()
    run.protocol.refuse_to_start(run.training)
    refuse_too_large(run, where)
    with ExitStack() as stack:
        if not isinstance(workers, Workers):
            workers = stack.enter_context(Workers(workers if where == "cpu" else 1, threads))
        if store is None:
            measurement = labelled(perform(run, workers, where, progress)[0], labels)
            finish(progress, measurement)
            return measurement
        if not isinstance(store, Store):
            store = stack.enter_context(Store(store))
        lacking = keep_weights and not store.weights_path(run.key()).exists()
        known = None if fresh or lacking else store.get(run.key())
        if known is not None:
            return _told_of_another_file(stored_labelled(store, known, labels), run)
        folder = None if fresh else checkpoints.folder_of(run, store.checkpoints)
        try:
            measurement, trained = perform(run, workers, where, progress, keep_weights, folder)
        except KeyboardInterrupt as error:
            if folder is not None and checkpoints.reached(folder, run.seed):
                error.add_note(GOES_ON)
            raise
        except SpecError:  # the same run would be refused again
            if folder is not None:
                _forget(folder, run)
            raise
        measurement = labelled(measurement, labels)
        try:
            # the best restart's come last: where they lie, the others' do, too
            for number, outcome in reversed(list(enumerate(trained))):
                if outcome.weights is not None:
                    path = store.weights_path(run.key(), number)
                    memory.save(path, outcome.weights, run.task.kept_with_weights())
            store.add(measurement)
            if not keep_weights:
                store.delete_weights(run.key())  # of an earlier measurement, which this one replaces
        except StoreWriteError as error:
            with suppress(StoreError):
                kept = store.keys()
                if run.key() not in kept:  # else they are those of the run that stays
                    store.delete_weights(run.key())
            error.unsaved = measurement
            raise
        if folder is not None:
            _forget(folder, run)
        finish(progress, measurement)
        return measurement


def _told_of_another_file(known: Measurement, run: Run) -> Measurement:
    """A stored run, with a note where the file that it learned is another of the same content."""
    notes = tuple(
        f"{name}: measured before, of {before}, whose content is that of {now}; other notes are of that file"
        for name in run.task.files
        if (before := getattr(known.spec.task, name)) != (now := getattr(run.task, name))
    )
    return known.model_copy(update={"notes": known.notes + notes}) if notes else known


def _forget(folder: Path, run: Run) -> None:
    """Remove the checkpoints of a run."""
    checkpoints.forget(folder, lambda seed: seed == run.seed)
    for path in (folder, folder.parent):
        with suppress(OSError):  # of other runs there are more
            path.rmdir()


def labelled(run: Measurement, labels: Labels) -> Measurement:
    """A run that is called so."""
    return run.model_copy(update={"name": labels.name, "tags": labels.tags})


def stored_labelled(store: Store, found: Measurement, labels: Labels) -> Measurement:
    """A stored run with the labels that it lacks, which it then has in the store, too."""
    if not labels.lacking(found.name, found.tags):
        return found
    store.label(found.key, name=labels.name, tags=labels.tags)
    return store.get(found.key) or found


def run_of(
    task: Task,
    model: Model,
    training: Training | None,
    protocol: ProtocolName | Protocol,
    restarts: int | None,
    seed: int,
    paper: str | None = None,
) -> Run:
    """The run that `measure` does when it is given these.

    Raises:
        SpecError: for a field that is not allowed.
    """
    if isinstance(protocol, str):
        if protocol not in PROTOCOLS:
            raise SpecError(f"protocol: should be one of {', '.join(PROTOCOLS)}, got {protocol!r}")
        protocol = PROTOCOLS[protocol]()
    if restarts is not None:
        if not protocol.one_library:
            raise SpecError(f"restarts: only for protocols 'mac' and 'capacity', got protocol {protocol.protocol!r}")
        own = getattr(protocol, "restarts", None) if "restarts" in protocol.model_fields_set else None
        if own not in (None, restarts):
            raise SpecError(f"restarts: once, got {own} by the protocol and {shown(restarts)}")
        protocol = protocol.replace(restarts=restarts)
    training = training or Training()
    if paper is not None:
        task, model, training, protocol = as_in(paper, task, model, training, protocol)
    return Run(task=task, model=model, training=training, protocol=protocol, seed=seed)
