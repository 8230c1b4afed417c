"""What was measured and how, in words."""

from __future__ import annotations

from capax.figures.groups import Group
from capax.text import Over, counted


def of_runs(number: int) -> str:
    """So many runs."""
    return counted(number, "run")


def kind(group: Group) -> str:
    """One kind of runs in a few sentences."""
    runs = [run.spec for run in group.runs]
    first, sizes = runs[0], [run.task.library_size for run in runs]
    task = first.task.described(Over(run.task for run in runs), first.protocol.libraries(sizes))
    model = first.model.described(Over(run.model for run in runs), [run.protocol for run in runs])
    return f"{task}. Model: {model}. Count: {first.protocol.words()}. Training: {first.training.words(sizes)}."
