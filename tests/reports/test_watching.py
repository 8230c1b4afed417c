"""What is told of a sweep while another process runs it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import capax
from capax.errors import SpecError, StoreError
from capax.reports.watching import Point, StudyKeys, Watched, look
from capax.results import Measurement
from capax.specs.apart import Fields
from capax.store import Store
from capax.store import lock as sweep_lock
from capax.store.lock import SweepProgress
from capax.sweeps.adaptive import sweep_adaptively
from capax.sweeps.executors import Executor, Job, Report, do
from capax.testing.trained import pack
from capax.training import checkpoints
from capax.training.checkpoints import Checkpoint
from capax.training.loop import Course


def spec(seq_len: int = 3, n_heads: int = 1, d_model: int = 4, library_size: int = 20, seed: int = 0) -> capax.Run:
    return capax.Run(
        task=capax.Sequences(seq_len=seq_len, vocab_size=9, library_size=library_size),
        model=capax.Transformer(n_heads=n_heads, d_model=d_model, d_head=2),
        training=capax.Training(max_epochs=1),
        protocol=capax.Mac(restarts=1),
        seed=seed,
    )


SPECS = [
    spec(seq_len=4),
    *(spec(n_heads=n_heads, d_model=d_model) for n_heads in (2, 1) for d_model in (8, 4)),
    spec(library_size=1),
]


@pytest.fixture(scope="module")
def runs() -> list[Measurement]:
    return [capax.measure(s.task, s.model, s.training, restarts=1, seed=s.seed) for s in SPECS]


@pytest.fixture
def store(tmp_path: Path, runs: list[Measurement]) -> Path:
    """Six runs, and two failures."""
    with Store(tmp_path / "s.db") as opened:
        for run in runs:
            opened.add(run)
        opened.fail(spec(seed=7), "first")
        opened.fail(spec(seed=8), "second")
    return tmp_path / "s.db"


def names(path: Path) -> set[str]:
    return {file.name for file in path.parent.iterdir()}


def test_what_a_store_holds(store: Path, runs: list[Measurement]) -> None:
    seen = look(store)
    assert (seen.sweep, seen.holder, seen.total, seen.done, seen.failed) == ("none", None, None, 6, 2)
    assert (seen.running, seen.per_minute, seen.seconds_left) == (None, None, None)
    assert [run.key for run in seen.last] == [run.key for run in reversed(runs)]
    assert [failure.error for failure in seen.failures] == ["second", "first"]
    assert seen.kind == "3 tokens of 9, mac, 1 layer, library_size 20"
    assert seen.others == 2  # the one of four tokens, and that of a library of 1
    drawn = [
        Point(run.spec.model.n_heads, run.spec.model.d_model, run.memorized, run.memorized == run.library_size)
        for run in runs[1:-1]
    ]
    assert sorted(map(str, seen.points)) == sorted(map(str, drawn))
    assert [(point.n_heads, point.d_model) for point in seen.points] == [(1, 4), (1, 8), (2, 4), (2, 8)]


def test_runs_that_differ_in_anything_but_heads_and_width_are_not_one_plot(tmp_path: Path) -> None:
    alike = [spec(d_model=d_model, n_heads=n_heads) for d_model in (4, 8) for n_heads in (1, 2)]
    unlike = [
        spec(library_size=15),
        spec().replace(task=spec().task.replace(loss="last")),
        spec().replace(model=spec().model.replace(ffn="none")),
        spec().replace(training=capax.Training(max_epochs=2)),
    ]
    with Store(tmp_path / "s.db") as opened:
        for one in [*unlike, *alike, spec(seed=3)]:
            opened.add(capax.measure(one.task, one.model, one.training, restarts=1, seed=one.seed))
    known: dict[str, Fields] = {}
    seen = look(tmp_path / "s.db", known=known)
    assert (len(seen.points), seen.others) == (5, 4)
    assert seen.kind == "3 tokens of 9, mac, 1 layer, library_size 20, loss all, ffn mlp, max_epochs 1"
    assert set(known) == {one.key() for one in [*unlike, *alike, spec(seed=3)]}
    assert look(tmp_path / "s.db", known=known).points == seen.points


def test_modules_have_no_width_to_be_drawn_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "watched.py").write_text(
        "import torch\n"
        "class Tiny(torch.nn.Module):\n"
        "    def __init__(self, vocab_size):\n"
        "        super().__init__()\n"
        "        self.table = torch.nn.Embedding(vocab_size, vocab_size)\n"
        "    def forward(self, tokens):\n"
        "        return self.table(tokens)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = capax.measure(spec().task, capax.Module(factory="watched:Tiny"), spec().training, restarts=1)
    with Store(tmp_path / "s.db") as opened:
        opened.add(run)
    seen = look(tmp_path / "s.db")
    assert (seen.kind, seen.points, seen.others, seen.done) == (None, (), 1, 1)


def test_where_a_sweep_stands(store: Path) -> None:
    with Store(store) as opened, opened.sweeping() as tell:
        assert (look(store).sweep, look(store).total) == ("running", None)
        tell(SweepProgress(total=20, stored=2, done=4, running=3, failed=2))
        holder = look(store).holder
        assert holder is not None
        seen = look(store, at=datetime.fromisoformat(holder.since) + timedelta(minutes=2))
        assert (seen.total, seen.done, seen.failed, seen.running) == (20, 6, 2, 3)
        assert (seen.per_minute, seen.seconds_left) == (2.0, 360.0)  # 4 runs in two minutes, 12 are left
        assert seen.age(holder.since) == 120.0
        early = look(store, at=datetime.fromisoformat(holder.since) - timedelta(minutes=2))  # clocks that differ
        assert (early.per_minute, early.seconds_left, early.age(holder.since)) == (None, None, 0.0)
        tell(SweepProgress(total=None, stored=2, done=4, running=3, failed=2))
        adaptive = look(store, at=datetime.fromisoformat(holder.since) + timedelta(minutes=2))
        assert (adaptive.total, adaptive.done, adaptive.per_minute, adaptive.seconds_left) == (None, 6, 2.0, None)
    assert look(store).sweep == "none"


def test_how_far_trainings_are_by_their_checkpoints(store: Path) -> None:
    """Those of the sweep under way alone: an earlier one's wait for their runs."""

    def save(seed: int, steps: int) -> Path:
        members = pack(spec().task, spec().model, capax.Training(max_epochs=9), [seed])
        course = Course(members)
        for _ in range(steps):
            course.step(lambda: False)
        folder = checkpoints.folder_of(spec(n_heads=seed), opened.checkpoints)
        Checkpoint(folder, members).save(course.snapshot(0.0))
        (file,) = folder.iterdir()
        return file

    with Store(store) as opened:
        early = save(4, 1)
        os.utime(early, (0, 0))
        assert look(store).saved == ()
        with opened.sweeping() as tell:
            tell(SweepProgress(total=20, stored=2, done=4, running=3, failed=2))
            assert look(store).saved == ()
            for seed, steps in ((5, 2), (6, 3)):
                now = time.time() + seed
                os.utime(save(seed, steps), (now, now))
            damaged = save(7, 4)
            damaged.write_bytes(damaged.read_bytes()[:40])
            assert [state.steps for state in look(store).saved] == [3, 2]
        assert look(store).saved == ()


