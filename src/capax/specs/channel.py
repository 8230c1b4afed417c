"""The key-query channel that learns relations (Adler 2025, arXiv 2509.22840)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from capax.specs.model import Constant, Model, Normal, Parameter, Scored, freedom, heads, layout
from capax.specs.plugins import resolve
from capax.specs.protocols import Protocol
from capax.specs.spec import LARGEST_SIZE, Size, since
from capax.specs.training import Training
from capax.text import Over

LEAST_KEY_DIM = 2
"""Of a channel that recognizes more than two edges apart (`capax.RelationLaw.least`)."""


class KeyQueryChannel(Model):
    """The key-query channel: per head the score of a pair is (x_i W_Q)(x_j W_K)ᵀ; a pair is an edge above a threshold.

    Scores of the heads are joined by their maximum (the paper's), or added up; threshold and scale are learned, too.
    `softmax` normalises each head's scores over the context, adds up the values that the heads route, and compares
    that with every item of it; `block` is a whole transformer block on the given vectors. The paper's third version
    has such channels, but its designs are not known to us: these are ours (see `capax.models.routing`). Values, and
    the block's MLP, can store relations as well: compare head counts at one size of all values, n_heads · d_value.
    """

    reads: ClassVar[str] = "pairs"
    axes: ClassVar[tuple[str, ...]] = ("d_model", "n_heads", "d_head")
    steps: ClassVar[Mapping[str, int]] = {"d_model": 16}
    pads_heads: ClassVar[bool] = True
    rule: ClassVar[str | None] = (
        "rule of thumb: m' log2 m' / d_model² heads of m' edges to twice as many, and none above half the width"
    )

    model: Literal["key_query_channel"] = "key_query_channel"
    n_heads: Annotated[Size, Field(description="Heads.")] = 1
    d_model: Annotated[Size, Field(description="Channels of an item's vector.")] = 32
    d_head: Annotated[
        int | None,
        Field(ge=1, le=LARGEST_SIZE, description="Channels of a query and a key; the budget protocol searches for it."),
    ] = None
    aggregate: Annotated[
        Literal["max", "sum"],
        Field(description="How heads are joined (the paper's: max); softmax and block always sum what they route."),
    ] = "max"
    channel: Annotated[
        Literal["threshold", "softmax", "block"],
        Field(description="What the scores are for: a threshold, attention that routes values, or a whole block."),
    ] = "threshold"
    values: Annotated[
        bool, since("0.1", description="Values of heads that route; without them heads route the items themselves.")
    ] = True
    d_value: Annotated[
        int | None,
        since(
            "0.1",
            ge=1,
            le=LARGEST_SIZE,
            description="Channels of a value, which an output matrix brings back to d_model; a value has d_model "
            "channels, and no output matrix, when not given.",
        ),
    ] = None

    start: Annotated[
        Literal["drawn", "built"],
        since("0.1", description="First queries and keys: drawn, or built for each training's graph (`construct`)."),
    ] = "drawn"

    @model_validator(mode="after")
    def _sums(self) -> Self:
        """Heads that route values are summed; the maximum is refused."""
        if self.start == "built" and (self.channel, self.aggregate) != ("threshold", "max"):
            raise ValueError(
                f"start: 'built' needs channel 'threshold' and aggregate 'max', got {self.channel!r} and "
                f"{self.aggregate!r}"
            )
        routed = {"values": not self.values, "d_value": self.d_value is not None}
        for field, given in routed.items():
            if given and self.channel == "threshold":
                raise ValueError(f"{field}: only with channel 'softmax' or 'block', got {getattr(self, field)}")
        if not self.values and self.d_value is not None:
            raise ValueError(f"d_value: not without values, got {self.d_value}")
        if self.channel != "threshold" and self.aggregate == "max":
            if "aggregate" in self.model_fields_set:
                raise ValueError(f"aggregate: channel {self.channel!r} adds its heads up ('sum'), got 'max'")
            object.__setattr__(self, "aggregate", "sum")
        return self

    def floats_per_row(self, sizes: Mapping[str, int], scored: Scored) -> int:
        """Numbers in the widest activation of one source of one member."""
        whole = self.aggregate == "max" or self.channel != "threshold"
        heads, context = self.n_heads if whole else 1, sizes.get("context_size")
        if self.channel == "threshold" or context is None:
            sources, others = 1, sizes["n_items"]
        else:
            sources = others = context
        return sources * max(heads * others, 4 * self.d_model if self.channel == "block" else 0)

    @classmethod
    def shaped(cls, needed: float, given: Mapping[str, int], **sizes: int) -> dict[str, int]:
        """Heads and their size that make up a total key dimension, at least 2, by `rule` (`capax.channel_design`)."""
        width, needed = sizes["d_model"], max(needed, LEAST_KEY_DIM)
        low, high = trained_heads(given["n_edges"], width)
        usual = min(round(math.sqrt(low * high)), max(round(needed), 1))
        count = sizes.get("n_heads") or max(usual, math.ceil(2 * needed / width))
        return {"n_heads": count, "d_head": math.ceil(needed / count)}

    def of_heads(self, n_heads: int, d_head: int) -> Self:
        """The channel with so many heads."""
        return self.replace(n_heads=n_heads, d_head=d_head)

    @property
    def total_key_dim(self) -> int | None:
        """n_heads · d_head, where a head size is given."""
        return None if self.d_head is None else self.n_heads * self.d_head

    def most_key_dim(self, n_edges: int) -> int | None:
        """A total key dimension that is always enough, n_edges: one edge a head with d_head 1 recognizes any graph.

        ⟨x_i, x_s⟩⟨x_t, x_j⟩ is 1 for the edge (s, t) alone, if no two items are equal or opposite. None where scores
        are not compared with a threshold, or are added up, and for one channel, where all are.
        """
        return n_edges if self.channel == "threshold" and self.aggregate == "max" and self.d_model > 1 else None

    @property
    def needs_context(self) -> bool:
        """Whether scores are normalized over the items that are there."""
        return self.channel != "threshold"

    def ensemble_type(self) -> Any:
        """The class of its ensembles, imported."""
        routes = self.needs_context
        return resolve(f"capax.models.{'routing:RoutingEnsemble' if routes else 'keyquery:KeyQueryEnsemble'}")

    def words(self, protocol: Protocol | None = None) -> str:
        """The model in a few words."""
        kind = {"threshold": "key-query channel", "softmax": "softmax channel", "block": "transformer block"}
        counts = getattr(protocol, "head_counts", None)
        many = heads(self) if counts is None else f"{', '.join(map(str, counts))} head{'s' * (counts != (1,))}"
        built = ", from built weights" if self.start == "built" else ""
        return f"{kind[self.channel]}, {many}, width {self.d_model}{built}"

    def described(self, over: Over, protocols: Sequence[Protocol]) -> str:
        """The model in a sentence."""
        joined = "their maximum" if self.aggregate == "max" else "their sum"
        routed = "" if self.values else ", without values"
        if self.d_value is not None:
            routed = f", values of {over.listed('d_value')} channels"
        built = ", starting from weights that are built for the graph" if self.start == "built" else ""
        return (
            f"a key-query channel ({self.channel}), {layout(over, protocols)}, heads joined by {joined}{routed}{built}"
        )

    def architecture(self, **_: Any) -> dict[str, Any]:
        """Its fields."""
        return self.model_dump(exclude={"model"})

    def parameters(  # type: ignore[override]
        self, *, n_items: int, context_size: int | None = None
    ) -> tuple[Parameter, ...]:
        """Its tensors: all but constants are trained, 2·d_model·n_heads·d_head, a scale and a threshold.

        Channels that route values have d_model² more a head, 2·d_model·d_value with `d_value`, none without `values`;
        a block 8·d_model² + 7·d_model. Ours: standard normal queries and keys; other matrices normal, of variance
        1 / inputs (where heads are added up: all heads' inputs); a threshold of ln m + √(2 ln h), or of ln m where
        values are routed.

        Args:
            n_items: items among which edges are recognized (m).
            context_size: items of a context, where it is a subset; tensors are the same.
        """
        assert self.d_head is not None
        h, c, d, one = self.n_heads, self.d_model, self.d_head, (1,)
        routes, block = self.channel != "threshold", self.channel == "block"
        threshold = math.log(n_items) + (0 if routes else math.sqrt(2 * math.log(h)))
        first_scale = 2 * math.log(n_items) / (math.sqrt(c) if block else 1.0) if routes else 1 / math.sqrt(d)
        table = [
            Parameter("query", (h, c, d), Normal(1.0)),
            Parameter("key", (h, c, d), Normal(1.0)),
            Parameter("scale", one, Constant(0.0)),
            Parameter("threshold", one, Constant(threshold)),
            Parameter("first_scale", one, Constant(first_scale), trained=False),
        ]
        if routes:
            table.append(Parameter("temperature", one, Constant(1 / math.sqrt(d)), trained=False))
        if routes and self.d_value is not None:
            table.append(Parameter("value", (h, c, self.d_value), Normal(1 / math.sqrt(c))))
            table.append(Parameter("output", (h, self.d_value, c), Normal(1 / math.sqrt(h * self.d_value))))
        elif routes and self.values:
            table.append(Parameter("value", (h, c, c), Normal(1 / math.sqrt(h * c))))
        if block:
            table += [
                Parameter("norm", (c,), Constant(1.0)),
                Parameter("up", (c, 4 * c), Normal(1 / math.sqrt(c))),
                Parameter("up_bias", (4 * c,), Constant(0.0)),
                Parameter("down", (4 * c, c), Normal(1 / math.sqrt(4 * c))),
                Parameter("down_bias", (c,), Constant(0.0)),
                Parameter("ffn_norm", (c,), Constant(1.0)),
            ]
        return tuple(table)

    def effective_parameters(  # type: ignore[override]
        self, *, n_items: int, context_size: int | None = None
    ) -> int:
        """Trained numbers, with products of matrices counted by their own freedom.

        These are W_Q W_Kᵀ of each head, or of the sum of all, and each head's values with their output matrix.
        """
        assert self.d_head is not None
        counted = super().effective_parameters(n_items=n_items)
        c, h, d = self.d_model, self.n_heads, self.d_head
        added = self.channel == "threshold" and self.aggregate == "sum"
        free = freedom(c, h * d, c) if added else h * freedom(c, d, c)
        if self.d_value is not None:
            counted -= h * (2 * c * self.d_value - freedom(c, self.d_value, c))
        return counted - (2 * c * h * d - free)

    @property
    def uncounted(self) -> str | None:
        """Without a head size, which a search looks for."""
        return "d_head is not given" if self.d_head is None else None

    def refuse(self, training: Training, protocol: Protocol) -> None:
        """Refuse a head size that is searched for, or that is missing."""
        searches = protocol.protocol == "budget"
        if (self.d_head is None) != searches:
            searched = "is what protocol 'budget' searches for" if self.d_head else "is required"
            raise ValueError(f"d_head: {searched}, got {self.d_head}")
        if searches and self.n_heads != 1:
            raise ValueError(f"n_heads: protocol 'budget' has head_counts instead, got {self.n_heads}")


def trained_heads(n_edges: int, d_model: int) -> tuple[int, int]:
    """Heads with which trained channels were seen to need the smallest D_K: m' log2 m' / d_model² to twice as many.

    In 20 of 21 cells of permutations of 32 to 512 items in 8 to 256 channels the best number of those that were tried,
    or one within a quarter of its D_K, lies in this range, or is the next power of two; 128 items in 8 took 64.
    """
    heads = n_edges * math.log2(n_edges) / d_model**2
    return max(1, round(heads)), max(1, round(2 * heads))
