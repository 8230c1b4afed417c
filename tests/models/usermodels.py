"""Modules as users write them, with and without faults."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from reference import plain_logits
from torch import Tensor, nn

from capax.models.transformer import TransformerEnsemble
from capax.specs import Transformer

NOT_CALLABLE = 3


class Plain(nn.Module):
    """Our transformer by the plain computation that our ensemble is tested with; it holds that one's tensors."""

    def __init__(self, vocab_size: int, context_size: int, **spec: Any) -> None:
        super().__init__()
        self.spec = Transformer(**spec)
        drawn = torch.Generator().manual_seed(torch.initial_seed())
        ensemble = TransformerEnsemble.initialize(
            self.spec, {"vocab_size": vocab_size, "context": context_size}, generators=[drawn]
        )
        for name, tensor in ensemble.parameters.items():
            parameter = nn.Parameter(tensor[0].detach().clone(), tensor.requires_grad)
            self.register_parameter(name.replace(".", "/"), parameter)

    def forward(self, tokens: Tensor) -> Tensor:
        member = {name.replace("/", "."): parameter for name, parameter in self.named_parameters()}
        return plain_logits(self.spec, member, tokens)


class Torch(nn.Module):
    """What torch has: embeddings, positions, encoder layers with a causal mask."""

    def __init__(
        self,
        vocab_size: int,
        context_size: int,
        d_model: int = 16,
        n_heads: int = 2,
        n_layers: int = 1,
        dropout: float = 0.0,
        batch_first: bool = True,
        causal: bool = True,
        copied: bool = False,
        last: bool = False,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(context_size, d_model)

        def layer() -> nn.Module:
            return nn.TransformerEncoderLayer(
                d_model, n_heads, 4 * d_model, dropout, batch_first=batch_first, norm_first=True
            )

        first = layer()
        if copied:
            self.layers: nn.Module = nn.TransformerEncoder(first, n_layers, enable_nested_tensor=False).layers
        else:
            self.layers = nn.ModuleList([first, *(layer() for _ in range(n_layers - 1))])
        self.norm = nn.LayerNorm(d_model)
        self.readout = nn.Linear(d_model, vocab_size, bias=False)
        self.causal, self.batch_first, self.last = causal, batch_first, last
        if causal:
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(context_size))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:  # type: ignore[attr-defined]
            x = layer(x, src_mask=self.mask if self.causal and self.batch_first else None)
        scores = self.readout(self.norm(x))
        return scores[:, -1] if self.last else scores


def x_transformers(vocab_size: int, context_size: int) -> nn.Module:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=16, depth=1, heads=2, attn_dim_head=8)
    return TransformerWrapper(num_tokens=vocab_size, max_seq_len=context_size, attn_layers=layers)


