"""Runs reach trackers as they were measured: their course while they train, and their result."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import capax
from capax.errors import TrackerError
from capax.protocols.progress import Progress
from capax.results import Measurement
from capax.specs import Run
from capax.sweeps.adaptive import sweep_adaptively
from capax.trackers import Tracker, Values

TASK = capax.Sequences(seq_len=3, vocab_size=9, library_size=10)
MODEL = capax.Transformer(d_model=4, d_head=2)
HOW: dict[str, Any] = {"training": capax.Training(max_epochs=30), "restarts": 2, "device": "cpu"}


class Told(Tracker):
    """Keeps what it is told."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(seconds)
        self.begun: list[Run] = []
        self.points: dict[str, list[tuple[int, dict[str, float]]]] = {}
        self.found: list[tuple[Measurement, dict[str, float], dict[str, str]]] = []
        self.ended: list[bool] = []

    def _begin(self, run: Run, asked: Mapping[str, Any]) -> None:
        assert len(self.begun) == len(self.ended)
        assert asked["seq_len"] == TASK.seq_len
        assert None not in asked.values()
        self.begun.append(run)
        self.points = {}

    def _points(self, course: str, epoch: int, values: Values) -> None:
        self.points.setdefault(course, []).append((epoch, dict(values)))

    def _result(self, run: Measurement, numbers: Values, texts: Mapping[str, str]) -> None:
        self.found.append((run, dict(numbers), dict(texts)))

    def _end(self, finished: bool) -> None:
        self.ended.append(finished)


def course_of(run: Measurement, member: int) -> list[tuple[int, dict[str, float]]]:
    curve = run.members[member].curve
    rows = zip(curve.epoch, curve.memorized, curve.loss, strict=True)
    return [
        (epoch, {"memorized": float(count)} | ({} if loss is None else {"loss": loss})) for epoch, count, loss in rows
    ]


def test_a_measurement_is_followed_and_its_result_told() -> None:
    told = Told()
    run = capax.measure(TASK, MODEL, **HOW, name="baseline", tags=("x", "y"), progress=told)
    assert told.begun == [run.spec]
    assert set(told.points) == {"restart_0", "restart_1"}
    for member, course in enumerate(told.points.values()):
        epochs = [epoch for epoch, _ in course]
        assert epochs == sorted(set(epochs))
        assert epochs[-1] == run.members[member].epochs
        assert all(point in course_of(run, member) for point in course if point[0] in run.members[member].curve.epoch)
    ((found, numbers, texts),) = told.found
    assert found == run
    assert (numbers["memorized"], numbers["bits"], numbers["steps"]) == (run.memorized, run.bits, run.steps)
    assert (texts["key"], texts["name"], texts["tags"]) == (run.key, "baseline", "x,y")
    assert all(map(math.isfinite, numbers.values()))
    assert told.ended == [True]


def test_between_points_lies_the_time_that_was_asked_for_but_ends_are_told() -> None:
    told = Told(seconds=3600)
    run = capax.measure(TASK, MODEL, **HOW, progress=told)
    for course in told.points.values():
        assert len(course) <= 2
        assert course[-1][0] == run.members[0].epochs


def test_a_finished_run_has_the_course_that_was_kept() -> None:
    told, run = Told(), capax.measure(TASK, MODEL, **HOW)
    told.finish(run)
    assert told.points == {f"restart_{member}": course_of(run, member) for member in (0, 1)}
    assert told.ended == [True]


def test_a_run_that_is_stored_already_is_not_told_again(tmp_path: Path) -> None:
    told = Told()
    for _ in range(2):
        capax.measure(TASK, MODEL, **HOW, store=tmp_path / "s.db", progress=told)
    assert len(told.found) == len(told.begun) == 1


