"""Adaptive sweeps: the runs of a study that are most informative about a law."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from capax.errors import SpecError
from capax.laws.law import Law
from capax.protocols.measure import stored_labelled
from capax.results import Measurement
from capax.specs import Run
from capax.specs.labels import Labels
from capax.specs.protocols import Capacity
from capax.store import Store, tables
from capax.sweeps.executors import Executor
from capax.sweeps.informative import candidate_table
from capax.sweeps.preview import estimate_seconds
from capax.sweeps.rounds import adaptive, check
from capax.sweeps.sweep import ask
from capax.sweeps.target import columns_of_target
from capax.sweeps.under_way import SweepProgress, Watch, reported


def sweep_adaptively(
    study: Path | str | Iterable[Run],
    store: Store | Path | str | None = None,
    *,
    law: Law,
    budget: float,
    target: Mapping[str, Sequence[float | str]] | None = None,
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
    shape, then from what runs took; `capax.sweeps.informative` explains the choice. Yields new measurements as they
    come.

    Args:
        law: the law to fit.
        budget: seconds of training, summed over workers.
        target: fields of the architectures whose prediction is wanted, or columns of the law (`tables.read`); what is
            not given is that of the study's largest run: the one of most trainable parameters, and of those of the
            largest columns of the law.
        until: end when half the interval of the law's mean at the target, on the log scale, is as narrow.

    The other arguments and what is raised are as in `sweep`.

    Raises:
        SpecError: for a law of other runs, or of capacity where the study's protocol does not measure it, and for a
            target that is no architecture, or with a column of neither the law nor the study's task and model.
    """
    labels = Labels(name, tags)  # type: ignore[arg-type]
    asked = ask(study, store, allow_many, retries, keep_going, executor, workers, device, labels, progress)
    check(budget, until)
    runs = asked.runs
    offered = candidate_table(runs)
    lacking = [name for name in law.columns if name not in offered]
    if lacking:
        raise SpecError(f"law: {law.name} is of {law.items}; runs of this study have no {', '.join(lacking)}")
    others = {run.protocol.protocol for run in runs if not isinstance(run.protocol, Capacity)}
    if law.target in tables.CAPACITIES and others:
        raise SpecError(
            f"law: {law.name} is fitted to {law.target}, which protocol capacity measures; runs of this study are of "
            f"{', '.join(sorted(others))}"
        )
    goal = columns_of_target(law, runs, offered, {} if target is None else target)

    def found() -> Iterator[Measurement]:
        with asked.opened() as opened:
            done = memorized = failed = 0

            def tell(batch: SweepProgress) -> None:
                """The state of all batches so far; nobody knows how many runs or seconds are left."""
                opened.tell(
                    replace(
                        batch,
                        total=None,
                        stored=len(known),
                        done=done + batch.done,
                        failed=failed + batch.failed,
                        memorized=memorized + batch.memorized,
                        seconds_left=None,
                    )
                )

            def run_batch(batch: list[Run]) -> Iterator[Measurement]:
                nonlocal done, memorized, failed
                found = []
                for run in reported(opened.under_way(batch, tell).run(), progress):
                    found.append(run)
                    yield run
                done, memorized = done + len(found), memorized + sum(run.memorized for run in found)
                failed += len(batch) - len(found)

            stored = (found for run in runs if (found := opened.store.get(run.key())) is not None)
            known = [stored_labelled(opened.store, found, asked.labels) for found in stored]
            tell(SweepProgress(total=None, stored=len(known), done=0, running=0, failed=0))
            yield from adaptive(
                law,
                runs,
                goal,
                run_batch,
                lambda run: estimate_seconds(run, asked.device),
                budget=budget,
                count=2 * opened.executor.slots,
                until=until,
                measured=known,
            )

    return found()
