"""Modules of vectors as users write them, with and without faults."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from capax.models.keyquery import SCALE_RATE
from capax.specs import AssociativeAttention, KeyQueryChannel


class _Ours(nn.Module):
    """The tensors that our model begins with."""

    def __init__(self, spec: Any, **sizes: int) -> None:
        super().__init__()
        drawn = torch.Generator().manual_seed(torch.initial_seed())
        made = spec.ensemble_type().initialize(spec, sizes, generators=[drawn], dtype=torch.float64)
        for name, tensor in made.parameters.items():
            self.register_parameter(name, nn.Parameter(tensor[0].detach().clone(), tensor.requires_grad))


class Layer(_Ours):
    """Our plain layer by its definition: keys and values are formed, head by head."""

    def __init__(self, n_outputs: int, **spec: int) -> None:
        super().__init__(AssociativeAttention(**spec), n_outputs=n_outputs)

    def forward(self, queries: Tensor, contexts: Tensor) -> Tensor:
        q = torch.einsum("bc,hcd->bhd", queries, self.query)
        k, v = (torch.einsum("bnc,hcd->bhnd", contexts, weight) for weight in (self.key, self.value))
        attention = torch.einsum("bhd,bhnd->bhn", q, k).softmax(2)
        return torch.einsum("bhn,bhnv,hvo->bo", attention, v, self.out)


class Channel(_Ours):
    """Our key-query channel by its definition."""

    def __init__(self, n_items: int, **spec: int) -> None:
        super().__init__(KeyQueryChannel(**spec), n_items=n_items)

    def forward(self, items: Tensor) -> Tensor:
        scores = (items[:, None] @ self.query @ (items[:, None] @ self.key).mT).amax(1)
        return scores * self.first_scale * (1 + SCALE_RATE * self.scale) - self.threshold


class Softmax(_Ours):
    """Our channel of softmax attention by its definition."""

    def __init__(self, n_items: int, **spec: int) -> None:
        super().__init__(KeyQueryChannel(channel="softmax", **spec), n_items=n_items)

    def forward(self, items: Tensor) -> Tensor:
        scores = items[:, None] @ self.query @ (items[:, None] @ self.key).mT * self.temperature
        itself = torch.eye(items.shape[1], dtype=torch.bool)
        attention = scores.masked_fill(itself, -torch.inf).softmax(3)
        y = (attention @ (items[:, None] @ self.value)).sum(1)
        return y @ items.mT * self.first_scale * (1 + SCALE_RATE * self.scale) - self.threshold


class Faulty(nn.Module):
    """Of examples and of items, with a fault."""

    def __init__(self, d_model: int, n_outputs: int = 4, fault: str = "") -> None:
        super().__init__()
        self.fault, self.outputs = fault, nn.Linear(d_model, n_outputs)
        self.inner = nn.Linear(d_model, d_model)

    def forward(self, first: Tensor, contexts: Tensor | None = None) -> Tensor:
        mixed = self.inner(first)
        if self.fault == "batch":
            mixed = mixed + mixed.mean(0)
        if self.fault == "dropout":
            mixed = F.dropout(mixed, 0.5, self.training)
        found = mixed @ first.mT if contexts is None else self.outputs(mixed + contexts.mean(1))
        return found[..., :-1] if self.fault == "shape" else found


class Hard(Layer):
    """Attends softly in training, where it has gradients, and to the largest score alone when it is asked."""

    def forward(self, queries: Tensor, contexts: Tensor) -> Tensor:
        scores = torch.einsum("bhd,bhnd->bhn", *self.parts(queries, contexts))
        attention = scores.softmax(2)
        if not self.training:
            attention = F.one_hot(scores.argmax(2), scores.shape[2]).to(scores)
        v = torch.einsum("bnc,hcd->bhnd", contexts, self.value)
        return torch.einsum("bhn,bhnv,hvo->bo", attention, v, self.out)

    def parts(self, queries: Tensor, contexts: Tensor) -> tuple[Tensor, Tensor]:
        return torch.einsum("bc,hcd->bhd", queries, self.query), torch.einsum("bnc,hcd->bhnd", contexts, self.key)


class HardPairs(Softmax):
    """As `Hard`, of items."""

    def forward(self, items: Tensor) -> Tensor:
        scores = items[:, None] @ self.query @ (items[:, None] @ self.key).mT
        attention = scores.softmax(3)
        if not self.training:
            attention = F.one_hot(scores.argmax(3), scores.shape[3]).to(scores)
        y = (attention @ (items[:, None] @ self.value)).sum(1)
        return y @ items.mT * self.first_scale * (1 + SCALE_RATE * self.scale) - self.threshold


class Complex(nn.Module):
    """Turns by complex numbers, as rotary positions may."""

    def __init__(self, n_items: int, d_model: int) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_model)
        self.register_buffer("turns", torch.polar(torch.ones(d_model), torch.arange(d_model).float()))

    def forward(self, items: Tensor) -> Tensor:
        found: Tensor = (self.inner(items) * self.turns).real @ items.mT
        return found


class Features(nn.Module):
    """Features that are drawn and kept, with a read-out that begins at zero."""

    def __init__(self, n_items: int, d_model: int) -> None:
        super().__init__()
        self.register_buffer("features", torch.randn(d_model, 8))
        self.out = nn.Parameter(torch.zeros(8, 8))

    def forward(self, items: Tensor) -> Tensor:
        seen = torch.relu(items @ self.features)
        found: Tensor = seen @ self.out @ seen.mT
        return found
