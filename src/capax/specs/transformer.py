"""The transformer that learns tasks of tokens (Härmä et al. 2024, arXiv 2407.15425)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from capax.specs.attention import MIXERS, Kind, attention_parameters
from capax.specs.effective import effective_parameters, spare_in_products
from capax.specs.feed_forward import feed_forward_parameters
from capax.specs.model import Constant, Model, Normal, Parameter, Scored, Sinusoid, Uniform, heads, layout
from capax.specs.plugins import resolve
from capax.specs.protocols import Protocol
from capax.specs.spec import LARGEST_SIZE, Size, since
from capax.specs.training import Training
from capax.text import Over, counted, together

Norm = Literal["layer", "rms"]
HEAD = 64
"""Channels of a head, as x-transformers has them."""


MOST_EXPERTS = 1024
"""Of a block: each is computed by itself."""

TABLES = ("trained", "frozen", "sinusoidal")
"""Positions that are rows of a table, added to a token's."""


class Transformer(Model):
    """The paper's network as x-transformers builds it, and what the paper and its successors vary.

    Pre-norm blocks of causal attention (no biases) and a 4× FFN, gains without biases in the norms, absolute positions
    scaled by 1/√d_model, a final norm and a read-out without bias, untied by default. Initialisation as in
    x-transformers.

    Of `positions`, `sinusoidal` is a fixed table (Vaswani et al. 2017, arXiv 1706.03762), `rotary` turns pairs of
    channels of queries and keys (Su et al. 2021, arXiv 2104.09864; all channels, base 10,000), and `alibi` lowers
    scores by the distance times a slope of each head (Press et al. 2021, arXiv 2108.12409). `n_kv_heads` (Ainslie et
    al. 2023, arXiv 2305.13245), `window`, `gated` (Shazeer 2020, arXiv 2002.05202), `norm` (Zhang and Sennrich 2019,
    arXiv 1910.07467) and `norm_place` are as in x-transformers, but that heads which share a key are neighbours, as in
    torch; `parallel` is as in GPT-NeoX, and `stride` as in Child et al. 2019 (arXiv 1904.10509; their strided pattern).

    Of `attention`, `linear` has the features 1 + elu and a normaliser (Katharopoulos et al. 2020, arXiv 2006.16236),
    `delta` and `gated-delta` are the delta rule (Schlag et al. 2021, arXiv 2102.11174) with normed queries and keys as
    in Yang et al. 2024 (arXiv 2406.06484) and a decay (arXiv 2412.06464). Ours lack the short convolutions and the
    norm and gate of the output that these works put around the rule. Without `values` a head averages the inputs
    themselves, and the block the heads (eq. 4, for one head; it is known to us from prose).

    Of `n_experts` the `top_k` with the highest scores answer, weighted by their share of the softmax of all scores
    (Fedus et al. 2021, arXiv 2101.03961; no loss balances them, and all are computed). `dropout` falls on what
    attention and FFN add, and slopes of `rrelu` are drawn (Xu et al. 2015, arXiv 1505.00853), in training alone.
    """

    ensemble_class: ClassVar[str] = "capax.models.transformer:TransformerEnsemble"
    counts_anew: ClassVar[bool] = True
    axes: ClassVar[tuple[str, ...]] = ("d_head", "n_layers", "n_heads", "d_model")
    steps: ClassVar[Mapping[str, int]] = {"d_model": 8}
    depths: ClassVar[tuple[int, ...]] = (1, 2, 4, 8, 16, 32)
    mixer_class: ClassVar[str] = "capax.models.mixers.softmax:Softmax"
    """How its blocks mix positions (`capax.Mixer`), as `package.module:Class`."""

    model: Literal["transformer"] = "transformer"
    n_layers: Annotated[Size, Field(description="Blocks.")] = 1
    n_heads: Annotated[Size, Field(description="Attention heads per block.")] = 1
    n_kv_heads: Annotated[
        int | None,
        since(
            "0.1",
            ge=1,
            le=LARGEST_SIZE,
            description="Heads of keys and values, a divisor of n_heads: each is shared by equally many query heads. "
            "n_heads when not given.",
        ),
    ] = None
    d_model: Annotated[Size, Field(description="Width: channels of a token vector.")] = 32
    d_head: Annotated[Size, Field(description="Channels of a query and a key, whatever the width.")] = HEAD
    d_value: Annotated[
        int | None, Field(ge=1, le=LARGEST_SIZE, description="Channels of a value; d_head when not given.")
    ] = None
    attention: Annotated[
        Kind,
        since(
            "0.1",
            description="How positions are mixed: by softmax attention, or by a state that is added to (linear), "
            "corrected (delta), or corrected and decays (gated-delta).",
        ),
    ] = "softmax"
    values: Annotated[
        bool, since("0.1", description="Values and outputs of heads; without them heads average the inputs themselves.")
    ] = True
    window: Annotated[
        int | None,
        since(
            "0.1",
            ge=1,
            le=LARGEST_SIZE,
            description="Positions that each one attends to, of which it is the last; all before it when not given.",
        ),
    ] = None
    stride: Annotated[
        int | None,
        since(
            "0.1",
            ge=1,
            le=LARGEST_SIZE,
            description="Besides the window (as wide as this when not given), attend to positions that lie a multiple "
            "of this back.",
        ),
    ] = None
    ffn: Annotated[
        Literal["mlp", "identity", "none"],
        Field(description="FFN: trained, frozen to the identity (x + norm(x)), or left out."),
    ] = "mlp"
    activation: Annotated[
        Literal["gelu", "relu", "silu", "softmax", "rrelu"], Field(description="Activation of the FFN.")
    ] = "gelu"
    gated: Annotated[
        bool,
        since("0.1", description="FFN gated: its hidden channels are multiplied by the activation of as many others."),
    ] = False
    n_experts: Annotated[
        int, since("0.1", ge=1, le=MOST_EXPERTS, description="FFNs of a block, of which top_k answer a token.")
    ] = 1
    top_k: Annotated[int, since("0.1", ge=1, le=MOST_EXPERTS, description="Experts that answer a token.")] = 1
    embeddings: Annotated[Literal["frozen", "trained"], Field(description="The token table.")] = "frozen"
    positions: Annotated[
        Literal["trained", "frozen", "sinusoidal", "rotary", "alibi", "none"],
        Field(description="How it knows positions: a table (default ours), or what turns or lowers scores."),
    ] = "trained"
    readout: Annotated[
        Literal["frozen", "trained", "tied"], Field(description="The output matrix; tied: it is the token table.")
    ] = "frozen"
    norms: Annotated[bool, Field(description="Norms on or off.")] = True
    norm: Annotated[Norm, since("0.1", description="The norms: layer norms, or RMS norms.")] = "layer"
    norm_place: Annotated[
        Literal["pre", "post"],
        since("0.1", description="Norms before attention and FFN, and a final one; or after what each was added to."),
    ] = "pre"
    skips: Annotated[bool, Field(description="Skip connections on or off.")] = True
    parallel: Annotated[
        bool, since("0.1", description="Attention and FFN of a block read the same vectors, and are added at once.")
    ] = False
    dropout: Annotated[
        float,
        since("0.1", ge=0, lt=1, description="Share of what attention and FFN add that is set to 0 in training."),
    ] = 0.0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.n_heads % self.kv_heads:
            raise ValueError(f"n_kv_heads: should divide n_heads ({self.n_heads}), got {self.n_kv_heads}")
        if self.positions == "rotary" and self.d_head % 2:
            raise ValueError(f"d_head: should be even, as rotary positions turn pairs of channels, got {self.d_head}")
        for field, chosen in {"gated": self.gated, "n_experts": self.n_experts > 1}.items():
            if chosen and self.ffn != "mlp":
                raise ValueError(f"{field}: only with ffn mlp, got ffn {self.ffn}")
        if self.top_k > self.n_experts:
            raise ValueError(f"top_k: at most n_experts ({self.n_experts}), got {self.top_k}")
        of_scores = {"window": self.window, "stride": self.stride, "values": not self.values}
        for field, given in (of_scores | {"positions": self.positions == "alibi"}).items():
            if given and self.attention != "softmax":
                raise ValueError(f"{field}: {getattr(self, field)} only with softmax attention, got {self.attention}")
        if not self.values and self.d_value is not None:
            raise ValueError(f"d_value: not without values, got {self.d_value}")
        for name in ("norm", "norm_place"):
            if not self.norms and (value := getattr(self, name)) != type(self).model_fields[name].default:
                raise ValueError(f"{name}: {value} only with norms, got norms off")
        for what, missing in {
            "an FFN": self.ffn == "none",
            "skips": not self.skips,
            "norms before": self.norm_place == "post",
        }.items():
            if self.parallel and missing:
                raise ValueError(f"parallel: only with {what}, got True")
        return self

    @property
    def total_key_dim(self) -> int:
        """Channels of all keys of a position: n_heads · d_head, or n_kv_heads · d_head."""
        return self.kv_heads * self.d_head

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def random(self) -> bool:
        """Whether a step of training draws random numbers."""
        return self.dropout > 0 or (self.ffn == "mlp" and self.activation == "rrelu")

    def mixer_type(self) -> Any:
        """The class of its blocks' mixers (`capax.Mixer`), imported."""
        return resolve(MIXERS.get(self.attention, self.mixer_class))

    @property
    def norm_kind(self) -> Norm | None:
        """The norms; None where there are none."""
        return self.norm if self.norms else None

    @property
    def has_table(self) -> bool:
        """Whether positions are rows of a table."""
        return self.positions in TABLES

    def words(self, protocol: Protocol | None = None) -> str:
        """The model in a few words."""
        said = f"{counted(self.n_layers, 'layer')}, {heads(self)}, width {self.d_model}"
        name = () if self.model == "transformer" else (self.model,)
        return ", ".join((*name, said, *self._own(), *self._blocks()))

    def _own(self) -> list[str]:
        """Fields of a variant, in words."""
        names = [name for name in type(self).model_fields if name not in Transformer.model_fields]
        options = {
            f"{self.n_kv_heads} of keys and values": self.n_kv_heads is not None and "n_kv_heads" not in names,
            f"{self.attention} attention": self.attention != "softmax",
            "no values": not self.values,
            f"window {self.window}": self.window is not None,
            f"stride {self.stride}": self.stride is not None,
            "FFN gated": self.gated,
            f"{self.n_experts} experts ({self.top_k} at a time)": self.n_experts > 1,
            "RMS norm": self.norm_kind == "rms",
            "norms after": self.norm_place == "post",
            "parallel": self.parallel,
            f"dropout {self.dropout:g}": self.dropout > 0,
            f"positions {self.positions}": self.positions not in ("trained", "frozen"),
        }
        return [
            *(words for words, chosen in options.items() if chosen),
            *(f"{name} {getattr(self, name)}" for name in names),
        ]

    def _blocks(self) -> list[str]:
        """What its blocks lack, and tables that are not frozen, in words."""
        options = {
            "no FFN": self.ffn == "none",
            "FFN the identity": self.ffn == "identity",
            f"FFN {self.activation}": self.ffn == "mlp" and self.activation != "gelu",
            "no norms": not self.norms,
            "no skips": not self.skips,
            "embeddings trained": self.embeddings == "trained",
            f"read-out {self.readout}": self.readout != "frozen",
        }
        return [words for words, chosen in options.items() if chosen]

    def described(self, over: Over, protocols: Sequence[Protocol]) -> str:
        """The model in a sentence."""
        ffn = {"mlp": f"FFN trained ({self.activation})", "identity": "FFN the identity", "none": "no FFN"}
        parts = {"token table": self.embeddings, "positions": self.positions, "read-out": self.readout}
        tied = ["the read-out is the token table"] if self.readout == "tied" else []
        details = [
            f"a {self.model} of {over.counted('n_layers', 'layer')}, {layout(over)}",
            *self._own(),
            ffn[self.ffn],
            *(
                f"{together(names)} {state}"
                for state in ("trained", "frozen")
                if (names := [name for name, is_now in parts.items() if is_now == state])
            ),
            *tied,
            *(f"no {what}" for what, on in (("norms", self.norms), ("skips", self.skips)) if not on),
        ]
        return "; ".join(details)

    @property
    def frozen_readout(self) -> bool:
        """Whether the output matrix stays as it was drawn."""
        return (self.embeddings if self.readout == "tied" else self.readout) == "frozen"

    @property
    def gains(self) -> tuple[str, ...]:
        """The last norm's gain."""
        if self.norm_place == "post":
            return (f"layers.{self.n_layers - 1}.{self.last_norm}",)
        return ("final_norm",) if self.norms else ()

    @property
    def last_norm(self) -> str:
        """The last of a layer's norms."""
        return "norm" if self.ffn == "none" else "ffn_norm"

    def parameters(self, *, vocab_size: int, context: int) -> tuple[Parameter, ...]:  # type: ignore[override]
        """Its tensors, in x-transformers' distributions.

        With the defaults L·(8B² + 4·D·H·B + 7B) + B + context·B numbers are trained (L layers, H heads of D channels,
        width B), and the two frozen tables add 2·vocab_size·B.

        Args:
            vocab_size: different tokens.
            context: positions that the network sees: seq_len − 1, and one more for a token before the first.
        """
        c = self.d_model
        ones = Constant(1.0)
        table = [
            Parameter("token", (vocab_size, c), Normal(math.sqrt(2 / c)), self.embeddings == "trained"),
        ]
        if self.has_table:
            first = Sinusoid() if self.positions == "sinusoidal" else Normal(1.0)
            table.append(Parameter("position", (context, c), first, self.positions == "trained"))
        for layer in range(self.n_layers):
            block = list(self.mixer_parameters())
            if self.norms:
                block.append(Parameter("norm", (c,), ones))
                if self.ffn != "none":
                    block.append(Parameter("ffn_norm", (c,), ones))
            if self.ffn == "mlp":
                block += feed_forward_parameters(self)
            table += [one._replace(name=f"layers.{layer}.{one.name}") for one in block]
        if self.norms and self.norm_place == "pre":
            table.append(Parameter("final_norm", (c,), ones))
        if self.readout != "tied":
            table.append(Parameter("readout", (vocab_size, c), Uniform.fan_in(c), self.readout == "trained"))
        return tuple(table)

    def parameter_counts(self, **sizes: int) -> dict[str, int]:
        """Numbers that one member has: `trainable` and `total`."""
        # Of one layer and of two: a table of a billion layers would never end.
        one, two = _counts(self.model_copy(update={"n_layers": 1}), tuple(sorted(sizes.items())))
        return {kind: one[kind] + (self.n_layers - 1) * (two[kind] - one[kind]) for kind in one}

    def effective_parameters(self, *, vocab_size: int, context: int) -> int:  # type: ignore[override]
        """Trained numbers that the chances of tokens can tell apart, as `capax.specs.effective` derives.

        A variant whose mixer has other tensors counts all of those.
        """
        return effective_parameters(self, vocab_size, context, self._own_mixer)

    def product_parameters(self, **sizes: int) -> int:
        """Trained numbers, of which W_Q W_Kᵀ and W_V W_O of each head count by their freedom."""
        counted = self.parameter_counts(**sizes)["trainable"]
        if self._own_mixer:
            return counted
        return counted - self.n_layers * spare_in_products(
            self.d_model,
            self.n_heads,
            self.kv_heads,
            self.d_head,
            d_value=(self.d_value or self.d_head) if self.values else 0,
            turned=self.d_head if self.positions == "rotary" else 0,
            gated=4 * self.d_model if self.gated else 0,
        )

    @property
    def _own_mixer(self) -> bool:
        """Whether its mixers have tensors that capax knows nothing of."""
        return type(self).mixer_parameters is not Transformer.mixer_parameters

    def mixer_parameters(self) -> tuple[Parameter, ...]:
        """The tensors of one block's mixer."""
        return attention_parameters(self)

    def simplest(self, **sizes: int) -> Self:
        """The same network without sizes that are those of their default, or of a window that ends nowhere."""
        window, context = self.window, sizes["context"]
        given = {
            "n_kv_heads": None if self.n_kv_heads == self.n_heads else self.n_kv_heads,
            "d_value": None if self.d_value == self.d_head else self.d_value,
            "window": None if window is not None and window >= context else window,
            "stride": None if window is not None and window >= context else self.stride,
        }
        return self.model_copy(update=given)

    @property
    def idle_parameters(self) -> int:
        """Numbers of experts that do not answer a token."""
        expert = feed_forward_parameters(self.model_copy(update={"n_experts": 1, "top_k": 1}))
        return self.n_layers * (self.n_experts - self.top_k) * sum(math.prod(one.shape) for one in expert)

    def table_parameters(self, **sizes: int) -> int:
        """One table, or two where the read-out is one of its own."""
        return (1 if self.readout == "tied" else 2) * sizes["vocab_size"] * self.d_model

    def architecture(self, *, vocab_size: int | None = None, **_: Any) -> dict[str, Any]:
        """Its fields; a label is a token, or a vector of d_model numbers."""
        return self.model_dump(exclude={"model"}) | {
            "d_value": self.d_value or self.d_head,
            "d_out": self.d_model,
            # layers are alike, and a table of a million of them takes minutes
            "all_trained": all(one.trained for one in self.replace(n_layers=1).parameters(vocab_size=1, context=1)),
            "attention_parameters": sum(math.prod(one.shape) for one in self.mixer_parameters()),
            "plain_heads": self.kv_heads == self.n_heads
            and self.attention == "softmax"
            and self.values
            and self.window is self.stride is None
            and self.positions not in ("rotary", "alibi"),
            "n_classes": vocab_size,
            "n_hidden": 4 * self.d_model if self.ffn == "mlp" and not self.gated and self.n_experts == 1 else None,
        }

    def operations(self, sizes: Mapping[str, int], scored: Scored, counts: Mapping[str, int] | None = None) -> int:
        """Operations of showing one item once, forward and backward.

        A multiplication and an addition are two operations. The backward pass takes twice those of the forward, but
        none for the weights of a frozen read-out. Attention counts all pairs of positions, masked ones, too.
        """
        context, vocabulary = sizes["context"], sizes["vocab_size"]
        tables = self.table_parameters(**sizes) + (context * self.d_model if self.has_table else 0)
        weights = (counts or self.parameter_counts(**sizes))["total"] - tables
        mixed = (self.d_value or self.d_head) if self.values else self.d_model
        attention = self.n_layers * self.n_heads * (self.d_head + mixed) * context
        readout = (4 if self.frozen_readout else 6) * vocabulary * self.d_model
        return 6 * context * (weights + attention) + (context if scored == "all" else 1) * readout

    @classmethod
    def completed(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Heads of 64 channels that fill the width; trained embeddings are read out by the same table."""
        found = dict(fields)
        if "d_head" in found and found["d_head"] is None:
            found["d_head"] = min(HEAD, found["d_model"])
        if "n_heads" in found and found["n_heads"] is None:
            found["n_heads"] = max(found["d_model"] // found["d_head"], 1)
        return found | ({"readout": "tied"} if found.get("embeddings") == "trained" else {})

    def refuse(self, training: Training, protocol: Protocol) -> None:
        """Refuse to compile what draws random numbers: its generators are no part of a graph."""
        if training.compile and self.random:
            raise ValueError("compile: not with dropout or rrelu, got True")

    def floats_per_row(self, sizes: Mapping[str, int], scored: Scored) -> int:
        """Numbers in the widest activation of one sequence of one member."""
        alone = scored == "last" and self.n_layers == 1
        hidden = 4 * self.d_model * self.n_experts if self.ffn == "mlp" else self.d_model
        head = max(self.d_head, sizes["context"], 0 if self.values else self.d_model)
        widest = max(hidden, self.n_heads * head, sizes["vocab_size"])
        return widest * (1 if alone else sizes["context"])


@lru_cache(maxsize=4096)  # a plan asks for many depths of a width
def _counts(model: Transformer, sizes: tuple[tuple[str, int], ...]) -> tuple[dict[str, int], dict[str, int]]:
    """`parameter_counts` of a model of one layer, and of two."""
    deeper = model.model_copy(update={"n_layers": 2})
    return Model.parameter_counts(model, **dict(sizes)), Model.parameter_counts(deeper, **dict(sizes))
