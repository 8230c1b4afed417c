"""Optimizers of an ensemble's stacked parameters."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from capax.specs import Training
from capax.training.optimizers.adam import Adam as Adam
from capax.training.optimizers.muon import Muon
from capax.training.optimizers.soap import Soap

OPTIMIZERS: dict[str, type[Adam]] = {"adam": Adam, "soap": Soap, "muon": Muon}


def optimizer(parameters: Mapping[str, Tensor], training: Training, gains: tuple[str, ...] = ()) -> Adam:
    """The optimizer that a training names.

    Args:
        parameters: tensors `(e, ...)` of the members, by name; they become parts of one tensor.
        gains: those whose learning rate is `Training.gain_lr` times that of the others.
    """
    return OPTIMIZERS[training.optimizer](parameters, training, gains)
