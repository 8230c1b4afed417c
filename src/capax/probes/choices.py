"""The choices of a measurement in which papers differ: their alternatives, and the runs that try them.

The papers' alternatives are read from `data/published/protocols.json`, with their standing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from capax.errors import SpecError
from capax.literature import stated_by
from capax.results import Result, Standing
from capax.specs import PROTOCOLS, Run, Training
from capax.specs.run import BUDGET

Value = int | float | str | None

CHOICES = (
    *("lr", "batch_size", "loss", "vocab_size", "positions", "ffn"),
    *("epochs", "steps", "precision", "schedule", "patience", "restarts"),
)
"""`epochs` and `steps` set a training's whole budget, in one unit or the other; the others are fields of specs."""
PARTS = {"loss": "task", "vocab_size": "task", "positions": "model", "ffn": "model", "restarts": "protocol"}
"""Where the field of a choice is; the others are of the training."""


class Source(Result):
    """Who uses a value: a paper, or only we."""

    paper: str | None
    standing: Standing


@dataclass(frozen=True)
class Variation:
    """The base run with another value of one choice."""

    choice: str
    value: Value
    sources: tuple[Source, ...]
    run: Run


@dataclass
class Variations:
    """The variations of one choice.

    Attributes:
        base_value: the base's own; a budget in another unit than the choice's is in words.
        base_sources: papers that use the base's value.
        notes: what was left out, and why.
    """

    choice: str
    base_value: Value
    base_sources: tuple[Source, ...] = ()
    variations: list[Variation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def allowed(run: Run) -> tuple[str, ...]:
    """The choices that apply to a run: those of task and model where they have them, restarts of one library."""
    missing = {name for name, part in PARTS.items() if name not in type(getattr(run, part)).model_fields}
    if not run.protocol.one_library:
        missing.add("restarts")
    return tuple(choice for choice in CHOICES if choice not in missing)


def variations_of(run: Run, choices: Sequence[str] | Mapping[str, Sequence[Value] | None]) -> list[Variations]:
    """Each choice's variations of a run, in the order given.

    Args:
        choices: names, or names with the values to try; None (or the name alone) stands for the papers' alternatives.

    Raises:
        SpecError: for a protocol without a number to compare; for a choice that is unknown, repeated or does not apply;
            for values that are not allowed or repeated; or when there is nothing to vary.
    """
    if run.protocol.compared is None:
        comparable = ", ".join(repr(name) for name, kind in PROTOCOLS.items() if kind.compared is not None)
        tag = run.protocol.protocol
        raise SpecError(f"protocol: should give one number to compare, as {comparable} do, got {tag!r}")
    if isinstance(choices, str) or not isinstance(choices, Collection):
        raise SpecError(f"sensitivity: a list of choices, got {choices!r}")
    given = dict(choices) if isinstance(choices, Mapping) else dict.fromkeys(choices)
    known = allowed(run)
    if not given:
        raise SpecError(f"sensitivity: at least one choice of {', '.join(known)}, got none")
    for choice in choices:
        if choice not in known:
            raise SpecError(
                f"sensitivity: a run of {run.task.task!r} by protocol {run.protocol.protocol!r} can vary "
                f"{', '.join(known)}; got {choice!r}"
            )
        if list(choices).count(choice) > 1:
            raise SpecError(f"sensitivity: each choice once, got {choice!r} twice")
    groups = [_variations(run, choice, values) for choice, values in given.items()]
    if not any(one.variations for one in groups):
        raise SpecError(f"sensitivity: nothing to vary ({'; '.join(note for one in groups for note in one.notes)})")
    return groups


def _variations(run: Run, choice: str, values: Sequence[Value] | None) -> Variations:
    papers: dict[Value, tuple[Source, ...]] = {}
    for value, source in published(choice, run.task.task):
        value = _in_effect(run, choice, value)
        papers[value] = (*papers.get(value, ()), source)
    base = value_of(run, choice)
    result = Variations(choice, base, papers.get(base, ()))
    if values is None:
        wanted: Sequence[Value] = [value for value in papers if value != base]
        if not wanted:
            result.notes.append(f"{choice}: the papers' values are all the base's own, {text(base)}")
    elif isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
        raise SpecError(f"{choice}: a list of values to try, got {values!r}")
    else:
        wanted = values
    for value in wanted:
        other = varied(run, choice, value)
        read = value_of(other, choice)
        if read == base:
            cut = choice == "batch_size" and other.training.batch_size > rows(run)
            given = f"{other.training.batch_size} (the library has {read})" if cut else text(read)
            result.notes.append(f"{choice}: {given} is what the base does; not measured again")
        elif any(read == before.value for before in result.variations):
            raise SpecError(f"{choice}: each value once; {text(value)} repeats one before it")
        else:
            result.variations.append(Variation(choice, read, papers.get(read, ()), other))
    return result


def published(choice: str, task: str) -> list[tuple[Value, Source]]:
    """The published values of a choice for a task, each with who uses it, in the table's order."""
    table = stated_by("protocols")
    return [
        (row["value"], Source(paper=row.get("paper"), standing=row["standing"]))
        for row in table["alternatives"][choice]
        if task in row.get("tasks", table["tasks"])
    ]


def varied(run: Run, choice: str, value: Value) -> Run:
    """The run with another value of one choice, and nothing else changed.

    Raises:
        SpecError: for a value that is not allowed, or that leaves a training without an end.
    """
    training: dict[str, Any] = {}
    match choice:
        case _ if choice in PARTS:
            part = PARTS[choice]
            given = "none" if value is None and part == "model" else value  # a model's none is a kind of its own
            return run.replace(**{part: getattr(run, part).replace(**{choice: given})})
        case "epochs" | "steps":
            training = {**dict.fromkeys(BUDGET), f"max_{choice}": value}
        case _:
            training = {choice: rows(run) if (choice, value) == ("batch_size", "full") else value}
    found = run.replace(training=run.training.replace(**training))
    after = found.training
    if after.patience is None and after.time_limit is None and after.budget(1) is None:
        raise SpecError(f"{choice}: {text(value)} leaves the training without an end: neither patience nor a budget")
    return found


def value_of(run: Run, choice: str) -> Value:
    """The run's value of a choice; a budget in another unit is in words, a batch is at most the library."""
    training = run.training
    match choice:
        case _ if choice in PARTS:
            found: Value = getattr(getattr(run, PARTS[choice]), choice, None)
            return found
        case "epochs" | "steps":
            return _budget(training, choice)
        case _:
            value: Value = getattr(training, choice)
            return _in_effect(run, choice, value)


def _budget(training: Training, unit: str) -> Value:
    epochs, least, steps = training.max_epochs, training.min_steps, training.max_steps
    if unit == "epochs" and least is None and steps is None:
        return epochs
    if unit == "steps" and epochs is None:
        return steps
    words = [] if epochs is None else [f"{epochs} epochs"]
    words += [] if least is None else [f"at least {least} steps"]
    words += [] if steps is None else [f"{steps} steps" if epochs is None else f"at most {steps} steps"]
    return ", ".join(words)


def _in_effect(run: Run, choice: str, value: Value) -> Value:
    if choice != "batch_size":
        return value
    return rows(run) if isinstance(value, str) or value is None else min(value, rows(run))


def rows(run: Run) -> int:
    """Rows that batches are cut from, of the (largest) library."""
    return run.task.learned_rows(run.task.library_size, run.model)


def text(value: Value) -> str:
    """A value as one writes it."""
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
