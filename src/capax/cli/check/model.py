"""`capax check model`: faults of a model that training does not show."""

from __future__ import annotations

from rich.table import Table

from capax.checks.model import ModelReport, check_model
from capax.cli import output
from capax.cli.flags import Json, Part, command, made
from capax.errors import SpecError
from capax.specs import Model, Sequences, Task


def _model(task: Task, model: Model, *, seed: int = 0, as_json: Json = False) -> None:
    """Look for faults in a model of tokens that spoil a count: a module of yours, or one of ours.

    The exit code is 0 whatever it finds.

    Parameters
    ----------
    seed
        Names all random draws: tokens, weights, the library.
    """
    if not 0 <= seed < 2**63 - 1:
        raise SpecError(f"seed: at least 0 and below 2^63 - 1, got {seed}")
    output.emit(check_model(model, task, seed=seed), _show, as_json=as_json)


__getattr__ = made(model=lambda: command(_model, Part.tasks(Sequences), Part.model(Sequences)))


def _show(found: ModelReport) -> None:
    screen = output.console()
    sizes = f"{found.parameters.trainable} parameters trainable of {found.parameters.total}"
    screen.print(f"{found.model}; {found.seq_len} tokens from {found.vocab_size}, {sizes}")
    table = Table(box=None, pad_edge=False)
    for name, whole in (("check", True), ("verdict", True), ("evidence", False)):
        table.add_column(name, no_wrap=whole)
    for one in found.checks:
        table.add_row(one.check, one.verdict, one.evidence)
    screen.print(table)
    count = len(found.failed)
    screen.print(f"{count} of {len(found.checks)} failed" if count else "none failed")
