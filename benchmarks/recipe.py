"""Whether another training finds more bits, or as many sooner, than the recipe of protocol `capacity`. By name only.

`python -m benchmarks.recipe [VARIANT ...]`: each variant changes one thing of the recipe, on cells that the search
for it did not see. Bits as Morris et al. count them at the ends of cycles, mean of two restarts, and the CPU seconds of
a restart until then (one thread, evaluations off the clock).
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.func import jvp, vjp

from capax.specs import Capacity, Sequences, Training, Transformer
from capax.specs.protocols import CYCLES, RECIPE
from capax.tasks.sequences import SequenceLibrary
from capax.testing.trained import pack
from capax.training.ensemble import _known
from capax.training.prepare import prepare

RESTARTS, N_CYCLES = 2, 4
CELLS = {
    "2 layers of width 12": (Sequences(seq_len=8, vocab_size=100), Transformer(n_layers=2, d_model=12, d_head=12)),
    "width 24, 2 heads of 64": (Sequences(seq_len=16, vocab_size=100), Transformer(n_heads=2, d_model=24)),
    "width 32, 4 heads of 8, all trained": (
        Sequences(seq_len=16, vocab_size=64),
        Transformer(n_heads=4, d_model=32, d_head=8, embeddings="trained", readout="tied"),
    ),
    "4 layers of width 16, 4 heads of 4": (
        Sequences(seq_len=16, vocab_size=256),
        Transformer(n_layers=4, n_heads=4, d_model=16, d_head=4),
    ),
    "width 16, all trained": (
        Sequences(seq_len=16, vocab_size=32),
        Transformer(n_heads=1, d_model=16, d_head=16, embeddings="trained", readout="tied"),
    ),
    "2 layers of width 16, 2 heads of 8, all trained": (
        Sequences(seq_len=8, vocab_size=128),
        Transformer(n_layers=2, n_heads=2, d_model=16, d_head=8, embeddings="trained", readout="tied"),
    ),
    "width 24, 2 heads of 12, all trained": (
        Sequences(seq_len=32, vocab_size=256),
        Transformer(n_heads=2, d_model=24, d_head=12, embeddings="trained", readout="tied"),
    ),
    "width 64": (Sequences(seq_len=16, vocab_size=256), Transformer(n_heads=1, d_model=64)),
}


class Course:
    """Restarts of a cell, trained cycle by cycle as the recipe has it.

    Args:
        parts: batches of an epoch.
        epochs: of the first cycle.
        training: other fields of the training.
    """

    def __init__(self, task: Sequences, model: Transformer, parts: int = 1, epochs: int = 100, **training: Any) -> None:
        size = Capacity().usual_library(task, model)
        assert size is not None
        self.task, self.size = task.replace(library_size=size), size
        batches = {"batch_size": math.ceil(size / parts), "cycle_steps": parts * epochs}
        self.training = Training(**CYCLES | RECIPE | batches | training)
        self.learner = prepare(pack(self.task, model, self.training, range(RESTARTS), one_library=True))
        self.seconds, self.steps, self.done = 0.0, 0, 0

    def cycle(self) -> list[float]:
        """Train for the next cycle; what each restart knows then."""
        assert self.training.cycle_steps is not None
        started = time.process_time()
        self.begin()
        for _ in range(self.training.cycle_steps * 2**self.done):
            self.step(self.training.lr_at(self.steps, None))
            self.steps += 1
        self.seconds += time.process_time() - started
        self.done += 1
        return self.known()

    def begin(self) -> None:
        """What is done before a cycle."""

    def step(self, lr: float) -> None:
        """One step."""
        self.learner.step(lr)

    def known(self) -> list[float]:
        """Bits that each restart knows."""
        found = self.learner.information(range(RESTARTS))
        return [math.nan if each is None else each.clipped for each in found]

    def only(self, rows: Tensor) -> None:
        """Go on with some rows `(e, k)` of each restart's library alone."""
        self.learner.order._whole = (rows, torch.full(rows.shape, 1 / rows.shape[1]))


