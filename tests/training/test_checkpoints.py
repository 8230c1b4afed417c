"""A training that was stopped goes on as if it had not been; what cannot be read or written ends nothing."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from begun import begun
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import files_of_at_most

from capax.specs import Sequences, Training, Transformer
from capax.testing.executors import small
from capax.training import checkpoints, loop
from capax.training.checkpoints import Checkpoint, CheckpointError, digest, forget
from capax.training.loop import UNREADABLE, Course, Interrupted, train
from capax.training.pack import Outcome, Pack, Status
from capax.training.snapshots import Snapshot
from capax.training.workers import Workers

TASK = Sequences(seq_len=5, vocab_size=12, library_size=300, loss="last")
MODEL = Transformer(n_heads=2, d_model=8, d_head=6)


def pack(sizes: Sequence[int] = (300, 300), **training: Any) -> Pack:
    return Pack(
        TASK,
        MODEL,
        Training(**{"batch_size": 128, "max_epochs": 12, "lr": 1e-2} | training),
        seeds=tuple(place % 2 for place in range(len(sizes))),
        members=tuple(range(len(sizes))),
        sizes=tuple(sizes),
        largest=max(sizes),
        mixed=len(set(sizes)) > 1,
        one_library=False,
    )


@pytest.fixture
def reports_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "REPORT_SECONDS", -1.0)


def interrupting(at: int) -> Callable[[list[Status]], None]:
    """Raises at a report."""
    left = at

    def watch(_: list[Status]) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Interrupted

    return watch


def in_stretches(pack: Pack, folder: Path, stretches: Sequence[int]) -> list[Outcome]:
    """Train, interrupted after some numbers of reports, each time taken up by a new call."""
    for stretch in stretches:
        try:
            train(pack, interrupting(stretch), folder)
        except Interrupted:
            assert len(list(folder.iterdir())) == 1
    return train(pack, checkpoint=folder)


def assert_equal(resumed: list[Outcome], whole: list[Outcome]) -> None:
    assert [replace(outcome, weights=None) for outcome in resumed] == [replace(o, weights=None) for o in whole]
    for one, other in zip(resumed, whole, strict=True):
        assert (one.weights is None) == (other.weights is None)
        for name, tensor in (one.weights or {}).items():
            assert other.weights is not None
            assert tensor.dtype == other.weights[name].dtype
            assert torch.equal(tensor, other.weights[name])


MIXED = (3, 300, 4, 5, 140, 6)
"""Small libraries are complete early: their members have left before the others end."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "sizes", "loss"),
    [
        ("float32", (300, 300), "all"),
        ("float32", MIXED, "all"),
        ("float32", (6, 6, 6), "last"),
        ("float64", MIXED, "all"),
        ("bfloat16", MIXED, "last"),
    ],
)
@pytest.mark.usefixtures("reports_every_step")
def test_an_interrupted_training_ends_as_a_whole_one(
    precision: str, sizes: tuple[int, ...], loss: str, tmp_path: Path
) -> None:
    one = pack(sizes, precision=precision, max_epochs=40 if max(sizes) < 100 else 8)
    one = replace(one, task=TASK.replace(loss=loss), keep_weights=True)
    whole = train(one)
    steps = max(outcome.steps for outcome in whole)
    generator = torch.Generator().manual_seed(len(sizes))
    if len(set(sizes)) > 1:
        assert min(outcome.steps for outcome in whole) < steps
    stretches = torch.randint(0, steps // 2, (3,), generator=generator).tolist()
    assert_equal(in_stretches(one, tmp_path / "checkpoints", stretches), whole)


@pytest.mark.slow
@pytest.mark.usefixtures("reports_every_step")
def test_it_goes_on_from_after_members_left(tmp_path: Path) -> None:
    one = pack(MIXED)
    whole = train(one)
    first_out = min(outcome.steps for outcome in whole)
    with pytest.raises(Interrupted):
        train(one, interrupting(first_out + 3), tmp_path)
    snapshot = Checkpoint(tmp_path, one).load()
    assert snapshot is not None
    assert 0 < len(snapshot.state["active"]) < len(MIXED)
    assert snapshot.state["records"][1]["steps"] == first_out + 3
    assert_equal(train(one, checkpoint=tmp_path), whole)


@pytest.mark.slow
@pytest.mark.usefixtures("reports_every_step")
def test_any_interruptions_change_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    one = pack((40, 7, 300), max_epochs=6)
    whole = train(one)

    @settings(max_examples=4, deadline=None, derandomize=True)
    @given(st.lists(st.integers(0, 20), max_size=4))
    def change_nothing(stretches: list[int]) -> None:
        assert_equal(in_stretches(one, tmp_path_factory.mktemp("any"), stretches), whole)

    change_nothing()


@pytest.mark.slow
@pytest.mark.usefixtures("reports_every_step")
def test_the_last_checkpoint_in_time_serves_as_well(tmp_path: Path) -> None:
    """As after a crash: what was written on time, not what the interruption wrote."""
    one = pack(MIXED)

    def crash(states: list[Status]) -> None:
        if max(state.epoch for state in states) == 11:
            tmp_path.rename(tmp_path.with_name("kept"))
            raise Interrupted

    with pytest.raises(Interrupted):
        train(one, crash, tmp_path, every=0.0)
    kept = tmp_path.with_name("kept")
    snapshot = Checkpoint(kept, one).load()
    assert snapshot is not None
    assert snapshot.state["records"][1]["steps"] == 10
    assert_equal(train(one, checkpoint=kept), train(one))


@pytest.mark.slow
def test_a_killed_process_is_taken_up(tmp_path: Path) -> None:
    """SIGKILL at some moment of a training that writes a checkpoint after every step."""
    code = """
import pickle
import sys
from pathlib import Path
import torch
from capax.training.loop import train
torch.set_num_threads(1)
train(pickle.loads(Path(sys.argv[2]).read_bytes()), checkpoint=Path(sys.argv[1]), every=0.0)
"""
    folder, given, long = tmp_path / "checkpoints", tmp_path / "pack", pack(max_epochs=60)
    given.write_bytes(pickle.dumps(long))
    process = subprocess.Popen([sys.executable, "-c", code, str(folder), str(given)])
    path = folder / f"{digest(long)}.safetensors"
    seen: set[int] = set()
    while len(seen) < 8:
        assert process.poll() is None
        if path.exists():
            seen.add(path.stat().st_mtime_ns)
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    snapshot = Checkpoint(folder, long).load()
    assert snapshot is not None
    assert 0 < snapshot.state["records"][0]["steps"] < 3 * 60
    path.with_name(path.name + ".partial").touch()  # as a kill in the midst of writing leaves it
    assert_equal(train(long, checkpoint=folder), train(long))
    assert [file.name for file in folder.iterdir()] == [f"{digest(long)}.outcomes.json"]


@pytest.mark.slow
def test_what_is_being_written_has_one_name(tmp_path: Path) -> None:
    """So that whoever comes after a kill knows what to remove."""
    one, seen, stopped = pack(), set[str](), threading.Event()

    def watch() -> None:
        while not stopped.is_set():
            seen.update(os.listdir(tmp_path))

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(10):
        Checkpoint(tmp_path, one).save(Snapshot({"weights": torch.ones(2_000_000)}, {"records": [{"steps": 1}]}))
    stopped.set()
    watcher.join()
    assert seen == {f"{digest(one)}.safetensors", f"{digest(one)}.safetensors.partial"}


@pytest.mark.slow
@pytest.mark.parametrize("keep_weights", [False, True])
def test_a_finished_pack_is_not_trained_again(
    keep_weights: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replace(pack(MIXED), keep_weights=keep_weights)
    whole = train(one, checkpoint=tmp_path, every=0.0)
    names = {path.name.removeprefix(digest(one)) for path in tmp_path.iterdir()}
    assert names == {".outcomes.json"} | ({".outcomes.safetensors"} if keep_weights else set())
    monkeypatch.delattr(loop, "prepare")
    seen: list[list[Status]] = []
    assert_equal(train(one, seen.append, tmp_path), whole)
    assert [state.epoch for state in seen[0]] == [outcome.epochs for outcome in whole]
    assert all(state.stop_reason is not None for state in seen[0])


@pytest.mark.very_slow
def test_workers_leave_a_file_a_pack(tmp_path: Path, two_processes: Workers) -> None:
    one = pack((300, 300, 300, 300), max_epochs=4)
    first = two_processes.train(one, checkpoints=tmp_path)
    assert len(list(tmp_path.glob("*.outcomes.json"))) == 2
    assert_equal(two_processes.train(one, checkpoints=tmp_path), first)
    assert_equal(first, train(one))


def damaged(content: bytes) -> dict[str, bytes]:
    """What may have become of a file: bytes lost, or changed at its start, in its middle, at its end."""
    half = len(content) // 2
    flipped = {place: bytearray(content) for place in (9, half, len(content) - 1)}
    for place, copy in flipped.items():
        copy[place] ^= 1
    return {
        "empty": b"",
        "truncated": content[:half],
        "a byte short": content[:-1],
        "text": b"no checkpoint",
        "longer": content + b"\0",
        **{f"byte {place} changed": bytes(copy) for place, copy in flipped.items()},
    }


@pytest.mark.usefixtures("reports_every_step")
def test_a_damaged_checkpoint_is_ignored(tmp_path: Path) -> None:
    one = pack(max_epochs=3)
    whole = train(one)
    with pytest.raises(Interrupted):
        train(one, interrupting(4), tmp_path)
    (path,) = tmp_path.iterdir()
    for content in damaged(path.read_bytes()).values():
        path.write_bytes(content)
        with pytest.raises(CheckpointError):
            Checkpoint(tmp_path, one).load()
    anew = train(one, checkpoint=tmp_path)
    assert {outcome.notes for outcome in anew} == {(UNREADABLE,)}
    assert_equal([replace(outcome, notes=()) for outcome in anew], whole)


@pytest.mark.parametrize("suffix", [".outcomes.json", ".outcomes.safetensors"])
def test_damaged_outcomes_are_trained_again(suffix: str, tmp_path: Path) -> None:
    one = replace(pack(max_epochs=3), keep_weights=True)
    whole = train(one, checkpoint=tmp_path)
    path = tmp_path / f"{digest(one)}{suffix}"
    for content in damaged(path.read_bytes()).values():
        path.write_bytes(content)
        with pytest.raises(CheckpointError):
            Checkpoint(tmp_path, one).outcomes()
    anew = train(one, checkpoint=tmp_path)
    assert {outcome.notes for outcome in anew} == {(UNREADABLE,)}
    assert_equal([replace(outcome, notes=()) for outcome in anew], whole)


@pytest.mark.usefixtures("reports_every_step")
def test_a_foreign_checkpoint_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another pack's under this pack's name, and one of another version of capax."""
    one, other = pack(max_epochs=3), pack(max_epochs=4)
    with pytest.raises(Interrupted):
        train(other, interrupting(4), tmp_path)
    (path,) = tmp_path.iterdir()
    path.rename(tmp_path / f"{digest(one)}.safetensors")
    assert train(one, checkpoint=tmp_path)[0].notes == (UNREADABLE,)
    with pytest.raises(Interrupted):
        train(other, interrupting(4), tmp_path)
    monkeypatch.setattr(checkpoints, "FORMAT", checkpoints.FORMAT + 1)
    with pytest.raises(CheckpointError, match="another format"):
        Checkpoint(tmp_path, other).load()
    assert train(other, checkpoint=tmp_path)[0].notes == (UNREADABLE,)


def test_folders_in_the_place_of_files_end_no_training(tmp_path: Path) -> None:
    one = pack(max_epochs=2)
    for suffix in (".safetensors", ".outcomes.json"):
        (tmp_path / f"{digest(one)}{suffix}").mkdir()
    notes = train(one, checkpoint=tmp_path, every=0.0)[0].notes
    assert notes[0] == UNREADABLE
    assert all(note.startswith("checkpoint: not written (") for note in notes[1:])


@pytest.mark.very_slow
def test_a_state_is_longer_than_a_header_may_be(tmp_path: Path) -> None:
    """Curves of a hundred members over many epochs; safetensors reads headers of up to 100 MB."""
    one = Checkpoint(tmp_path, pack())
    snapshot = Course(pack()).snapshot(0.0)
    state = snapshot.state | {"notes": ["0" * 100_000_001]}
    one.save(Snapshot(snapshot.tensors, state))
    read = one.load()
    assert read is not None
    assert read.state["notes"] == state["notes"]


def test_the_digest_is_of_all_that_matters() -> None:
    one = pack()
    changed = [
        replace(one, seeds=(0, 2)),
        replace(one, members=(0, 2)),
        replace(one, sizes=(300, 299)),
        replace(one, largest=301),
        replace(one, mixed=True),
        replace(one, one_library=True),
        replace(one, device="cuda"),
        replace(one, keep_weights=True),
        replace(one, task=TASK.replace(vocab_size=13)),
        replace(one, model=MODEL.replace(d_model=9)),
        replace(one, training=one.training.replace(lr=0.1)),
    ]
    assert len({digest(each) for each in [one, *changed]}) == len(changed) + 1
    assert digest(replace(one, seconds=3.0)) == digest(one)


def test_a_disk_that_is_full_ends_no_training(tmp_path: Path) -> None:
    """A real limit on file size, below that of a checkpoint."""
    short = pack(max_epochs=5)
    with files_of_at_most(512):
        outcomes = train(short, checkpoint=tmp_path, every=0.0)
    assert_equal([replace(outcome, notes=()) for outcome in outcomes], train(short))
    for outcome in outcomes:
        assert outcome.notes
        assert all(note.startswith("checkpoint: not written (") for note in outcome.notes)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_ends_no_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    one = pack(max_epochs=2)
    outcomes = train(one, checkpoint=tmp_path / "file", every=0.0)
    assert all(note.startswith("checkpoint: not written (") for outcome in outcomes for note in outcome.notes)
    assert_equal([replace(outcome, notes=()) for outcome in outcomes], train(one))


@pytest.mark.usefixtures("reports_every_step")
def test_seconds_go_on_counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still but where the test turns it: 40 s, an interruption and a day, then 30 s of 60 s."""
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    one = replace(pack(max_epochs=1000, patience=1000), seconds=60.0)
    steps = 0

    def watch(_: list[Status]) -> None:
        nonlocal now, steps
        steps += 1
        now += 10
        if steps == 4:
            raise Interrupted

    with pytest.raises(Interrupted):
        train(one, watch, tmp_path)
    now += 86400
    outcomes = train(one, watch, tmp_path)
    assert {outcome.stop_reason for outcome in outcomes} == {"budget"}
    assert {outcome.steps for outcome in outcomes} == {3 + 3}
    assert sum(outcome.seconds_before for outcome in outcomes) == 40
    again = train(one, checkpoint=tmp_path)
    assert again == outcomes
    assert sum(outcome.seconds_before for outcome in again) >= 70


def test_nothing_is_written_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    train(pack(max_epochs=1), every=0.0)
    assert os.listdir(tmp_path) == []


def test_a_file_stays_while_one_of_its_runs_is_not_kept(tmp_path: Path) -> None:

    file = begun(tmp_path, small(0), small(1))
    forget(tmp_path, lambda seed: seed == 0)
    assert file.exists()
    forget(tmp_path, lambda seed: True)
    assert not file.exists()
