"""Plans for a file of facts: which networks, and which tokens, recall a share of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast, get_args

from pydantic import Field

from capax.errors import CapaxError, LawError, shown
from capax.laws.files import load_law
from capax.laws.law import Law
from capax.overview import Displayed, Overview
from capax.planning.bits import efficient
from capax.planning.by_bytes import smallest_networks
from capax.planning.cost import Accelerator
from capax.planning.fills import exposures, fill, in_words
from capax.planning.options import Options
from capax.planning.question import Question, as_sequences, predicted
from capax.planning.results import SIZES, Network, Precision, Smallest, held_in_words, networks, verified
from capax.planning.written import ways
from capax.probes.quantization import recalled_share
from capax.protocols.measure import measure
from capax.results import LEVEL, Interval, Measurement, Result
from capax.seeds import numpy_generator
from capax.specs import Facts, Mac
from capax.specs.facts import Tokenization
from capax.specs.spec import proper_share
from capax.store import Store
from capax.store.tables import IN_BITS
from capax.tasks.facts.encoding import columns_by_place, prepared
from capax.tasks.facts.files.read import size
from capax.tasks.facts.library import draw
from capax.tasks.facts.table import Table, ambiguity, constant
from capax.text import counted, percent

TOKENIZATIONS: tuple[str, ...] = get_args(Tokenization)
USUAL = ("code", "words")
"""Tokens to choose from where nothing is said: of text, rows are as long as the longest fact, and train for hours."""
NO_PLAN = "tokenizer: plans are of networks that learn from scratch, with tokens of their own; leave it out, got "
NO_BITS = "library: each relation has one answer only, so its facts have no bits: any network recalls them"
NOT_ALL = "loss: 'answer', of which plans are known to hold, got 'all'"
EARLY = "left out, as they ended before the usual budget"
ANY = "any of several answers is right, which asks for fewer bits than the answers have: so much is enough"
UNPACKED = "the packed size is not known without zstandard: pip install 'capax[facts]'"
SHOWN = 3
"""Networks of each kind of tokens, the smallest first."""


class FactsInFile(Result):
    """What a file of facts asks of a memory."""

    name: str
    facts: Annotated[int, Field(description="Different facts of the file.")]
    columns: Annotated[
        str | None, Field(description="What the first line calls the columns, where it may be a fact as well.")
    ]
    repeats: Annotated[int, Field(description="Facts that the file says again.")]
    pairs: Annotated[int, Field(description="Of key and relation.")]
    ambiguous: Annotated[int, Field(description="Pairs with several answers.")]
    ceiling: Annotated[float, Field(description="Share of all facts that a model with one answer a pair can recall.")]
    asked: Annotated[int, Field(description="Facts to be recalled, after what is done with several answers.")]
    any_counts: Annotated[bool, Field(description="Whether any of several answers is right.")] = False
    relations: int
    bits: Annotated[
        float, Field(description="Of the asked facts: log2 of the different answers of each relation in the file.")
    ]
    entropy_bits: Annotated[
        float, Field(description="By the entropy of the answers of each relation in the file, of which some are asked.")
    ]
    bytes: Annotated[int, Field(description="Of the file.")]
    compressed_bytes: Annotated[
        int | None, Field(description="Of the asked facts by zstd at its highest level; None where it is not there.")
    ]
    text_bytes: Annotated[int, Field(description="Of the asked facts as text, one a line.")]


class FactsNetwork(Network):
    """A network of a plan, and how it reads facts."""

    tokenization: Tokenization
    seq_len: int
    vocab_size: int
    embedding_share: Annotated[float, Field(description="Share of all parameters that are token tables.")]


class FactsVerification(Displayed, Result):
    """The first network, or adapter, of a plan, trained on the file."""

    held: Annotated[bool, Field(description="Whether it recalled the share that was planned.")]
    recall: Annotated[float, Field(description="Share of the asked facts that it recalled.")]
    measurement: Measurement
    weights: Annotated[
        str | None, Field(description="How they were written, of a plan by bytes; `recall` is of these.")
    ] = None

    def overview(self) -> Overview:
        """What a prompt or a notebook shows of it."""
        return verified(self.held, self.measurement)


class FactsPlan(Displayed, Result):
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

    def overview(self) -> Overview:
        """What a prompt or a notebook shows of it: the smallest networks first."""
        none = "" if self.networks else "; no network that is tried recalls so many"
        return Overview(
            title=f"A plan: {self.recall:.6g} of {counted(self.file.asked, 'fact')} of {self.file.name} recalled with "
            f"{percent(self.probability)}; law {self.law} ({self.source}){none}",
            rows={"verified": "" if self.verification is None else held_in_words(self.verification.held)},
            table={"tokens": [one.tokenization for one in self.networks], **networks(self.networks)},
            notes=self.notes,
        )


def in_file(facts: Facts) -> FactsInFile:
    """What a spec's file asks."""
    path, table = Path(facts.library), asked(facts)
    every = prepared(facts.model_copy(update={"ambiguous": "keep", "tokenization": "words"})).table
    whole = ambiguity(every)
    text, known = table.text().encode(), facts.known
    return FactsInFile(
        name=path.name,
        facts=len(every),
        columns=columns_by_place(facts),
        repeats=every.repeats,
        pairs=whole.pairs,
        ambiguous=whole.ambiguous,
        ceiling=whole.ceiling / len(every),
        asked=len(table),
        any_counts=facts.ambiguous == "any",
        relations=known.relations,
        bits=len(table) * known.bits_per_fact,
        entropy_bits=len(table) * known.entropy_per_fact,
        bytes=size(path),
        compressed_bytes=_compressed(text),
        text_bytes=len(text),
    )