def test_a_run_is_told_once_it_is_stored(tmp_path: Path) -> None:
    class Looking(Told):
        def finish(self, run: Measurement) -> None:
            with capax.Store(tmp_path / "s.db", create=False) as store:
                assert store.get(run.key) == run
            super().finish(run)

    told = Looking()
    capax.measure(TASK, MODEL, **HOW, store=tmp_path / "s.db", progress=told)
    assert told.ended == [True]


def test_searches_tell_how_many_trainings_are_done() -> None:
    told = Told()
    run = capax.measure(TASK, MODEL, HOW["training"], protocol=capax.Shatter(trials=3), progress=told)
    assert list(told.points) == ["trainings"]
    assert told.points["trainings"][-1] == (3, {"done": 3})
    assert told.found[0][0] == run


@pytest.mark.slow
def test_a_sweep_tells_the_runs_that_it_does(tmp_path: Path) -> None:
    runs = [
        capax.Run(task=TASK, model=MODEL, training=HOW["training"], protocol=capax.Mac(restarts=2), seed=seed)
        for seed in range(3)
    ]
    capax.measure(TASK, MODEL, **HOW, seed=1, store=tmp_path / "s.db")
    told = Told()
    done = list(capax.sweep(runs, tmp_path / "s.db", workers=1, tags=["grid"], progress=told))
    assert [run.key for run, _, _ in told.found] == [run.key for run in done if run.spec.seed != 1]
    assert told.ended == [True, True]
    assert told.points == {f"restart_{member}": course_of(told.found[-1][0], member) for member in (0, 1)}
    assert {texts["tags"] for _, _, texts in told.found} == {"grid"}


@pytest.mark.slow
def test_libraries_that_follow_each_other_have_courses_of_their_own() -> None:
    """A capacity run goes on to a larger library, from epoch 0."""
    task = TASK.replace(library_size=4)
    training = capax.Training(max_steps=60, cycle_steps=20)
    told = Told()
    run = capax.measure(
        task, capax.Transformer(d_model=12), training, protocol=capax.Capacity(restarts=2), progress=told
    )
    assert run.library_size > 4
    assert f"restart_0_of_{run.library_size}" in told.points
    assert told.points[f"restart_0_of_{run.library_size}"][-1][0] == run.members[0].epochs
    again = Told()
    again.finish(run)
    assert set(again.points) == {f"restart_{member}_of_{run.library_size}" for member in (0, 1)}


def test_a_sweep_whose_tracker_fails_ends_in_order_and_keeps_what_ended(tmp_path: Path) -> None:
    class Broken(Told):
        def finish(self, run: Measurement) -> None:
            raise ConnectionError("gone")

    runs = [capax.Run(task=TASK, model=MODEL, training=HOW["training"], seed=seed) for seed in range(3)]
    done = []
    with pytest.raises(TrackerError, match="progress: ConnectionError: gone"):
        done.extend(capax.sweep(runs, tmp_path / "s.db", workers=1, progress=Broken()))
    with capax.Store(tmp_path / "s.db") as store:
        assert len(store.keys()) >= 1
    again = runs[0].replace(seed=7)
    adaptive = sweep_adaptively(
        [again], tmp_path / "s.db", law=capax.PowerLaw(), budget=60, workers=1, progress=Broken()
    )
    with pytest.raises(TrackerError, match="progress: ConnectionError: gone"):
        list(adaptive)
    with capax.Store(tmp_path / "s.db") as store:
        assert store.get(again.key()) is not None


def test_an_interrupted_run_ends_as_one_that_failed() -> None:
    class Interrupted(Told):
        def __call__(self, progress: object) -> None:
            super().__call__(progress)
            assert isinstance(progress, Progress)
            if progress.leader.epoch > 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Interrupted() as told:
        capax.measure(TASK, MODEL, **HOW, progress=told)
    assert (told.ended, told.found) == ([False], [])


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, "1", True])
def test_times_that_are_none_are_refused(seconds: Any) -> None:
    with pytest.raises(TrackerError, match="seconds: 0 or more, got"):
        Told(seconds)


