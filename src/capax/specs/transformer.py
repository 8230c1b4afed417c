"""The transformer that learns tasks of tokens (Härmä et al. 2024, arXiv 2407.15425)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from capax.specs.model import Constant, Model, Normal, Parameter, Scored, Uniform, freedom, heads, layout
from capax.specs.protocols import Protocol
from capax.specs.spec import LARGEST_SIZE, Size
from capax.text import Over, together

HEAD = 64
"""Channels of a head, as x-transformers has them."""


class Transformer(Model):
    """The paper's network as x-transformers builds it, and what the paper and its successors vary.

    Pre-norm blocks of causal attention (no biases) and a 4× FFN, gains without biases in the norms, absolute positions
    scaled by 1/√d_model, a final norm and a read-out without bias, untied by default. Initialisation as in
    x-transformers.
    """

    ensemble_class: ClassVar[str] = "capax.models.transformer:TransformerEnsemble"
    axes: ClassVar[tuple[str, ...]] = ("d_head", "n_layers", "n_heads", "d_model")
    steps: ClassVar[Mapping[str, int]] = {"d_model": 8}
    depths: ClassVar[tuple[int, ...]] = (1, 2, 4, 8, 16, 32)
    mixer_class: ClassVar[str] = "capax.models.mixers.softmax:Softmax"
    """How its blocks mix positions (`capax.Mixer`), as `package.module:Class`."""

    model: Literal["transformer"] = "transformer"
    n_layers: Annotated[Size, Field(description="Blocks.")] = 1
    n_heads: Annotated[Size, Field(description="Attention heads per block.")] = 1
    d_model: Annotated[Size, Field(description="Width: channels of a token vector.")] = 32
    d_head: Annotated[Size, Field(description="Channels of a query and a key, whatever the width.")] = HEAD
    d_value: Annotated[
        int | None, Field(ge=1, le=LARGEST_SIZE, description="Channels of a value; d_head when not given.")
    ] = None
    ffn: Annotated[
        Literal["mlp", "identity", "none"],
        Field(description="FFN: trained, frozen to the identity (x + norm(x)), or left out."),
    ] = "mlp"
    activation: Annotated[Literal["gelu", "relu", "silu", "softmax"], Field(description="Activation of the FFN.")] = (
        "gelu"
    )
    embeddings: Annotated[Literal["frozen", "trained"], Field(description="The token table.")] = "frozen"
    positions: Annotated[Literal["trained", "frozen"], Field(description="The position table (default ours).")] = (
        "trained"
    )
    readout: Annotated[
        Literal["frozen", "trained", "tied"], Field(description="The output matrix; tied: it is the token table.")
    ] = "frozen"
    norms: Annotated[bool, Field(description="Layer norms on or off.")] = True
    skips: Annotated[bool, Field(description="Skip connections on or off.")] = True

    @property
    def total_key_dim(self) -> int:
        """n_heads · d_head."""
        return self.n_heads * self.d_head

    def words(self, protocol: Protocol | None = None) -> str:
        """The model in a few words."""
        said = f"{self.n_layers} layer{'s' * (self.n_layers > 1)}, {heads(self)}, width {self.d_model}"
        name = () if self.model == "transformer" else (self.model,)
        return ", ".join((*name, said, *self._own()))

    def _own(self) -> list[str]:
        """Fields of a variant, in words."""
        names = [name for name in type(self).model_fields if name not in Transformer.model_fields]
        return [f"{name} {getattr(self, name)}" for name in names]

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
        """The final norm's gain."""
        return ("final_norm",) if self.norms else ()

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
            Parameter("position", (context, c), Normal(1.0), self.positions == "trained"),
        ]
        for layer in range(self.n_layers):
            block = list(self.mixer_parameters())
            if self.norms:
                block.append(Parameter("norm", (c,), ones))
                if self.ffn != "none":
                    block.append(Parameter("ffn_norm", (c,), ones))
            if self.ffn == "mlp":
                block += [
                    Parameter("up", (c, 4 * c), Uniform.fan_in(c)),
                    Parameter("up_bias", (4 * c,), Uniform.fan_in(c)),
                    Parameter("down", (4 * c, c), Uniform.fan_in(4 * c)),
                    Parameter("down_bias", (c,), Uniform.fan_in(4 * c)),
                ]
            table += [one._replace(name=f"layers.{layer}.{one.name}") for one in block]
        if self.norms:
            table.append(Parameter("final_norm", (c,), ones))
        if self.readout != "tied":
            table.append(Parameter("readout", (vocab_size, c), Uniform.fan_in(c), self.readout == "trained"))
        return tuple(table)

    def parameter_counts(self, **sizes: int) -> dict[str, int]:
        """Numbers that one member has: `trainable` and `total`."""
        # Of one layer and of two: a table of a billion layers would never end.
        one, two = _counts(self.model_copy(update={"n_layers": 1}), tuple(sorted(sizes.items())))
        return {kind: one[kind] + (self.n_layers - 1) * (two[kind] - one[kind]) for kind in one}

    def effective_parameters(self, **sizes: int) -> int:
        """Trained numbers, with W_Q W_Kᵀ and W_V W_O of each head counted by their own freedom.

        A variant whose mixer has other tensors counts all of its trained numbers.
        """
        counted = super().effective_parameters(**sizes)
        if type(self).mixer_parameters is not Transformer.mixer_parameters:
            return counted
        c, value = self.d_model, self.d_value or self.d_head
        spare = 2 * c * (self.d_head + value) - freedom(c, self.d_head, c) - freedom(c, value, c)
        return counted - self.n_layers * self.n_heads * spare

    def mixer_parameters(self) -> tuple[Parameter, ...]:
        """The tensors of one block's mixer."""
        c, h, d, v = self.d_model, self.n_heads, self.d_head, self.d_value or self.d_head
        return (
            Parameter("query", (h, c, d), Uniform.fan_in(c)),
            Parameter("key", (h, c, d), Uniform.fan_in(c)),
            Parameter("value", (h, c, v), Uniform.fan_in(c)),
            Parameter("out", (h, v, c), Uniform.fan_in(h * v)),
        )

    def table_parameters(self, **sizes: int) -> int:
        """One table, or two where the read-out is one of its own."""
        return (1 if self.readout == "tied" else 2) * sizes["vocab_size"] * self.d_model

    def architecture(self, *, vocab_size: int | None = None, **_: Any) -> dict[str, Any]:
        """Its fields; a label is a token, or a vector of d_model numbers."""
        return self.model_dump(exclude={"model"}) | {
            "d_value": self.d_value or self.d_head,
            "d_out": self.d_model,
            "n_classes": vocab_size,
            "n_hidden": 4 * self.d_model if self.ffn == "mlp" else None,
        }

    def operations(self, sizes: Mapping[str, int], scored: Scored) -> int:
        """Operations of showing one item once, forward and backward.

        A multiplication and an addition are two operations. The backward pass takes twice those of the forward, but
        none for the weights of a frozen read-out. Attention counts all pairs of positions, masked ones, too.
        """
        context, vocabulary = sizes["context"], sizes["vocab_size"]
        tables = self.table_parameters(**sizes) + context * self.d_model
        weights = self.parameter_counts(**sizes)["total"] - tables
        attention = self.n_layers * self.n_heads * (self.d_head + (self.d_value or self.d_head)) * context
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

    def floats_per_row(self, sizes: Mapping[str, int], scored: Scored) -> int:
        """Numbers in the widest activation of one sequence of one member."""
        alone = scored == "last" and self.n_layers == 1
        hidden = 4 * self.d_model if self.ffn == "mlp" else self.d_model
        widest = max(hidden, self.n_heads * max(self.d_head, sizes["context"]), sizes["vocab_size"])
        return widest * (1 if alone else sizes["context"])


@lru_cache(maxsize=4096)  # a plan asks for many depths of a width
def _counts(model: Transformer, sizes: tuple[tuple[str, int], ...]) -> tuple[dict[str, int], dict[str, int]]:
    """`parameter_counts` of a model of one layer, and of two."""
    deeper = model.model_copy(update={"n_layers": 2})
    return Model.parameter_counts(model, **dict(sizes)), Model.parameter_counts(deeper, **dict(sizes))