def asked(facts: Facts) -> Table:
    """The facts that are asked: of some of a file's those that a training of seed 0 draws."""
    return draw(facts, facts.library_size, numpy_generator(0, "library", 0))


def given_facts(facts: Facts | Path | str) -> Facts:
    """The task of facts that was given, or that of a file.

    Raises:
        LawError: for what is neither a task nor a path.
        CapaxError: for a file that cannot be read.
    """
    if isinstance(facts, Facts):
        return facts
    if not isinstance(facts, str | Path):
        raise LawError(f"facts: a file of facts, or capax.Facts, got {shown(facts)}")
    return Facts(library=str(facts), tokenization="words")


def checked_recall(facts: Facts, recall: float) -> None:
    """Refuse a share of a file's facts that no model recalls, a file that asks nothing, and a loss on the questions.

    Raises:
        LawError: that names the field.
    """
    if facts.loss == "all":
        raise LawError(NOT_ALL)
    proper_share("recall", recall, LawError)
    if not facts.known.entropy_per_fact:
        raise LawError(NO_BITS)
    table = asked(facts)
    one = constant(table, any_counts=facts.ambiguous == "any") / len(table)
    if recall <= one:
        raise LawError(f"recall: above {one:.3g}, which one answer to each relation reaches, got {shown(recall)}")
    if facts.ambiguous == "keep" and recall > (most := ambiguity(table).ceiling / len(table)):
        raise LawError(
            f"recall: at most {most:.3g}, as {len(table)} facts have {ambiguity(table).ceiling} different questions "
            f"(ambiguous 'keep'), got {shown(recall)}"
        )


def _compressed(text: bytes) -> int | None:
    try:
        import zstandard
    except ModuleNotFoundError:
        return None
    return len(zstandard.ZstdCompressor(level=22).compress(text))


def plan_facts(
    facts: Facts | Path | str,
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
    smallest: Smallest = "parameters",
    **sizes: Any,
) -> FactsPlan:
    """Networks and tokens that recall a share of a file's facts with a probability, smallest first.

    The facts have so many bits, by the entropy of each relation's answers; the law says how many a network holds, and
    the study of facts that ships how full it may be for so many to be recalled. The spread of both is in the interval.
    What the facts have in common, by which they could be learned with less, is not known before training.

    Args:
        facts: a file of facts, or the task with what is done with several answers; its tokens are those of
            `tokenizations`.
        recall: share of the asked facts.
        tokenizations: kinds of tokens to choose from.
        law: one in bits.
        data: stores with runs on facts, such as verified plans, which join the study that ships.
        sizes: values of the model's to choose from, as in `plan`.
        probability, multiple, precision, accelerator, smallest, budget_parameters, budget_bytes, budget_hours: as in
            `plan`.

    Raises:
        LawError: for a value that is not allowed, or budgets that leave no network.
        CapaxError: for a file that cannot be put into tokens.
    """
    law = load_law(law)
    if law.target not in IN_BITS or law.along is not None:
        raise LawError(f"law: one of capacity in bits, got {law.name}")
    options = Options.checked(
        budget_parameters=budget_parameters,
        budget_bytes=budget_bytes,
        budget_hours=budget_hours,
        probability=probability,
        multiple=multiple,
        precision=precision,
        accelerator=accelerator,
        smallest=smallest,
    )
    tokenizations = tuple(dict.fromkeys([tokenizations] if isinstance(tokenizations, str) else tokenizations))
    for one in tokenizations or ("",):
        if one not in TOKENIZATIONS:
            raise LawError(f"tokenizations: {', '.join(TOKENIZATIONS)}, got {shown(one)}")
    facts = given_facts(facts)
    if facts.tokenizer is not None:
        raise LawError(f"{NO_PLAN}{shown(facts.tokenizer)}")
    for name in ("seq_len", "vocab_size"):
        if name in sizes:
            raise LawError(f"{name}: follows from the file and its tokens, got {shown(sizes[name])}")
    checked_recall(facts, recall)
    held, notes, networks, errors = fill(recall, data), [], [], []
    told: dict[str, tuple[str, ...]] = {}
    for kind in tokenizations:
        try:
            task = facts.tokenized(cast(Tokenization, kind))
            question = _question(law, task, sizes)
            found = smallest_networks(question, task.library_size, options, fill=held, shown_exposures=exposures(task))
        except CapaxError as error:  # of these tokens; others may do
            errors.append(error)
            notes.append(f"{kind}: {error}")
            continue
        if not found.architectures:
            notes.append(f"{kind}: no network up to the widest that is tried recalls so many")
        networks += [_described(one, task) for one in found.architectures]
        source, told[kind] = found.source, found.notes
    if len(errors) == len(tokenizations):
        raise errors[0]
    if (file := in_file(facts)).compressed_bytes is None:
        notes.append(UNPACKED)
    if facts.ambiguous == "any":
        notes.append(ANY)
    networks.sort(key=lambda one: one.bytes if smallest == "bytes" else one.total_parameters)
    networks = efficient(networks)
    return FactsPlan(
        file=file,
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
            in_words(held, recall),
            *([f"{EARLY}: {counted(held.short, 'run')} of the data given"] if held.short else []),
            *(told[networks[0].tokenization] if networks else next(iter(told.values()))),
        ),
    )


