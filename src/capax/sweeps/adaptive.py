"""Adaptive sweeps: the runs of a study that are most informative about a law."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from capax.errors import SpecError, shown
from capax.laws.law import Law
from capax.protocols.progress import finish
from capax.results import Measurement
from capax.specs import Run
from capax.specs.labels import Labels
from capax.store import Store, tables
from capax.sweeps import adapt
from capax.sweeps.executors import Executor
from capax.sweeps.preview import estimate_seconds
from capax.sweeps.sweep import ask
from capax.sweeps.under_way import SweepProgress, UnderWay, Watch


def sweep_adaptively(
    study: Path | str | Iterable[Run],
    store: Store | Path | str | None = None,
    *,
    law: Law,
    budget: float,
    target: Mapping[str, Sequence[float]] | None = None,
    until: float | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    device: str = "auto",
    retries: int = 1,
    keep_going: bool = True,
    name: str | None = None,
    tags: Iterable[str] = (),
    progress: Watch | None = None,
    allow_many: bool = False,
) -> Iterator[Measurement]:
    """Do the runs of a study that are most informative about a law at a target, per second, until a budget is spent.

    Runs that the store holds are known from the start and cost nothing. Costs are taken from a few timed steps of each
    shape, then from what runs took; see `capax.sweeps.adapt` for the choice. Yields new measurements as they come.

    Args:
        law: the law to fit.
        budget: seconds of training, summed over workers.
        target: the law's columns for the architectures whose prediction is wanted; the study's largest value of each
            when not given.
        until: end when half the interval of the law's mean at the target, on the log scale, is as narrow.

    The other arguments and what is raised are as in `sweep`.

    Raises:
        SpecError: for a law of other runs, a target without one of its columns, or with one that neither the law nor
            the study's runs have.
    """
    asked = ask(study, store, allow_many, retries, executor, workers, device, Labels(name, tags))  # type: ignore[arg-type]
    adapt.check(budget, until)
    runs = asked.runs
    offered = adapt.candidate_table(runs)
    lacking = [name for name in law.columns if name not in offered]
    if lacking:
        raise SpecError(f"law: {law.name} is of {law.items}; runs of this study have no {', '.join(lacking)}")
    if target is None:
        target = {name: [float(tables.numbers(offered, name).max())] for name in law.columns}
    if missing := [name for name in law.columns if name not in target]:
        raise SpecError(f"target: needs {', '.join(law.columns)}; {', '.join(missing)} not given")
    for name, values in target.items():
        if name not in (*law.columns, *offered):
            raise SpecError(
                f"target: allowed are {', '.join(law.columns)} and other columns of the study's runs, "
                f"got {shown(name)} = {', '.join(f'{value:g}' for value in values)}"
            )

    def found() -> Iterator[Measurement]:
        with asked.opened() as (opened, kept, record):
            done = memorized = failed = 0

            def tell(batch: SweepProgress) -> None:
                """The state of all batches so far; nobody knows how many runs or seconds are left."""
                seen = replace(
                    batch,
                    total=None,
                    stored=len(known),
                    done=done + batch.done,
                    failed=failed + batch.failed,
                    memorized=memorized + batch.memorized,
                    seconds_left=None,
                )
                record(seen)
                if progress is not None:
                    progress(seen)

            def run_batch(batch: list[Run]) -> Iterator[Measurement]:
                nonlocal done, memorized, failed
                found = []
                under_way = UnderWay(tuple(batch), opened, kept, asked.device, retries, keep_going, tell, asked.labels)
                for run in under_way.run():
                    found.append(run)
                    finish(progress, run)
                    yield run
                done, memorized = done + len(found), memorized + sum(run.memorized for run in found)
                failed += len(batch) - len(found)

            known = [found for run in runs if (found := opened.get(run.key())) is not None]
            tell(SweepProgress(total=None, stored=len(known), done=0, running=0, failed=0))
            yield from adapt.adaptive(
                law,
                runs,
                target,
                run_batch,
                lambda run: estimate_seconds(run, asked.device),
                budget=budget,
                count=2 * kept.slots,
                until=until,
                measured=known,
            )

    return found()