class Scaled(Course):
    """Learning rates of hidden matrices fall with the width as a power, from width 16 on (muP: in proportion).

    Yang et al. 2022, for Adam: of matrices whose both sides grow. Inputs and read-out are frozen, or stay as they are.
    """

    def __init__(self, task: Sequences, model: Transformer, power: float, **training: Any) -> None:
        super().__init__(task, model, **training)
        self._factor = (16 / model.d_model) ** power

    def step(self, lr: float) -> None:
        """One step, of which matrices take a part."""
        trained = {name: p for name, p in self.learner.ensemble.trainable.items() if _hidden(name, p)}
        before = {name: p.detach().clone() for name, p in trained.items()}
        self.learner.step(lr)
        with torch.no_grad():
            for name, p in trained.items():
                p.copy_(before[name].lerp(p, self._factor))


def _hidden(name: str, parameter: Tensor) -> bool:
    return name.startswith("layers.") and parameter.dim() > 2


class Averaged(Course):
    """One rate to the end of a cycle, and the mean of the weights over its last part (Izmailov et al. 2018).

    Training goes on from where it was, or from the mean.
    """

    def __init__(self, task: Sequences, model: Transformer, last: float, from_mean: bool, **training: Any) -> None:
        super().__init__(task, model, **training)
        self._last, self._from_mean = last, from_mean
        self._mean: dict[str, Tensor] = {}
        self._count = 0

    def begin(self) -> None:
        """Forget the mean before."""
        if self.done and self._from_mean:
            with torch.no_grad():
                for name, mean in self._mean.items():
                    self.learner.ensemble.trainable[name].copy_(mean)
        self._mean.clear()
        self._count = 0

    def step(self, lr: float) -> None:
        """A step at the cycle's rate, but for its warm-up."""
        first, length = self.training.cycle(self.steps)
        rising = self.steps - first < self.training.warmup * length
        highest = self.training.lr * self.training.cycle_decay**self.done
        self.learner.step(lr if rising else highest)
        if self.steps - first >= (1 - self._last) * length:
            self._count += 1
            for name, p in self.learner.ensemble.trainable.items():
                mean = self._mean.setdefault(name, torch.zeros_like(p))
                mean.lerp_(p.detach(), 1 / self._count)

    def known(self) -> list[float]:
        """Bits that the means know."""
        weights = [{name: mean[member] for name, mean in self._mean.items()} for member in range(RESTARTS)]
        found = self.learner.information(range(RESTARTS), weights)
        return [math.nan if each is None else each.clipped for each in found]


class Staged(Course):
    """Batches of a part of the library in the first cycles, of all of it later; as many epochs as the recipe has."""

    def __init__(self, task: Sequences, model: Transformer, stages: tuple[int, ...], **training: Any) -> None:
        super().__init__(task, model, **training)
        self._stages = stages

    def cycle(self) -> list[float]:
        """Train for the next cycle."""
        assert self.training.cycle_steps is not None
        parts = self._stages[self.done] if self.done < len(self._stages) else 1
        order = self.learner.order
        order.batch_size = math.ceil(self.size / parts)
        order._orders = [order._shuffled(member) for member in range(RESTARTS)]
        started = time.process_time()
        for _ in range(self.training.cycle_steps * 2**self.done):
            for _ in range(parts):
                self.learner.step(self.training.lr_at(self.steps, None))
            self.steps += 1
        self.seconds += time.process_time() - started
        self.done += 1
        return self.known()


class Growing(Course):
    """The first cycles see a part of the library."""

    def __init__(self, task: Sequences, model: Transformer, shares: tuple[float, ...], **training: Any) -> None:
        super().__init__(task, model, **training)
        self._shares = shares

    def begin(self) -> None:
        """The part that is its cycle's."""
        share = self._shares[self.done] if self.done < len(self._shares) else 1
        self.only(torch.arange(round(share * self.size)).expand(RESTARTS, -1))