@pytest.mark.parametrize(("kind", "needs"), [("TensorBoard", "tensorboard"), ("MLflow", "mlflow"), ("WandB", "wandb")])
def test_what_is_not_installed_is_named(kind: str, needs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Hidden:
        def find_spec(self, name: str, *_: object) -> None:
            if name == needs:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.delitem(sys.modules, needs, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])
    with pytest.raises(TrackerError, match=f"{needs}: is not installed: pip install {needs}"):
        getattr(capax.trackers, kind)()


def test_tensorboard_reads_the_event_files(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tracker = capax.trackers.TensorBoard(tmp_path, seconds=0)
    run = capax.measure(TASK, MODEL, **HOW, name="baseline")
    tracker.finish(run)
    tracker.finish(run)
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert folders == [run.key[:12], f"{run.key[:12]}-2"]
    events = EventAccumulator(str(tmp_path / folders[0]))
    events.Reload()
    points = [(event.step, event.value) for event in events.Scalars("memorized/restart_0")]
    assert points == [(epoch, values["memorized"]) for epoch, values in course_of(run, 0)]
    assert [event.value for event in events.Scalars("result/memorized")] == [run.memorized]
    (text,) = events.Tensors("result/text_summary")
    assert "baseline" in text.tensor_proto.string_val[0].decode()


@pytest.mark.very_slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_mlflow_reads_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    tracker = capax.trackers.MLflow("ours", uri, seconds=0)
    run = capax.measure(TASK, MODEL, **HOW, name="baseline", tags=("x", "y"), progress=tracker)
    with capax.trackers.MLflow("ours", uri) as left:
        left._open(run.spec)
    client = mlflow.MlflowClient(uri)
    killed, found = client.search_runs([client.get_experiment_by_name("ours").experiment_id])
    assert (killed.info.status, found.info.status, found.info.run_name) == ("KILLED", "FINISHED", "baseline")
    assert found.data.params["d_model"] == "4"
    assert found.data.metrics["bits"] == run.bits
    assert found.data.tags["capax.tags"] == "x,y"
    last = client.get_metric_history(found.info.run_id, "memorized/restart_1")[-1]
    assert last.step == run.members[1].epochs


BLOCK, HEADER, WHOLE, LAST = 32768, 7, 1, 4


def logged(content: bytes) -> Iterator[bytes]:
    """The records of a file of W&B, a log of LevelDB after 7 bytes; a record may be in parts."""
    at, parts = HEADER, b""
    while at + HEADER <= len(content):
        if BLOCK - at % BLOCK < HEADER:
            at += BLOCK - at % BLOCK
            continue
        length, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        parts += content[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (WHOLE, LAST):
            yield parts
            parts = b""


@pytest.mark.very_slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_weights_and_biases_keeps_a_run_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_SILENT", "true")
    tracker = capax.trackers.WandB("ours", seconds=0, mode="offline", dir=str(tmp_path))
    run = capax.measure(TASK, MODEL, **HOW, name="baseline", tags=("x", "y"), progress=tracker)
    (path,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    records = [Record.FromString(data) for data in logged(path.read_bytes())]
    summary = {item.key or item.nested_key[0]: item.value_json for one in records for item in one.summary.update}
    assert float(summary["bits"]) == pytest.approx(run.bits)
    names = [one.run for one in records if one.HasField("run")]
    assert (names[-1].display_name, names[-1].project, list(names[-1].tags)) == ("baseline", "ours", ["x", "y"])
    history = [{item.key or item.nested_key[0]: item.value_json for item in one.history.item} for one in records]
    epochs = [float(point["epoch/restart_1"]) for point in history if "epoch/restart_1" in point]
    assert epochs[-1] == run.members[1].epochs
    assert [one.exit.exit_code for one in records if one.HasField("exit")] == [0]
