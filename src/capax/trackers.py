"""Runs sent to the trackers of experiments that people have: TensorBoard, MLflow, Weights & Biases.

Each is a callback: `capax.measure(..., progress=tracker)` sends the course of every restart while it trains, and the
result once the run is stored; `capax.sweep(..., progress=tracker)` sends each run when it is done, with its course. A
run of capax is a run of the tracker, with the columns of `capax.read`. A tracker of one's own needs `__call__`, which
takes a `Progress` (of a sweep a `SweepProgress`), and `finish`, which takes a `Measurement`.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from capax.errors import TrackerError, shown
from capax.protocols.progress import Progress
from capax.results import Measurement
from capax.specs import Run
from capax.store import record, tables

Values = Mapping[str, float]


class Tracker(ABC):
    """What trackers share: when a run begins, which of its points are sent, and when it ends.

    Used in a `with` statement, it ends a run that was interrupted, as one that failed.

    Args:
        seconds: between two points of a training that is under way; its last point is always sent.
    """

    def __init__(self, seconds: float) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            raise TrackerError(f"seconds: 0 or more, got {shown(seconds)}")
        self._seconds = seconds
        self._run: Run | None = None
        self._sent: dict[str, int] = {}
        self._last = -math.inf

    @abstractmethod
    def _begin(self, run: Run, asked: Mapping[str, Any]) -> None:
        """Begin a run, of which this was asked."""

    @abstractmethod
    def _points(self, course: str, epoch: int, values: Values) -> None:
        """Send a point of the course of one restart (or of all trainings of a search)."""

    @abstractmethod
    def _result(self, run: Measurement, numbers: Values, texts: Mapping[str, str]) -> None:
        """Send what was found."""

    @abstractmethod
    def _end(self, finished: bool) -> None:
        """End the run."""

    def __call__(self, progress: object) -> None:
        """Send where the restarts are, or how many trainings of a search are done."""
        if not isinstance(progress, Progress) or progress.run is None:  # of a sweep, whose runs come when they are done
            return
        self._open(progress.run)
        now = time.monotonic()
        due = now - self._last >= self._seconds
        if not progress.run.protocol.one_library:
            if due or progress.done == progress.total:
                self._send("trainings", progress.done, {"done": progress.done})
        else:
            for status in progress.members:
                if due or status.stop_reason is not None:
                    course = _course(progress.run, status.member, status.library_size)
                    self._send(course, status.epoch, _point(status.memorized, status.loss))
        self._last = now if due else self._last

    def finish(self, run: Measurement) -> None:
        """Send a finished run: its result, and its course where that was not sent while it trained."""
        if self._run is None or self._run.key() != run.key:
            self._open(run.spec)
            for member in run.members if run.spec.protocol.one_library else ():
                curve = member.curve
                for epoch, count, loss in zip(curve.epoch, curve.memorized, curve.loss, strict=True):
                    self._send(_course(run.spec, member.member, run.library_size), epoch, _point(count, loss))
        asked = asked_of(run.spec)
        found = {**tables.table([run]).row(0, named=True), **record.columns(run, None)}
        found = {name: value for name, value in found.items() if name not in asked and value is not None}
        numbers = {name: float(value) for name, value in found.items() if isinstance(value, bool | int | float)}
        texts = {name: value for name, value in found.items() if isinstance(value, str)}
        self._result(run, _finite(numbers), texts)
        self._close(finished=True)

    def close(self) -> None:
        """End a run that was begun and is not finished, as one that failed."""
        self._close(finished=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self, run: Run) -> None:
        if self._run is not run:
            self.close()
            self._begin(run, asked_of(run))
            self._run, self._sent, self._last = run, {}, -math.inf

    def _send(self, course: str, epoch: int, values: Values) -> None:
        """Send a point, unless it was sent before."""
        if self._sent.get(course, -1) < epoch:
            self._sent[course] = epoch
            self._points(course, epoch, _finite(values))

    def _close(self, finished: bool) -> None:
        if self._run is not None:
            self._run = None
            self._end(finished)


class TensorBoard(Tracker):
    """Event files for TensorBoard, a folder for each run, named by its key.

    Args:
        folder: of all runs; `tensorboard --logdir FOLDER` shows it.
        seconds: between two points of a training that is under way.

    Raises:
        TrackerError: where tensorboard is not installed.
    """

    def __init__(self, folder: Path | str = "tensorboard", *, seconds: float = 1.0) -> None:
        super().__init__(seconds)
        self._folder = Path(folder)
        _imported("tensorboard")
        self._writers = import_module("torch.utils.tensorboard")
        self._writer: Any = None

    def _begin(self, run: Run, asked: Mapping[str, Any]) -> None:
        self._writer = self._writers.SummaryWriter(_fresh(self._folder / run.key()[:12]))
        self._writer.add_text("asked", _table(asked))

    def _points(self, course: str, epoch: int, values: Values) -> None:
        for name, value in values.items():
            self._writer.add_scalar(f"{name}/{course}", value, epoch)

    def _result(self, run: Measurement, numbers: Values, texts: Mapping[str, str]) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(f"result/{name}", value, run.epochs)
        self._writer.add_text("result", f"```\n{run}\n```")
        self._writer.add_text("about", _table(texts))

    def _end(self, finished: bool) -> None:
        self._writer.close()


class MLflow(Tracker):
    """Runs of an experiment of MLflow.

    Args:
        experiment: made when missing.
        uri: of the tracking server or store, such as `sqlite:///mlflow.db`; MLflow's own choice when not given.
        seconds: between two points of a training that is under way.

    Raises:
        TrackerError: where mlflow is not installed.
    """

    def __init__(self, experiment: str = "capax", uri: str | None = None, *, seconds: float = 1.0) -> None:
        super().__init__(seconds)
        self._mlflow = _imported("mlflow")
        self._client = self._mlflow.MlflowClient(tracking_uri=uri)
        known = self._client.get_experiment_by_name(experiment)
        self._experiment = self._client.create_experiment(experiment) if known is None else known.experiment_id
        self._id = ""

    def _begin(self, run: Run, asked: Mapping[str, Any]) -> None:
        self._id = self._client.create_run(self._experiment, run_name=run.key()[:12]).info.run_id
        kind = self._mlflow.entities.Param
        self._client.log_batch(self._id, params=[kind(name, str(value)) for name, value in asked.items()])

    def _points(self, course: str, epoch: int, values: Values) -> None:
        self._log({f"{name}/{course}": value for name, value in values.items()}, epoch)

    def _log(self, values: Values, step: int) -> None:
        kind, now = self._mlflow.entities.Metric, int(1000 * time.time())
        self._client.log_batch(self._id, metrics=[kind(name, value, now, step) for name, value in values.items()])

    def _result(self, run: Measurement, numbers: Values, texts: Mapping[str, str]) -> None:
        self._log(numbers, run.epochs)
        kind = self._mlflow.entities.RunTag
        self._client.log_batch(self._id, tags=[kind(f"capax.{name}", value) for name, value in texts.items()])
        if run.name is not None:
            self._client.update_run(self._id, name=run.name)

    def _end(self, finished: bool) -> None:
        self._client.set_terminated(self._id, "FINISHED" if finished else "KILLED")


class WandB(Tracker):
    """Runs of a project of Weights & Biases.

    Args:
        project: made when missing.
        seconds: between two points of a training that is under way.
        options: of `wandb.init`, such as `entity`, `group`, `dir` or `mode="offline"`.

    Raises:
        TrackerError: where wandb is not installed.
    """

    def __init__(self, project: str = "capax", *, seconds: float = 1.0, **options: Any) -> None:
        super().__init__(seconds)
        self._wandb = _imported("wandb")
        self._options = {"project": project, "reinit": "create_new", **options}
        self._there: Any = None
        self._courses: set[str] = set()

    def _begin(self, run: Run, asked: Mapping[str, Any]) -> None:
        self._there = self._wandb.init(name=run.key()[:12], config=dict(asked), **self._options)
        self._courses = set()

    def _points(self, course: str, epoch: int, values: Values) -> None:
        if course not in self._courses:
            self._courses.add(course)
            for name in ("memorized", "loss", "done"):
                self._there.define_metric(f"{name}/{course}", step_metric=f"epoch/{course}")
        self._there.log({f"epoch/{course}": epoch, **{f"{name}/{course}": value for name, value in values.items()}})

    def _result(self, run: Measurement, numbers: Values, texts: Mapping[str, str]) -> None:
        self._there.summary.update({**numbers, **texts})
        self._there.name = run.name or run.key[:12]
        self._there.tags = (*(self._there.tags or ()), *run.tags)

    def _end(self, finished: bool) -> None:
        self._there.finish(exit_code=0 if finished else 1)


def asked_of(run: Run) -> dict[str, Any]:
    """What a run was asked for, by the columns of `capax.read`; without what is not given."""
    asked = {**tables.spec_columns(run), "library_size": run.task.library_size, "seed": run.seed}
    return {name: value for name, value in asked.items() if value is not None}


def _course(run: Run, member: int, library_size: int) -> str:
    """The name of a restart's course; on a library that follows the run's own, of that too."""
    return f"restart_{member}" + ("" if library_size == run.task.library_size else f"_of_{library_size}")


def _point(memorized: int, loss: float | None) -> dict[str, float]:
    return {"memorized": float(memorized)} | ({} if loss is None else {"loss": loss})


def _finite(values: Values) -> dict[str, float]:
    """Numbers that every tracker can keep."""
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _table(values: Mapping[str, Any]) -> str:
    """Names and values in Markdown."""
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | `{value}` |" for name, value in values.items())])


def _fresh(folder: Path) -> Path:
    """A folder that is not there: numbered, where a run was sent before."""
    number = 1
    while (found := folder if number == 1 else folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    return found


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise TrackerError(f"{name}: is not installed: pip install {name}") from None
