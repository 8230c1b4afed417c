"""A sweep before it starts: its runs, their packs, time and memory."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from capax import devices
from capax.errors import CapaxError, printable
from capax.results import Result
from capax.specs import Run
from capax.specs.apart import apart, fields_of, in_words
from capax.specs.training import USUAL_CYCLES, USUAL_EPOCHS
from capax.store import Store
from capax.store.file import check_path
from capax.sweeps import packs, shards
from capax.sweeps.executors import usual_workers
from capax.sweeps.grid import Study
from capax.sweeps.under_way import together
from capax.text import counted, duration
from capax.training.ensemble import CACHE_FLOATS
from capax.training.pack import Pack
from capax.training.prepare import prepare
from capax.training.room import refuse_too_large
from capax.training.workers import Workers, split

MOST_SHAPES = 100
MOST_OPERATIONS = 4e9
"""Of a step that is timed: one of more is taken to last in proportion."""
PROCESS_BYTES = 400_000_000
"""Memory of a worker process before it trains: torch and its libraries."""


class Preview(Result):
    """A sweep before it starts."""

    study: str
    store: str
    shard: Annotated[str | None, Field(description="Which share of the study this is, K/N; None for all of it.")]
    study_runs: Annotated[int, Field(description="Runs of the whole study.")]
    runs: Annotated[int, Field(description="Of this share.")]
    repeated: Annotated[int, Field(description="Combinations of the file that mean a run that was there already.")]
    stored: Annotated[int, Field(description="Runs that the store holds already.")]
    jobs: Annotated[int, Field(description="Packs of runs that train together.")]
    workers: int
    seconds: Annotated[
        float | None, Field(description="Expected, if trainings go to their budget of steps; None when some have none.")
    ]
    usual_seconds: Annotated[
        float,
        Field(
            description="Expected, if trainings that end when a cycle adds little take five cycles, as most do, and "
            "those without a budget 500 epochs."
        ),
    ]
    longer: Annotated[tuple[str, ...], Field(description="What may follow the trainings that both reckon with.")] = ()
    refused: Annotated[
        tuple[str, ...],
        Field(description="Why some of the packs that were tried cannot be run, and which; they are not timed."),
    ] = ()
    bytes: Annotated[int, Field(description="Memory of all workers at their largest jobs.")]

    def in_words(self) -> str:
        """For people."""
        again = f" ({self.repeated} repeated)" if self.repeated else ""
        usual = duration(self.usual_seconds)
        if self.seconds is None:
            took = f"{usual} if trainings without a budget of steps take {USUAL_EPOCHS} epochs"
        else:
            took = f"at most {duration(self.seconds)}"
            if self.usual_seconds < self.seconds:
                took = f"{usual} if trainings converge in {USUAL_CYCLES} cycles, as most do; {took}"
        took += "".join(f", and more where {why}" for why in self.longer)
        of = "" if self.shard is None else f"shard {self.shard} of {self.study_runs} runs{again}: "
        again = again if self.shard is None else ""
        tried = counted(len(self.refused), "pack")
        fail = f"\n{tried} of those that were tried would fail: {self.refused[0]}" if self.refused else ""
        return (
            f"{of}{counted(self.runs, 'run')}{again}, {self.stored} in {printable(self.store)}; the others in "
            f"{counted(self.jobs, 'pack')} on {counted(self.workers, 'worker')}\n"
            f"expected time: {took}; memory: {self.bytes / 1e9:.2g} GB"
            f"{fail}"
        )


def preview(
    study: Study,
    store: Path | str,
    *,
    workers: int | None = None,
    device: str = "auto",
    shard: shards.Shard | None = None,
) -> Preview:
    """Look at a study without running it: a few steps of each of its shapes are timed (at most 100 shapes).

    Where a step of the whole library takes long, one of a part of it is timed.

    Raises:
        CapaxError: where no pack could be run, or the device cannot compute some of them.
        StoreError: for a store that cannot be.
    """
    path = Path(store)
    known: set[str] = set()
    check_path(path, True)
    if path.exists() and path.stat().st_size:  # a sweep makes a store of an empty file
        with Store(path, create=False) as opened:
            known = {run.key for run in opened.summaries()}  # read, not only counted: a damaged page is told here
    runs = study.runs if shard is None else shards.share(study.runs, shard)
    missing = tuple(run for run in runs if run.key() not in known)
    where, gpus = devices.choose_gpus(device)
    packs.refuse(missing, where)
    jobs = list(together(missing))
    slots = usual_workers(where, gpus) if workers is None else Workers(workers).workers
    every = max(math.ceil(len(jobs) / MOST_SHAPES), 1)
    timed, refused = list[_Cost](), list[tuple[Run, CapaxError]]()
    for job in jobs[::every]:
        try:
            timed.append(_cost(job, where))
        except CapaxError as error:  # the sweep notes it as a failure, and goes on
            refused.append((job[0], error))
    if refused and not timed:
        raise refused[0][1]
    passes = len(jobs) / min(slots, max(len(jobs), 1))
    return Preview(
        study=str(study.path),
        store=str(store),
        shard=None if shard is None else f"{shard[0]}/{shard[1]}",
        study_runs=len(study.runs),
        runs=len(runs),
        repeated=study.repeated,
        stored=len(runs) - len(missing),
        jobs=len(jobs),
        workers=slots,
        seconds=_total([cost.seconds for cost in timed], passes),
        usual_seconds=passes * statistics.fmean([cost.usual_seconds for cost in timed] or [0.0]),
        longer=tuple(dict.fromkeys(why for run in missing if (why := run.protocol.follows))),
        refused=_named(refused, [job[0] for job in jobs[::every]]),
        bytes=slots * (PROCESS_BYTES + max((cost.bytes for cost in timed), default=0)),
    )


def _named(refused: list[tuple[Run, CapaxError]], tried: list[Run]) -> tuple[str, ...]:
    """Why runs cannot be, and what tells each of them from the others that were tried."""
    fields = [fields_of(run, ()) for run in tried] if refused else []
    return tuple(f"{error} ({in_words(apart(fields_of(run, ()), fields))})" for run, error in refused)


def _total(seconds: Sequence[float | None], passes: float) -> float | None:
    """The mean, so many times; None where one is not known."""
    known = [one for one in seconds if one is not None]
    return passes * (statistics.fmean(known) if known else 0.0) if len(known) == len(seconds) else None


@dataclass(frozen=True)
class _Cost:
    seconds: float | None
    usual_seconds: float
    bytes: int


def _cost(runs: tuple[Run, ...], device: str) -> _Cost:
    """Seconds of every training to its budget, and as usual, and memory beside the process's own; steps are timed."""
    run, training = runs[0], runs[0].training
    refuse_too_large(run, device)
    size, pack = run.task.library_size, packs.whole_pack(runs, device)
    parts = split(pack, 1)
    timed = _timed(parts[0])
    learner, larger = prepare(timed), size / timed.largest
    step = packs.median_seconds(learner.step)
    if training.batch_size >= size:
        step *= larger
    evaluation = packs.median_seconds(lambda: learner.evaluate(list(range(len(timed.members))))) * larger
    parameters = sum(tensor.numel() for tensor in learner.ensemble.parameters.values())
    memory = 16 * parameters + int(learner.library.n_bytes * larger) + 40 * CACHE_FLOATS
    rows = run.task.learned_rows(size, run.model)
    a_step = step + evaluation / (training.eval_steps or training.eval_every * training.steps_per_epoch(rows))
    budget, usual = training.budget(rows), training.usual_steps(rows)
    seconds = len(parts) * a_step
    return _Cost(None if budget is None else budget * seconds, usual * seconds, memory)


def _timed(pack: Pack) -> Pack:
    """The pack with a part of its libraries, where steps of them whole would take seconds."""
    task, size = pack.task, pack.largest
    if not task.drawn or task.rows(size) != size or size > pack.training.batch_size or pack.model.runs_code is not None:
        return pack
    operations = len(pack.members) * size * pack.model.operations(task.sizes(), task.scored("loss"))
    part = max(math.ceil(size * MOST_OPERATIONS / operations), 2)
    return replace(pack, sizes=(part,) * len(pack.members), largest=part) if part < size else pack


def estimate_seconds(run: Run, device: str) -> float:
    """Seconds that a run usually takes, from a few timed steps."""
    return _cost((run,), device).usual_seconds
