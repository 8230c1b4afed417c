"""What a plan, a prediction and a verification say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field

from capax.laws.domain import Domain
from capax.planning.cost import Cost
from capax.results import Interval, Measurement, Result

Precision = Literal["float32", "float64", "bfloat16"]
Smallest = Literal["parameters", "bytes"]
"""What a plan makes small."""
BYTES: dict[str, int] = {"float32": 4, "float64": 8, "bfloat16": 2}
"""Of a parameter."""


class Sized(Result):
    """A result with the sizes of a task or of a model as fields of their own names: `seq_len`, `n_heads`, ..."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int | float | str | None]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class Prediction(Sized):
    """What a law says of one architecture: a count of items, or of a law of what is needed that much of it."""

    value: Annotated[float, Field(description="Items that the architecture is expected to memorize, or what it needs.")]
    interval: Interval
    inside_domain: bool
    outside: Annotated[tuple[str, ...], Field(description="Why it lies outside the domain of the law.")]
    law: str
    source: Annotated[str, Field(description="What the law was fitted to, or who published it.")]
    domain: Domain
    notes: tuple[str, ...]
    schema_version: Literal[1] = 1


class Architecture(Sized):
    """A model, and what it is expected to hold; beside its sizes the gain of each step along two axes.

    A gain (`gain_of_head`, `gain_of_width`, ...) is of items per 1000 trainable parameters, by the next of the plan's
    head counts and by the next value of the axis along which the smallest was chosen; null at the end.
    """

    trainable_parameters: int
    total_parameters: int
    bytes: Annotated[
        int, Field(description="Of all parameters at the plan's precision; of a plan by bytes, of what is trained.")
    ]
    memorized: Annotated[float, Field(description="Items that it is expected to memorize.")]
    at_least: Annotated[float, Field(description="Items that it memorizes with the plan's probability.")]
    tokens_per_parameter: Annotated[
        float | None,
        Field(description="Memorized tokens per trainable parameter (Härmä et al. 2024, eq. 12); of tokens only."),
    ]
    efficient: Annotated[
        bool,
        Field(description="Whether no other architecture of the plan has fewer trainable and fewer total parameters."),
    ]


class Network(Architecture):
    """An architecture of a plan by a law in bits."""

    embeddings: Annotated[str | None, Field(description="Its tables: frozen, or trained (the read-out is the same).")]
    effective_parameters: int
    weights: Annotated[
        str | None,
        Field(description="How they are written in the file, of a plan by bytes; it is in all that is held."),
    ] = None
    bits: Annotated[float, Field(description="That it is expected to hold.")]
    interval: Annotated[Interval, Field(description="Of the items that a new measurement of it finds.")]
    outside: Annotated[tuple[str, ...], Field(description="Why it lies outside the domain of the law.")]
    cost: Cost


class Verification(Result):
    """A planned architecture, trained on a library of the target's size."""

    held: Annotated[bool, Field(description="Whether every item of the target was memorized.")]
    miss_percent: Annotated[float, Field(description="Share of the target that was not memorized, in percent.")]
    measurement: Measurement
    proxy: Annotated[
        int | None,
        Field(description="Width of the network that was measured in its place, where it takes too long itself."),
    ] = None
    promised_bits: Annotated[float | None, Field(description="That it should hold, of a plan in bits.")] = None
    predicted_bits: Annotated[Interval | None, Field(description="What the law expected of it.")] = None


class Frontier(Sized):
    """The architectures that hold the target, smallest first.

    Of each combination of the other axes it is the one that is smallest along the last: the width of a transformer, the
    head size of an attention layer.
    """

    items: Annotated[int | None, Field(description="That are to be held: the target.")]
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


class Bounds(Result):
    """What a plan may spend."""

    parameters: Annotated[int | None, Field(description="Most trainable parameters.")] = None
    bytes: Annotated[int | None, Field(description="Most bytes of all parameters, at the plan's precision.")] = None
    hours: Annotated[float | None, Field(description="Most hours of one training on this machine.")] = None


class Known(Result):
    """A network that was measured."""

    sizes: Annotated[dict[str, int | float], Field(description="The law's columns that are numbers.")]
    bits: float


class BitsFrontier(Frontier):
    """A plan by a law in bits: of each family (layers, tables, and heads where they are given) one network.

    It is the narrowest that holds the target, or, where no target is given, the widest within the budget: of the widths
    that are given, or of four to an octave.
    """

    architectures: tuple[Network, ...]
    nearest: Network | None
    bits: Annotated[float | None, Field(description="Of the target; None where none is given.")]
    budget: Bounds
    sure: Annotated[
        Network | None,
        Field(description="The smallest inside the law's domain; None where none there holds so many."),
    ]
    largest_inside: Annotated[Network | None, Field(description="The network inside the domain that holds most.")]
    measured: Annotated[
        Known | None,
        Field(description="The converged network of the law's data that is nearest to the first in what it holds."),
    ]
    drivers: Annotated[
        dict[str, float], Field(description="Shares of the variance of the first one's interval, by what is uncertain.")
    ]
    exposures: Annotated[int, Field(description="Times that each item is seen.")]
    early: Annotated[bool, Field(description="Whether the items are to be known by then, not only at convergence.")]
    accelerator: str
