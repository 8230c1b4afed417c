"""The planner of the report's page: what `capax plan` says on a grid, from which the page chooses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from capax.errors import CapaxError
from capax.laws.files import load_law, reference_of
from capax.laws.law import Law
from capax.laws.polynomial import Polynomial
from capax.laws.report import FittedParameter, report
from capax.literature import stated_by
from capax.reports.carried import carried, started
from capax.results import LEVEL, Measurement, Result
from capax.specs import Task


class Planner(Result):
    """The planner's section of a report.

    Attributes:
        given: whether the report was asked to use this law; else it is the one that ships with capax.
        formula: what the law says, in a sentence.
        heads_or_width: what it says of heads against width; None where it says nothing.
        parameters: with profile intervals, where the law has rows that it was fitted to.
        reason: why the page cannot plan with this law; None where it can.
        carried: what planner.js reads, see `carried`.
    """

    law: str
    source: str
    given: bool
    formula: str
    heads_or_width: str | None
    domain: str
    notes: tuple[str, ...]
    errata: tuple[str, ...]
    parameters: tuple[FittedParameter, ...]
    level: float
    reason: str | None
    carried: dict[str, Any] | None


def planner(given: Law | None, runs: Sequence[Measurement]) -> Planner | None:
    """The planner with a law, or with the one that ships for the task of most runs; None where none ships for any."""
    if given is not None:
        return _begun(_with(given), given.domain_.task_class(given.items), runs)
    tasks = Counter(type(run.spec.task) for run in runs)
    plans = ((_shipped(task.unit), task) for task, _ in tasks.most_common() if _law_of(task) is not None)
    return next((_begun(plan, task, runs) for plan, task in plans if plan.carried is not None), None)


def _begun(plan: Planner, task: type[Task], runs: Sequence[Measurement]) -> Planner:
    """A planner whose page begins with what most runs of its task were asked."""
    alike = [run for run in runs if type(run.spec.task) is task]
    if plan.carried is None or not alike:
        return plan
    return plan.model_copy(update={"carried": started(plan.carried, alike)})


def _law_of(task: type[Task]) -> str | None:
    """The name of the law that ships for a task."""
    name = reference_of(task.unit)
    return None if name is None or load_law(name).domain_.task_class(task.unit) is not task else name


@cache
def _shipped(unit: str) -> Planner:
    """The same for every report of a process."""
    name = reference_of(unit)
    assert name is not None
    return _with(load_law(name)).model_copy(update={"given": False})


def _with(law: Law) -> Planner:
    reason, table = None, None
    try:
        table = carried(law)
    except CapaxError as error:
        reason = str(error)
    assert law.__doc__ is not None
    return Planner(
        law=law.name,
        source=law.source_,
        given=True,
        formula=law.__doc__.splitlines()[0],
        heads_or_width=law.heads_or_width(),
        domain=law.domain_.in_words(),
        notes=tuple(law.notes_),
        errata=_errata(law),
        parameters=_parameters(law),
        level=LEVEL,
        reason=reason,
        carried=table,
    )


def _parameters(law: Law) -> tuple[FittedParameter, ...]:
    """Those of a law with names that mean something; without intervals where it was not fitted to rows."""
    if isinstance(law, Polynomial):
        return ()
    if law.measured is not None:
        return report(law, LEVEL).parameters
    return tuple(
        FittedParameter(name=name, value=value, low=None, high=None, reason=law.undetermined_.get(name))
        for name, value in law.parameters_.items()
    )


def _errata(law: Law) -> tuple[str, ...]:
    """What is wrong in the paper whose parameters a law has."""
    kind, _, source = law.source_.partition(":")
    return tuple(stated_by(source.partition(":")[0])["errata"]) if kind == "published" else ()
