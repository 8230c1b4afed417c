"""The one training loop: a pack of members from their seeds to their outcomes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor

from capax.training.checkpoints import Checkpoint, CheckpointError
from capax.training.ensemble import AtOnce, one
from capax.training.pack import Outcome, Pack, Status
from capax.training.prepare import constants, prepare, unreachable
from capax.training.snapshots import Snapshot
from capax.training.stopping import CycleEnd, Information, Record

REPORT_SECONDS = 0.2
FIRST_CHECKPOINT, LAST_PAUSE = 1.0, 120.0
"""Seconds until the first checkpoint of a process, and the most seconds between two."""
MOST_LOST, MOST_SAVING = 0.1, 0.02
"""Shares of its time that a process may lose to a kill, and may spend on saving."""
UNREADABLE = "checkpoint: unreadable, started anew"

Watch = Callable[[list[Status]], None]


class Interrupted(Exception):
    """Training was asked to stop from outside."""


def train(
    pack: Pack,
    watch: Watch = lambda _: None,
    checkpoint: Path | None = None,
    every: float | None = None,
    at_once: AtOnce = one,
) -> list[Outcome]:
    """Train a pack until every member has stopped.

    With a folder for checkpoints a training that was killed or interrupted resumes from its last one and gives the
    same result, bit for bit on the same processor (compiled steps: to rounding), whatever pack its members were in;
    a finished one returns its outcomes. A checkpoint that cannot be read or written, or is of another
    processor, ends nothing: the outcomes' notes say so.

    Args:
        watch: called now and then with the state of all members; what it raises ends the training.
        checkpoint: the folder; its files are named by a digest of the pack.
        every: seconds between checkpoints; by what a kill would cost, and what saving costs, when not given.
        at_once: how many micro-batches are computed at once.
    """
    started = time.monotonic()
    if checkpoint is None:
        course = Course(pack, at_once=at_once)
        _run(course, started, watch, lambda: None, every)
        return course.outcomes()
    files = Checkpoint(checkpoint, pack)
    notes, snapshot = [], None
    try:
        finished, snapshot = files.outcomes(), files.load()
    except CheckpointError:
        notes.append(UNREADABLE)
    else:
        if finished is not None:
            watch([_finished_status(outcome) for outcome in finished])
            moved = () if files.processor is None else (_moved(files),)
            return [replace(outcome, notes=tuple(dict.fromkeys([*outcome.notes, *moved]))) for outcome in finished]
    course = Course(pack, snapshot, at_once)
    course.note(*notes)
    if files.processor is not None:
        course.note(_moved(files))
    started -= course.seconds_before

    def save() -> None:
        try:
            files.save(course.snapshot(time.monotonic() - started))
        except CheckpointError as error:
            course.note(str(error))

    _run(course, started, watch, save, every)
    share = (time.monotonic() - started) / len(pack.members)
    try:
        files.finish([replace(outcome, seconds_before=share) for outcome in course.outcomes()])
    except CheckpointError as error:
        course.note(str(error))
    return course.outcomes()


def _moved(files: Checkpoint) -> str:
    return f"checkpoint: went on from another processor ({files.processor}): last digits may differ"


def _run(course: Course, started: float, watch: Watch, save: Callable[[], None], every: float | None) -> None:
    """Take a course to its end, saving it now and then, and when `watch` interrupts it."""
    limit = course.pack.seconds
    reported, saving = 0.0, 0.0
    began = saved = time.monotonic()
    while True:
        now = time.monotonic()
        if now - reported > REPORT_SECONDS or course.finished:
            try:
                watch(course.statuses())
            except BaseException:
                save()
                raise
            reported = now
        if course.finished:
            break
        if now - saved >= (pause(saved - began, saving) if every is None else every):
            save()
            saved = time.monotonic()
            saving = saved - now
        course.step(lambda: limit is not None and time.monotonic() - started > limit)


def pause(trained: float, saving: float) -> float:
    """Seconds until the next checkpoint.

    A kill loses what was trained since the last checkpoint. A process that has run for long is likely to run on, so
    the pause grows with its age; a process that is killed after a few seconds still leaves a checkpoint.

    Args:
        trained: seconds from the start of this process's training to its last checkpoint.
        saving: seconds that the last checkpoint took.
    """
    return max(saving / MOST_SAVING, min(max(FIRST_CHECKPOINT, MOST_LOST * trained), LAST_PAUSE))


class Course:
    """A pack in training: its learner, its members' records, and which members still train.

    Args:
        snapshot: the state to resume from; the start when not given.
        at_once: how many micro-batches are computed at once.

    Attributes:
        active: the member (its place in the pack) at each place of the learner.
        seconds_before: how long the pack was trained by earlier processes.
    """

    def __init__(self, pack: Pack, snapshot: Snapshot | None = None, at_once: AtOnce = one) -> None:
        self.pack = pack
        self.learner = prepare(pack, at_once)
        self.counts = self.learner.ensemble.parameter_counts()
        self.unreachable = unreachable(pack, self.learner)
        self.one_start = self.learner.ensemble.one_start
        self.constants = constants(pack, self.learner)
        self.active = list(range(len(pack.members)))
        self.records = [Record(size, pack.budget(size)) for size in pack.sizes]
        self._frozen = {n: p for n, p in self.learner.ensemble.parameters.items() if not p.requires_grad}
        self._best_weights: dict[int, dict[str, Tensor]] = {}
        self._measured: dict[int, dict[str, float]] = {}
        self._informative = self.learner.library.uniform_nats is not None
        self.seconds_before = 0.0
        self._notes: list[str] = []
        self._sums, self._steps_since = torch.zeros(len(self.active), device=pack.device), [0] * len(self.active)
        if snapshot is None:
            self._evaluate(self.active)
        else:
            self._restore(snapshot)

    @property
    def finished(self) -> bool:
        """Whether every member has stopped."""
        return all(self.records[member].stop_reason is not None for member in self.active)

    def step(self, out_of_time: Callable[[], bool]) -> None:
        """Let those who stopped leave; one step of the others, and the evaluations that are due after it."""
        training = [place for place, member in enumerate(self.active) if self._trains(member)]
        staying = sorted([*training, *self._company(training)])
        if len(staying) < len(self.active):
            self._inform()
            self.learner.keep(staying)
            self.active = [self.active[place] for place in staying]
            self._sums, self._steps_since = self._sums[staying], [self._steps_since[place] for place in staying]
            training = [place for place, member in enumerate(self.active) if self._trains(member)]
        # all that train have made as many steps, and where budgets matter they have one
        first = self.records[self.active[training[0]]]
        losses, ended = self.learner.step(self.pack.training.lr_at(first.steps, first.budget))
        self._sums = self._sums + losses
        if first.steps == 0:
            for place, loss in zip(training, losses[training].tolist(), strict=True):
                self.records[self.active[place]].first_loss = loss
        for place in training:
            self.records[self.active[place]].steps += 1
            self._steps_since[place] += 1
        if out_of_time():
            self._evaluate(training, out_of_time=True)
        else:
            due = [place for place in training if self._is_due(place, place in ended)]
            if due:
                self._evaluate(due)

    def _trains(self, member: int) -> bool:
        return self.records[member].stop_reason is None

    def _company(self, places: list[int]) -> list[int]:
        """Another place for the only one of a pack of several: its results then are as if the others were still there.

        A single product of matrices is not rounded as one in a batch is; in batches of two and more they all are alike.
        """
        lone = len(places) == 1 and len(self.active) > 1
        return [place for place in range(len(self.active)) if place not in places][:1] if lone else []

    def _is_due(self, place: int, epoch_ended: bool) -> bool:
        """Whether the member at a place is to be evaluated after this step."""
        training, record = self.pack.training, self.records[self.active[place]]
        if record.steps == record.budget:
            return True
        if self._ends_cycle(record):
            return True
        if training.eval_steps is not None:
            return record.steps % training.eval_steps == 0
        return epoch_ended and self.learner.order.epochs[place] % training.eval_every == 0

    def _ends_cycle(self, record: Record) -> bool:
        """Whether a cycle of the learning rate ended with a member's last step."""
        if self.pack.training.cycle_steps is None or record.steps == 0:
            return False
        return record.steps == sum(self.pack.training.cycle(record.steps - 1))

    def _evaluate(self, places: list[int], out_of_time: bool = False) -> None:
        """Evaluate the members at some places of the learner, which may end their training."""
        learner, sums = self.learner, self._sums.tolist()
        together = [*places, *self._company(places)]
        evaluations = learner.evaluate(together)
        # all that train have made as many steps: their cycles end together
        by_cycles = self._informative and self.pack.training.cycle_steps is not None
        ended = by_cycles and self._ends_cycle(self.records[self.active[places[0]]])
        by_loss = self.pack.training.best_by == "loss"
        informations = learner.information(together) if ended or by_loss else []
        for at, (place, evaluation) in enumerate(zip(places, evaluations, strict=False)):  # company is last
            member = self.active[place]
            within = by_cycles and self.records[member].steps > 0
            loss = sums[place] / self._steps_since[place] if self._steps_since[place] else None
            best = self.records[member].observe(
                learner.order.epochs[place],
                evaluation,
                loss,
                self.pack.training,
                learner.library.uniform_loss_of(place),
                "end" if ended else "within" if within else None,
                out_of_time,
                informations[at] if by_loss else None,
            )
            if ended:
                best = self.records[member].observe_cycle(evaluation, informations[at], self.pack.training)
            if best and (self._informative or self.pack.keep_weights):
                parameters = learner.ensemble.trainable.items()
                self._best_weights[member] = {name: p.detach()[place].clone() for name, p in parameters}
            self._sums[place] = 0
            self._steps_since[place] = 0

    def _inform(self) -> None:
        """Measure what the members that have stopped knew at their best evaluations."""
        stopped = [
            (place, member)
            for place, member in enumerate(self.active)
            if self.records[member].stop_reason is not None and self.records[member].information is None
        ]
        if not stopped or not self._informative:
            return
        places, members = [place for place, _ in stopped], [member for _, member in stopped]
        weights = [self._best_weights[member] for member in members]
        company = self._company(places)
        found = self.learner.information([*places, *company], [*weights, *weights[: len(company)]])
        for member, information in zip(members, found, strict=False):
            self.records[member].information = information

    def note(self, *notes: str) -> None:
        """Add notes to every outcome."""
        self._notes.extend(notes)

    def notes(self) -> list[str]:
        """The notes on the training, without repeats."""
        return list(dict.fromkeys([*self._notes, *self.learner.notes]))

    def statuses(self) -> list[Status]:
        """The state of all members."""
        return [_status(self.pack, place, record) for place, record in enumerate(self.records)]

    def outcomes(self) -> list[Outcome]:
        """The members' outcomes."""
        self._inform()
        share = self.seconds_before / len(self.records)
        return [
            Outcome(
                seed=self.pack.seeds[place],
                member=self.pack.members[place],
                library_size=record.library_size,
                memorized=record.best,
                metrics=record.metrics | self._also_measured(place),
                epoch_of_best=record.best_epoch,
                epochs=record.epoch,
                steps=record.steps,
                stop_reason=record.stop_reason or "budget",
                curve=tuple(record.curve),
                unreachable=self.unreachable[place],
                constant=self.constants[place],
                one_start=self.one_start,
                parameters=self.counts,
                notes=tuple(self.notes()),
                information=record.information,
                cycles=tuple(record.cycles),
                weights=self._weights(place) if self.pack.keep_weights else None,
                seconds_before=share,
            )
            for place, record in enumerate(self.records)
        ]

    def _also_measured(self, member: int) -> dict[str, float]:
        """What the model measures of a member at its best evaluation, once."""
        if member in self._best_weights and member not in self._measured:
            self._measured[member] = self.learner.ensemble.also_measured(self._best_weights[member])
        return self._measured.get(member, {})

    def _weights(self, member: int) -> dict[str, Tensor]:
        """All parameters of a member at its best evaluation."""
        return {name: p[member] for name, p in self._frozen.items()} | self._best_weights[member]

    def snapshot(self, seconds: float) -> Snapshot:
        """The whole state after some seconds of training; it shares memory with the course."""
        weights = {f"weights/{m}/{name}": p for m, kept in self._best_weights.items() for name, p in kept.items()}
        state = {
            "records": [asdict(record) for record in self.records],
            "active": self.active,
            "steps_since": self._steps_since,
            "order": self.learner.order.counters(),
            "kept": list(self._best_weights),
            "notes": self.notes(),
            "seconds": seconds,
        }
        return Snapshot({"sums": self._sums, **self.learner.tensors(), **weights}, state)

    def _restore(self, snapshot: Snapshot) -> None:
        tensors, state = snapshot.tensors, snapshot.state
        self.active, self._steps_since = state["active"], state["steps_since"]
        self.records = [
            Record(
                **fields
                | {
                    "curve": [tuple(point) for point in fields["curve"]],
                    "score": tuple(fields["score"]),
                    "cycles": [CycleEnd(*end) for end in fields["cycles"]],
                    "information": Information(*fields["information"]) if fields["information"] else None,
                }
            )
            for fields in state["records"]
        ]
        if self.active:  # else all have stopped, and left
            self.learner.restore(self.active, tensors, state["order"])
        self._sums = tensors["sums"].to(self.pack.device, copy=True)
        for member in state["kept"]:
            start = f"weights/{member}/"
            named = {name.removeprefix(start): p for name, p in tensors.items() if name.startswith(start)}
            self._best_weights[member] = {name: p.to(self.pack.device, copy=True) for name, p in named.items()}
        self.note(*state["notes"])
        self.seconds_before = state["seconds"]


def _status(pack: Pack, place: int, record: Record) -> Status:
    epoch, _, loss = record.curve[-1]
    training = pack.training
    per_epoch = training.steps_per_epoch(pack.task.learned_rows(record.library_size, pack.model))
    left = []
    if training.patience is not None:
        pause = training.eval_every if training.eval_steps is None else training.eval_steps / per_epoch
        left.append((training.patience - record.stale) * pause)
    if record.budget is not None:
        left.append(record.budget / per_epoch - epoch)
    return Status(
        seed=pack.seeds[place],
        member=pack.members[place],
        library_size=record.library_size,
        epoch=epoch,
        memorized=record.best,
        loss=loss,
        stop_reason=record.stop_reason,
        epochs_left=0 if record.stop_reason else math.ceil(min(left, default=0)),
    )


def _finished_status(outcome: Outcome) -> Status:
    return Status(
        seed=outcome.seed,
        member=outcome.member,
        library_size=outcome.library_size,
        epoch=outcome.epochs,
        memorized=outcome.memorized,
        loss=outcome.curve[-1][2],
        stop_reason=outcome.stop_reason,
        epochs_left=0,
    )
