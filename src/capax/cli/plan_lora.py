"""`capax plan lora` and what it prints."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from capax.cli import output
from capax.cli.flags import Flag, Json, Part, command
from capax.cli.plan_facts import in_words
from capax.cli.planned import Kept, Seed, Workers, emit, verification
from capax.errors import NoPlan
from capax.planning.adapter_plan import AdapterPlan
from capax.planning.adapters import plan_lora, verify_lora
from capax.planning.lora_study import PLACES
from capax.planning.results import Precision, held_in_words
from capax.results import Measurement
from capax.specs import Facts
from capax.text import amount, counted, duration, percent


def _plan(
    task: Facts,
    *,
    base: Path,
    recall: float = 0.99,
    targets: Annotated[tuple[str, ...], Parameter(negative="")] = PLACES,
    probability: float = 0.9,
    precision: Precision = "float32",
    held_out: str | None = None,
    verify: Annotated[bool, Flag] = False,
    seed: Seed = None,
    workers: Workers = None,
    store: Kept = None,
    as_json: Json = False,
) -> None:
    """The smallest low-rank adapters over a frozen model that recall a share of a file's facts.

    Parameters
    ----------
    base
        Folder of the frozen model's checkpoint (.safetensors). Facts are said in its tokenizer's tokens.
    recall
        Share of the facts that is to be recalled.
    targets
        Layers to choose from, such as "mlp" or "attention,mlp"; more than once.
    probability
        Probability with which an adapter recalls that share.
    precision
        In which bytes are counted.
    held_out
        Text that the base never saw, on which its loss is measured. [default: held-out.txt beside it]
    verify
        Train the first adapter on the file, keep it, and say what it recalls and what the base loses.
    """
    how = verification(verify, seed=seed, workers=workers, store=store)
    found = plan_lora(
        task, base, recall=recall, probability=probability, targets=targets, precision=precision, held_out=held_out
    )
    check = partial(verify_lora, task, found, held_out=held_out, **how) if how and found.adapters else None
    emit(found, _show, check, _show_verified, as_json=as_json)
    if not found.adapters:
        raise NoPlan(f"plan: no rank is enough to recall {recall:.6g} of them")


plan = command(_plan, Part.task(Facts))


def _show(found: AdapterPlan) -> None:
    screen = output.console()
    for line in in_words(found.file):
        screen.print(line)
    screen.print(
        f"To recall {found.recall:.6g} of {counted(found.file.asked, 'fact')} with probability "
        f"{percent(found.probability)} by an adapter over {Path(found.base).name} "
        f"({amount(found.base_parameters)} parameters, frozen)"
    )
    columns = found.columns()
    kept = output.show_lines(columns, words=("by",), spare=("size", "facts", "at least"))
    output.tell_narrow(columns, kept)
    least = f"at least (with {percent(found.probability)})"
    terms = {"facts": "facts", "interval": "95 % interval", "at least": least}
    named = [said for name, said in terms.items() if name in kept]
    screen.print(
        f"{', '.join(named)}: like these, of which {found.recall:.4g} are recalled; recall: of this file, by what was "
        f"measured. Measured: {found.source}. Rules: 2 bits a parameter (Schulman 2025); ranks 8, 16, 32 and 64 by the "
        "number of samples; the law refitted to Nguyen 2026."
    )
    output.show_notes(found.notes)


def _loss(run: Measurement, name: str) -> str:
    """A loss of the base; it may be too large for a number."""
    return f"{run.metrics[name]:.3f}" if name in run.metrics else "no number"


def _show_verified(found: AdapterPlan) -> None:
    checked = found.verification
    assert checked is not None
    run = checked.measurement
    verdict = held_in_words(checked.held)
    print(
        f"Verified: {run.memorized} of {run.library_size} facts recalled, {checked.recall:.2%} where "
        f"{found.recall:.4g} was planned, in {duration(run.seconds)}: {verdict} (run {run.key[:12]}). The base's loss "
        f"on text that it never saw went from {_loss(run, 'base_loss')} to {_loss(run, 'base_loss_after')} "
        "nats a token."
    )
