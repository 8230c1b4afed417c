"""An ensemble of modules: their tensors stacked, computed together where torch.func allows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from capax.errors import CapaxError, said
from capax.models.ensemble import Ensemble, TokenEnsemble
from capax.models.factory import ModuleError, seeded
from capax.specs.model import Scored
from capax.specs.modules import TorchModel

MEMORY = "can't allocate memory"
"""In torch's message where a CPU has no memory left; there is no class for it."""


class Modules(Ensemble[TorchModel]):
    """`n_members` modules of one spec, whatever they are asked.

    Their parameters and buffers are stacked, those with `requires_grad=False` and the buffers stay as they are. Where
    the spec says that members share what is not trained (`shares_frozen`), that is there once. Modules that are random
    in training (dropout) draw from a generator of each member's own.

    Args:
        parameters: tensors `(e, ...)` by the module's names for them.
        common: tensors that all members share, without a member axis.
        template: a module whose tensors are replaced by a member's when it is called.
        together: whether the members are computed together, by `torch.vmap`, or one after another.
        generators: what each member's random numbers in training come from; none where it needs none.
    """

    def __init__(
        self,
        spec: TorchModel,
        parameters: dict[str, Tensor],
        template: nn.Module,
        together: bool,
        generators: Sequence[torch.Generator] = (),
        common: Mapping[str, Tensor] | None = None,
    ) -> None:
        super().__init__(spec, parameters)
        self.template, self.together, self.generators = template, together, list(generators)
        self.common = dict(common or {})
        self._buffers = {name for name, _ in template.named_buffers()}

    @classmethod
    def initialize(
        cls,
        spec: TorchModel,
        sizes: Mapping[str, int],
        *,
        generators: Sequence[torch.Generator],
        together: bool = False,
        dropout: Sequence[torch.Generator] = (),
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Any:
        """One module per generator, whose seed is that of its random numbers.

        Args:
            sizes: `Task.sizes` of what is learned.
            together: whether members are computed together.
            dropout: what the members' random numbers in training come from, where they need any.
            dtype: to which floating-point tensors are converted.

        Raises:
            ModuleError: when a module cannot be made, or they have different tensors.
        """
        seeds = (generator.initial_seed() for generator in generators)
        template = spec.torch_module(sizes, next(seeds)).to(dtype=dtype)
        others = (spec.torch_module(sizes, seed).to(dtype=dtype) for seed in seeds)
        stacked, common = stack(template, others, spec)
        trained = {name for name, parameter in template.named_parameters() if parameter.requires_grad}
        parameters = {name: found.to(device).requires_grad_(name in trained) for name, found in stacked.items()}
        template = template.to(device)
        shared = {name: tensor.detach() for name, tensor in tensors_of(template).items() if name in common}
        return cls(spec, parameters, template, together, dropout, shared)

    def parameter_counts(self) -> dict[str, int]:
        """Numbers per member, from the tensors: `trainable` and `total`; buffers are no parameters."""
        members = {name: p[0] for name, p in self.parameters.items()}
        sizes = {name: p.numel() for name, p in {**members, **self.common}.items() if name not in self._buffers}
        return {"trainable": sum(sizes[name] for name in self.trainable), "total": sum(sizes.values())}

    def input_axis(self, name: str) -> int:
        """The last, as torch multiplies by the transpose of weights; GPT-2's own layers and some experts do not."""
        layer, _, last = name.rpartition(".")
        module = self.template.get_submodule(layer)
        experts = getattr(module, "is_transposed", False) and self.parameters[name].dim() == EXPERTS_DIM
        return -2 if experts or (last == "weight" and inputs_first(module)) else -1

    def select(self, members: Int[Tensor, " k"]) -> Any:
        """A copy of some members, detached; their generators go on."""
        generators = self._generators_of(members)
        return type(self)(self.spec, self._chosen(members), self.template, self.together, generators, self.common)

    def asked(self, *inputs: Tensor, training: bool = False) -> Tensor:
        """What each member's module gives for its rows of the inputs `(e, b, ...)`.

        Args:
            training: whether the modules are in train mode (dropout on).

        Raises:
            ModuleError: when the module fails, or gives scores of more or fewer examples.
        """
        if self.template.training != training:
            self.template.train(training)
        with reported(self.spec.name):
            given = self._together(inputs) if self.together else self._one_by_one(inputs, training)
        if given.shape[:2] != (rows := inputs[0].shape[:2]):
            raise ModuleError(f"module: {self.spec.name} gives scores of {given.shape[1]} examples, of {rows[1]} asked")
        return given

    def _together(self, inputs: tuple[Tensor, ...]) -> Tensor:
        def one(parameters: dict[str, Tensor], *rows: Tensor) -> Tensor:
            return functional_call(self.template, (parameters, self.common), rows)

        with plain_attention():
            return torch.vmap(one)(self.parameters, *inputs)

    def _one_by_one(self, inputs: tuple[Tensor, ...], training: bool) -> Tensor:
        names, parts = list(self.parameters), zip(*(p.unbind(0) for p in self.parameters.values()), strict=True)
        given = []
        for place, (member, *rows) in enumerate(zip(parts, *inputs, strict=True)):
            tensors = dict(zip(names, member, strict=True)) | self.common
            if training and self.generators:
                with seeded(int(torch.randint(2**62, (), generator=self.generators[place]))):
                    given.append(functional_call(self.template, tensors, tuple(rows)))
            else:
                given.append(functional_call(self.template, tensors, tuple(rows)))
        return torch.stack(given)


class ModuleEnsemble(Modules, TokenEnsemble[TorchModel]):
    """Modules that read tokens."""

    def logits(
        self,
        tokens: Int[Tensor, "e b n"],
        scored: Scored = "all",
        shared: dict[str, Tensor] | None = None,
        training: bool = False,
    ) -> Float[Tensor, "e b p t"]:
        """Next-token scores at all positions (p = n) or at the last (p = 1).

        Args:
            training: whether the modules are in train mode (dropout on).

        Raises:
            ModuleError: when the module fails.
        """
        scores = self.asked(tokens, training=training)
        if scores.dim() == 3:  # those of the last position
            return scores[:, :, None]
        return scores[:, :, -1:] if scored == "last" else scores


def stack(
    first: nn.Module, others: Iterable[nn.Module], spec: TorchModel
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors of modules with a leading member axis, and those that all share, by name.

    Args:
        others: further members, of which nothing that is shared is kept.

    Raises:
        ModuleError: when they have different tensors, or differ in what should be shared.
    """
    tensors = tensors_of(first)
    trained = {name for name, parameter in first.named_parameters() if parameter.requires_grad}
    own = [name for name in tensors if name in trained or not spec.shares_frozen]
    common = {name: tensor.detach() for name, tensor in tensors.items() if name not in own}
    members = {name: [tensors[name].detach()] for name in own}
    for other in others:
        found = tensors_of(other)
        if [(name, tensor.shape) for name, tensor in found.items()] != [(n, t.shape) for n, t in tensors.items()]:
            raise ModuleError(f"module: {spec.name} gives modules of different shapes")
        for name, tensor in common.items():
            if not torch.equal(found[name], tensor):
                raise ModuleError(f"module: {spec.name} gives members of which {name!r}, which is frozen, differs")
        for name in own:
            members[name].append(found[name].detach())
    return {name: torch.stack(parts) for name, parts in members.items()}, common


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """A module's parameters and buffers by name, each once."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


@contextmanager
def plain_attention() -> Iterator[None]:
    """Torch's attention as the operations that it is made of: its fused kernels have no rule for `vmap`."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@contextmanager
def reported(name: str) -> Iterator[None]:
    """What the user's module raises, as one line; a lack of memory stays what it is."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, torch.OutOfMemoryError | MemoryError | CapaxError) or MEMORY in str(error):
            raise
        raise ModuleError(f"module: {name} failed when it was asked ({said(error)})") from None


EXPERTS_DIM = 4
"""Axes of the weights of members' experts: member, expert, inputs and outputs."""


def inputs_first(layer: nn.Module) -> bool:
    """Whether a layer is GPT-2's own linear one, which keeps its weights as (inputs, outputs)."""
    return type(layer).__name__ == "Conv1D"
