"""Torch's Adam over the stacked parameters of an ensemble, laid end to end; what other optimizers build on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam

from capax.specs import Training

LANES = 64
"""Numbers to a multiple of which the parameters are padded."""


def is_matrix(name: str, shape: Sequence[int]) -> bool:
    """Whether a stacked parameter `(e, ...)` is a matrix of each member, and no gain or bias (of several experts)."""
    return len(shape) > 2 and not name.endswith("bias")


class Adam:
    """Adam with PyTorch's defaults. It works element by element: each member's steps are those of an Adam of its own.

    The parameters become parts of one tensor, and their gradients too: one call of the fused kernel is faster than one
    for each. The kernel rounds the last few numbers of a tensor otherwise than the rest; padding keeps those from being
    a member's, whose result would then depend on its place in a pack.

    Args:
        parameters: tensors `(e, ...)` of the members, by name.
        gains: those that `Training.gain_lr` is for.
    """

    def __init__(self, parameters: Mapping[str, Tensor], training: Training, gains: tuple[str, ...] = ()) -> None:
        self._shapes = {name: parameter.shape for name, parameter in parameters.items()}
        total = sum(shape.numel() for shape in self._shapes.values())
        first = next(iter(parameters.values()))
        self._all = torch.zeros(math.ceil(total / LANES) * LANES, dtype=first.dtype, device=first.device)
        self._gradient = torch.zeros_like(self._all)
        parts, gradients = self.parts(self._all), self.parts(self._gradient)
        for name, parameter in parameters.items():
            parts[name].copy_(parameter.detach())
            parameter.data, parameter.grad = parts[name], gradients[name]
        self._training = training
        self._gains = gains if training.gain_lr != 1 else ()
        self._state: dict[str, Tensor] = {}

    def parts(self, whole: Tensor) -> dict[str, Tensor]:
        """A tensor's parts that belong to the parameters, each of its parameter's shape."""
        sizes = [shape.numel() for shape in self._shapes.values()]
        parts = whole[: sum(sizes)].split(sizes)
        return {name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Update the parameters by their gradients, and set these to zero."""
        if self._gains:
            change = torch.zeros_like(self._all)
            self._adam(change, self._gradient, lr)
            self._scale_gains(change)
            self._all += change
        else:
            self._adam(self._all, self._gradient, lr)
        self._gradient.zero_()

    def _scale_gains(self, change: Tensor) -> None:
        parts = self.parts(change)
        for name in self._gains:
            parts[name].mul_(self._training.gain_lr)

    def _adam(self, changed: Tensor, gradient: Tensor, lr: float) -> None:
        """Adam's step of a tensor by a gradient."""
        if not self._state:
            step = torch.zeros((), device=gradient.device)
            self._state = {"step": step, **{name: torch.zeros_like(gradient) for name in ("exp_avg", "exp_avg_sq")}}
        # the function, not torch.optim.Adam: making one imports torch's compiler, seconds in each process that trains
        adam(
            [changed],
            [gradient],
            [self._state["exp_avg"]],
            [self._state["exp_avg_sq"]],
            [],
            [self._state["step"]],
            fused=True,
            amsgrad=False,
            beta1=self._training.beta1,
            beta2=self._training.beta2,
            lr=lr,
            weight_decay=0,
            eps=1e-8,
            maximize=False,
        )

    def moments(self) -> dict[str, dict[str, Tensor]]:
        """What it remembers of each parameter, with a leading member axis; empty before the first step."""
        parts = {
            moment: self.parts(value) if value.dim() else {name: value.clone() for name in self._shapes}
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
                whole = state.setdefault(moment, torch.zeros_like(self._all))
                self.parts(whole)[name].copy_(value)
        self._state = state