class Dropping(Course):
    """After some cycles the items of which least is known are left out, so many that the rest can be held.

    Which ones were left out has to be told to whoever decodes the rest: log2 of the number of such choices.
    """

    def __init__(
        self, task: Sequences, model: Transformer, after: int, room: float, counted: bool, **training: Any
    ) -> None:
        super().__init__(task, model, **training)
        self._after, self._room, self._counted, self._kept = after, room, counted, self.size

    def _bits(self) -> Tensor:
        learner = self.learner
        parts = learner._of_parts(learner.ensemble, learner.library, "information", _known)
        return torch.cat([bits for bits, _ in parts], 1)

    def begin(self) -> None:
        """Keep as many items as have `room` times the bits that are known."""
        if self.done != self._after:
            return
        bits = self._bits()
        known = bits.clamp_min(0).sum(1).mean().item()
        self._kept = min(round(self._room * known / self.task.information_per_item()), self.size)
        self.only(bits.topk(self._kept, 1).indices.sort(1).values)

    def known(self) -> list[float]:
        """Bits known, less those of the choice where it is counted."""
        n, k = self.size, self._kept
        choice = (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2)
        return [bits - (choice if self._counted else 0) for bits in super().known()]


class GaussNewton(Course):
    """From some cycle on Levenberg-Marquardt steps: the Gauss-Newton matrix, damped, by conjugate gradients.

    Martens 2010; one restart at a time. It takes as many steps as cost what the recipe's cycles would, by evaluations:
    a product with the matrix counts as three of a gradient.
    """

    def __init__(self, task: Sequences, model: Transformer, after: int, products: int, **training: Any) -> None:
        super().__init__(task, model, **training)
        self._after, self._products, self._damping = after, products, [1e-4] * RESTARTS
        ensemble = self.learner.ensemble
        assert isinstance(self.learner.library, SequenceLibrary)
        self._tokens = self.learner.library.tokens
        self._names = list(ensemble.trainable)
        self._shapes = [ensemble.trainable[name].shape[1:] for name in self._names]

    def cycle(self) -> list[float]:
        """The recipe's cycle, or steps of as many evaluations."""
        if self.done < self._after:
            return super().cycle()
        assert self.training.cycle_steps is not None
        evaluations, started = self.training.cycle_steps * 2**self.done, time.process_time()
        for _ in range(max(round(evaluations / (3 * self._products + 2)), 1)):
            for member in range(RESTARTS):
                self._newton(member)
        self.seconds += time.process_time() - started
        self.done += 1
        return self.known()

    def _newton(self, member: int) -> None:
        ensemble, library = self.learner.ensemble, self.learner.library
        one = ensemble.select(torch.tensor([member]))
        part = library.select([member])
        batch = part.batch(torch.arange(library.rows)[None])
        sizes = [shape.numel() for shape in self._shapes]
        targets = self._tokens[0][:, 1:].flatten()

        def logits(flat: Tensor) -> Tensor:
            parts = flat.split(sizes)
            one.parameters |= {
                name: p.view(1, *shape) for name, p, shape in zip(self._names, parts, self._shapes, strict=True)
            }
            return part.outputs(one, batch, "loss", part.shared(one, "loss", part.rows)).reshape(
                -1, self.task.vocab_size
            )

        def loss(scores: Tensor) -> Tensor:
            return torch.nn.functional.cross_entropy(scores, targets)

        flat = torch.cat([ensemble.trainable[name][member].detach().flatten() for name in self._names])
        scores, back, *_ = vjp(logits, flat)
        likely = scores.softmax(-1)
        now = loss(scores).item()
        wrong = likely.clone()
        wrong[torch.arange(len(targets)), targets] -= 1
        gradient = back(wrong / len(targets))[0]

        def product(v: Tensor) -> Tensor:
            turned = jvp(logits, (flat,), (v,))[1]
            weighed = likely * (turned - (likely * turned).sum(-1, keepdim=True)) / len(targets)
            return back(weighed)[0] + self._damping[member] * v

        step = torch.zeros_like(flat)
        rest, direction = -gradient, -gradient
        size = rest @ rest
        for _ in range(self._products):
            turned = product(direction)
            along = size / (direction @ turned)
            step, rest = step + along * direction, rest - along * turned
            new = rest @ rest
            if new < 1e-8 * (gradient @ gradient):
                break
            direction, size = rest + new / size * direction, new
        with torch.no_grad():
            promised = -(gradient @ step + (step @ (product(step) - self._damping[member] * step)) / 2).item()
            for share in (1.0, 0.5, 0.25, 0.125):
                after = loss(logits(flat + share * step)).item()
                if after < now:
                    break
            held = (now - after) / promised if promised > 0 else 0.0
            self._damping[member] *= 2 / 3 if held > 0.75 else 1.5 if held < 0.25 else 1.0
            if after < now:
                for name, p, shape in zip(self._names, (share * step).split(sizes), self._shapes, strict=True):
                    ensemble.trainable[name].data[member] += p.view(shape)


