"""What a module is, found out by asking it: its outputs, its randomness, and how members are computed."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from capax.errors import SpecError, said
from capax.models.ensemble import Streams
from capax.models.factory import ModuleError, seeded
from capax.models.module import ModuleEnsemble, Modules, plain_attention, reported, stack, tensors_of
from capax.models.trials import TRIAL, TRIALS, Trial
from capax.models.vector_modules import ExampleModules, PairModules
from capax.specs.modules import TorchModel
from capax.specs.task import Purpose, Task

NAMED = 6
"""So many are named in a sentence."""
FEWER = 2
"""Members of a smaller pack, in which they should be the same to the last bit."""


@dataclass(frozen=True)
class Traits:
    """What is known of the modules of a spec.

    Attributes:
        floats_per_row: numbers in the widest activation of one sequence.
        positions: whether they give scores of every position or of the last alone.
        random: whether they draw random numbers in training.
        looks_ahead: a position (from 1) whose scores depend on a later token; None where none does.
        together: whether members are computed together, by `torch.vmap`.
        computed: how, and why, in words.
        one_start: whether two seeds give the same weights, so that restarts begin alike.
        in_common: trained weights that two seeds have in common, in words; None where all differ.
    """

    floats_per_row: int
    positions: Literal["all", "last"]
    random: bool
    looks_ahead: int | None
    together: bool
    computed: str
    one_start: bool = False
    in_common: str | None = None


def traits(spec: TorchModel, sizes: Mapping[str, int], dtype: torch.dtype = torch.float32) -> Traits:
    """Ask a few modules of a spec, once for each shape.

    Args:
        sizes: `Task.sizes` of what they are to learn.

    Raises:
        ModuleError: when a module fails, gives something else than finite scores (of tokens: of every token at every
            position or at the last), has nothing to train, draws weights or scores that its seed does not name, changes
            its buffers while it is asked, keeps something for the next call, or lets the examples of a batch reach each
            other.
    """
    return _traits(spec, tuple(sorted((name, size) for name, size in sizes.items() if name != "n_contexts")), dtype)


@functools.lru_cache(maxsize=32)
def _traits(spec: TorchModel, given: tuple[tuple[str, int], ...], dtype: torch.dtype) -> Traits:
    sizes = dict(given)

    def made(seed: int) -> nn.Module:
        module: nn.Module = spec.torch_module(sizes, seed)
        for key, tensor in tensors_of(module).items():
            if tensor.is_complex():  # `to` would drop the imaginary parts
                raise ModuleError(
                    f"module: {spec.name} keeps complex numbers in {key!r}: keep real and imaginary parts as an axis"
                )
        return module.to(dtype=dtype)

    name, trial = spec.name, TRIALS[spec.reads](spec, sizes, dtype)
    two = trial.of_one(2)
    with reported(name), seeded(0):
        module = made(0)
        _check_tensors(module, made(0), name)
        one_start, in_common = between_seeds(tensors_of(module), tensors_of(made(1)))
        before = {n: tensor.clone() for n, tensor in tensors_of(module).items()}
        written = [one._version for one in two]
        random = _draws(module.train(), two)
        scores = module(*two)
        if written != [one._version for one in two]:
            raise ModuleError(f"module: {name} writes into what it is asked (an operation in place?)")
        positions = trial.positions(scores, two)
        if not scores.requires_grad:
            raise ModuleError(f"module: {name} gives scores that have no gradient")
        scores.square().sum().backward()
        module.eval()
        with torch.no_grad():
            if _draws(module, two):
                raise ModuleError(f"module: {name} draws random numbers in eval mode, so no recall can be counted")
            counted = module(*two)
            if trial.positions(counted, two) != positions:
                shapes = f"{tuple(scores.shape)} in train mode, {tuple(counted.shape)} in eval mode"
                raise ModuleError(f"module: {name} should give scores of the same positions, got {shapes}")
            _check_rows(module, trial, two, name)
            ahead = trial.looks_ahead(module, tolerance(scores)) if positions == "all" else None
            floats = _floats_per_row(module, trial.of_one())
        after = tensors_of(module).items()
        changed = [n for n, tensor in after if n not in before or not torch.equal(tensor, before[n])]
        _check_members(spec, trial.inputs, made)
    if changed:
        raise ModuleError(f"module: {name} changes {changed[0]!r} when it is asked (batch statistics?)")
    reason = "it draws random numbers in training, each member its own" if random else ""
    reason = reason or _why_apart(spec, trial.inputs, made)
    computed = f"members one by one ({reason})" if reason else "members together (torch.vmap)"
    return Traits(floats, positions, random, ahead, not reason, computed, one_start, in_common)


class Tried(Modules):
    """Modules that were tried out before they are trained."""

    @staticmethod
    def traits_for(spec: TorchModel, task: Task, dtype: torch.dtype = torch.float32) -> Traits:
        """What is known of the modules, if they can learn a task.

        Raises:
            SpecError: when they cannot.
        """
        return traits(spec, task.sizes(), dtype)

    @classmethod
    def untrained(
        cls,
        spec: TorchModel,
        task: Task,
        streams: Streams,
        *,
        dtype: torch.dtype,
        device: torch.device | str,
        d_heads: Sequence[int] | None = None,
    ) -> Any:
        """The members of a pack before their first step."""
        found = cls.traits_for(spec, task, dtype)
        ensemble: Any = cls.initialize(
            spec,
            task.sizes(),
            generators=streams("weights"),
            together=found.together,
            dropout=streams("dropout") if found.random else [],
            dtype=dtype,
            device=device,
        )
        ensemble.notes, ensemble.one_start = (
            (*spec.remarks(**task.sizes()), f"module: {found.computed}"),
            found.one_start,
        )
        if found.in_common is not None:
            alone = "; restarts differ in their batches alone, so there is no interval" if found.one_start else ""
            ensemble.notes += (f"seeds: {found.in_common}{alone}",)
        return ensemble


class TriedModules(Tried, ModuleEnsemble):
    """Modules that read tokens."""

    @staticmethod
    def traits_for(spec: TorchModel, task: Task, dtype: torch.dtype = torch.float32) -> Traits:
        """What is known of the modules, if they can learn a task.

        Raises:
            SpecError: when the task scores positions that they do not give, or whose target they see.
        """
        found = traits(spec, task.sizes(), dtype)
        purposes: dict[str, Purpose] = {"loss": "loss", "recall": "recall"}
        for field, purpose in purposes.items():
            if task.scored(purpose) != "all":
                continue
            if found.positions == "last":
                raise SpecError(
                    f"{field}: 'last' with {spec.short_name}, which scores the last position alone, got 'all'"
                )
            if found.looks_ahead is not None:
                raise SpecError(
                    f"{field}: 'last' with {spec.short_name}, whose scores at position {found.looks_ahead} depend on "
                    f"later tokens (no causal mask?), which include their target, got 'all'"
                )
        return found


class _OfVectors(Tried):
    @staticmethod
    def traits_for(spec: TorchModel, task: Task, dtype: torch.dtype = torch.float32) -> Traits:
        """What is known of the modules, if they can learn a task.

        Raises:
            SpecError: when they draw random numbers in training.
        """
        found = traits(spec, task.sizes(), dtype)
        if found.random:
            raise SpecError(
                f"model: {spec.short_name} draws random numbers in training (dropout?), which modules of tokens alone "
                f"may, got task {task.task!r}"
            )
        return found


class TriedExamples(_OfVectors, ExampleModules):
    """Modules that read queries and contexts."""


class TriedPairs(_OfVectors, PairModules):
    """Modules that read the vectors of items."""


def between_seeds(first: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> tuple[bool, str | None]:
    """Whether two seeds give one set of weights, and what is trained and the same, in words; None where nothing is.

    What is not drawn (gains of 1, biases of 0) is the same for every seed, and frozen tensors may be.
    """
    drawn = [name for name, tensor in first.items() if varied(tensor)]
    same = [name for name in drawn if name in other and torch.equal(first[name], other[name])]
    if len(same) == len(drawn):
        return True, f"two seeds give the same weights in all {len(drawn)} tensors that are not constant"
    trained = [name for name in same if first[name].requires_grad]
    return False, f"two seeds give the same {some(trained)}" if trained else None


def varied(tensor: Tensor) -> bool:
    """Whether a tensor is constant along no axis: others are set, not drawn, as gains of 1 and Mamba's A are."""
    axes = [axis for axis, size in enumerate(tensor.shape) if size > 1]
    return bool(axes) and all(bool((tensor != tensor.narrow(axis, 0, 1)).any()) for axis in axes)


