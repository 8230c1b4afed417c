"""What is known of a sweep while another process runs it, as plain data; `capax watch` draws it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from capax.errors import SpecError
from capax.specs import Task
from capax.specs.apart import Fields, apart, fields_of, in_words
from capax.store import Store
from capax.store import lock as sweep_lock
from capax.store.lock import Holder, State
from capax.store.schema import Failure, Summary
from capax.sweeps.grid import read_study
from capax.text import counted
from capax.training.checkpoints import Saved, saved

VARIED = frozenset({"n_heads", "d_model", "head_counts"})
"""What the marks and the axis of one plot tell."""
SAID = frozenset({"task", "protocol", "n_layers", "seq_len", "vocab_size", "context_size", "n_items", "n_classes"})
"""What the items of a kind, its protocol and its layers say already."""


@dataclass(frozen=True)
class StudyKeys:
    """The keys of a study file's runs, and what to call it."""

    name: str
    keys: frozenset[str]


@dataclass(frozen=True)
class Point:
    """One run: items that a model memorized; where that is its `whole_library` (mac), it may hold more."""

    n_heads: int
    d_model: int
    memorized: int
    whole_library: bool


@dataclass(frozen=True)
class Watched:
    """A store at one moment.

    Attributes:
        store: its file.
        at: the moment (UTC).
        sweep: whether one is under way, or the last one was killed.
        holder: who sweeps, or was killed.
        total: runs of the sweep or of the study; None where neither is known.
        done, failed: of these; all that the store holds where it is not known which these are.
        running: packs of runs in flight; None where no sweep says so.
        saved: how far the trainings are that the sweep has under way, by their checkpoints.
        per_minute: runs that the sweep has done per minute since it began; None before the first.
        seconds_left: until its end at this pace; None where it is not known.
        last: runs, the newest first.
        failures: all that the store, or the study, has; those of earlier sweeps, too; the newest first.
        kind: of the runs in `points`, in words: the commonest one of the store, or of the study; None without runs
            that have a width (a user's module has none).
        points: of the runs of that kind, by heads, width and count.
        others: runs of other kinds, which have no point.
    """

    store: Path
    at: datetime
    sweep: State
    holder: Holder | None
    total: int | None
    done: int
    failed: int
    running: int | None
    saved: tuple[Saved, ...]
    per_minute: float | None
    seconds_left: float | None
    last: tuple[Summary, ...]
    failures: tuple[Failure, ...]
    kind: str | None
    points: tuple[Point, ...]
    others: int

    @property
    def empty(self) -> bool:
        """Whether there is nothing to be seen."""
        return self.done + self.failed == 0

    def age(self, when: str) -> float:
        """Seconds since a time that the store tells; 0 where clocks differ."""
        return max((self.at - datetime.fromisoformat(when)).total_seconds(), 0.0)


def study_keys(path: Path) -> StudyKeys:
    """Read a study file for its keys alone.

    Raises:
        StudyError: for a study file that is not allowed.
    """
    return StudyKeys(str(path), frozenset(run.key() for run in read_study(path, allow_many=True).runs))


