"""`capax plan facts` and what it prints."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from capax.cli import output
from capax.cli.flags import Flag, Json, Part, command
from capax.cli.numbers import integers
from capax.cli.plan_shown import columns, network, show_networks
from capax.cli.planned import Kept, Seed, Workers, emit, verification
from capax.errors import NoPlan, SpecError
from capax.planning.cost import Accelerator
from capax.planning.facts import SHOWN, USUAL, plan_facts, verify_facts
from capax.planning.facts_plan import FactsInFile, FactsNetwork, FactsPlan
from capax.planning.results import Precision, Target, held_in_words
from capax.specs import Facts
from capax.specs.facts import OPTIONS
from capax.text import amount, counted, duration, percent


def _plan(
    task: Facts,
    *,
    recall: float = 0.99,
    tokens: Annotated[str | None, Parameter(name="--tokenizations")] = None,
    n_layers: str | None = None,
    d_model: str | None = None,
    embeddings: Literal["frozen", "trained"] | None = None,
    probability: float = 0.9,
    budget_parameters: int | None = None,
    budget_bytes: int | None = None,
    budget_hours: float | None = None,
    precision: Precision = "float32",
    accelerator: Accelerator = "h100",
    target: Target = "parameters",
    law: str = "reference",
    data: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    verify: Annotated[bool, Flag] = False,
    seed: Seed = None,
    workers: Workers = None,
    store: Kept = None,
    as_json: Json = False,
) -> None:
    """The networks, and the tokens, that recall a share of a file's facts, smallest first.

    Parameters
    ----------
    recall
        Share of the facts that are to be recalled.
    tokens
        Kinds of tokens to choose from: code, words, bpe, bytes. [default: --tokenization, else code,words]
    n_layers
        Depths to choose from: "1,2".
    d_model
        Widths to choose from. [default: four to an octave]
    embeddings
        The token tables. [default: both]
    probability
        Probability with which each network recalls that share.
    budget_parameters
        Most trainable parameters.
    budget_bytes
        Most bytes of all parameters.
    budget_hours
        Most hours of one training on this machine.
    precision
        Number format in which bytes are counted; --target bytes chooses its own.
    accelerator
        Also estimate the training's hours on this accelerator.
    target
        What to make smallest: parameters, or bytes of the file, whose precision is then chosen, too (see
        docs/how-to/quantize.md).
    law
        One in bits: a file of `capax fit --out`, or reference (reference:NAME).
    data
        A store with runs on facts, such as verified plans, which join the study that ships; more than once.
    verify
        Train the first network on the file, keep its weights, and say what it recalls.
    """
    how = verification(verify, seed=seed, workers=workers, store=store)
    sizes: dict[str, Any] = {"n_layers": n_layers, "d_model": d_model}
    given: dict[str, Any] = {name: integers(name, text) for name, text in sizes.items() if text is not None}
    if embeddings is not None:
        given["embeddings"] = embeddings
    usual = (task.tokenization,) if "tokenization" in task.model_fields_set else USUAL
    chosen = usual if tokens is None else tuple(word.strip() for word in tokens.split(","))
    for kind, (name, _) in OPTIONS.items():
        if kind not in chosen and name in task.model_fields_set:
            raise SpecError(f"{name}: only with {kind} among the tokenizations, got {', '.join(chosen)}")
    found = plan_facts(
        task,
        recall=recall,
        tokenizations=chosen,
        law=law,
        data=data,
        probability=probability,
        budget_parameters=budget_parameters,
        budget_bytes=budget_bytes,
        budget_hours=budget_hours,
        precision=precision,
        accelerator=accelerator,
        target=target,
        **given,
    )
    check = partial(verify_facts, task, found, **how) if how and found.networks else None
    emit(found, _show, check, _show_verified, as_json=as_json)
    if not found.networks:
        raise NoPlan(f"plan: no network that was tried recalls {recall:.6g} of them")


plan = command(_plan, Part.task(Facts))


def _show(found: FactsPlan) -> None:
    screen = output.console()
    for line in in_words(found.file):
        screen.print(line)
    screen.print(
        f"To recall {found.recall:.6g} of {counted(found.file.asked, 'fact')}, with probability "
        f"{percent(found.probability)}; law: {found.law} ({found.source})"
    )
    rows = [
        one
        for kind in dict.fromkeys(one.tokenization for one in found.networks)
        for one in [row for row in found.networks if row.tokenization == kind][:SHOWN]
    ]
    rows.sort(key=found.networks.index)
    if rows:
        _show_networks(found, rows)
    output.show_notes(found.notes)


def in_words(file: FactsInFile) -> list[str]:
    """What a file holds, before anything is trained."""
    said = f" (and {counted(file.repeats, 'repeat')})" if file.repeats else ""
    lines = [f"{file.name}: {counted(file.facts, 'fact')}{said}, {counted(file.relations, 'relation')}"]
    if file.columns is not None:
        lines.append(f"the first line was taken for the names of the columns: {file.columns}")
    if file.ambiguous:
        ceiling = f"no model recalls more than {file.ceiling:.1%} of all facts"
        most = "any of them counts" if file.any_counts else ceiling
        lines.append(
            f"{file.ambiguous} of {file.pairs} pairs of key and relation have several answers: {most}; {file.asked} "
            "are asked"
        )
    packed = "" if file.compressed_bytes is None else f"; packed (zstd) {amount(file.compressed_bytes, 'B')}"
    lines.append(
        f"{amount(file.bits, 'bit')} by the number of each relation's answers, {amount(file.entropy_bits, 'bit')} by "
        f"their entropy; the file has {amount(file.bytes, 'B')}{packed}"
    )
    return lines


def _show_networks(found: FactsPlan, rows: list[FactsNetwork]) -> None:
    screen = output.console()
    shown: dict[str, list[str]] = {
        "tokens": [row.tokenization for row in rows],
        "embeddings": [f"{row.embedding_share:.0%}" for row in rows],
        **columns(rows, found.accelerator),
    }
    for name in ("bits", "expected", "FLOP"):
        del shown[name]
    words = {
        "embeddings": "embeddings: share of all parameters that are token tables",
        "at least": f"interval, at least (the latter with {percent(found.probability)}): facts of which so much is "
        "recalled",
    }
    show_networks(rows, shown, found.precision, words, by="size")
    first = rows[0]
    if first.outside:
        screen.print(f"The first lies OUTSIDE the law's domain: {'; '.join(first.outside)}.")
    if found.file.compressed_bytes is not None and first.bytes > found.file.compressed_bytes:
        times = amount(first.bytes / found.file.compressed_bytes)
        screen.print(f"The first network is {times} times as large as the packed file of facts.")
    screen.print(
        f"The first: {first.tokenization}, {network(first)}; {found.exposures} exposures of each of "
        f"{counted(found.file.asked, 'fact')}, where it does not know all of them sooner."
    )


def _show_verified(found: FactsPlan) -> None:
    checked = found.verification
    assert checked is not None
    run = checked.measurement
    verdict = held_in_words(checked.held)
    count = round(checked.recall * run.library_size)
    weights = "" if checked.weights is None else f", written as {checked.weights}"
    print(
        f"Verified: {count} of {run.library_size} facts recalled{weights}, {checked.recall:.2%} where "
        f"{found.recall:.4g} was planned, in {duration(run.seconds)}: {verdict} (run {run.key[:12]})."
    )
