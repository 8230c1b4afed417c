"""What was measured and how, in words."""

from __future__ import annotations

from capax.reports.groups import Group
from capax.results import Measurement
from capax.specs import (
    Associations,
    Budget,
    Mac,
    Mls,
    Relations,
    Run,
    Sequences,
    Shatter,
)

MOST_ITEMS = 3
"""Kinds of items that are named."""


def of_heads(number: int) -> str:
    """So many heads."""
    return f"{number} head{'s' * (number != 1)}"


def of_runs(number: int) -> str:
    """So many runs."""
    return f"{number} run{'s' * (number != 1)}"


def task(run: Run, items: str) -> str:
    """What was to be remembered, and when it counts.

    Args:
        items: what the items are, in a few words.
    """
    match run.task:
        case Sequences() as spec:
            origin = {"random": "random sequences", "all": "all prefixes"}.get(spec.library, "the user's sequences")
            recalled = "its last token" if spec.recall == "last" else "every next token"
            return (
                f"{origin} over {spec.vocab_size} tokens; the loss covers {spec.loss} position"
                f"{'s' * (spec.loss == 'all')}; a sequence counts when {recalled} has the highest score"
            )
        case Associations() as spec:
            counts = (
                "its class has the highest score"
                if spec.labels == "classes"
                else f"no number of its label is further off than {spec.tolerance:g}"
            )
            return f"associations, {items}, {spec.entries} entries; an example counts when {counts}"
        case Relations() as spec:
            return f"relations: {items}; an edge counts when its score is above the threshold"


def protocol(run: Run) -> str:
    """How a count is made of trainings."""
    match run.protocol:
        case Mac() as spec:
            return f"the best of {spec.restarts} restart{'s' * (spec.restarts != 1)} on one library"
        case Mls() as spec:
            return f"the largest library memorized whole: 50 % point of up to {spec.max_trainings} trainings"
        case Shatter() as spec:
            return f"epochs until the library is whole, over {spec.trials} trials"
        case Budget() as spec:
            how = "half of the trainings reach" if spec.criterion == "half" else "the mean reaches"
            return f"the smallest total key dimension at which {how} F1 {spec.target_f1:g}"


def training(run: Run) -> str:
    """How each member learned, and when it stopped."""
    spec = run.training
    ends = []
    if spec.patience is not None:
        ends.append(f"{spec.patience} evaluations without improvement")
    if spec.max_epochs is not None:
        ends.append(f"{spec.max_epochs} epochs")
    if spec.max_steps is not None:
        ends.append(f"{spec.max_steps} steps")
    if spec.time_limit is not None:
        ends.append(f"{spec.time_limit:g} seconds")
    batch = "the whole library" if spec.batch_size >= run.task.library_size else str(spec.batch_size)
    ends += ["the library is complete"] if spec.stop_when_complete else []
    return f"Adam at {spec.lr:g} ({spec.schedule}), batches of {batch}, {spec.precision}; until {' or '.join(ends)}"


def kind(group: Group) -> str:
    """One kind of runs in a sentence."""
    run: Measurement = group.runs[0]
    spec = run.spec
    every = list(dict.fromkeys(one.spec.task.items for one in group.runs))
    items = "; ".join(every[:MOST_ITEMS]) + (f" and {len(every) - MOST_ITEMS} more" if len(every) > MOST_ITEMS else "")
    telling = [f"{name} {group.fields[name]}" for name in group.telling if hasattr(spec.model, name)]
    model = f" Model: {', '.join(telling)}." if telling else ""
    return f"{task(spec, items)}.{model} Count: {protocol(spec)}. Training: {training(spec)}."
