"""What every ensemble of models is: parameters with a leading member axis, and members that never mix."""

from __future__ import annotations

from typing import Generic, TypeVar

from jaxtyping import Int
from torch import Tensor

Spec = TypeVar("Spec")


class Ensemble(Generic[Spec]):
    """`n_members` models of one shape, computed together.

    Attributes:
        parameters: tensors `(e, ...)` by name; those in `trainable` require gradients.
    """

    def __init__(self, spec: Spec, parameters: dict[str, Tensor]) -> None:
        self.spec = spec
        self.parameters = parameters

    @property
    def n_members(self) -> int:
        """Members of the ensemble."""
        return next(iter(self.parameters.values())).shape[0]

    @property
    def trainable(self) -> dict[str, Tensor]:
        """The parameters that training changes."""
        return {name: p for name, p in self.parameters.items() if p.requires_grad}

    def parameter_counts(self) -> dict[str, int]:
        """Numbers per member, from the tensors: `trainable` and `total`."""
        return {
            "trainable": sum(p[0].numel() for p in self.trainable.values()),
            "total": sum(p[0].numel() for p in self.parameters.values()),
        }

    def select(self, members: Int[Tensor, " k"]) -> Ensemble[Spec]:
        """A copy of some members, detached."""
        return type(self)(self.spec, self._chosen(members))

    def _chosen(self, members: Int[Tensor, " k"]) -> dict[str, Tensor]:
        """Some members' parameters, copied and detached."""
        return {name: p.detach()[members].requires_grad_(p.requires_grad) for name, p in self.parameters.items()}

    def random_states(self) -> dict[str, Tensor]:
        """Where the members' random numbers are, by name; nothing where training draws none."""
        return {}

    def restore_random(self, states: dict[str, Tensor]) -> None:
        """Go on where `random_states` was taken."""
