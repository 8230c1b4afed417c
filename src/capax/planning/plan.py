"""The architectures that hold a target, smallest first."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from capax.errors import LawError
from capax.laws.domain import Domain, OutsideDomainWarning
from capax.laws.files import DEFAULT, load_law
from capax.laws.law import Law
from capax.measures.units import tokens_per_parameter
from capax.planning.candidates import Table, choices, model, outside_message, rows, vocabulary
from capax.results import Measurement, Result

Precision = Literal["float32", "float64", "bfloat16"]
BYTES: dict[str, int] = {"float32": 4, "float64": 8, "bfloat16": 2}


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
    law = law if isinstance(law, Law) else load_law(law or DEFAULT)
    _check(sequences, seq_len, probability, width_multiple, max_parameters, precision)
    grid = {
        "n_layers": choices("n_layers", n_layers, law),
        "n_heads": choices("n_heads", n_heads, law),
        "d_model": choices("d_model", d_model, law, width_multiple),
    }
    asked = {"seq_len": seq_len} | ({} if vocab_size is None else {"vocab_size": vocab_size})
    ends = [asked | {name: end(values) for name, values in grid.items()} for end in (min, max)]
    outside = list(dict.fromkeys(reason for end in ends for reason in law.domain_.outside_in_words(end)))
    if outside and not extrapolate:
        raise LawError(outside_message(law, outside))
    tokens = vocabulary(law, vocab_size)
    models = [model(law, *sizes) for sizes in itertools.product(*grid.values())]
    table = rows(models, seq_len, tokens)
    kept = np.full(len(models), True) if extrapolate else law.inside_domain(table)
    if max_parameters is not None:
        kept &= table["trainable_parameters"] <= max_parameters
    if not kept.any():
        raise LawError(
            f"max_parameters: at least {table['trainable_parameters'].min()} for the smallest architecture to choose "
            f"from, got {max_parameters}"
        )
    candidates = _Candidates(law, table, grid, probability)
    found = candidates.smallest_that_hold(sequences, kept)
    nearest = None if found else int(np.flatnonzero(kept)[np.argmax(candidates.at_least[kept])])
    return Frontier(
        sequences=sequences,
        seq_len=seq_len,
        vocab_size=tokens,
        probability=probability,
        precision=precision,
        architectures=tuple(candidates.describe(place, found, seq_len, precision) for place in found),
        nearest=None if nearest is None else candidates.describe(nearest, [nearest], seq_len, precision),
        law=law.name,
        source=law.source_,
        domain=law.domain_,
        notes=(*law.notes_, *(f"outside the domain of the law: {reason}" for reason in outside)),
    )


class _Candidates:
    """All architectures to choose from: a grid over depth, heads and width, in this order, with what each holds."""

    def __init__(self, law: Law, table: Table, grid: dict[str, list[int]], probability: float) -> None:
        self.table = table
        self.shape = tuple(len(values) for values in grid.values())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideDomainWarning)
            self.memorized = law.predict(table)
        self.at_least = law.quantile(table, 1 - probability)

    def smallest_that_hold(self, target: int, kept: np.ndarray) -> list[int]:
        """Of each depth and number of heads the one with the fewest trainable parameters, smallest first."""
        size, total = self.table["trainable_parameters"], self.table["total_parameters"]
        holds = (kept & (self.at_least >= target)).reshape(-1, self.shape[-1])
        first = [row * self.shape[-1] + int(np.flatnonzero(line)[0]) for row, line in enumerate(holds) if line.any()]
        return sorted(first, key=lambda place: (size[place], total[place]))

    def describe(self, place: int, others: list[int], seq_len: int, precision: Precision) -> Architecture:
        """One candidate, beside those that hold the target too."""
        sizes = {name: int(values[place]) for name, values in self.table.items()}
        size, total = self.table["trainable_parameters"], self.table["total_parameters"]
        better = [
            other
            for other in others
            if (size[other], total[other]) != (size[place], total[place])
            and size[other] <= size[place]
            and total[other] <= total[place]
        ]
        memorized = float(self.memorized[place])
        return Architecture(
            **{name: sizes[name] for name in Architecture.model_fields if name in sizes},
            bytes=sizes["total_parameters"] * BYTES[precision],
            memorized=memorized,
            at_least=float(self.at_least[place]),
            tokens_per_parameter=tokens_per_parameter(memorized, seq_len, sizes["trainable_parameters"]),
            gain_of_head=self._gain(place, axis=1),
            gain_of_width=self._gain(place, axis=2),
            efficient=not better,
        )

    def _gain(self, place: int, axis: int) -> float | None:
        """Items per 1000 trainable parameters by the next step along an axis of the grid; None at its end."""
        at = list(np.unravel_index(place, self.shape))
        if at[axis] + 1 == self.shape[axis]:
            return None
        at[axis] += 1
        step = int(np.ravel_multi_index(at, self.shape))
        size = self.table["trainable_parameters"]
        return 1000 * float((self.memorized[step] - self.memorized[place]) / (size[step] - size[place]))


def _check(
    sequences: int, seq_len: int, probability: float, width_multiple: int, max_parameters: int | None, precision: str
) -> None:
    for name, value, least in (
        ("sequences", sequences, 1),
        ("seq_len", seq_len, 2),
        ("width_multiple", width_multiple, 1),
        ("max_parameters", max_parameters, 1),
    ):
        if value is not None and value < least:
            raise LawError(f"{name}: at least {least}, got {value}")
    if not 0 < probability < 1:
        raise LawError(f"probability: between 0 and 1, got {probability}")
    if precision not in BYTES:
        raise LawError(f"precision: {', '.join(BYTES)}, got {precision!r}")
