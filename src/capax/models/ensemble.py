"""What every ensemble of models is: parameters with a leading member axis, and members that never mix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from capax.models.operations import sinusoids
from capax.specs.model import Constant, Drawn, Model, Normal, Parameter, Scored, Sinusoid
from capax.specs.task import Task

Spec = TypeVar("Spec")

Streams = Callable[[str], list[torch.Generator]]
"""A random stream of each member, by the stream's name."""


class Ensemble(Generic[Spec]):
    """`n_members` models of one shape, computed together.

    Attributes:
        parameters: tensors `(e, ...)` by name; those in `trainable` require gradients.
        notes: what a measurement says of how its members were made.
        one_start: whether all members begin with the same weights.
        reentrant: whether several threads may ask it at once.
        generators: of each member, what its random numbers in training come from; none where it needs none.
    """

    notes: tuple[str, ...] = ()
    one_start: bool = False
    reentrant: bool = False
    generators: Sequence[torch.Generator] = ()

    def __init__(self, spec: Spec, parameters: dict[str, Tensor]) -> None:
        self.spec = spec
        self.parameters = parameters

    @classmethod
    def initialize(
        cls,
        spec: Any,
        sizes: Mapping[str, int],
        *,
        generators: Sequence[torch.Generator],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Any:
        """Draw one member of this class per generator (on the CPU, in float32, so that devices agree).

        Args:
            sizes: `Task.sizes` of what is learned.
        """
        table = spec.parameters(**sizes)
        return cls(spec, stacked(table, [drawn(table, generator) for generator in generators], dtype, device))

    @classmethod
    def untrained(
        cls,
        spec: Spec,
        task: Task,
        streams: Streams,
        *,
        dtype: torch.dtype,
        device: torch.device | str,
        d_heads: Sequence[int] | None = None,
    ) -> Any:
        """The members of a pack before their first step.

        Args:
            streams: `weights` for the first values, `dropout` for random numbers in training.
            d_heads: each member's head size, where they differ.
        """
        made = cls.initialize(spec, task.sizes(), generators=streams("weights"), dtype=dtype, device=device)
        if isinstance(spec, Model) and spec.random:
            made.generators, made.reentrant = streams("dropout"), False
        return made

    def begin(self, library: Any, streams: Streams, d_heads: Sequence[int] | None = None) -> None:
        """Change first values that follow from what is learned; nothing where they are drawn alone.

        Args:
            library: what the members learn.
            streams, d_heads: as of `untrained`; `construction` for what is built.
        """

    @property
    def n_members(self) -> int:
        """Members of the ensemble."""
        return next(iter(self.parameters.values())).shape[0]

    @property
    def gains(self) -> tuple[str, ...]:
        """The trained parameters that set the temperature of its outputs (`Model.gains`)."""
        return self.spec.gains if isinstance(self.spec, Model) else ()

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

    def input_axis(self, name: str) -> int:
        """The axis of a matrix along which its inputs are: the last but one, as in x @ W."""
        return -2

    def select(self, members: Int[Tensor, " k"]) -> Ensemble[Spec]:
        """A copy of some members, detached; their generators go on."""
        found = type(self)(self.spec, self._chosen(members))
        found.generators = self._generators_of(members)
        return found

    def _chosen(self, members: Int[Tensor, " k"]) -> dict[str, Tensor]:
        """Some members' parameters, copied and detached."""
        return {name: p.detach()[members].requires_grad_(p.requires_grad) for name, p in self.parameters.items()}

    def _generators_of(self, members: Int[Tensor, " k"]) -> list[torch.Generator]:
        return [self.generators[member] for member in members.tolist()] if self.generators else []

    def also_measured(self, weights: Mapping[str, Tensor]) -> dict[str, float]:
        """What is measured of one member's trained weights beside what the task measures.

        Args:
            weights: as they were at its best evaluation, by name, without a member axis.
        """
        return {}

    def random_states(self) -> dict[str, Tensor]:
        """Where the members' random numbers are, by name; nothing where training draws none."""
        return {str(place): generator.get_state() for place, generator in enumerate(self.generators)}

    def restore_random(self, states: dict[str, Tensor]) -> None:
        """Go on where `random_states` was taken."""
        for place, generator in enumerate(self.generators):
            generator.set_state(states[str(place)].clone())


class TokenEnsemble(Ensemble[Spec]):
    """Models that read tokens and score the next one."""

    @property
    def readout(self) -> Float[Tensor, "e t c"]:
        """The rows that tokens are scored by, where the spec says that these are frozen."""
        return self.parameters["readout"]

    def shared(self, scored: Scored, n_sequences: int) -> dict[str, Tensor]:
        """What all sequences of a step share, computed once; differentiable in the parameters."""
        return {}

    def logits(
        self,
        tokens: Int[Tensor, "e b n"],
        scored: Scored = "all",
        shared: dict[str, Tensor] | None = None,
        training: bool = False,
    ) -> Float[Tensor, "e b p t"]:
        """Next-token scores at all positions (p = n) or at the last (p = 1).

        Args:
            tokens: the context, as many as the model was built for.
            shared: what `self.shared` gave for this state of the parameters; computed here when not given.
            training: whether it is a step of training, in which a model may draw random numbers.
        """
        raise NotImplementedError(f"{type(self).__name__}.logits")


@runtime_checkable
class ExampleReader(Protocol):
    """Ensembles that read queries and contexts (`AssociativeEnsemble` says what is given and returned)."""

    def shared(
        self, n_examples: int, context_size: int, context: Float[Tensor, "g n c"] | None = None
    ) -> dict[str, Tensor]:
        """What all examples of a step share."""

    def outputs(
        self,
        queries: Float[Tensor, "e b c"],
        contexts: Float[Tensor, "e b n c"] | None,
        shared: dict[str, Tensor],
        training: bool = False,
    ) -> Float[Tensor, "e b o"]:
        """Scores of the classes, or the numbers of a real label; `training` says whether it is a step of training."""


@runtime_checkable
class PairReader(Protocol):
    """Ensembles that read the items of a graph (`KeyQueryEnsemble` says what is given and returned)."""

    def shared(self, items: Float[Tensor, "g m c"], training: bool = False) -> dict[str, Tensor]:
        """What all sources of a step share, with the `scale` of scores `(e, 1)`."""

    def outputs(
        self, sources: Float[Tensor, "e b c"], rows: Int[Tensor, "e b"], shared: dict[str, Tensor]
    ) -> Float[Tensor, "e b m"]:
        """Scores of some sources and every item: an edge where they are above zero."""


@runtime_checkable
class ContextReader(Protocol):
    """Ensembles that read the items of contexts (`RoutingEnsemble` says what is given and returned)."""

    def shared_by_contexts(self, items: Float[Tensor, "e m c"], n_read: int) -> dict[str, Tensor]:
        """What all contexts of a step share, with the `scale` of scores `(e, 1)`."""

    def outputs_in_contexts(
        self,
        items: Float[Tensor, "e m c"],
        chosen: Int[Tensor, "e b n"],
        shared: dict[str, Tensor],
        training: bool = False,
    ) -> Float[Tensor, "e b n n"]:
        """Scores of each ordered pair of items of each context."""


def drawn(table: Iterable[Parameter], generator: torch.Generator) -> dict[str, Tensor]:
    """One member's first values, in the order of the table; constants are not rounded yet."""
    tensors: dict[str, Any] = {}
    for name, shape, first, _ in table:
        if isinstance(first, Constant):
            tensors[name] = torch.full(shape, first.value, dtype=torch.float64)
        elif isinstance(first, Normal):
            tensors[name] = torch.empty(shape).normal_(0, first.std, generator=generator)
        elif isinstance(first, Sinusoid):
            tensors[name] = sinusoids(shape[0], shape[1], torch.float64, torch.device("cpu"))
        elif isinstance(first, Drawn):
            raise TypeError(f"{name}: its first values come from the code which builds the model")
        else:
            tensors[name] = torch.empty(shape).uniform_(-first.bound, first.bound, generator=generator)
            if first.divided_by != 1:
                tensors[name] /= first.divided_by
    return tensors


def stacked(
    table: Iterable[Parameter], members: list[dict[str, Tensor]], dtype: torch.dtype, device: torch.device | str
) -> dict[str, Tensor]:
    """The members' tensors with a leading member axis; those that are trained require gradients."""
    return {
        one.name: torch.stack([member[one.name] for member in members]).to(device, dtype).requires_grad_(one.trained)
        for one in table
    }
