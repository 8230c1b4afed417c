"""Architectures as the rows that a law is asked about."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from capax.errors import LawError
from capax.laws.law import Law
from capax.models.size import transformer_parameters
from capax.specs import Sequences, Transformer

Table = dict[str, Any]


def model(law: Law, n_layers: int | None, n_heads: int, d_model: int, d_head: int | None = None) -> Transformer:
    """A transformer of the kind that the law was fitted to, where the law says it; else of the default kind."""
    told: dict[str, Any] = {
        name: value
        for name, value in law.domain_.protocol.items()
        if name in Transformer.model_fields and value is not None
    }
    given = {"n_layers": n_layers, "n_heads": n_heads, "d_model": d_model, "d_head": d_head}
    return Transformer(**{**told, **{name: value for name, value in given.items() if value is not None}})


def vocabulary(law: Law, vocab_size: int | None) -> int:
    """The vocabulary that was asked for, else the law's, else the default of `Sequences`."""
    if vocab_size is None:
        told = law.domain_.protocol.get("vocab_size", law.domain_.ranges.get("vocab_size", (None,))[0])
        vocab_size = Sequences.model_fields["vocab_size"].default if told is None else int(told)
    return Sequences(vocab_size=vocab_size, library_size=1).vocab_size


def rows(models: list[Transformer], seq_len: int, vocab_size: int) -> Table:
    """One row per model, with every column that a law of sequences may want."""
    counts = [transformer_parameters(spec, vocab_size, seq_len - 1) for spec in models]
    return {
        "seq_len": np.full(len(models), seq_len),
        "vocab_size": np.full(len(models), vocab_size),
        **{
            name: np.array([getattr(spec, name) for spec in models])
            for name in ("n_layers", "n_heads", "d_model", "d_head")
        },
        "trainable_parameters": np.array([count["trainable"] for count in counts]),
        "total_parameters": np.array([count["total"] for count in counts]),
    }


def outside_message(law: Law, reasons: Iterable[str]) -> str:
    """One line: why a law is not asked."""
    return (
        f"outside the domain of {law.name} ({law.source_}): {'; '.join(reasons)}; "
        f"choose another law, or extrapolate all the same"
    )


def choices(name: str, given: Sequence[int] | None, law: Law, multiple: int = 1) -> list[int]:
    """What was given, or what the law's domain holds, rising."""
    if given is not None:
        values = sorted({int(value) for value in given})
        if not values or values[0] < 1:
            raise LawError(f"{name}: positive integers, got {', '.join(map(str, given)) or 'none'}")
        return values
    if name in law.domain_.ranges:
        low, high = law.domain_.ranges[name]
        found = list(range(math.ceil(low / multiple) * multiple, math.floor(high) + 1, multiple))
        if found:
            return found
    elif isinstance(told := law.domain_.protocol.get(name), int):
        return [told]
    elif name == "n_layers":
        return [1]
    raise LawError(f"{name}: the law's domain ({law.domain_.in_words()}) offers none; give the values to choose from")