VARIANTS: dict[str, Callable[..., Course]] = {
    "the recipe": Course,
    "batches of half the library": partial(Course, parts=2),
    "batches of a quarter": partial(Course, parts=4),
    "batches of a quarter, half the epochs": partial(Course, parts=4, epochs=50),
    "batches of a quarter, half the epochs, rate 0.02": partial(Course, parts=4, epochs=50, lr=0.02),
    "batches of a quarter in 1 cycle, then all": partial(Staged, stages=(4,)),
    "batches of a quarter in 2 cycles, then all": partial(Staged, stages=(4, 4)),
    "batches of a quarter in 3 cycles, then all": partial(Staged, stages=(4, 4, 4)),
    "warm-up over 20 % of a cycle": partial(Course, warmup=0.2),
    "warm-up over 30 %": partial(Course, warmup=0.3),
    "warm-up over 50 %": partial(Course, warmup=0.5),
    "final gain × 2": partial(Course, gain_lr=2.0),
    "rate 0.03": partial(Course, lr=0.03),
    "rate 0.02": partial(Course, lr=0.02),
    "rates of matrices by 16/d (muP)": partial(Scaled, power=1),
    "rates of matrices by sqrt(16/d)": partial(Scaled, power=0.5),
    "mean of the last quarter": partial(Averaged, last=0.25, from_mean=False),
    "mean of the last quarter, rate 0.02": partial(Averaged, last=0.25, from_mean=False, lr=0.02),
    "mean of the last quarter, gone on from": partial(Averaged, last=0.25, from_mean=True, lr=0.02),
    "growing: half, then all": partial(Growing, shares=(0.5,)),
    "growing: half, three quarters, then all": partial(Growing, shares=(0.5, 0.75)),
    "dropping after 2 cycles": partial(Dropping, after=2, room=1.3, counted=False),
    "dropping, the choice counted": partial(Dropping, after=2, room=1.3, counted=True),
    "Gauss-Newton after 2 cycles": partial(GaussNewton, after=2, products=30),
}


def main(names: Sequence[str] = ()) -> None:
    torch.set_num_threads(1)
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        raise SystemExit(f"no variant {unknown[0]!r}; there are {', '.join(VARIANTS)}")
    for cell, of in CELLS.items():
        for name in names or VARIANTS:
            course, said = VARIANTS[name](*of), []
            for _ in range(N_CYCLES):
                bits = course.cycle()
                said.append(f"{sum(bits) / len(bits):.0f} in {course.seconds / RESTARTS:.1f} s")
            print(f"recipe  {cell}; {name}: {', '.join(said)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