def some(values: Sequence[Any]) -> str:
    """The first few, and how many more."""
    rest = len(values) - NAMED
    return ", ".join(map(str, values[:NAMED])) + (f" and {rest} more" if rest > 0 else "")


def _check_tensors(module: nn.Module, again: nn.Module, name: str) -> None:
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ModuleError(f"module: {name} has no parameter to train")
    others = tensors_of(again)
    for key, tensor in tensors_of(module).items():
        if not torch.isfinite(tensor).all() and key in dict(module.named_parameters()):
            raise ModuleError(f"module: {name} has numbers in {key!r} that are not finite")
        if key not in others or not torch.equal(tensor, others[key]):
            raise ModuleError(f"module: {name} draws {key!r} from something else than torch's random numbers")


def _draws(module: nn.Module, inputs: tuple[Tensor, ...]) -> bool:
    """Whether the module takes random numbers to answer."""
    before = torch.get_rng_state()
    module(*inputs)
    return not torch.equal(before, torch.get_rng_state())


def tolerance(scores: Tensor) -> float:
    """Differences that rounding explains: ε^¾ of the largest score."""
    return float(torch.finfo(scores.dtype).eps ** 0.75 * _largest(scores))


def _largest(numbers: Tensor) -> float:
    """The largest absolute value; 0 of an empty tensor, such as the gradient of a layer without channels."""
    return float(numbers.abs().max()) if numbers.numel() else 0.0


