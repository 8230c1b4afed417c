"""The attention layer that learns associations (Mahdavi et al. 2024, arXiv 2306.02010)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from capax.specs.model import Model, Parameter, Scored, Uniform, freedom, heads, layout
from capax.specs.protocols import Protocol
from capax.specs.spec import LARGEST_SIZE, Size
from capax.text import Over


class AssociativeAttention(Model):
    """One attention layer that a query asks about its context; the query is never among the keys.

    `plain` is the theory's: f(E, e) = Σ_h W_O,hᵀ W_V,hᵀ Eᵀ softmax(E W_K,h W_Q,hᵀ e); no bias, scale, skip or FFN.
    `mahdavi2024` is that of the published experiments: a linear embedding of query and tokens, sinusoidal positions
    (the query at 0), scores over √d_model, one value per head, and a linear read-out after the output matrix.
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
        layer = "the published layer" if self.profile == "mahdavi2024" else "plain attention"
        return f"{layer}, {heads(self)}, width {self.d_model}"

    def described(self, over: Over, protocols: Sequence[Protocol]) -> str:
        """The model in a sentence."""
        return f"an attention layer ({self.profile}), {layout(over)}"

    def parameters(self, *, n_outputs: int, **_: int) -> tuple[Parameter, ...]:  # type: ignore[override]
        """Its tensors, all of them trained: H(2·d·d_head + d·d_value + d_value·outputs) numbers.

        The published layer has d² + d more for the embedding and, between its output matrix (to d channels) and the
        outputs, a read-out of (d + 1)·outputs. Xavier-uniform per head and PyTorch's default for the linear layers, as
        published; the plain layer, which has no score scale, starts with queries divided by √d_head (ours).

        Args:
            n_outputs: numbers that it gives for an example.
        """
        h, c, d, v = self.n_heads, self.d_model, self.d_head, self.value_size(n_outputs)
        plain = self.profile == "plain"
        read = n_outputs if plain else c
        table = (
            Parameter("query", (h, c, d), Uniform.xavier(c, d, divided_by=math.sqrt(d) if plain else 1.0)),
            Parameter("key", (h, c, d), Uniform.xavier(c, d)),
            Parameter("value", (h, c, v), Uniform.xavier(c, v)),
            Parameter("out", (h, v, read), Uniform.xavier(h * v, read)),
        )
        if plain:
            return table
        linear = Uniform.fan_in(c)
        return (
            *table,
            Parameter("embedding", (c, c), linear),
            Parameter("embedding_bias", (c,), linear),
            Parameter("readout", (c, n_outputs), linear),
            Parameter("readout_bias", (n_outputs,), linear),
        )

    def effective_parameters(self, *, n_outputs: int, **sizes: int) -> int:  # type: ignore[override]
        """Trained numbers, with W_Q W_Kᵀ and W_V W_O of each head counted by their own freedom."""
        counted = super().effective_parameters(n_outputs=n_outputs, **sizes)
        c, d, v = self.d_model, self.d_head, self.value_size(n_outputs)
        read = n_outputs if self.profile == "plain" else c
        spare = 2 * c * d + (c + read) * v - freedom(c, d, c) - freedom(c, v, read)
        return counted - self.n_heads * spare

    def architecture(self, *, n_classes: int | None = None, d_out: int | None = None, **_: Any) -> dict[str, Any]:
        """Its fields, and the numbers of a label."""
        outputs = n_classes or d_out
        value = self.d_value if outputs is None else self.value_size(outputs)
        return self.model_dump(exclude={"model"}) | {"d_value": value, "d_out": outputs}

    def floats_per_row(self, sizes: Mapping[str, int], scored: Scored) -> int:
        """Numbers in the widest activation of one example of one member."""
        tokens, shared = sizes["context_size"], sizes["n_contexts"] == 1
        scores = self.n_heads * (tokens if shared else self.d_model + tokens)
        values = self.n_heads * self.value_size(sizes["n_outputs"])
        return max(scores, values, sizes["n_outputs"], 0 if shared else tokens * self.d_model)
