"""Plans for a file of facts: which networks, and which tokens, recall a share of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import polars
from pydantic import Field

from capax.errors import CapaxError, LawError, shown
from capax.laws.files import load_law
from capax.laws.law import Law
from capax.planning.bits import Fill, frontier
from capax.planning.cost import PEAKS, Accelerator
from capax.planning.question import Question, predicted
from capax.planning.results import BYTES, Bounds, Network, Precision
from capax.protocols.measure import measure
from capax.results import LEVEL, Interval, Measurement, Result
from capax.seeds import numpy_generator
from capax.specs import Facts, Mac, Training
from capax.store import Store
from capax.store.tables import IN_BITS
from capax.tasks.facts.encoding import prepared
from capax.tasks.facts.library import draw
from capax.tasks.facts.table import ambiguity

TOKENIZATIONS = ("code", "words", "bpe", "bytes")
USUAL = ("code", "words")
"""Tokens to choose from where nothing is said: of text, rows are as long as the longest fact, and train for hours."""
SHOWN = 3
"""Networks of each kind of tokens, the smallest first."""
FILLS = "facts.csv"


class FactsInFile(Result):
    """What a file of facts asks of a memory."""

    name: str
    facts: Annotated[int, Field(description="Different facts of the file.")]
    repeats: Annotated[int, Field(description="Facts that the file says again.")]
    pairs: Annotated[int, Field(description="Of key and relation.")]
    ambiguous: Annotated[int, Field(description="Pairs with several answers.")]
    ceiling: Annotated[float, Field(description="Share of all facts that a model with one answer a pair can recall.")]
    asked: Annotated[int, Field(description="Facts to be recalled, after what is done with several answers.")]
    relations: int
    bits: Annotated[float, Field(description="Of the asked facts: log2 of the different answers of each relation.")]
    entropy_bits: Annotated[float, Field(description="By the entropy of the answers of each relation.")]
    bytes: Annotated[int, Field(description="Of the file.")]
    compressed_bytes: Annotated[
        int | None, Field(description="Of the asked facts by zstd at its highest level; None where it is not there.")
    ]


class FactsNetwork(Network):
    """A network of a plan, and how it reads facts."""

    tokenization: Literal["words", "code", "bpe", "bytes"]
    seq_len: int
    vocab_size: int
    embedding_share: Annotated[float, Field(description="Share of all parameters that are token tables.")]


class FactsVerification(Result):
    """The first network of a plan, trained on the file."""

    held: Annotated[bool, Field(description="Whether it recalled the share that was planned.")]
    recall: Annotated[float, Field(description="Share of the asked facts that it recalled.")]
    measurement: Measurement


class FactsPlan(Result):
    """Networks that recall a share of a file's facts, smallest first."""

    file: FactsInFile
    recall: Annotated[float, Field(description="Share of the asked facts that is wanted.")]
    probability: Annotated[float, Field(description="With which each network recalls it.")]
    precision: Precision
    fill: Annotated[float, Field(description="Bits of the facts by bits of capacity at which so many are recalled.")]
    networks: tuple[FactsNetwork, ...]
    exposures: Annotated[int, Field(description="Times that each fact is seen.")]
    accelerator: Accelerator
    law: str
    source: str
    notes: tuple[str, ...]
    verification: FactsVerification | None = None
    schema_version: Literal[1] = 1


class Measured(NamedTuple):
    """What the study of facts says of one file: at which fill each share was recalled."""

    name: str
    fills: np.ndarray
    recalls: np.ndarray

    def fill_at(self, recall: float) -> float | None:
        """The fill at which a share is still recalled, between the networks on both sides; None outside of them."""
        above = np.flatnonzero(self.recalls >= recall)
        if not len(above) or len(above) == len(self.recalls):
            return None
        last = above[-1]  # fills rise: the fullest network that recalls so much
        if last == len(self.fills) - 1:
            return None
        low, high = self.recalls[last + 1], self.recalls[last]
        share = (high - recall) / (high - low) if high > low else 0.0
        return float(np.exp(np.log(self.fills[last]) + share * np.log(self.fills[last + 1] / self.fills[last])))


MODEL = ("n_layers", "n_heads", "d_head", "d_model", "embeddings", "ffn")


def rows(runs: Iterable[Measurement]) -> polars.DataFrame:
    """A row for each run on facts: its file, its network, and what of the file is recalled."""
    found = []
    for run in runs:
        if not isinstance(run.spec.task, Facts):
            continue
        task, model = run.spec.task.columns(), run.spec.model.columns()
        if not set(MODEL) <= set(model):
            continue
        found.append(
            {
                "file": Path(task["library"]).stem,
                **{name: task[name] for name in ("seq_len", "vocab_size", "relations", "tokenization")},
                **{name: model[name] for name in MODEL},
                "loss": run.spec.task.scored("loss"),
                "effective_parameters": run.parameters.effective,
                "trainable_parameters": run.parameters.trainable,
                "facts": run.library_size,
                "recalled": run.memorized,
                "bits": round(run.library_size * task["bits_per_fact"], 1),
                "entropy_bits": round(run.library_size * task["entropy_per_fact"], 1),
                "known_bits": round(next((unit.amount for unit in run.units if unit.name == "morris_bits"), 0.0), 1),
                "steps": run.steps,
                "stop_reason": run.stop_reason,
            }
        )
    return polars.DataFrame(found).sort("file", "effective_parameters") if found else polars.DataFrame()


