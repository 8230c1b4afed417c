"""What a plan, a prediction and a verification say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field

from capax.laws.domain import Domain
from capax.overview import Displayed, Overview
from capax.planning.cost import Cost
from capax.results import Interval, Measurement, Result
from capax.text import amount, percent

Precision = Literal["float32", "float64", "bfloat16"]
Target = Literal["parameters", "bytes"]
"""What a plan makes small."""
BYTES: dict[str, int] = {"float32": 4, "float64": 8, "bfloat16": 2}
"""Of a parameter."""


class Sized(Result):
    """A result with the sizes of a task or of a model as fields of their own names: `seq_len`, `n_heads`, ..."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int | float | str | None]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class Prediction(Displayed, Sized):
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

    def overview(self) -> Overview:
        """What a prompt or a notebook shows of it."""
        where = f"OUTSIDE: {'; '.join(self.outside)}" if self.outside else f"inside: {self.domain.in_words()}"
        return Overview(
            title=f"A prediction for {sizes_in_words(self)}",
            rows={
                "value": f"{self.value:.4g}",
                f"{percent(self.interval.level)} interval": self.interval.ends(amount),
                "law": f"{self.law} ({self.source})",
                "domain": where,
            },
            notes=self.notes,
        )


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


SIZES = ("n_layers", "n_heads", "d_head", "d_model")
"""Of every network of a plan by a law in bits; further ones are those that were asked about."""


class Network(Architecture):
    """An architecture of a plan by a law in bits."""

    embeddings: Annotated[str | None, Field(description="Its tables: frozen, or trained (the read-out is the same).")]
    effective_parameters: int
    weights: Annotated[
        str | None,
        Field(description="How they are written in the file, of a plan by bytes; it is in all that is held."),
    ] = None
    bits: Annotated[float, Field(description="Of the items that it is expected to recall.")]
    interval: Annotated[Interval, Field(description="Of the items that a new measurement of it finds.")]
    outside: Annotated[tuple[str, ...], Field(description="Why it lies outside the domain of the law.")]
    cost: Cost

    @property
    def further(self) -> dict[str, Any]:
        """Its sizes beside the usual: `n_kv_heads`, `window`, ..., where they were given."""
        return {name: size for name, size in (self.model_extra or {}).items() if name not in SIZES}


class Verification(Displayed, Result):
    """A planned architecture, trained on a library of the target's size."""

    held: Annotated[
        bool | None,
        Field(
            description="Whether every item of the target was memorized; None where that is not known: not converged."
        ),
    ]
    miss_percent: Annotated[
        float | None, Field(description="Share of the target that was not memorized, in percent; None as `held` is.")
    ]
    measurement: Measurement
    proxy: Annotated[
        int | None,
        Field(description="Width of the network that was measured in its place, where it takes too long itself."),
    ] = None
    proxy_vocab_size: Annotated[
        int | None, Field(description="Tokens of that network, where with as many as were planned all take too long.")
    ] = None
    proxy_n_layers: Annotated[
        int | None, Field(description="Its layers, where with as many as were planned all take too long.")
    ] = None
    promised_bits: Annotated[float | None, Field(description="That it should hold, of a plan in bits.")] = None
    predicted_bits: Annotated[Interval | None, Field(description="What the law expected of it.")] = None

    def overview(self) -> Overview:
        """What a prompt or a notebook shows of it."""
        return verified(self.held, self.measurement)


class Frontier(Displayed, Sized):
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

    def overview(self) -> Overview:
        """What a prompt or a notebook shows of it: the smallest architectures first."""
        rows = self.architectures or tuple(filter(None, (self.nearest,)))
        held = "what a budget holds" if self.items is None else f"{self.items} items with {percent(self.probability)}"
        none = "" if self.architectures else "; no architecture holds them, the nearest is"
        return Overview(
            title=f"A plan: {held} ({sizes_in_words(self)}); law {self.law} ({self.source}){none}",
            rows={"verified": "" if self.verification is None else held_in_words(self.verification.held)},
            table=self._columns(rows),
            notes=self.notes,
        )

    def _columns(self, rows: Sequence[Any]) -> dict[str, list[str]]:
        names = [name for name in (rows[0].model_extra or {} if rows else {}) if not name.startswith("gain_of_")]
        return {
            **{name: [str(getattr(row, name)) for row in rows] for name in names},
            "trainable": [str(row.trainable_parameters) for row in rows],
            "bytes": [amount(row.bytes, "B") for row in rows],
            "expected": [amount(row.memorized) for row in rows],
            "at least": [amount(row.at_least) for row in rows],
        }


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

    It is the smallest that holds the target, or, where no target is given, the one that holds most within the budget:
    of the widths that are given, or of the usual ones and those between.
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
        Field(description="The converged network of the law's data nearest to the first in what it could hold."),
    ]
    too_small: Annotated[
        tuple[int, ...], Field(description="Numbers of layers of which no network that was tried holds the target.")
    ] = ()
    drivers: Annotated[
        dict[str, float], Field(description="Shares of the variance of the first one's interval, by what is uncertain.")
    ]
    exposures: Annotated[int, Field(description="Times that each item is seen.")]
    early: Annotated[bool, Field(description="Whether the items are to be known by then, not only at convergence.")]
    accelerator: str

    def _columns(self, rows: Sequence[Any]) -> dict[str, list[str]]:
        return networks(rows)


def networks(rows: Sequence[Network]) -> dict[str, list[str]]:
    """What is shown of networks, by its heading."""
    return {
        **{name: [str(getattr(row, name)) for row in rows] for name in (*SIZES, *(rows[0].further if rows else ()))},
        "embeddings": [row.embeddings or "–" for row in rows],
        **({"weights": [str(row.weights) for row in rows]} if any(row.weights for row in rows) else {}),
        "trainable": [amount(row.trainable_parameters) for row in rows],
        "bytes": [amount(row.bytes, "B") for row in rows],
        "expected": [amount(row.memorized) for row in rows],
        "interval": [row.interval.ends(amount) for row in rows],
        "at least": [amount(row.at_least) for row in rows],
    }


def sizes_in_words(found: Sized) -> str:
    """The sizes that were asked for, such as "seq_len 16"."""
    return ", ".join(f"{name} {value}" for name, value in (found.model_extra or {}).items())


NOT_KNOWN = "not known: not converged"


def held_in_words(held: bool | None) -> str:
    """Whether a promise was kept."""
    if held is None:
        return NOT_KNOWN
    return "the plan holds" if held else "THE PLAN DOES NOT HOLD"


def verified(held: bool | None, run: Measurement) -> Overview:
    """What came of a plan, and the run that says so."""
    shown = run.overview()
    return Overview(title=f"Verified: {held_in_words(held)}", rows={"run": shown.title, **shown.rows})
