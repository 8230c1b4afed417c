"""An ensemble that learns: batches, one step of every member, evaluation, and members that leave."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from capax import devices
from capax.models.ensemble import Ensemble
from capax.specs import Training
from capax.tasks.library import Evaluation, Library, Purpose
from capax.training.batches import BatchOrder
from capax.training.optimizers import Adam, optimizer
from capax.training.stopping import Information
from capax.training.subnormal import flushing

Found = TypeVar("Found")

CACHE_FLOATS = 2**20
"""Numbers in the widest activation of a micro-batch on a CPU: 4 MB (measured: see benchmarks)."""
GPU_FLOATS = 2**28
"""Numbers in a pack's widest activation on a GPU, in a step and in an evaluation: 1 GB."""

KEPT_BYTES = 2**25 - 2**16
"""A block that is taken and freed once: glibc then keeps up to twice as much freed memory instead of handing it back,
which costs page faults (10 to 15 % of an all-position step in a process of its own); 32 MB is the most it heeds."""


AtOnce = Callable[[], int]
"""How many micro-batches may be computed at once."""


def one() -> int:
    """One at a time."""
    return 1


class Learner:
    """Members of one shape, their libraries and one optimizer over the stacked parameters.

    Members never mix: the loss that is differentiated is the sum over members, and each parameter belongs to one.

    Args:
        floats_per_row: numbers in the widest activation of a row, which micro-batches are sized by.
        at_once: how many micro-batches are computed at once where they can be, asked before each pass over them; it
            changes no bit.
    """

    def __init__(
        self,
        ensemble: Ensemble[Any],
        library: Library[Any],
        training: Training,
        order: BatchOrder,
        floats_per_row: dict[Purpose, int],
        at_once: AtOnce = one,
    ) -> None:
        self.ensemble, self.library, self.training, self.order = ensemble, library, training, order
        self.floats_per_row = floats_per_row
        self._at_once = at_once if ensemble.reentrant and not training.compile else one
        self.device = order.device
        self.notes: list[str] = []
        self._optimizer = self._new_optimizer()
        self._losses: Callable[..., Float[Tensor, " e"]] = _losses
        self._compile_next = training.compile
        torch.empty(KEPT_BYTES, dtype=torch.uint8)

    def _new_optimizer(self) -> Adam:
        return optimizer(self.ensemble.trainable, self.training, self.ensemble.gains)

    @flushing
    def step(self, lr: float | None = None) -> tuple[Float[Tensor, " e"], list[int]]:
        """One batch and one update of every member.

        Args:
            lr: the learning rate; the training's own when not given.

        Returns:
            The losses before the update, and the members whose epoch ended.
        """
        rows, weight, ended = self.order.next()
        with devices.multiplying(self.training.precision):
            losses = self._differentiate(rows, weight)
        self._optimizer.step(self.training.lr if lr is None else lr)
        return losses, ended

    def _differentiate(self, rows: Int[Tensor, "e b"], weight: Float[Tensor, "e b"]) -> Float[Tensor, " e"]:
        """A batch's losses; each parameter's gradient is added to it."""
        shared = self.library.shared(self.ensemble, "loss", rows.shape[1])
        # Micro-batches differentiate to detached copies of what they share; its own graph is walked once, at the end.
        leaves = {name: tensor.detach().requires_grad_(tensor.requires_grad) for name, tensor in shared.items()}
        asked = [*self.ensemble.trainable.values(), *(leaf for leaf in leaves.values() if leaf.requires_grad)]
        losses = torch.zeros_like(weight[:, 0])
        pieces = self._pieces("loss", rows.shape[1])
        micro = partial(self._gradients, leaves, asked)
        # in order, whichever ends first: sums are the same to the last bit
        for part_losses, parts in self._mapped(micro, rows.chunk(pieces, 1), weight.chunk(pieces, 1)):
            losses = losses + part_losses
            for tensor, part in zip(asked, parts, strict=True):
                if part is not None:  # it may be one number, expanded
                    tensor.grad = part.clone() if tensor.grad is None else tensor.grad.add_(part)
        gradients = {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
        if gradients:
            carrier: Any = _Given.apply(  # type: ignore[no-untyped-call]
                tuple(gradients.values()), *(shared[name] for name in gradients)
            )
            carrier.backward()
        return losses

    @flushing
    def evaluate(self, members: list[int]) -> list[Evaluation]:
        """How many items of their whole library some members recall, and what else the task measures."""
        everyone = members == list(range(self.ensemble.n_members))
        ensemble = self.ensemble if everyone else self.ensemble.select(torch.tensor(members, device=self.device))
        library = self.library if everyone else self.library.select(members)
        counts = torch.zeros(len(members), dtype=torch.long, device=self.device)
        metrics: dict[str, list[Tensor]] = {}
        for part_counts, parts in self._of_parts(ensemble, library, "recall", _counted):
            counts += part_counts
            for name, values in parts.items():
                metrics.setdefault(name, []).append(values)
        whole = {name: torch.cat(parts, 1) for name, parts in metrics.items()}
        return [
            library.evaluation(place, count, {name: values[place, :size] for name, values in whole.items()})
            for place, (count, size) in enumerate(zip(counts.tolist(), library.row_counts, strict=True))
        ]

    @flushing
    def information(
        self, members: Sequence[int], weights: Sequence[dict[str, Tensor]] = ()
    ) -> list[Information | None]:
        """What some members know about their libraries, with the given trained weights or with those that they have.

        An item's information is what its cross-entropy is below that of a uniform guess. Only for libraries that have
        `uniform_nats`. None for a member that gives an item no finite cross-entropy, as one that diverges may.
        """
        ensemble = self.ensemble.select(torch.tensor(members, device=self.device))
        library = self.library.select(list(members))
        if weights:
            ensemble.parameters |= {name: torch.stack([kept[name] for kept in weights]) for name in weights[0]}
        gained, recalled = zip(*self._of_parts(ensemble, library, "information", _known), strict=True)
        bits, right = torch.cat(gained, 1), [part for part in recalled if part is not None]
        sums = zip(bits.clamp_min(0).sum(1).tolist(), bits.sum(1).tolist(), strict=True)
        rows = [""] * len(bits)
        if right:
            rows = [np.packbits(row).tobytes().hex() for row in torch.cat(right, 1).cpu().numpy()]
        return [
            Information(clipped, signed, row) if math.isfinite(signed) else None
            for (clipped, signed), row in zip(sums, rows, strict=True)
        ]

    def _of_parts(
        self,
        ensemble: Ensemble[Any],
        library: Library[Any],
        purpose: Purpose,
        found: Callable[[Library[Any], Tensor, Any, Bool[Tensor, "e b"]], Found],
    ) -> Iterator[Found]:
        """What is found in an ensemble's outputs for its whole libraries, part by part, in order.

        Args:
            found: called with the library, the outputs of a part, its batch, and which of its rows are real.
        """
        rows = torch.arange(library.rows, device=self.device).expand(ensemble.n_members, -1)
        real = rows < torch.tensor(library.row_counts, device=self.device)[:, None]
        with torch.no_grad():
            shared = library.shared(ensemble, purpose, library.rows)
        pieces = self._pieces(purpose, library.rows)
        of_part = partial(_of_part, ensemble, library, purpose, shared, found)
        return iter(self._mapped(of_part, rows.chunk(pieces, 1), real.chunk(pieces, 1)))

    def keep(self, members: list[int]) -> None:
        """Keep some members only; their parameters and the optimizer's moments do not change."""
        chosen = torch.tensor(members, device=self.device)
        moments = {
            name: {moment: value[chosen] if value.dim() else value for moment, value in found.items()}
            for name, found in self._optimizer.moments().items()
        }
        self.ensemble = self.ensemble.select(chosen)
        self.library = self.library.select(members)
        self.order.keep(members)
        self._optimizer = self._new_optimizer()
        self._optimizer.remember(moments)

    def tensors(self) -> dict[str, Tensor]:
        """All that the next step depends on: parameters, the optimizer's moments, batch order, random states."""
        tensors = self.order.tensors()
        tensors |= {f"random/{name}": state for name, state in self.ensemble.random_states().items()}
        moments = self._optimizer.moments()
        for name, parameter in self.ensemble.trainable.items():
            tensors[f"parameters/{name}"] = parameter
            for moment, value in moments.get(name, {}).items():
                tensors[f"optimizer/{name}/{moment}"] = value
        return tensors

    def restore(self, members: list[int], tensors: dict[str, Tensor], counters: dict[str, list[int]]) -> None:
        """Go on with some members of a learner not yet begun, where `tensors` were taken from one of the same pack."""
        self.keep(members)
        self.order.restore(tensors, counters)
        self.ensemble.restore_random(_below("random/", tensors))
        moments = {}
        for name, parameter in self.ensemble.trainable.items():
            with torch.no_grad():
                parameter.copy_(tensors[f"parameters/{name}"])
            found = _below(f"optimizer/{name}/", tensors)
            moments[name] = {moment: value.to(self.device) for moment, value in found.items()}
        self._optimizer.remember(moments)

    def _gradients(
        self,
        shared: dict[str, Tensor],
        asked: list[Tensor],
        rows: Int[Tensor, "e b"],
        weight: Float[Tensor, "e b"],
    ) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        """A micro-batch's losses, and the gradients of some tensors."""
        losses = self._micro_losses(shared, rows, weight)
        return losses.detach(), torch.autograd.grad(losses.sum(), asked, allow_unused=True)

    def _micro_losses(
        self, shared: dict[str, Tensor], rows: Int[Tensor, "e b"], weight: Float[Tensor, "e b"]
    ) -> Float[Tensor, " e"]:
        """The plain or the compiled losses; without a working compiler the first call notes that and falls back."""
        batch, half = self.library.batch(rows), self.training.precision == "bfloat16"
        if self._compile_next:
            self._compile_next = False
            compiled = torch.compile(_losses)
            try:
                compiled(self.ensemble, self.library, shared, batch, weight, half)
            except Exception as error:  # the compiler's failures share no base; a mistake of ours fails again below
                self.notes.append(
                    f"compile: not available here, trained uncompiled ({str(error).splitlines()[0]:.160})"
                )
            else:
                self._losses = compiled
        return self._losses(self.ensemble, self.library, shared, batch, weight, half)

    def _mapped(self, work: Callable[..., Found], *parts: Iterable[Any]) -> Iterable[Found]:
        """What some work finds in each of some parts, in order, on as many threads as there are for it now."""
        count = self._at_once()
        return _threads(count).map(work, *parts) if count > 1 else map(work, *parts)

    def _pieces(self, purpose: Purpose, n_rows: int) -> int:
        """Into how many micro-batches a batch is cut. It depends on the shape alone, so a pack changes no rounding."""
        if torch.device(self.device).type != "cpu":  # a step's rows are few enough for the pack, a library's may not be
            every = n_rows * self.floats_per_row[purpose] * len(self.library.sizes)
            return 1 if purpose == "loss" else math.ceil(every / GPU_FLOATS)
        return math.ceil(n_rows * self.floats_per_row[purpose] / CACHE_FLOATS)


@torch.no_grad()  # which holds for one thread
def _of_part(
    ensemble: Ensemble[Any],
    library: Library[Any],
    purpose: Purpose,
    shared: dict[str, Tensor],
    found: Callable[[Library[Any], Tensor, Any, Bool[Tensor, "e b"]], Found],
    rows: Int[Tensor, "e b"],
    real: Bool[Tensor, "e b"],
) -> Found:
    """What is found in an ensemble's outputs for some rows."""
    batch = library.batch(rows)
    return found(library, library.outputs(ensemble, batch, purpose, shared), batch, real)


def _counted(
    library: Library[Any], outputs: Tensor, batch: Any, real: Bool[Tensor, "e b"]
) -> tuple[Tensor, dict[str, Tensor]]:
    """How many rows each member recalls, and what else the task measures of each."""
    return (library.recalled(outputs, batch) * real).sum(1), library.row_metrics(outputs, batch)


def _known(
    library: Library[Any], outputs: Tensor, batch: Any, real: Bool[Tensor, "e b"]
) -> tuple[Tensor, Tensor | None]:
    """What is known of each row, and which ones are recalled, where recall is broken down."""
    bits = library.known_bits(outputs, batch) * real
    return bits, library.recalled(outputs, batch) & real if library.breaks_down else None


@cache
def _threads(number: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(number, "micro-batch", _alone)


def _alone() -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


class _Given(torch.autograd.Function):
    """A number whose gradients are given; `torch.autograd.backward` would import sympy for it, half a second."""

    @staticmethod
    def forward(ctx: Any, gradients: tuple[Tensor, ...], *tensors: Tensor) -> Tensor:
        """Zero."""
        ctx.gradients = gradients
        return tensors[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the tensors."""
        return None, *ctx.gradients


def _below(start: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin so, by the rest of their names."""
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def _losses(
    ensemble: Ensemble[Any],
    library: Library[Any],
    shared: dict[str, Tensor],
    batch: Any,
    weight: Float[Tensor, "e b"],
    half: bool,
) -> Float[Tensor, " e"]:
    with torch.autocast(weight.device.type, torch.bfloat16, enabled=half):
        outputs = library.outputs(ensemble, batch, "loss", shared)
    return library.losses(outputs.to(weight.dtype), batch, weight)
