"""The architectures that hold a target, smallest first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from capax.laws.domain import Domain
from capax.laws.files import DEFAULT, load_law
from capax.laws.law import Law
from capax.measures.units import tokens_per_parameter
from capax.planning.candidates import BYTES, Choice, Precision, check, choices, choose, model, rows, vocabulary
from capax.results import Measurement, Result


class Architecture(Result):
    """A transformer and what it is expected to hold."""

    n_layers: int
    n_heads: int
    d_model: int
    d_head: int
    trainable_parameters: int
    total_parameters: int
    bytes: Annotated[int, Field(description="Of all parameters at the plan's precision.")]
    memorized: Annotated[float, Field(description="Items that it is expected to memorize.")]
    at_least: Annotated[float, Field(description="Items that it memorizes with the plan's probability.")]
    tokens_per_parameter: Annotated[
        float, Field(description="seq_len · memorized / trainable parameters (Härmä et al. 2024, eq. 12).")
    ]
    gain_of_head: Annotated[
        float | None,
        Field(description="Items gained per 1000 trainable parameters by one more head, inside the domain."),
    ]
    gain_of_width: Annotated[
        float | None, Field(description="Items gained per 1000 trainable parameters by the next width, in the domain.")
    ]
    efficient: Annotated[
        bool,
        Field(description="Whether no other architecture of the plan has fewer trainable and fewer total parameters."),
    ]


class Verification(Result):
    """A planned architecture, trained on a library of the target's size."""

    held: Annotated[bool, Field(description="Whether every sequence of the target was memorized.")]
    miss_percent: Annotated[float, Field(description="Share of the target that was not memorized, in percent.")]
    measurement: Measurement


class Frontier(Result):
    """The smallest architecture of each depth and number of heads that holds the target, smallest first."""

    sequences: Annotated[int, Field(description="The target.")]
    seq_len: int
    vocab_size: int
    probability: Annotated[float, Field(description="With which each architecture holds the target.")]
    precision: Precision
    architectures: tuple[Architecture, ...]
    nearest: Annotated[
        Architecture | None, Field(description="When none holds the target: the one that comes nearest.")
    ]
    law: str
    source: Annotated[str, Field(description="What the law was fitted to, or who published it.")]
    domain: Domain
    notes: tuple[str, ...]
    verification: Verification | None = None
    schema_version: Literal[1] = 1


def plan(
    sequences: int,
    seq_len: int,
    vocab_size: int | None = None,
    law: Law | str | None = None,
    *,
    probability: float = 0.9,
    n_heads: Sequence[int] | None = None,
    n_layers: Sequence[int] | None = None,
    d_model: Sequence[int] | None = None,
    width_multiple: int = 8,
    max_parameters: int | None = None,
    precision: Precision = "float32",
    extrapolate: bool = False,
) -> Frontier:
    """The architectures that hold so many sequences with a probability, smallest first.

    Args:
        sequences: how many are to be memorized.
        seq_len: tokens in a sequence.
        vocab_size: different tokens; the law's when not given.
        law: a fitted law, or its name (`load_law`); `reference` when not given.
        probability: that a new measurement of the architecture reaches the target: its prediction interval is open
            above and of this level.
        n_heads: head counts to choose from; those of the law's domain when not given.
        n_layers: depths to choose from; those of the law's domain when not given.
        d_model: widths to choose from; the multiples of `width_multiple` in the law's domain when not given.
        width_multiple: what widths are multiples of.
        max_parameters: most trainable parameters.
        precision: in which the bytes are counted.
        extrapolate: go outside the law's domain, where heads, depths or widths that are given lead there.

    Raises:
        LawError: for a value that is not allowed, outside the domain without `extrapolate`, or when `max_parameters`
            leaves no candidate.
    """
    law = law if isinstance(law, Law) else load_law(DEFAULT if law is None else law)
    check(
        probability,
        precision,
        sequences=(sequences, 1),
        seq_len=(seq_len, 2),
        width_multiple=(width_multiple, 1),
        max_parameters=(max_parameters, 1),
    )
    grid = {
        "n_layers": choices("n_layers", n_layers, law),
        "n_heads": choices("n_heads", n_heads, law),
        "d_model": choices("d_model", d_model, law, width_multiple),
    }
    asked = {"seq_len": seq_len} | ({} if vocab_size is None else {"vocab_size": vocab_size})
    tokens = vocabulary(law, vocab_size)
    found = choose(
        law,
        sequences,
        asked,
        grid,
        rows([model(law, *sizes) for sizes in itertools.product(*grid.values())], seq_len, tokens),
        probability=probability,
        max_parameters=max_parameters,
        extrapolate=extrapolate,
    )
    return Frontier(
        sequences=sequences,
        seq_len=seq_len,
        vocab_size=tokens,
        probability=probability,
        precision=precision,
        architectures=tuple(_architecture(found, place, seq_len, precision) for place in found.places),
        nearest=None if found.nearest is None else _architecture(found, found.nearest, seq_len, precision),
        law=law.name,
        source=law.source_,
        domain=law.domain_,
        notes=(*law.notes_, *(f"outside the domain of the law: {reason}" for reason in found.outside)),
    )


def _architecture(found: Choice, place: int, seq_len: int, precision: Precision) -> Architecture:
    sizes = found.sizes(place, Architecture.model_fields)
    memorized = float(found.memorized[place])
    return Architecture(
        **sizes,
        bytes=sizes["total_parameters"] * BYTES[precision],
        memorized=memorized,
        at_least=float(found.at_least[place]),
        tokens_per_parameter=tokens_per_parameter(memorized, seq_len, sizes["trainable_parameters"]),
        gain_of_head=found.gain(place, "n_heads"),
        gain_of_width=found.gain(place, "d_model"),
        efficient=found.efficient(place),
    )
