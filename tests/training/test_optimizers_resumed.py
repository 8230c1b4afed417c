"""With SOAP and Muon in cycles: a training goes on as if it had not been stopped, however its members are cut."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import capax
from capax import devices
from capax.specs import Run, Sequences, Training, Transformer
from capax.testing.trained import equal
from capax.training import loop
from capax.training.checkpoints import Checkpoint, digest
from capax.training.loop import Course, Interrupted, train
from capax.training.pack import Outcome, Pack, Status
from capax.training.snapshots import part
from capax.training.workers import Workers

TASK = Sequences(seq_len=4, vocab_size=12, library_size=60, loss="all")
MODEL = Transformer(n_heads=2, d_model=8, d_head=5)
CYCLES = Training(
    optimizer="soap",
    lr=0.1,
    gain_lr=6.0,
    beta1=0.8,
    beta2=0.95,
    basis_every=4,
    schedule="cycles",
    cycle_steps=7,  # cycles end between new bases
    warmup=0.1,
    batch_size=32,
    eval_steps=5,
    patience=None,
    stop_when_complete=False,
    max_steps=7 * 18,
)
OPTIMIZERS = pytest.mark.parametrize("optimizer", ["soap", "muon"])


TOLERANCE = {"soap": 0.7, "muon": 0.93}
"""Some members converge in the fourth cycle, the others later."""


def pack(members: Sequence[int] = range(5), optimizer: str = "soap", **training: Any) -> Pack:
    count = len(members)
    return Pack(
        TASK,
        MODEL,
        CYCLES.replace(
            **{"optimizer": optimizer, "cycle_tolerance": TOLERANCE[optimizer]}
            | ({} if optimizer == "soap" else {"basis_every": 10})  # which only SOAP may be given
            | training
        ),
        seeds=(0,) * count,
        members=tuple(members),
        sizes=(60,) * count,
        largest=60,
        mixed=False,
        one_library=False,
        keep_weights=True,
    )


LONG = pack([0, 1, 2], cycle_tolerance=None, max_steps=7 * 31)


def same(found: Sequence[Outcome], expected: Sequence[Outcome]) -> bool:
    return all(equal(one, other) and one.cycles == other.cycles for one, other in zip(found, expected, strict=True))


def interrupting(at: int) -> Callable[[list[Status]], None]:
    left = at

    def watch(_: list[Status]) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Interrupted

    return watch


@pytest.fixture
def reports_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "REPORT_SECONDS", -1.0)


@cache
def whole(optimizer: str) -> list[Outcome]:
    """What the pack reaches undisturbed: some members have left when others end."""
    found = train(pack(optimizer=optimizer))
    assert {outcome.stop_reason for outcome in found} == {"converged", "budget"}
    return found


@pytest.mark.slow
@OPTIMIZERS
@pytest.mark.usefixtures("reports_every_step")
def test_an_interrupted_training_ends_as_a_whole_one(optimizer: str, tmp_path: Path) -> None:
    """Stopped before the first step, at new bases, between them, at a cycle's end, and after members have left."""
    one, first_out = pack(optimizer=optimizer), min(outcome.steps for outcome in whole(optimizer))
    stops = 0, 4, 5, 7, 10, first_out + 2, first_out + 11
    for before, stop in pairwise([0, *stops]):
        with pytest.raises(Interrupted):
            train(one, interrupting(stop - before), tmp_path)
    assert same(train(one, checkpoint=tmp_path), whole(optimizer))


@pytest.mark.slow
@OPTIMIZERS
@pytest.mark.usefixtures("reports_every_step")
def test_some_members_go_on_by_themselves(optimizer: str, tmp_path: Path) -> None:
    """Between new bases, in an order of their own; those who have left by then as well."""
    one, expected = pack(optimizer=optimizer), whole(optimizer)
    first_out = min(outcome.steps for outcome in expected)
    for stretch, members in (6, [4, 1]), (first_out + 2 - 6, [0, 2, 3]):
        with pytest.raises(Interrupted):
            train(one, interrupting(stretch), tmp_path)
        snapshot = Checkpoint(tmp_path, one).load()
        assert snapshot is not None
        course = Course(one.part(members), part(snapshot, members))
        while not course.finished:
            course.step(lambda: False)
        if devices.rounds_batches_alike():
            assert same(course.outcomes(), [expected[member] for member in members])


def test_what_soap_remembers_lies_as_a_checkpoint_has_it() -> None:
    """At its first bases and at later ones: some processors round products otherwise in another layout."""
    course = Course(pack())
    for _ in range(CYCLES.basis_every + 2):
        course.step(lambda: False)
        moments = course.learner._optimizer.moments()
        assert any("basis_left" in of for of in moments.values())
        assert all(tensor.is_contiguous() for of in moments.values() for tensor in of.values())


@pytest.mark.slow
@pytest.mark.usefixtures("reports_every_step")
def test_other_packs_take_it_up(tmp_path: Path, two_processes: Workers) -> None:
    """Two processes where there was one."""
    one = pack(range(4))
    expected = train(one)
    with pytest.raises(Interrupted):
        train(one, interrupting(9), tmp_path)
    assert same(two_processes.train(one, checkpoints=tmp_path), expected)


@pytest.mark.very_slow
def test_a_killed_process_is_taken_up(tmp_path: Path) -> None:
    """SIGKILL at some moment of a training that writes a checkpoint after every step."""
    code = """
import sys
import torch
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_optimizers_resumed import LONG
from capax.training.loop import train
torch.set_num_threads(1)
train(LONG, checkpoint=Path(sys.argv[2]), every=0.0)
"""
    process = subprocess.Popen([sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path)])
    path, seen = tmp_path / f"{digest(LONG)}.safetensors", set[int]()
    while len(seen) < 20:
        assert process.poll() is None
        if path.exists():
            seen.add(path.stat().st_mtime_ns)
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    snapshot = Checkpoint(tmp_path, LONG).load()
    assert snapshot is not None
    assert 0 < snapshot.state["records"][0]["steps"] < 7 * 31
    assert same(train(LONG, checkpoint=tmp_path), train(LONG))


@pytest.mark.slow
@pytest.mark.usefixtures("reports_every_step")
def test_a_sweep_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """Runs of the protocol by convergence, stopped in their midst and resumed, are what they are undisturbed."""
    runs = [
        Run(task=TASK, model=MODEL, training=pack().training, protocol=capax.Capacity(restarts=2), seed=seed)
        for seed in (0, 1)
    ]
    whole = list(capax.sweep(runs, tmp_path / "whole.db", workers=1, device="cpu"))
    seen = 0

    def stop(_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 4:
            raise KeyboardInterrupt

    store = tmp_path / "stopped.db"
    with pytest.raises(KeyboardInterrupt):
        list(capax.sweep(runs, store, workers=1, device="cpu", progress=stop))
    assert list((tmp_path / "stopped.db-checkpoints").rglob("*.safetensors"))
    found = list(capax.sweep(runs, store, workers=1, device="cpu"))
    assert [run.model_copy(update={"seconds": 0.0}) for run in found] == [
        run.model_copy(update={"seconds": 0.0}) for run in whole
    ]
