"""What a file of facts asks of a network: facts, bits, what can be recalled of it."""

from __future__ import annotations

from pathlib import Path

from capax.errors import LawError, shown
from capax.planning.facts_plan import FactsInFile
from capax.seeds import numpy_generator
from capax.specs import Facts
from capax.specs.spec import proper_share
from capax.tasks.facts.encoding import columns_by_place, prepared
from capax.tasks.facts.files.read import size
from capax.tasks.facts.library import draw
from capax.tasks.facts.table import Table, ambiguity, constant

NO_BITS = "library: each relation has one answer only, so its facts have no bits: any network recalls them"
NOT_ALL = "loss: 'answer', of which plans are known to hold, got 'all'"
UNPACKED = "the packed size is not known without zstandard: pip install 'capax[facts]'"


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