@cache
def study() -> tuple[Measured, ...]:
    """The study of facts that ships: files of several structures in networks of several widths."""
    text = (files("capax") / "data" / "reference" / FILLS).read_text()
    return _by_file(polars.read_csv(StringIO(text), comment_prefix="#"))


def _by_file(table: polars.DataFrame) -> tuple[Measured, ...]:
    """What rows say of each file and kind of tokens, by the law of capacity that ships."""
    law, found = load_law("reference"), []
    for (name, _, _), some in table.group_by("file", "tokenization", "facts", maintain_order=True):
        columns = {column: some[column].to_numpy() for column in law.columns if column in some.columns}
        fills = some["entropy_bits"].to_numpy() / predicted(law, columns)
        order = np.argsort(fills)
        found.append(Measured(str(name), fills[order], (some["recalled"] / some["facts"]).to_numpy()[order]))
    return tuple(found)


def fill(recall: float, data: Sequence[Path | str] = ()) -> Fill:
    """At which share of its capacity a network recalls so much of what it learned, by the study that ships.

    Args:
        data: stores with runs on facts, which join the study.

    Raises:
        LawError: for a share that the study does not reach on three files.
        StoreError: for a store that cannot be read.
    """
    runs: list[Measurement] = []
    for path in data:
        with Store(path, create=False) as store:
            runs += store.each()
    more = rows(runs)
    every = (*study(), *(_by_file(more) if len(more) else ()))
    known = [share for one in every if (share := one.fill_at(recall)) is not None]
    if len(known) < 3:
        raise LawError(f"recall: the study of facts reaches it on {len(known)} files, got {recall:g}")
    logs = np.log(known)
    return Fill(float(np.exp(logs.mean())), float(logs.std(ddof=1)))


def in_file(facts: Facts) -> FactsInFile:
    """What a spec's file asks."""
    path, known = Path(facts.library), facts.known
    every = prepared(facts.model_copy(update={"ambiguous": "keep", "tokenization": "words"})).table
    whole = ambiguity(every)
    return FactsInFile(
        name=path.name,
        facts=len(every),
        repeats=every.repeats,
        pairs=whole.pairs,
        ambiguous=whole.ambiguous,
        ceiling=whole.ceiling / len(every),
        asked=facts.library_size,
        relations=known.relations,
        bits=facts.library_size * known.bits_per_fact,
        entropy_bits=facts.library_size * known.entropy_per_fact,
        bytes=sum(one.stat().st_size for one in path.iterdir()) if path.is_dir() else path.stat().st_size,
        compressed_bytes=_compressed(draw(facts, facts.library_size, numpy_generator(0, "library", 0)).text()),
    )


def _compressed(text: str) -> int | None:
    try:
        import zstandard
    except ModuleNotFoundError:
        return None
    return len(zstandard.ZstdCompressor(level=22).compress(text.encode()))


def plan_facts(
    facts: Facts,
    *,
    recall: float = 0.99,
    tokenizations: Sequence[str] = USUAL,
    law: Law | str = "reference",
    data: Sequence[Path | str] = (),
    probability: float = 0.9,
    multiple: int | None = None,
    budget_parameters: int | None = None,
    budget_bytes: int | None = None,
    budget_hours: float | None = None,
    precision: Precision = "float32",
    accelerator: Accelerator = "h100",
    **sizes: Any,
) -> FactsPlan:
    """Networks and tokens that recall a share of a file's facts with a probability, smallest first.

    The facts have so many bits, by the entropy of each relation's answers; the law says how many a network holds, and
    the study of facts that ships how full it may be for so many to be recalled. The spread of both is in the interval.
    What the facts have in common, by which they could be learned with less, is not known before training.

    Args:
        facts: the file, and what is done with several answers; its tokens are those of `tokenizations`.
        recall: share of the asked facts.
        tokenizations: kinds of tokens to choose from.
        law: one in bits.
        data: stores with runs on facts, such as verified plans, which join the study that ships.
        sizes: values of the model's to choose from, as in `plan`.
        probability, multiple, precision, accelerator: as in `plan`, and its budgets.

    Raises:
        LawError: for a value that is not allowed, or budgets that leave no network.
        CapaxError: for a file that cannot be put into tokens.
    """
    law = law if isinstance(law, Law) else load_law(law)
    if law.target not in IN_BITS or law.along is not None:
        raise LawError(f"law: one of capacity in bits, got {law.name}")
    for name, value in (("recall", recall), ("probability", probability)):
        if not 0 < value < 1:
            raise LawError(f"{name}: between 0 and 1, got {shown(value)}")
    for one in tokenizations:
        if one not in TOKENIZATIONS:
            raise LawError(f"tokenization: {', '.join(TOKENIZATIONS)}, got {shown(one)}")
    for name, known in (("precision", BYTES), ("accelerator", PEAKS)):
        given = {"precision": precision, "accelerator": accelerator}[name]
        if given not in known:
            raise LawError(f"{name}: {', '.join(known)}, got {shown(given)}")
    held, notes, networks = fill(recall, data), [], []
    budget = Bounds(parameters=budget_parameters, bytes=budget_bytes, hours=budget_hours)
    for kind in tokenizations:
        try:
            task = facts.replace(tokenization=kind)
        except CapaxError as error:
            if len(tokenizations) == 1:
                raise
            notes.append(f"{kind}: {error}")
            continue
        found = frontier(
            _question(law, task, sizes),
            task.library_size,
            probability=probability,
            multiple=multiple,
            budget=budget,
            precision=precision,
            exposures=None,
            accelerator=accelerator,
            extrapolate=None,
            fill=held,
            shown_exposures=exposures(task),
        )
        if not found.architectures:
            notes.append(f"{kind}: no network up to the widest that is tried recalls so many")
        networks += [_described(one, task) for one in found.architectures]
        source, told = found.source, found.notes
    if not networks and len(notes) == len(tokenizations):
        raise LawError("; ".join(notes))
    networks.sort(key=lambda one: one.total_parameters)
    return FactsPlan(
        file=in_file(facts),
        recall=recall,
        probability=probability,
        precision=precision,
        fill=held.share,
        networks=tuple(networks),
        exposures=exposures(facts),
        accelerator=accelerator,
        law=law.name,
        source=source,
        notes=(
            *notes,
            f"a network recalls {recall:.3g} of what it learns when that has {held.share:.0%} of the bits that it can "
            f"hold (standard deviation of the logarithm {held.spread:.2f}, by a study of "
            f"{len(study())} files{' and the data given' if data else ''}; codes alone were studied)",
            *told,
        ),
    )


