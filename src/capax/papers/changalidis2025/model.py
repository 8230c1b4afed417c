"""The network of the paper's code (github.com/um-dacs-nlp/capacity), with its fault or without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor, nn, zeros

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "rrelu": nn.RReLU,
    "softmax": lambda: nn.Softmax(-1),
}


class Network(nn.Module):
    """Decoder layers of torch that attend to their own input twice, and scores read at the concept's position.

    The code builds its layers without `batch_first` and calls them on `(batch, 2, d_model)`: what is meant as the batch
    is taken as the sequence. So a concept attends to the concepts of its batch, and never to its property. With
    `batch_first` it attends to itself and to its property, which is the only difference.

    Args:
        context_size: tokens that are read; a concept and a property are 2.
        feedforward, dropout: torch's own values, as the code gives none.
        batch_first: False as in the code.
    """

    def __init__(
        self,
        vocab_size: int,
        context_size: int = 2,
        d_model: int = 128,
        n_heads: int = 4,
        n_layers: int = 1,
        feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Literal["relu", "gelu", "rrelu", "softmax"] = "relu",
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Parameter(zeros(1, context_size, d_model))
        self.layers = nn.ModuleList(
            nn.TransformerDecoderLayer(
                d_model, n_heads, feedforward, dropout, ACTIVATIONS[activation](), batch_first=batch_first
            )
            for _ in range(n_layers)
        )
        self.readout = nn.Linear(d_model, vocab_size)

    def forward(self, tokens: Int[Tensor, "batch context"]) -> Float[Tensor, "batch vocab"]:
        """Scores of the answer, read at the first position."""
        x = self.embedding(tokens) + self.positions
        for layer in self.layers:
            x = layer(x, x)
        scores: Tensor = self.readout(x[:, 0])
        return scores
