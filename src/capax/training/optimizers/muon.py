"""Muon as torch has it (`torch.optim.Muon`, `adjust_lr_fn="match_rms_adamw"`), stacked over members."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from capax.specs import Training
from capax.training.optimizers.adam import Adam, is_matrix

COEFFICIENTS, ITERATIONS, LEAST_NORM = (3.4445, -4.7750, 2.0315), 5, 1e-7
"""Of the Newton-Schulz iteration; torch's defaults."""


class Muon(Adam):
    """Muon of every matrix, the last two axes of a parameter; gains and biases are Adam's.

    `beta1` is its momentum. Updates have the root mean square of Adam's, so that one learning rate suits all.
    How we differ from torch: the iteration is in the parameters' precision, not bfloat16; each head is a matrix of its
    own (one that is padded counts with its padding); there is no weight decay.
    """

    def __init__(self, parameters: Mapping[str, Tensor], training: Training, gains: tuple[str, ...] = ()) -> None:
        super().__init__(parameters, training, gains)
        self._matrices = [name for name, shape in self._shapes.items() if is_matrix(name, shape)]

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Update the parameters by their gradients, and set these to zero."""
        change = torch.zeros_like(self._all)
        self._adam(change, self._gradient, lr)
        gradients, changes = self.parts(self._gradient), self.parts(change)
        means = self.parts(self._state["exp_avg"])  # Adam's mean gradient is Muon's momentum
        for name in self._matrices:
            gradient = gradients[name]
            direction = gradient.lerp(means[name], self._training.beta1)
            ratio = 0.2 * math.sqrt(max(gradient.shape[-2:]))
            changes[name].copy_(orthogonalized(direction) * (-lr * ratio))
        self._scale_gains(change)
        self._all += change
        self._gradient.zero_()


def orthogonalized(matrices: Tensor) -> Tensor:
    """Each matrix with its singular values moved towards 1, by Newton-Schulz iterations."""
    a, b, c = COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    found = matrices.mT if tall else matrices
    found = found / found.flatten(-2).norm(dim=-1).clamp_min(LEAST_NORM)[..., None, None]
    for _ in range(ITERATIONS):
        gram = found @ found.mT
        found = a * found + (b * gram + c * gram @ gram) @ found
    return found.mT if tall else found