def _check_rows(module: nn.Module, trial: Trial, inputs: tuple[Tensor, ...], name: str) -> None:
    first, second, again = (module(*rows)[0] for rows in (inputs, trial.with_another(inputs), inputs))
    if not torch.equal(first, again):
        raise ModuleError(f"module: {name} keeps something of one call for the next: asked again, it answers otherwise")
    difference = float((first - second).abs().max())
    if difference > tolerance(first):
        raise ModuleError(
            f"module: {name}: the scores of an example depend on the others of its batch (by {difference:.2g}; "
            f"batch_first missing?)"
        )


class _Sizes(TorchDispatchMode):
    """Notes how many numbers every operation gives."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        self.sizes += [one.numel() for one in (found if isinstance(found, tuple | list) else (found,)) if _is(one)]
        return found


def _is(value: Any) -> bool:
    return isinstance(value, Tensor)


def _floats_per_row(module: nn.Module, inputs: tuple[Tensor, ...]) -> int:
    """What one more row adds to the widest tensor of a forward pass."""
    counts, rows = [], len(inputs[0]) // 2
    for part in (tuple(one[:rows] for one in inputs), inputs):
        with plain_attention(), _Sizes() as seen:  # a fused kernel would hide what it is made of
            module(*part)
        counts.append(seen.sizes)
    half, whole = counts
    if len(half) != len(whole):  # other operations for another batch: parameters may be counted in
        return max(whole) // rows
    return max(b - a for a, b in zip(half, whole, strict=True)) // rows


def _check_members(spec: TorchModel, inputs: tuple[Tensor, ...], made: Callable[[int], nn.Module]) -> None:
    """Whether a module with another's tensors answers as that one; what it keeps of a call would reach others."""
    modules = [made(seed).eval() for seed in range(TRIAL)]
    stacked, common = stack(modules[0], modules[1:], spec)
    with torch.no_grad():
        own = torch.stack([module(*rows) for module, *rows in zip(modules, *inputs, strict=True)])
        lent = Modules(spec, stacked, made(0).eval(), together=False, common=common).asked(*inputs)
    if float((lent - own.view_as(lent)).abs().max()) > tolerance(own):
        raise ModuleError(
            f"module: {spec.name} keeps something of one call for the next, or tensors that are no buffers"
        )


def _why_apart(spec: TorchModel, inputs: tuple[Tensor, ...], made: Callable[[int], nn.Module]) -> str:
    """Why members cannot be computed together; empty where a trial went well.

    It asks that scores and gradients are those of the members computed one by one (to rounding), and that a member's do
    not depend on how many there are, from two on (bit for bit), in train and in eval mode. One by itself may be
    rounded otherwise, as of every model (`Pack`).
    """
    modules = [made(seed) for seed in range(TRIAL)]
    stacked, common = stack(modules[0], modules[1:], spec)
    trained = {n for n, parameter in modules[0].named_parameters() if parameter.requires_grad}

    def asked(members: slice, together: bool, training: bool) -> list[Tensor]:
        leaves = {n: tensor[members].clone().requires_grad_(n in trained) for n, tensor in stacked.items()}
        ensemble = Modules(spec, leaves, modules[0], together, common=common)
        scores = ensemble.asked(*(one[members] for one in inputs), training=training)
        grads = torch.autograd.grad(scores.square().sum(), list(ensemble.trainable.values()), allow_unused=True)
        return [scores.detach(), *(grad for grad in grads if grad is not None)]

    for training in (True, False):
        with reported(spec.name):
            apart = asked(slice(None), together=False, training=training)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message=".*performance drop.*")  # torch.vmap would loop, too
                joined, fewer = (asked(members, True, training) for members in (slice(None), slice(FEWER)))
        except Exception as error:  # torch.func says in many ways what it cannot do
            lacking = re.search(r"batching rule for (\S+?)\. ", str(error))
            return (
                f"torch.vmap has no rule for {lacking[1]}"
                if lacking
                else f"torch.vmap: {said(error.__context__ or error)}"
            )
        if len(joined) != len(apart):
            return "torch.vmap gives other gradients"
        for group in (slice(1), slice(1, None)):  # of gradients, some may be nothing but rounding
            allowed = max(tolerance(b) for b in apart[group])
            if any(_largest(a - b) > allowed for a, b in zip(joined[group], apart[group], strict=True)):
                return "torch.vmap gives other numbers"
        if not all(torch.equal(a[:FEWER], b) for a, b in zip(joined, fewer, strict=True)):
            return "by torch.vmap, rounding would depend on how many there are"
    return ""
