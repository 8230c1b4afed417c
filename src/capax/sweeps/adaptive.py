"""Adaptive sweeps: the runs of a study that are most informative about a law."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from capax.errors import SpecError, shown
from capax.laws.law import Law
from capax.protocols.measure import stored_labelled
from capax.results import LEVEL, Interval, LawAtTarget, Measurement
from capax.specs import Run
from capax.specs.labels import Labels
from capax.specs.protocols import Capacity
from capax.store import Store, tables
from capax.sweeps.adapt import adaptive, candidate_table, check, columns_of, fitted_to, half_width
from capax.sweeps.executors import Executor
from capax.sweeps.preview import estimate_seconds
from capax.sweeps.sweep import ask
from capax.sweeps.under_way import SweepProgress, Watch, reported
from capax.text import listed


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
    shape, then from what runs took; see `capax.sweeps.adapt` for the choice. Yields new measurements as they come.

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
    goal = _goal(law, runs, offered, {} if target is None else target)

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


def known_at_target(
    runs: Sequence[Run],
    store: Store | Path | str,
    *,
    law: Law,
    target: Mapping[str, Sequence[float | str]] | None = None,
    level: float = LEVEL,
) -> LawAtTarget:
    """What a law, fitted to the runs of a study that a store holds, says of a target of one architecture.

    Args:
        law, target: as in `sweep_adaptively`.
        level: of the interval, which is that of `half_width`.

    Raises:
        SpecError: for a target that is no architecture, or several.
        StoreError: when there is no such store.
    """
    goal = _goal(law, runs, candidate_table(runs), {} if target is None else target)
    if (count := len(goal[law.columns[0]])) > 1:
        raise SpecError(f"target: one architecture, got {count}")
    with Store(store, create=False) as opened:
        known = [found for run in runs if (found := opened.get(run.key())) is not None]
    fitted = fitted_to(law, tables.table(known)) if known else None
    value, interval = None, None
    if fitted is not None:
        value = float(fitted._predict(columns_of(law, goal))[0])
        if math.isfinite(half := half_width(fitted, goal, level)):
            of = "the law's value; a new measurement spreads more"
            interval = Interval(low=value * math.exp(-half), high=value * math.exp(half), level=level, of=of)
    return LawAtTarget(
        law=law.name,
        measurements=len(known),
        target={name: goal[name][0] for name in dict.fromkeys((*law.columns, *(target or ())))},
        counts="bits" if law.target in tables.IN_BITS else law.items,
        value=value,
        interval=interval,
        inside_domain=fitted is not None and bool(fitted.inside_domain(goal)[0]),
    )


def _goal(
    law: Law, runs: Sequence[Run], offered: Mapping[str, Any], target: Mapping[str, Sequence[float | str]]
) -> dict[str, list[Any]]:
    """The columns of the architectures that are asked for, the law's and those of their protocol.

    Raises:
        SpecError: for one that there cannot be, or that is described by what is no column.
    """
    fields = {name for run in runs for part in (run.task, run.model) for name in type(part).model_fields}
    for name, values in target.items():
        if name not in (*law.columns, *fields):
            raise SpecError(
                f"target: allowed are {', '.join(law.columns)} and other fields of the study's task and model, "
                f"got {shown(name)} = {', '.join(map(str, values))}"
            )
    if len(lengths := {len(values) for values in target.values()}) > 1:
        raise SpecError(f"target: as many values of each column, got {listed(sorted(lengths))}")
    sizes = [columns_of(law, offered)[name] for name in reversed(law.columns)]
    largest = runs[int(np.lexsort([*sizes, offered["trainable_parameters"]])[-1])]
    rows = [dict(zip(target, values, strict=True)) for values in zip(*target.values(), strict=True)]
    if target and not rows:
        raise SpecError("target: at least one architecture, got none")
    goals = [_changed(largest, row) for row in rows or [{}]]
    return {name: [goal[name] for goal in goals] for name in goals[0]}


def _changed(run: Run, changes: Mapping[str, float | str]) -> dict[str, Any]:
    """The columns of a run where some of them, or of its fields, are others."""
    parts, columns = {}, dict(changes)
    try:
        for part in ("task", "model"):
            spec = getattr(run, part)
            given = {name: columns.pop(name) for name in changes if name in type(spec).model_fields}
            parts[part] = spec.replace(**given) if given else spec
        table = candidate_table([run.replace(**parts)])
    except SpecError as error:
        raise SpecError(f"target: {error}") from None
    return {name: values.tolist()[0] for name, values in table.items()} | columns
