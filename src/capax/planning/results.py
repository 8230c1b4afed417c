"""What a plan, a prediction and a verification say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field

from capax.laws.domain import Domain
from capax.results import Interval, Measurement, Result

Precision = Literal["float32", "float64", "bfloat16"]


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
    bytes: Annotated[int, Field(description="Of all parameters at the plan's precision.")]
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


class Verification(Result):
    """A planned architecture, trained on a library of the target's size."""

    held: Annotated[bool, Field(description="Whether every item of the target was memorized.")]
    miss_percent: Annotated[float, Field(description="Share of the target that was not memorized, in percent.")]
    measurement: Measurement


class Frontier(Sized):
    """The architectures that hold the target, smallest first; the target has the name of the items that it counts.

    Of each combination of the other axes it is the one that is smallest along the last: the width of a transformer, the
    head size of an attention layer.
    """

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