class Here(Executor):
    """Does one job at a time, in this process."""

    slots = 1
    running = 0
    job: Job

    def submit(self, job: Job) -> None:
        self.job, self.running = job, 1

    def wait(self, seconds: float) -> list[Report]:
        self.running = 0
        return [do(self.job, lambda: False)]

    def stop(self) -> None: ...

    def close(self) -> None: ...


def test_a_sweep_tells_where_it_stands(tmp_path: Path) -> None:
    """At any moment what is seen is what the sweep itself says."""
    store, asked = tmp_path / "s.db", [spec(), spec(d_model=8), spec(d_model=16)]
    with Store(store) as opened:
        opened.add(capax.measure(asked[0].task, asked[0].model, asked[0].training, restarts=1))
    moments: list[tuple[object, Watched]] = []
    for _ in capax.sweep(
        asked, store, executor=Here(), device="cpu", progress=lambda told: moments.append((told, look(store)))
    ):
        pass
    assert len(moments) > 3
    for told, seen in moments:
        assert seen.holder is not None
        assert seen.holder.progress is not None
        assert {name: getattr(told, name) for name in ("stored", "done", "running", "failed")} == {
            name: getattr(seen.holder.progress, name) for name in ("stored", "done", "running", "failed")
        }
        assert (seen.sweep, seen.total, seen.done) == ("running", 3, len(seen.last))
    assert [seen.done for _, seen in moments][-1] == 3


