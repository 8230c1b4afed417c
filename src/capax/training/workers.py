"""Packs on every core: worker processes with one torch thread each, or this process alone."""

from __future__ import annotations

import math
import multiprocessing
import signal
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from ctypes import c_bool
from dataclasses import replace
from itertools import pairwise
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import torch

from capax import interrupts, machine
from capax.errors import CapaxError, SpecError
from capax.specs.spec import whole
from capax.training.checkpoints import Checkpoint
from capax.training.ensemble import CACHE_FLOATS, GPU_FLOATS, AtOnce
from capax.training.loop import Interrupted, Watch, train
from capax.training.pack import Outcome, Pack, Status

LARGEST_PACK = 128
MOST_AT_ONCE = 1024
"""Processes, and threads of each: the machine has fewer cores."""
POLL_SECONDS = 0.2
DIED = "a worker process died (out of memory?): try fewer workers or a smaller model"


class WorkerDied(CapaxError):
    """A worker process died, most likely for lack of memory, or could not start."""

    exit_code = 1


class OutOfMemory(CapaxError):
    """The machine or the GPU has less memory than a training needs."""

    exit_code = 1


class Workers:
    """Trains members, cut into packs, on some processes; a context manager that ends them.

    Results do not depend on the number of workers: on a CPU a member's outcome is the same, bit for bit, in any
    pack of two or more, and `split` makes no others of several members. Cores that are left without a pack compute
    micro-batches of the others, which changes no bit either.

    Args:
        workers: processes; with 1, or a single pack, training happens in this process.
        threads: torch threads per process.
        pack_size: most members in a pack; as many as suit a core's cache when not given.
        cores: how many cores there are now for a single worker, as its sweep says; its own where not given.

    Attributes:
        busy: processes that the last training had packs for.
    """

    def __init__(
        self, workers: int = 1, threads: int = 1, pack_size: int | None = None, cores: AtOnce | None = None
    ) -> None:
        for name, value in (("workers", workers), ("threads", threads)):
            if whole(name, value) > MOST_AT_ONCE:
                raise SpecError(f"{name}: should be at most {MOST_AT_ONCE}, got {value}")
        if workers > 1:
            machine.end_if_imported_by_a_worker()
            machine.check_script()
        self.workers, self.threads, self.pack_size, self._cores = workers, threads, pack_size, cores
        self._pool: ProcessPoolExecutor | None = None
        self.busy = 1

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._stop.set()
            self._pool.shutdown(wait=True, cancel_futures=True)

    def train(self, members: Pack, watch: Watch = lambda _: None, checkpoints: Path | None = None) -> list[Outcome]:
        """Train the members of a pack of any size; outcomes in the order of the members.

        Args:
            watch: called now and then with the states of some members; what it raises ends the training.
            checkpoints: a folder where each pack saves its state. Each member resumes from its own, however they were
                cut into packs before.

        Raises:
            WorkerDied: when a worker process is gone.
            OutOfMemory: when memory cannot be had.
        """
        try:
            if checkpoints is None:
                packs = split(members, self.workers, self.pack_size)
            else:
                packs = resumed(members, checkpoints, self.workers, self.pack_size)
            self.busy = min(self.workers, len(packs))
            alone = self.workers == 1 or len(packs) == 1
            at_once = max(self.workers // len(packs), 1)
            train_on = self._here if alone else self._in_pool
            outcomes = train_on(packs, watch, checkpoints, at_once)
        except BrokenProcessPool:
            raise WorkerDied(DIED if self._started.value else machine.UNSTARTED) from None
        except (RuntimeError, MemoryError) as error:  # torch has no class of its own for a CPU without memory
            if isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error):
                raise OutOfMemory("not enough memory for this model and batch: try a smaller one") from None
            raise
        found = {(outcome.seed, outcome.member): outcome for outcome in outcomes}
        return [found[name] for name in _names(members)]

    def _here(self, packs: list[Pack], watch: Watch, checkpoints: Path | None, at_once: int) -> list[Outcome]:
        before, cores = torch.get_num_threads(), self._cores or (lambda: at_once)
        torch.set_num_threads(self.threads)
        try:
            # an interrupt waits for the next call of `watch`, after which a state is saved, where it can be
            with (interrupts.never_lost if checkpoints is None else interrupts.deferred)() as heed:

                def heedful(states: list[Status]) -> None:
                    heed()
                    watch(states)

                return [out for pack in packs for out in train(pack, heedful, checkpoints, at_once=cores)]
        finally:
            torch.set_num_threads(before)

    def _in_pool(self, packs: list[Pack], watch: Watch, checkpoints: Path | None, at_once: int) -> list[Outcome]:
        # an interrupt inside the pool could leave a lock that nobody releases
        with interrupts.deferred() as heed:
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._news, self._stop = context.SimpleQueue(), context.Event()
                self._started = context.RawValue(c_bool, False)
                self._pool = ProcessPoolExecutor(
                    self.workers,
                    mp_context=context,
                    initializer=_start_worker,
                    initargs=(self._news, self._stop, self._started, self.threads),
                )
            with machine.starting_workers():
                waiting: set[Future[list[Outcome]]] = {
                    self._pool.submit(_train_in_worker, pack, checkpoints, at_once) for pack in packs
                }
            outcomes = []
            while waiting:
                done, waiting = wait(waiting, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                while not self._news.empty():
                    watch(self._news.get())
                for future in done:
                    outcomes += future.result()
                heed()
        return outcomes


def split(members: Pack, workers: int, pack_size: int | None = None) -> list[Pack]:
    """Cut members into packs that fit a core's cache (or a GPU), at least one per worker, the time budget shared.

    Several members make no pack of one, unless `pack_size` is 1: its products are rounded differently. A pack's place
    in the queue leaves each of a worker's k packs 1/k of the seconds.
    """
    floats = members.model.floats_per_row(members.task.sizes(), members.task.scored("loss"))
    floats *= min(members.training.batch_size, members.task.rows(members.largest))
    on_gpu = members.device != "cpu"
    fitting = GPU_FLOATS // floats if on_gpu else min(CACHE_FLOATS // floats, LARGEST_PACK)
    fitting = max(fitting, 2) if pack_size is None else pack_size
    groups = _alike(members)
    total = len(members.members)
    packs: list[Pack] = []
    for group in groups:
        count = len(group)
        n_packs = max(math.ceil(count / fitting), min(math.ceil(workers * count / total), count))
        if fitting > 1:
            n_packs = min(n_packs, max(count // 2, 1))
        cuts = [place * count // n_packs for place in range(n_packs + 1)]
        packs += [members.part(group[start:end]) for start, end in pairwise(cuts)]
    if members.seconds is None:
        return packs
    return [replace(pack, seconds=members.seconds / math.ceil(len(packs) / workers)) for pack in packs]


def resumed(members: Pack, checkpoints: Path, workers: int, pack_size: int | None = None) -> list[Pack]:
    """As `split`, but members whose states lie in one file, and have made as many steps, are a pack as they are.

    A member that is left alone, out of a pack of several, is duplicated: alone it would be rounded differently.
    """
    usual = split(members, workers, pack_size)
    states: dict[tuple[Path, int] | None, list[int]] = {}
    for place, state in enumerate(Checkpoint(checkpoints, members).furthest()):
        states.setdefault(state, []).append(place)
    new = states.pop(None, [])
    if not states:
        return usual
    packs = []
    for state, places in states.items():
        alone = state is not None and len(places) == 1 < state[1]
        packs.append(members.part(places * 2 if alone else places))
    if len(new) == 1:
        (name,) = _names(members.part(new))
        packs += [members.part(new * 2 if len(pack.members) > 1 else new) for pack in usual if name in _names(pack)]
    elif new:
        packs += split(members.part(new), workers, pack_size)
    if members.seconds is None:
        return packs
    share = members.seconds / math.ceil(len(packs) / workers) * len(packs) / len(members.members)
    return [replace(pack, seconds=share * len(set(_names(pack)))) for pack in packs]


def _names(pack: Pack) -> list[tuple[int, int]]:
    return list(zip(pack.seeds, pack.members, strict=True))


def _alike(members: Pack) -> list[list[int]]:
    """The places of members that may share a pack: with a schedule those of one budget, since a pack has one lr."""
    if not members.training.scheduled:
        return [list(range(len(members.members)))]
    groups: dict[int | None, list[int]] = {}
    for place, size in enumerate(members.sizes):
        groups.setdefault(members.budget(size), []).append(place)
    return list(groups.values())


_news: SimpleQueue[list[Status]]
_stop: Event


def _start_worker(news: SimpleQueue[list[Status]], stop: Event, started: Any, threads: int) -> None:
    """Set up a worker: its threads, its way to report, and its end when the parent is gone; Ctrl-C is the parent's."""
    global _news, _stop
    _news, _stop = news, stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    machine.end_with_parent()
    started.value = True


def _train_in_worker(pack: Pack, checkpoints: Path | None, at_once: int) -> list[Outcome]:
    def watch(states: list[Status]) -> None:
        if _stop.is_set():
            raise Interrupted
        _news.put(states)

    return train(pack, watch, checkpoints, at_once=lambda: at_once)