class Scored(nn.Module):
    """Attention written by hand; `scale` says by what its scores are divided, `early` whether before the product.

    `tied`: its chances are those of the token table, and a router mixes two experts, which is no attention.
    """

    def __init__(
        self, vocab_size: int, context_size: int, scale: str = "head", early: str = "", tied: bool = False
    ) -> None:
        super().__init__()
        self.d_model, self.n_heads, self.early = 16, 4, early
        self.router = nn.Parameter(torch.randn(16, 2)) if tied else None
        self.tokens, self.positions = nn.Embedding(vocab_size, 16), nn.Embedding(context_size, 16)
        self.query, self.key, self.value = (nn.Linear(16, 16, bias=False) for _ in range(3))
        self.readout = nn.Linear(16, vocab_size)
        self.root = math.sqrt({"head": 4, "model": 16, "none": 1, "other": 7}[scale])

    def forward(self, tokens: Tensor) -> Tensor:
        n = tokens.shape[1]
        x = self.tokens(tokens) + self.positions(torch.arange(n))
        query, key, value = (
            part(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        if self.early == "query":
            scores = (query / self.root) @ key.mT
        elif self.early == "key":
            scores = query @ (key / self.root).mT
        elif self.early == "both":
            scores = (query * self.root**-0.5) @ (key * self.root**-0.5).mT
        else:
            scores = torch.einsum("bhid,bhjd->bhij", query, key) / self.root
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(future, -math.inf).softmax(-1) @ value
        x = x + mixed.transpose(1, 2).flatten(2)
        if self.router is None:
            return self.readout(x)
        x = x * (x @ self.router).softmax(-1)[..., :1] + self.readout.bias.sum()
        return (x @ self.tokens.weight.T).log_softmax(-1)


class Recurrent(nn.Module):
    """An operation that torch.vmap has no rule for."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.tokens, self.readout = nn.Embedding(vocab_size, 8), nn.Linear(8, vocab_size)
        self.recurrent = nn.GRU(8, 8, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.readout(self.recurrent(self.tokens(tokens))[0])
        return scores


class Bag(nn.Module):
    """The sum of token vectors so far, with what is asked of it: small, causal, and wrong in the way that is named."""

    def __init__(self, vocab_size: int, context_size: int, fault: str = "") -> None:
        super().__init__()
        self.fault, self.n = fault, context_size
        self.tokens = nn.Embedding(vocab_size, 8)
        self.positions = nn.Parameter(torch.randn(context_size, 8))
        self.readout = nn.Linear(8, vocab_size)
        if fault == "batch norm":
            self.norm = nn.BatchNorm1d(8)
        if fault == "unused":
            self.spare = nn.Linear(8, 8)
        if fault == "no buffer":
            self.noise = torch.randn(8)
        if fault == "gate":
            self.gate, self.behind = nn.Parameter(torch.zeros(())), nn.Linear(8, 8)
        if fault == "frozen":
            self.tokens.requires_grad_(False)
        if fault == "all frozen":
            self.requires_grad_(False)
        if fault == "weight nan":
            self.readout.weight.data[0] = math.nan
        if fault == "numpy":
            self.readout.weight.data += float(np.random.default_rng().standard_normal())
        if fault == "one seed":
            with torch.random.fork_rng():
                torch.manual_seed(0)
                self.readout.reset_parameters()

    def forward(self, tokens: Tensor) -> Any:
        if self.fault == "raises":
            raise RuntimeError("no\nway")
        if self.fault == "in place":
            tokens += 0
        if self.fault == "few rows":
            tokens = tokens[:16]
        positions = self.positions[: tokens.shape[1]]
        if self.fault == "keeps":
            positions = self.kept = getattr(self, "kept", positions.detach())
        if self.fault == "no buffer":
            positions = positions + self.noise
        x = self.tokens(tokens) * positions
        if self.fault == "remembers":
            before = getattr(self, "before", 0.0)
            self.before = x.detach().mean()
            x = x + before
        if self.fault == "deaf":
            x = torch.cat([torch.zeros_like(x[:, :2]), x[:, 2:]], 1)
        x = x.cumsum(1)
        if self.fault == "batch norm":
            x = self.norm(x.flatten(0, 1)).view(x.shape)
        if self.fault == "gate":
            x = x + self.gate * self.behind(x)
        if self.fault == "always dropout":
            x = F.dropout(x, 0.5)
        scores = self.readout(x)
        match self.fault:
            case "shape":
                return scores[..., :-1]
            case "tuple":
                return (scores,)
            case "tuple in eval" if not self.training:
                return scores, x
            case "last in eval" if not self.training:
                return scores[:, -1]
            case "integers":
                return scores.argmax(-1, keepdim=True).expand(scores.shape)
            case "nan":
                return scores * math.nan
            case "detached":
                return scores.detach()
            case "data dependent":
                return scores if float(scores.detach().sum()) < math.inf else scores + 1
            case "counts":
                return scores + 0 * torch.histc(scores.detach().float(), 4).sum()
        return scores


def leaves(vocab_size: int, context_size: int) -> nn.Module:
    raise SystemExit(3)


def broken(vocab_size: int) -> nn.Module:
    raise ValueError(f"no module\nof {vocab_size}")


def nothing(vocab_size: int) -> int:
    return vocab_size


class Convolved(nn.Module):
    """Convolutions over positions and channels, whose weights have four axes, and a side of 1."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, 6)
        self.convolution, self.narrow = nn.Conv2d(1, 3, (2, 3), padding=(0, 1)), nn.Conv2d(3, 1, 1)
        self.readout = nn.Linear(6, vocab_size)

    def forward(self, tokens: Tensor) -> Tensor:
        x = F.pad(self.tokens(tokens)[:, None], (0, 0, 1, 0))
        scores: Tensor = self.readout(self.narrow(self.convolution(x).tanh())[:, 0])
        return scores


class Biased(nn.Module):
    """Learns how common each token is, and nothing else: its only parameter is a bias."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.bias.expand(*tokens.shape, -1)