@pytest.mark.slow
def test_an_adaptive_sweep_is_one_sweep(tmp_path: Path) -> None:
    """It holds the store between its rounds, too, and has no number of runs to reach."""
    store, seen = tmp_path / "s.db", list[Watched]()
    asked = [spec(d_model=d_model, n_heads=n_heads) for d_model in (4, 8, 16) for n_heads in (1, 2)]
    law = capax.PowerLaw()
    for _ in sweep_adaptively(asked, store, law=law, budget=60, executor=Here(), device="cpu"):
        seen.append(look(store))  # between rounds as well as within
    assert len(seen) == 6
    assert {(moment.sweep, moment.total) for moment in seen} == {("running", None)}
    assert len({moment.holder and moment.holder.since for moment in seen}) == 1
    assert [moment.done for moment in seen] == [1, 2, 3, 4, 5, 6]
    assert look(store).sweep == "none"
    again = [*sweep_adaptively(asked[:1], store, law=law, budget=1, executor=Here(), device="cpu", tags=["known"])]
    with Store(store) as opened:
        tags = {run.key: set(run.tags) for run in opened.runs()}
    assert again == []
    assert {key for key, own in tags.items() if "known" in own} == {asked[0].key()}
    with pytest.raises(SpecError, match=r"^retries: .*-1"):
        list(sweep_adaptively(asked, store, law=law, budget=60, retries=-1))


def test_the_runs_of_a_study(store: Path, runs: list[Measurement]) -> None:
    study = StudyKeys("study.toml", frozenset({runs[0].key, runs[1].key, spec(seed=7).key(), spec(seed=9).key()}))
    seen = look(store, study)
    assert (seen.total, seen.done, seen.failed) == (4, 2, 1)
    assert [run.key for run in seen.last] == [runs[1].key, runs[0].key]
    assert [failure.error for failure in seen.failures] == ["first"]
    assert (len(seen.points), seen.others) == (1, 1)
    other = StudyKeys("other.toml", frozenset({"0" * 64}))
    with pytest.raises(SpecError, match=r"^study: .*other\.toml, and 8 others$"):
        look(store, other)
    with Store(store) as opened, opened.sweeping() as tell:
        assert look(store, other).done == 0  # its first run may be under way
        tell(SweepProgress(total=5, stored=0, done=0, running=1, failed=0))
        with pytest.raises(SpecError, match=r"^study: .*study\.toml has 4 runs.* 5$"):
            look(store, study)


@pytest.mark.parametrize(
    "text",
    ["no json", "{}", '{"spec": "x"}', '{"spec": []}', '{"spec": {"task": {"task": "sequences", "seq_len": 0}}}'],
)
def test_a_run_that_cannot_be_read_is_one_line(store: Path, text: str) -> None:
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE runs SET measurement = ? WHERE n_heads = 2", (text,))
    with pytest.raises(StoreError, match=r"^store: .*s\.db"):
        look(store)


def test_nothing_is_written(store: Path) -> None:
    before, there = store.read_bytes(), names(store)
    look(store)
    assert (store.read_bytes(), names(store)) == (before, there)
    with pytest.raises(StoreError, match=r"none\.db"):
        look(store.with_name("none.db"))
    assert names(store) == there
    with Store(store, read_only=True) as opened, pytest.raises(StoreError, match="reading only"):
        opened.fail(spec(), "no")


SWEEPER = """
import sys
from capax.results import Measurement
from capax.store import Store
from capax.store.lock import SweepProgress
with Store("new.db") as store, store.sweeping() as tell:
    for number, line in enumerate(sys.stdin):
        store.add(Measurement.from_json(line))
        tell(SweepProgress(9, 0, number + 1, 1, 0))
        print("written", flush=True)
"""


@pytest.mark.slow
def test_rows_appear_while_another_process_writes_them_and_is_killed(tmp_path: Path, runs: list[Measurement]) -> None:
    """Each row is seen as soon as it is written; what was written and told before the kill stays to be seen."""
    path = tmp_path / "new.db"
    process = subprocess.Popen(
        [sys.executable, "-c", SWEEPER], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        for number, run in enumerate(runs, 1):
            process.stdin.write(run.to_json() + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "written\n"
            seen = look(path)
            assert (seen.sweep, seen.total, seen.done, seen.last[0].key) == ("running", 9, number, run.key)
        assert sweep_lock.look(path)[0] == "running"
        process.kill()
    seen = look(path)  # its log is still there, and nobody has brought it in
    assert (seen.sweep, seen.total, seen.done) == ("killed", None, len(runs))
    assert seen.holder is not None
    assert (seen.holder.pid, seen.holder.progress) == (process.pid, SweepProgress(9, 0, len(runs), 1, 0))
    with Store(path) as store, store.sweeping():  # those who looked hold nothing
        assert look(path).holder != seen.holder
    assert look(path).sweep == "none"


@pytest.mark.parametrize("text", ["", "{", '{"pid": "x"}', "[]"])
def test_a_record_that_cannot_be_read_is_none(store: Path, text: str) -> None:
    store.with_name("s.db.sweep-lock.json").write_text(text)
    assert look(store).sweep == "none"