class Promise(NamedTuple):
    """How many facts of a kind a network recalls.

    Attributes:
        facts: of which it recalls the wanted share.
        interval: of these, for a new measurement.
    """

    facts: float
    interval: Interval


def promised(facts: Facts, model: Any, recall: float, law: Law | str = "reference") -> Promise:
    """Of how many facts, each of as many bits as those of a file, a network recalls a share.

    Raises:
        LawError: where the law, or the study of facts, does not speak of it.
    """
    law = law if isinstance(law, Law) else load_law(law)
    fields = {name: getattr(model, name) for name in ("n_layers", "n_heads", "d_head", "d_model")}
    kinds = {name: getattr(model, name) for name in law.coded if name in type(model).model_fields}
    question, held = _question(law, facts, {**fields, **kinds}), fill(recall)
    table = question.table([model])
    items = held.share / question.per_item
    low, high = (float(bits[0]) * items for bits in held.widened(law, table, ((1 - LEVEL) / 2, (1 + LEVEL) / 2)))
    expected = float(predicted(law, table)[0]) * items
    return Promise(expected, Interval(low=low, high=high, level=LEVEL, of="a new measurement"))


def exposures(facts: Facts) -> int:
    """Times that a training with the task's usual budget shows each fact, at most."""
    training = Training(**facts.usual_training)
    budget = training.budget(facts.library_size)
    assert budget is not None
    return budget // training.steps_per_epoch(facts.library_size)


def _question(law: Law, task: Facts, sizes: dict[str, Any]) -> Question:
    """What a law is asked about a file: the bits of its answers."""
    known = task.sizes()
    loss = {"loss": task.scored("loss")} if "loss" in law.coded else {}
    found = Question(law, {"seq_len": known["context"] + 1, "vocab_size": known["vocab_size"], **loss, **sizes})
    found.task, found.per_item = task, task.known.entropy_per_fact
    return found


def _described(network: Network, task: Facts) -> FactsNetwork:
    tables = _model(task, network).table_parameters(**task.sizes())
    return FactsNetwork(
        **network.model_dump(),
        tokenization=task.tokenization,
        seq_len=task.known.seq_len,
        vocab_size=task.known.vocab_size,
        embedding_share=tables / network.total_parameters,
    )


def _model(task: Facts, network: Network) -> Any:
    """The model that a plan's network is."""
    return task.learner(
        **{name: getattr(network, name) for name in ("n_layers", "n_heads", "d_head", "d_model", "embeddings")},
        readout="tied" if network.embeddings == "trained" else "frozen",
    )


def verify_facts(facts: Facts, plan: FactsPlan, network: FactsNetwork | None = None, **how: Any) -> FactsVerification:
    """Train a network of a plan on the file, once, and keep its weights.

    Args:
        network: the first when not given.
        how: store, seed, workers and progress of `measure`.

    Raises:
        LawError: where the plan has no network.
    """
    chosen = network or (plan.networks[0] if plan.networks else None)
    if chosen is None:
        raise LawError("verify: the plan has no network")
    task = facts.replace(tokenization=chosen.tokenization)
    run = measure(
        task, _model(task, chosen), protocol=Mac(restarts=1), keep_weights=how.get("store") is not None, **how
    )
    share = run.memorized / run.library_size
    return FactsVerification(held=share >= plan.recall, recall=share, measurement=run)
