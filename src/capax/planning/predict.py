"""What a law says of one architecture, and whether it may say it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from capax.errors import LawError
from capax.laws.domain import Domain
from capax.laws.law import Law
from capax.planning.candidates import ask, rows, vocabulary
from capax.results import Interval, Result
from capax.specs import Transformer
from capax.specs.spec import whole


class Prediction(Result):
    """A predicted count with its interval."""

    value: Annotated[float, Field(description="Items that the architecture is expected to memorize.")]
    interval: Interval
    inside_domain: bool
    outside: Annotated[tuple[str, ...], Field(description="Why it lies outside the domain of the law.")]
    seq_len: int
    vocab_size: Annotated[int | None, Field(description="None where neither the law nor the user says it.")]
    n_layers: int
    n_heads: int
    d_model: int
    d_head: int
    trainable_parameters: int
    law: str
    source: Annotated[str, Field(description="What the law was fitted to, or who published it.")]
    domain: Domain
    notes: tuple[str, ...]
    schema_version: Literal[1] = 1


def predict(
    law: Law,
    model: Transformer,
    seq_len: int,
    vocab_size: int | None = None,
    *,
    level: float = 0.95,
    extrapolate: bool = False,
) -> Prediction:
    """Ask a law about one architecture.

    Args:
        law: a fitted law.
        model: the architecture.
        seq_len: tokens in a sequence.
        vocab_size: different tokens; the law's when not given.
        level: probability with which a new measurement falls into the interval.
        extrapolate: answer outside the law's domain, too.

    Raises:
        LawError: outside the domain without `extrapolate`, or where the law has no meaning.
    """
    whole("seq_len", seq_len, 2, LawError)
    table = rows([model], seq_len, vocabulary(law, vocab_size))
    told = vocab_size if vocab_size is not None else law.domain_.protocol.get("vocab_size")
    row = {name: values[0].item() for name, values in table.items()} | {"vocab_size": told}
    row = {name: value for name, value in row.items() if value is not None}
    found = ask(law, row, table, level, extrapolate)
    return Prediction(
        value=found.value,
        interval=found.interval,
        inside_domain=not found.outside,
        outside=found.outside,
        seq_len=seq_len,
        vocab_size=None if told is None else int(told),
        n_layers=model.n_layers,
        n_heads=model.n_heads,
        d_model=model.d_model,
        d_head=model.d_head,
        trainable_parameters=row["trainable_parameters"],
        law=law.name,
        source=law.source_,
        domain=law.domain_,
        notes=tuple(law.notes_),
    )