def look(
    store: Path, study: StudyKeys | None = None, at: datetime | None = None, known: dict[str, Fields] | None = None
) -> Watched:
    """Read a store, and where its sweep stands, without writing anything or making a writer wait.

    Args:
        study: count and draw the runs of this study alone.
        at: the moment that ages and the pace are told for; now when not given.
        known: of what kind runs are, by key, from an earlier look: they are not read again; new ones are put in.

    Raises:
        StoreError: for a file that is missing, no store, or of a newer version.
        SpecError: for a study that is not the one being swept, or of which an idle store with others holds no run.
    """
    with Store(store, create=False, read_only=True) as opened:
        sweep, holder = sweep_lock.look(store)  # before the runs: those that it counts are there
        runs, failures = opened.summaries(), opened.failures()
        kinds = {} if known is None else known
        new = opened.specs(run.key for run in runs if run.key not in kinds)
        kinds |= {key: fields_of(spec, VARIED) for key, spec in new.items()}
        checkpoints = opened.checkpoints
    at = datetime.now(UTC) if at is None else at
    progress = holder.progress if sweep == "running" and holder is not None else None
    swept = None if progress is None else progress.total
    total, done, failed = swept, len(runs), len(failures)
    if study is not None:
        _check(study, store, sweep, swept, {run.key for run in runs} | {failure.key for failure in failures})
        runs = [run for run in runs if run.key in study.keys]
        failures = [failure for failure in failures if failure.key in study.keys]
        total, done, failed = len(study.keys), len(runs), len(failures)
    elif progress is not None:
        done, failed = progress.stored + progress.done, progress.failed
    per_minute = seconds_left = None
    if progress is not None and holder is not None and progress.done:
        elapsed = (at - datetime.fromisoformat(holder.since)).total_seconds()
        if elapsed > 0:
            per_minute = 60 * progress.done / elapsed
            if swept is not None:
                left = swept - progress.stored - progress.done - progress.failed
                seconds_left = left * elapsed / progress.done
    kind, points = _points(runs, kinds)
    return Watched(
        store=store,
        at=at,
        sweep=sweep,
        holder=holder,
        total=total,
        done=done,
        failed=failed,
        running=None if progress is None else progress.running,
        saved=() if progress is None or holder is None else _saved(checkpoints, holder, progress.running),
        per_minute=per_minute,
        seconds_left=seconds_left,
        last=tuple(reversed(runs)),
        failures=tuple(reversed(failures)),
        kind=kind,
        points=points,
        others=len(runs) - len(points),
    )


def _saved(checkpoints: Path, holder: Holder, running: int) -> tuple[Saved, ...]:
    """The last states of what is running; those of an earlier sweep wait for their runs."""
    since = datetime.fromisoformat(holder.since)
    return tuple(state for state in saved(checkpoints) if state.written >= since)[:running]


def _check(study: StudyKeys, store: Path, sweep: State, swept: int | None, there: AbstractSet[str]) -> None:
    if swept is not None and swept != len(study.keys):
        raise SpecError(f"study: {study.name} has {len(study.keys)} runs, the sweep of {store} under way {swept}")
    if sweep != "running" and there and not there & study.keys:
        raise SpecError(
            f"study: {store} holds none of the {len(study.keys)} runs of {study.name}, and {len(there)} others"
        )


def _points(runs: Sequence[Summary], kinds: Mapping[str, Fields]) -> tuple[str | None, tuple[Point, ...]]:
    """The commonest kind (of equals the one that was there first) of runs that have a width, and its runs."""
    runs = [run for run in runs if run.d_model and run.key in kinds]  # one may have been deleted meanwhile
    if not runs:
        return None, ()
    fields = [kinds[run.key] for run in runs]
    ((chosen, _),) = Counter(map(repr, fields)).most_common(1)
    drawn = [run for run, own in zip(runs, fields, strict=True) if repr(own) == chosen]
    points = [Point(run.n_heads, run.d_model, run.memorized, _whole(run)) for run in drawn]
    first = drawn[0]
    kind = f"{first.items}, {first.protocol}"
    own = kinds[first.key]
    if layers := own.get("n_layers"):
        kind += f", {counted(layers, 'layer')}"
    told = apart(own, fields)
    others = {name: value for name, value in told.items() if name not in SAID}
    if others:
        kind += f", {in_words(others)}"
    return kind, tuple(sorted(points, key=lambda point: (point.n_heads, point.d_model, point.memorized)))


def _whole(run: Summary) -> bool:
    """Whether a run memorized its whole library, and nothing beside it where its task counts that, too."""
    kind = Task.registry.get(run.task)
    complete = run.stop_reason == "complete" or kind is None or not kind.metric
    return run.protocol == "mac" and run.memorized == run.library_size and complete
