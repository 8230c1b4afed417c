"""Sweeps: every run of a study exactly once, whatever happens on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from capax import devices, machine
from capax.errors import SpecError, SweepFailed, shown
from capax.results import Measurement
from capax.specs import Run
from capax.specs.labels import Labels
from capax.specs.spec import truth, whole
from capax.store import Store
from capax.store.file import check_path
from capax.sweeps import packs, shards
from capax.sweeps.executors import Executor, local, usual_workers
from capax.sweeps.grid import read_study
from capax.sweeps.under_way import SweepProgress, UnderWay, Watch, reported, telling


def sweep(
    study: Path | str | Iterable[Run],
    store: Store | Path | str | None = None,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    device: str = "auto",
    retries: int = 1,
    keep_going: bool = True,
    name: str | None = None,
    tags: Iterable[str] = (),
    progress: Watch | None = None,
    shard: shards.Shard | None = None,
    allow_many: bool = False,
) -> Iterator[Measurement]:
    """Do every run of a study that its store lacks, and yield all its runs: stored ones first, then as they come.

    The arguments are checked at once, the runs done as they are asked for. A run is written to the store before it is
    yielded. What was killed is done when the sweep is started again; long runs go on from their checkpoints
    (`<store>-checkpoints`), with the same result. Ctrl-C waits until the runs in flight have written theirs, and until
    those that have ended are stored, and is then raised; a second one ends everything at once. A loop that is left
    early ends it as Ctrl-C does, and so does a `progress` that raises.

    Args:
        study: a study file (`read_study`), or the runs themselves.
        store: where finished runs are kept; the study file's own when not given, or else one beside it of its name.
        executor: where runs are done; local processes when not given. It is left open when it was given.
        workers: local processes; one per core, at most 8, when not given, or one per GPU. With 1 the runs are done in
            this process; more need the caller's script to be guarded by `if __name__ == "__main__"`.
        device: `auto`, `cpu`, `cuda` (all GPUs of this machine), `cuda:1` (its second), `mps` (Apple's; float32).
        retries: how often a run whose process died, or that found no memory, is tried again.
        keep_going: go on when a run has failed; its error is kept in the store.
        name: what the runs are called, in place of the name in the study file.
        tags: of the runs, with those in the study file.
        progress: called with a `SweepProgress` when something has changed; where it has a method `finish`, that is
            given every run that is done now, once it is stored (`capax.trackers`).
        shard: (3, 16) for the third of sixteen shards, which together do every run once (`shards.share`). Each needs a
            store of its own; that of a study file is numbered: `study-03-of-16.db`. `capax runs merge` joins them.
        allow_many: allow study files of more than a million runs.

    Raises:
        SpecError: for another argument that is not allowed, which it names.
        DeviceError: for a device that is not there.
        StudyError: for a study file that is not allowed.
        StoreError: for a store that cannot be used, or that another sweep is using; `StoreWriteError` when a run
            cannot be kept (the message says which; their checkpoints stay).
        SweepFailed: when a run failed and `keep_going` is False; when no worker process can start; when the process of
            every run died.
    """
    labels = Labels(name, tags)  # type: ignore[arg-type]
    asked = ask(study, store, allow_many, retries, keep_going, executor, workers, device, labels, progress, shard)

    def found() -> Iterator[Measurement]:
        with asked.opened() as opened:
            before = opened.store.keys() if progress is not None else set()
            under_way = opened.under_way(asked.runs, opened.tell)
            yield from reported(under_way.run(), progress, before)
            if under_way.dead and under_way.dead == len(asked.runs):
                raise SweepFailed("every run failed, as its process died: killed, or out of memory?")

    return found()


@dataclass(frozen=True)
class Asked:
    """The checked arguments of a sweep."""

    runs: tuple[Run, ...]
    store: Store | Path
    executor: Executor | None
    workers: int
    device: str
    gpus: tuple[str, ...]
    labels: Labels
    retries: int
    keep_going: bool
    progress: Watch | None

    @contextmanager
    def opened(self) -> Iterator[Opened]:
        """The sweep with its store and executor; what was opened here is closed."""
        with ExitStack() as stack:
            store = self.store if isinstance(self.store, Store) else stack.enter_context(Store(self.store))
            record = stack.enter_context(store.sweeping())
            executor = self.executor or stack.enter_context(local(self.workers, self.gpus))
            yield Opened(self, store, executor, record)


@dataclass(frozen=True)
class Opened:
    """A sweep with an open store and executor.

    Attributes:
        record: records progress for `capax watch`.
    """

    asked: Asked
    store: Store
    executor: Executor
    record: Watch

    def under_way(self, runs: Iterable[Run], tell: Watch) -> UnderWay:
        """The sweep of some runs."""
        asked = self.asked
        return UnderWay(
            tuple(runs), self.store, self.executor, asked.device, asked.retries, asked.keep_going, tell, asked.labels
        )

    def tell(self, seen: SweepProgress) -> None:
        """Record how far it is, and tell who asked."""
        self.record(seen)
        if self.asked.progress is not None:
            with telling():
                self.asked.progress(seen)


def _distinct(given: object) -> tuple[Run, ...]:
    """Runs that are given as a sweep's study, each once."""
    runs: dict[str, Run] = {}
    for run in given if isinstance(given, Iterable) else (given,):
        if not isinstance(run, Run):
            raise SpecError(f"study: a study file, or runs (capax.Run), got {shown(run)}")
        runs[run.key()] = run
    return tuple(runs.values())


def ask(
    study: Path | str | Iterable[Run],
    store: Store | Path | str | None,
    allow_many: bool,
    retries: int,
    keep_going: bool,
    executor: Executor | None,
    workers: int | None,
    device: str,
    labels: Labels,
    progress: Watch | None,
    shard: shards.Shard | None = None,
) -> Asked:
    """Check the arguments of a sweep.

    Raises:
        SpecError: that names the argument.
        StudyError: for a study file that is not allowed.
        StoreError: when the store is no file, or none can be made there.
    """
    if not (progress is None or callable(progress)):
        raise SpecError(f"progress: a function of a SweepProgress, got {shown(progress)}")
    for flag, value in (("keep_going", keep_going), ("allow_many", allow_many)):
        truth(flag, value)
    if not isinstance(executor, Executor | None):
        raise SpecError(f"executor: one of capax.sweeps, or none, got {shown(executor)}")
    if executor is None and workers != 1:
        machine.end_if_imported_by_a_worker()  # before it meets the lock of its parent
    if isinstance(study, Path | str):
        read = read_study(study, allow_many=allow_many)
        runs, own, labels = read.runs, read.store, read.labels.and_those(labels)
    else:
        runs, own = _distinct(study), None
    if shard is not None:
        shard = shards.check(shard)
        runs, own = shards.share(runs, shard), own and shards.beside(own, shard)
    store = store or own
    if store is None:
        raise SpecError("store: a sweep of runs needs one: give a file")
    if not isinstance(store, Store | Path | str):
        raise SpecError(f"store: a file, or an open capax.Store, got {shown(store)}")
    if not isinstance(store, Store):
        store = Path(store)
        check_path(store)
    whole("retries", retries, 0)
    where, gpus = _places(device, executor)
    packs.refuse(runs, where)
    workers = usual_workers(where, gpus) if workers is None else whole("workers", workers)
    if workers == 1 and ":" not in device:
        gpus = ()  # this process has the first
    elif executor is None:
        machine.check_script()
    return Asked(runs, store, executor, workers, where, gpus, labels, retries, keep_going, progress)


def _places(device: str, executor: Executor | None) -> tuple[devices.Device, tuple[str, ...]]:
    """Where runs are done, and on which GPUs of this machine; an executor on other machines has said so itself."""
    if executor is None or executor.device is None:
        return devices.choose_gpus(device)
    if device not in ("auto", executor.device):
        raise SpecError(f"device: the executor's is {executor.device!r}, got {shown(device)}")
    return executor.device, ()
