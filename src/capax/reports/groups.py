"""What a report shows of runs whose items are of several groups, such as facts: recall by group, and what is missed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from capax.errors import CapaxError
from capax.results import GroupRecall, Measurement
from capax.specs.plugins import resolve

MOST_RUNS = 12
"""That are broken down: the last ones of a store."""
HEADS = {"relation": "relation", "frequency": "how often it occurs", "answer_len": "tokens of the answer"}
RECALL = 0.99
"""Share of the facts that a plan is held against."""


def broken_down(runs: Sequence[Measurement]) -> list[dict[str, Any]]:
    """The last runs that have groups, each with its tables, its plan and what most restarts miss."""
    found = [run for run in runs if run.breakdown is not None][-MOST_RUNS:]
    return [
        {
            "key": run.key[:12],
            "title": f"{run.memorized} of {run.library_size}: {run.spec.task.words()}; {run.spec.model.words()}",
            "promise": _promise(run),
            "unit": run.spec.task.unit,
            "tables": _tables(run.breakdown.groups, run.epochs),
            "missed": run.breakdown.missed,
        }
        for run in found
        if run.breakdown is not None
    ]


def _tables(groups: Sequence[GroupRecall], epochs: int) -> list[dict[str, Any]]:
    weighted = any(one.weight is not None for one in groups)
    return [
        {
            "head": HEADS.get(by, by.replace("_", " ")),
            "weighted": weighted,
            "rows": [
                (one.of, one.items, None if one.weight is None else epochs * one.weight, one.recalled)
                for one in groups
                if one.by == by
            ],
        }
        for by in dict.fromkeys(one.by for one in groups)
    ]


def _promise(run: Measurement) -> str | None:
    """What a plan expects of such a network, beside what came out; None where no plan speaks of it."""
    task = run.spec.task
    if task.promise is None:
        return None
    try:
        expected = resolve(task.promise)(task, run.spec.model, RECALL)
    except CapaxError:
        return None
    assert expected.interval.high is not None
    share = run.memorized / run.library_size
    return (
        f"A plan expects such a network to recall {RECALL:.0%} of {expected.items:.0f} such {task.unit} "
        f"({expected.interval.low:.0f} to {expected.interval.high:.0f}); of {run.library_size} it recalled {share:.1%}."
    )
