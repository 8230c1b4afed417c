"""Small trainings that suites compare."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import torch
from torch import Tensor

from capax import memory
from capax.results import Measurement
from capax.specs import Model, Task, Training
from capax.training.loop import Course, train
from capax.training.pack import Outcome, Pack


def pack(task: Task, model: Model, training: Training, members: Sequence[int], one_library: bool = False) -> Pack:
    """Some members of the run of seed 3."""
    size, count = task.library_size, len(members)
    return Pack(
        task,
        model,
        training,
        seeds=(3,) * count,
        members=tuple(members),
        sizes=(size,) * count,
        largest=size,
        mixed=False,
        one_library=one_library,
        keep_weights=True,
    )


def outcomes(
    task: Task, model: Model, training: Training, members: Sequence[int], one_library: bool = False
) -> list[Outcome]:
    """What some members reach, trained together."""
    return train(pack(task, model, training, members, one_library))


def equal(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes are the same in every bit."""
    assert one.weights is not None
    assert other.weights is not None
    said = [(o.member, o.curve, o.metrics, o.information, o.stop_reason, o.steps) for o in (one, other)]
    return said[0] == said[1] and all(
        torch.equal(one.weights[name].nan_to_num(7.5), other.weights[name].nan_to_num(7.5)) for name in one.weights
    )


def same_in_any_pack(task: Task, model: Model, training: Training, one_library: bool = False) -> bool:
    """Whether members of a pack of five are, to the last bit, what they are in packs of two."""
    five = outcomes(task, model, training, range(5), one_library)
    pairs = [found for two in ((3, 4), (1, 0)) for found in outcomes(task, model, training, two, one_library)]
    return all(equal(five[outcome.member], outcome) for outcome in pairs)


def same_when_taken_up(whole: Pack, steps: int) -> bool:
    """Whether a training that is saved after some steps and taken up ends, to the last bit, as it does without."""
    course = Course(whole)
    for _ in range(steps):
        course.step(lambda: False)
    assert not course.finished
    courses = course, Course(whole, deepcopy(course.snapshot(0.0)))  # it shares memory with the course
    for one in courses:
        while not one.finished:
            one.step(lambda: False)
    return all(equal(*pair) for pair in zip(*(one.outcomes() for one in courses), strict=True))


def recalled(run: Measurement, store: Path, trust: bool = False) -> int:
    """How many items of its library a kept run of sequences recalls."""
    found = memory.load(run.key, store, trust=trust)
    assert isinstance(found, memory.Memory)
    return sum(bool(found.recall(item[:-1].tolist()).agrees) for item in found.library)


def assert_same(received: Tensor, expected: Tensor, tolerance: float, what: str) -> None:
    """Equal up to `tolerance` of the largest expected number (at least 1e-3: rounding is not relative to zero)."""
    assert received.shape == expected.shape, what
    difference = (received - expected).abs().max().item()
    scale = max(expected.abs().max().item(), 1e-3)
    assert difference <= tolerance * scale, f"{what}: differs by {difference:.3g}, largest number {scale:.3g}"
