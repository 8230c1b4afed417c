"""The one training loop: a pack of members from their seeds to their outcomes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from capax.models.reachability import unreachable_tokens
from capax.models.transformer import TransformerEnsemble
from capax.seeds import numpy_generator, torch_generator
from capax.specs import Sequences, Training, Transformer
from capax.tasks.sequences import SequenceLibrary
from capax.training.ensemble import BatchOrder, Learner
from capax.training.stopping import Record, StopReason

DTYPES = {"float32": torch.float32, "bfloat16": torch.float32, "float64": torch.float64}
REPORT_SECONDS = 0.2


@dataclass(frozen=True)
class Pack:
    """Members that train together. Their results depend on seed, member and sizes, not on who else is in the pack.

    Attributes:
        members: numbers of the members in the run; with the seed they name the random streams.
        sizes: items in each member's library.
        largest: the largest size of the measurement's round: libraries of several sizes are padded to it, so that
            cutting a round into packs changes no rounding.
        mixed: whether the round holds several sizes.
        one_library: whether all members learn library number 0 instead of one each.
        seconds: budget from the pack's start.
    """

    task: Sequences
    model: Transformer
    training: Training
    seed: int
    members: tuple[int, ...]
    sizes: tuple[int, ...]
    largest: int
    mixed: bool
    one_library: bool
    device: str = "cpu"
    seconds: float | None = None
    keep_weights: bool = False


@dataclass(frozen=True)
class Outcome:
    """What one member reached.

    Attributes:
        memorized: items recalled at its best evaluation.
        epoch_of_best, epochs, steps: when that was, and how long it trained.
        curve: `(epoch, memorized, loss)` at each evaluation.
        unreachable: tokens that are targets but that its frozen read-out can never put first.
        weights: its parameters at its best evaluation, where they were to be kept.
    """

    member: int
    library_size: int
    memorized: int
    epoch_of_best: int
    epochs: int
    steps: int
    stop_reason: StopReason
    curve: tuple[tuple[int, int, float | None], ...]
    unreachable: tuple[int, ...]
    parameters: dict[str, int]
    notes: tuple[str, ...] = ()
    weights: dict[str, Tensor] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Status:
    """A member's state, for progress; it stops in `epochs_left` epochs unless it improves."""

    member: int
    library_size: int
    epoch: int
    memorized: int
    loss: float | None
    stop_reason: StopReason | None
    epochs_left: int


class Interrupted(Exception):
    """Training was asked to stop from outside."""


def train(pack: Pack, watch: Callable[[list[Status]], None] = lambda _: None) -> list[Outcome]:
    """Train a pack until every member has stopped.

    Args:
        watch: called now and then with the state of all members; what it raises ends the training.
    """
    started = time.monotonic()
    learner = prepare(pack)
    records = [Record(size) for size in pack.sizes]
    unreachable = _unreachable(pack, learner)
    counts = learner.ensemble.parameter_counts()
    weights: dict[int, dict[str, Tensor]] = {}
    active = list(range(len(pack.members)))
    sums, steps_since = torch.zeros(len(active), device=pack.device), [0] * len(active)

    def evaluate(places: list[int]) -> None:
        """Evaluate the members at some places of the learner."""
        losses = sums.tolist()
        for place, memorized in zip(places, learner.evaluate(places), strict=True):
            member = active[place]
            loss = losses[place] / steps_since[place] if steps_since[place] else None
            best = records[member].observe(
                learner.order.epochs[place], memorized, loss, pack.training, learner.library.uniform_loss
            )
            if best and pack.keep_weights:
                weights[member] = {name: p.detach()[place].clone() for name, p in learner.ensemble.parameters.items()}
            sums[place] = 0
            steps_since[place] = 0

    evaluate(active)
    reported = 0.0
    while True:
        staying = [place for place, member in enumerate(active) if records[member].stop_reason is None]
        now = time.monotonic()
        if now - reported > REPORT_SECONDS or not staying:
            watch([_status(pack, m, records[m]) for m in range(len(pack.members))])
            reported = now
        if not staying:
            break
        if len(staying) < len(active):
            learner.keep(staying)
            active = [active[place] for place in staying]
            sums, steps_since = sums[staying], [steps_since[place] for place in staying]
        losses, ended = learner.step()
        sums = sums + losses
        for place, member in enumerate(active):
            records[member].steps += 1
            steps_since[place] += 1
        if pack.seconds is not None and time.monotonic() - started > pack.seconds:
            evaluate(list(range(len(active))))
            for member in active:
                records[member].stop_reason = records[member].stop_reason or "budget"
        else:
            due = [place for place in ended if _evaluation_due(learner.order.epochs[place], pack.training)]
            if due:
                evaluate(due)
    return [
        Outcome(
            member=number,
            library_size=record.library_size,
            memorized=record.best,
            epoch_of_best=record.best_epoch,
            epochs=record.epoch,
            steps=record.steps,
            stop_reason=record.stop_reason or "budget",
            curve=tuple(record.curve),
            unreachable=unreachable[place],
            parameters=counts,
            notes=tuple(learner.notes),
            weights=weights.get(place),
        )
        for place, (number, record) in enumerate(zip(pack.members, records, strict=True))
    ]


def _evaluation_due(epoch: int, training: Training) -> bool:
    return epoch % training.eval_every == 0 or epoch == training.max_epochs


def _status(pack: Pack, place: int, record: Record) -> Status:
    epoch, _, loss = record.curve[-1]
    left = 0 if record.stop_reason else (pack.training.patience - record.stale) * pack.training.eval_every
    if pack.training.max_epochs is not None:
        left = min(left, pack.training.max_epochs - epoch)
    return Status(pack.members[place], record.library_size, epoch, record.best, loss, record.stop_reason, left)


def prepare(pack: Pack) -> Learner:
    """A pack before its first step: libraries, weights and batch orders drawn from their streams."""
    dtype = DTYPES[pack.training.precision]
    owners = [0] if pack.one_library else list(pack.members)
    draws = [numpy_generator(pack.seed, "library", m) for m in owners]
    library = SequenceLibrary.build(pack.task, pack.sizes, draws, pack.device, pack.largest)
    ensemble = TransformerEnsemble.initialize(
        pack.model,
        vocab_size=pack.task.vocab_size,
        context=pack.task.seq_len - 1,
        generators=[torch_generator(pack.seed, "weights", m) for m in pack.members],
        dtype=dtype,
        device=pack.device,
    )
    orders = [torch_generator(pack.seed, "order", m) for m in pack.members]
    order = BatchOrder(
        pack.sizes,
        pack.training.batch_size,
        orders,
        pack.device,
        dtype,
        padded_to=min(pack.training.batch_size, pack.largest) if pack.mixed else None,
    )
    return Learner(ensemble, library, pack.training, order)


def _unreachable(pack: Pack, learner: Learner) -> list[tuple[int, ...]]:
    """Per member, the targets that its frozen read-out cannot give."""
    if pack.model.readout == "trained":
        return [()] * len(pack.members)
    readouts = learner.ensemble.parameters["readout"].detach().double().cpu().numpy()
    return [
        tuple(unreachable_tokens(readout, learner.library.targets(member))) for member, readout in enumerate(readouts)
    ]