class Promise(NamedTuple):
    """How many facts of a kind a network recalls.

    Attributes:
        items: of which it recalls the wanted share.
        interval: of these, for a new measurement.
    """

    items: float
    interval: Interval


def promised(facts: Facts, model: Any, recall: float, law: Law | str = "reference") -> Promise:
    """Of how many facts, each of as many bits as those of a file, a network recalls a share.

    Raises:
        LawError: where the law, or the study of facts, does not speak of it.
    """
    if not isinstance(model, facts.learner):
        raise LawError(f"model: one that plans are made of, {facts.learner.__name__}, got {type(model).__name__}")
    law = load_law(law)
    fields = {name: getattr(model, name) for name in ("n_layers", "n_heads", "d_head", "d_model")}
    kinds = {name: getattr(model, name) for name in law.coded if name in type(model).model_fields}
    if not facts.known.entropy_per_fact:
        raise LawError(NO_BITS)
    if facts.loss == "all":
        raise LawError(NOT_ALL)
    if facts.tokenization not in USUAL:
        raise LawError(
            f"tokenization: {' or '.join(USUAL)}, of which plans are known to hold; got {facts.tokenization!r}"
        )
    question, held = _question(law, facts, {**fields, **kinds}), fill(recall)
    table = question.table([model])
    items = held.share / question.per_item
    low, high = (float(bits[0]) * items for bits in held.widened(law, table, ((1 - LEVEL) / 2, (1 + LEVEL) / 2)))
    expected = float(predicted(law, table)[0]) * items
    return Promise(expected, Interval(low=low, high=high, level=LEVEL, of="a new measurement"))


def _question(law: Law, task: Facts, sizes: dict[str, Any]) -> Question:
    """What a law is asked about a file: the bits of its answers."""
    alike = {name: value for name, value in as_sequences(task).items() if name != "loss" or name in law.coded}
    found = Question(law, {**alike, **sizes})
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
    sizes = {name: getattr(network, name) for name in SIZES}
    return task.learner(**task.learner.completed({**sizes, **network.further, "embeddings": network.embeddings}))


def verify_facts(facts: Facts, plan: FactsPlan, network: FactsNetwork | None = None, **how: Any) -> FactsVerification:
    """Train a network of a plan on the file, once, and keep its weights.

    Args:
        facts: those that were planned for.
        network: the first when not given.
        how: store, seed, workers and progress of `measure`. A plan by bytes needs a store: what counts is what the
            weights recall that are kept there, once they are rounded.

    Raises:
        LawError: where the plan has no network, or needs a store.
    """
    chosen = network or (plan.networks[0] if plan.networks else None)
    if chosen is None:
        raise LawError("verify: the plan has no network")
    store = how.get("store")
    if chosen.weights is not None and store is None:
        raise LawError("store: a plan by bytes is verified by weights that are kept beside a store, got none")
    task = facts.tokenized(chosen.tokenization)
    run = measure(task, _model(task, chosen), protocol=Mac(restarts=1), keep_weights=store is not None, **how)
    share = run.memorized / run.library_size
    if chosen.weights is not None:
        way = next(one.how for one in ways() if one.how.words == chosen.weights)
        assert store is not None
        share = recalled_share(run, way, store.path if isinstance(store, Store) else store)
    return FactsVerification(held=share >= plan.recall, recall=share, measurement=run, weights=chosen.weights)
