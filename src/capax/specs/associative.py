"""The attention that learns associations (Mahdavi et al. 2024, arXiv 2306.02010)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from capax.specs.libraries import DEEPEST
from capax.specs.model import Model, Parameter, Scored, Uniform, freedom, heads, layout
from capax.specs.protocols import Protocol
from capax.specs.spec import LARGEST_SIZE, Size, since
from capax.text import Over, counted


class AssociativeAttention(Model):
    """Attention layers that a query asks about its context, one by default; the query is never among the keys.

    `plain` is the theory's: f(E, e) = Σ_h W_O,hᵀ W_V,hᵀ Eᵀ softmax(E W_K,h W_Q,hᵀ e); no bias, scale, skip or FFN.
    `mahdavi2024` is that of the published experiments: a linear embedding of query and tokens, sinusoidal positions
    (the query at 0), scores over √d_model, one value per head, and a linear read-out after the output matrix.

    Layers before the last (ours) have a residual stream: x ← x + Σ_h W_O,hᵀ W_V,hᵀ Xᵀ softmax(X W_K,h W_Q,hᵀ x), for
    the query and each token of its context at once; X are the context's tokens as they enter the layer. The last layer
    reads the query and the tokens that come out of them. `layers.I.NAME` are their matrices, I from 0.
    """

    reads: ClassVar[str] = "examples"
    ensemble_class: ClassVar[str] = "capax.models.associative:AssociativeEnsemble"
    axes: ClassVar[tuple[str, ...]] = ("n_heads", "d_model", "d_head")
    steps: ClassVar[Mapping[str, int]] = {"d_model": 32, "d_head": 4}

    model: Literal["associative_attention"] = "associative_attention"
    n_heads: Annotated[Size, Field(description="Attention heads.")] = 1
    d_model: Annotated[Size, Field(description="Channels of a query and of a token.")] = 64
    d_head: Annotated[Size, Field(description="Channels of a projected query and of a key.")] = 64
    d_value: Annotated[
        int | None,
        Field(
            ge=1,
            le=LARGEST_SIZE,
            description="Channels of a value. When not given: 1 in the published layer, as many as a read-out needs "
            "(the fewer of d_model and the outputs) in the plain one.",
        ),
    ] = None
    profile: Annotated[
        Literal["plain", "mahdavi2024"], Field(description="The theory's layer, or the published experiments'.")
    ] = "plain"
    n_layers: Annotated[
        int,
        since("0.1", "Attention layers; those before the last update query and tokens (residual).", ge=1, le=DEEPEST),
    ] = 1

    @property
    def total_key_dim(self) -> int:
        """n_heads · d_head."""
        return self.n_heads * self.d_head

    def value_size(self, n_outputs: int) -> int:
        """Channels of a value, for a model of so many outputs."""
        if self.d_value is not None:
            return self.d_value
        return 1 if self.profile == "mahdavi2024" else min(self.d_model, n_outputs)

    def words(self, protocol: Protocol | None = None) -> str:
        """The model in a few words."""
        return f"{self._kind}, {heads(self)}, width {self.d_model}"

    def described(self, over: Over, protocols: Sequence[Protocol]) -> str:
        """The model in a sentence."""
        depths = over.values("n_layers")
        layers = "an attention layer" if set(depths) <= {1} else f"attention of {counted(depths, 'layer')}"
        return f"{layers} ({self.profile}), {layout(over)}"

    @property
    def _kind(self) -> str:
        layer = "the published layer" if self.profile == "mahdavi2024" else "plain attention"
        return layer if self.n_layers == 1 else f"{layer}, {self.n_layers} layers"

    def parameters(self, *, n_outputs: int, **_: int) -> tuple[Parameter, ...]:  # type: ignore[override]
        """Its tensors, all of them trained: H(2·d·d_head + d·d_value + d_value·outputs) numbers.

        A layer before the last has H(2·d·d_head + 2·d·d_value), as it writes d channels. The published model has
        d² + d more for the embedding and, between its last output matrix (to d channels) and the outputs, a read-out of
        (d + 1)·outputs. Xavier-uniform per head and PyTorch's default for the linear layers, as
        published; the plain model, which has no score scale, starts with queries divided by √d_head (ours).

        Args:
            n_outputs: numbers that it gives for an example.
        """
        c = self.d_model
        earlier = [
            one._replace(name=f"layers.{layer}.{one.name}")
            for layer in range(self.n_layers - 1)
            for one in self._matrices(c)
        ]
        table = (*self._matrices(self._written(n_outputs)), *earlier)
        if self.profile == "plain":
            return table
        linear = Uniform.fan_in(c)
        return (
            *table,
            Parameter("embedding", (c, c), linear),
            Parameter("embedding_bias", (c,), linear),
            Parameter("readout", (c, n_outputs), linear),
            Parameter("readout_bias", (n_outputs,), linear),
        )

    def _written(self, n_outputs: int) -> int:
        """Channels that the last layer writes."""
        return n_outputs if self.profile == "plain" else self.d_model

    def _matrices(self, written: int) -> tuple[Parameter, ...]:
        """Those of a layer that writes so many channels."""
        h, c, d, v = self.n_heads, self.d_model, self.d_head, self.value_size(written)
        smaller = math.sqrt(d) if self.profile == "plain" else 1.0
        return (
            Parameter("query", (h, c, d), Uniform.xavier(c, d, divided_by=smaller)),
            Parameter("key", (h, c, d), Uniform.xavier(c, d)),
            Parameter("value", (h, c, v), Uniform.xavier(c, v)),
            Parameter("out", (h, v, written), Uniform.xavier(h * v, written)),
        )

    def effective_parameters(self, *, n_outputs: int, **sizes: int) -> int:  # type: ignore[override]
        """Trained numbers, with W_Q W_Kᵀ and W_V W_O of each head counted by their own freedom."""
        counted = super().effective_parameters(n_outputs=n_outputs, **sizes)
        spare = (self.n_layers - 1) * self._spare(self.d_model) + self._spare(self._written(n_outputs))
        return counted - self.n_heads * spare

    def _spare(self, written: int) -> int:
        """Numbers of a head that its two products do not need, in a layer that writes so many channels."""
        c, d, v = self.d_model, self.d_head, self.value_size(written)
        return 2 * c * d + (c + written) * v - freedom(c, d, c) - freedom(c, v, written)

    def architecture(self, *, n_classes: int | None = None, d_out: int | None = None, **_: Any) -> dict[str, Any]:
        """Its fields, and the numbers of a label."""
        outputs = n_classes or d_out
        value = self.d_value if outputs is None else self.value_size(outputs)
        return self.model_dump(exclude={"model"}) | {"d_value": value, "d_out": outputs}

    def operations(self, sizes: Mapping[str, int], scored: Scored, counts: Mapping[str, int] | None = None) -> int:
        """Operations of showing one item once: six a trained number, and token where layers update each example's."""
        trained = (counts or self.parameter_counts(**sizes))["trainable"]
        alone = self.replace(n_layers=1).parameter_counts(**sizes)["trainable"]
        tokens = 1 if sizes["n_contexts"] == 1 else 1 + sizes["context_size"]
        return 6 * (alone + (trained - alone) * tokens)

    def floats_per_row(self, sizes: Mapping[str, int], scored: Scored) -> int:
        """Numbers in the widest activation of one example of one member."""
        tokens, shared = sizes["context_size"], sizes["n_contexts"] == 1
        scores = self.n_heads * (tokens if shared else self.d_model + tokens)
        values = self.n_heads * self.value_size(sizes["n_outputs"])
        last = max(scores, values, sizes["n_outputs"], 0 if shared else tokens * self.d_model)
        if self.n_layers == 1:
            return last
        asking = 1 if shared else 1 + tokens
        return max(
            last, asking * max(self.n_heads * max(tokens, self.d_head, self.value_size(self.d_model)), self.d_model)
        )
