"""Torch's Adam over the stacked parameters of an ensemble, laid end to end."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim.adam import adam

LANES = 64
"""Numbers to a multiple of which the parameters are padded."""


class Adam:
    """Adam with PyTorch's defaults. It works element by element: each member's steps are those of an Adam of its own.

    The parameters become parts of one tensor, and their gradients too: one call of the fused kernel is faster than one
    for each. The kernel rounds the last few numbers of a tensor otherwise than the rest; padding keeps those from being
    a member's, whose result would then depend on its place in a pack.
    """

    def __init__(self, parameters: Mapping[str, Tensor], beta2: float) -> None:
        self._shapes = {name: parameter.shape for name, parameter in parameters.items()}
        total = sum(shape.numel() for shape in self._shapes.values())
        first = next(iter(parameters.values()))
        self._all = torch.zeros(math.ceil(total / LANES) * LANES, dtype=first.dtype, device=first.device)
        gradient = torch.zeros_like(self._all)
        parts, gradients = self._parts(self._all), self._parts(gradient)
        for name, parameter in parameters.items():
            parts[name].copy_(parameter.detach())
            parameter.data, parameter.grad = parts[name], gradients[name]
        self._all.requires_grad_().grad = gradient
        self._beta2 = beta2
        self._state: dict[str, Tensor] = {}

    def _parts(self, whole: Tensor) -> dict[str, Tensor]:
        sizes = [shape.numel() for shape in self._shapes.values()]
        parts = whole[: sum(sizes)].split(sizes)
        return {name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}

    def step(self, lr: float) -> None:
        """Update the parameters by their gradients, and set these to zero."""
        gradient = self._all.grad
        assert gradient is not None
        if not self._state:
            step = torch.zeros((), device=gradient.device)
            self._state = {"step": step, **{name: torch.zeros_like(gradient) for name in ("exp_avg", "exp_avg_sq")}}
        # the function, not torch.optim.Adam: making one imports torch's compiler, seconds in each process that trains
        with torch.no_grad():
            adam(
                [self._all],
                [gradient],
                [self._state["exp_avg"]],
                [self._state["exp_avg_sq"]],
                [],
                [self._state["step"]],
                fused=True,
                amsgrad=False,
                beta1=0.9,
                beta2=self._beta2,
                lr=lr,
                weight_decay=0,
                eps=1e-8,
                maximize=False,
            )
        gradient.zero_()

    def moments(self) -> dict[str, dict[str, Tensor]]:
        """Its moments by parameter; empty before the first step."""
        parts = {
            moment: self._parts(value) if value.dim() else {name: value.clone() for name in self._shapes}
            for moment, value in self._state.items()
        }
        return {name: {moment: of[name] for moment, of in parts.items()} for name in self._shapes} if parts else {}

    def remember(self, moments: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Go on with what another one remembered of parameters of these names and shapes."""
        state: dict[str, Tensor] = {}
        for name, found in moments.items():
            for moment, value in found.items():
                if not value.dim():
                    state[moment] = value.clone()
                    continue
                whole = state.setdefault(moment, torch.zeros_like(self._all.detach()))
                self._parts(whole)[name].copy_(value)
        self._state = state
