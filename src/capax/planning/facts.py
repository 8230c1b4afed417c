"""Plans for a file of facts: which networks, and which tokens, recall a share of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

from capax.errors import CapaxError, LawError, shown
from capax.laws.files import load_law
from capax.laws.law import Law
from capax.planning.answers import predicted
from capax.planning.bits import efficient
from capax.planning.by_bytes import smallest_networks
from capax.planning.cost import Accelerator
from capax.planning.facts_file import NO_BITS, NOT_ALL, UNPACKED, checked_recall, given_facts, in_file
from capax.planning.facts_plan import FactsNetwork, FactsPlan, FactsVerification
from capax.planning.facts_study import exposures, fill, in_words
from capax.planning.options import Options
from capax.planning.question import Question, as_sequences
from capax.planning.results import SIZES, Network, Precision, Target
from capax.planning.rounding_study import ways
from capax.probes.quantization import recalled_share
from capax.protocols.measure import measure
from capax.results import LEVEL, Interval
from capax.specs import Facts, Mac
from capax.specs.facts import Tokenization
from capax.store import Store
from capax.store.tables import IN_BITS
from capax.text import counted

TOKENIZATIONS: tuple[str, ...] = get_args(Tokenization)
USUAL = ("code", "words")
"""Tokens to choose from where nothing is said: of text, rows are as long as the longest fact, and train for hours."""
NO_PLAN = "tokenizer: plans are of networks that learn from scratch, with tokens of their own; leave it out, got "
EARLY = "left out, as they ended before the usual budget"
ANY = "any of several answers is right, which asks for fewer bits than the answers have: so much is enough"
SHOWN = 3
"""Networks of each kind of tokens, the smallest first."""


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
    target: Target = "parameters",
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
        probability, multiple, precision, accelerator, target, budget_parameters, budget_bytes, budget_hours: as in
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
        target=target,
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
    networks.sort(key=lambda one: one.bytes if target == "bytes" else one.total_parameters)
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
