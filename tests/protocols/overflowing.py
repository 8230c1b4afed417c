"""A model whose scores overflow after some prefixes, as a training that diverges leaves them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Overflowing(nn.Module):
    """Scores from the last token; none that is a number after a prefix that begins with 0, of every second member.

    Args:
        always: after any prefix.
    """

    def __init__(self, vocab_size: int, context_size: int, always: bool = False) -> None:
        super().__init__()
        self.always = always
        self.table = nn.Embedding(vocab_size, vocab_size)
        self.register_buffer("overflows", self.table.weight.detach()[0, 0] > 0)

    def forward(self, tokens: Tensor) -> Tensor:
        lost = ((tokens[:, :1, None] == 0) | self.always) & self.overflows
        return torch.where(lost, torch.nan, self.table(tokens))
