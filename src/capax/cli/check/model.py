"""`capax check model`: faults of a model that training does not show."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from capax.checks.model import ModelReport, check_model
from capax.cli import output
from capax.cli.measure import GROUPS, InModel, InTask, ModuleFlags, SequencesFlags, TransformerFlags, given
from capax.errors import SpecError
from capax.specs import Sequences, Transformer


def model(
    *,
    task: Annotated[SequencesFlags | None, InTask] = None,
    transformer: Annotated[TransformerFlags | None, InModel] = None,
    module: Annotated[ModuleFlags | None, Parameter(name="*")] = None,
    seed: Annotated[
        int, Parameter(help="Of random tokens and weights, and of the library that is drawn.", group=GROUPS["Run"])
    ] = 0,
    as_json: Annotated[
        bool,
        Parameter(
            name="--json",
            negative="",
            help="Print one JSON object (docs/schemas/check_model.json).",
            group=GROUPS["Run"],
        ),
    ] = False,
) -> None:
    """Check a model that maps tokens to scores, a module of yours or our transformer, for faults that spoil a count.

    It ends with code 0 whatever it finds.
    """
    if not 0 <= seed < 2**63 - 1:
        raise SpecError(f"seed: at least 0 and below 2^63 - 1, got {seed}")
    learner = (module or ModuleFlags()).spec(transformer) or Transformer(**given(transformer))
    found = check_model(learner, Sequences(**given(task)), seed=seed)
    if as_json:
        print(found.model_dump_json())
    else:
        _show(found)


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
