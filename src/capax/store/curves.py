"""What trainings knew as they went on, as a table: bits after so many exposures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, overload

import polars as pl

from capax.errors import TableError
from capax.results import Measurement
from capax.store import DEFAULT, Store, tables
from capax.store.frames import Backend, given

KNOWN = "known_bits"
"""The column of bits that are known."""

LATER = (
    *("max_steps", "time_limit", "patience", "min_loss_drop", "stop_when_complete", "best_by", "cycle_tolerance"),
    *("eval_every", "eval_steps", "protocol", "restarts"),
)
"""Fields that say when a training is looked at and ends, and how many there are: its curve does not depend on them."""

MOST_KNOWN = 0.7
"""Share of a library's bits beyond which it may be too small to show what could be held (as for protocol capacity)."""

BEGUN = 0.1
"""Share of the most that a training knew, below which a point is of its start: no form of a curve describes that."""

APART = 2**0.5
"""Least ratio of exposures from one row to the next, of curves that have many points."""


@overload
def curves(store: Path | str = DEFAULT) -> pl.DataFrame: ...


@overload
def curves(store: Path | str = DEFAULT, backend: Backend = "polars") -> Any: ...


def curves(store: Path | str = DEFAULT, backend: Backend = "polars") -> Any:
    """Points of the curves of the finished runs of a store, of which an `ExposureLaw` is fitted.

    At one learning rate every evaluation is a point, by the mean training loss since the one before; where the rate
    comes in cycles, it is their ends, where it is 0; of any other schedule there is none but the last. A point is the
    mean over a run's restarts, as long as all of them are trained. Of libraries of one's own, and of tasks other than
    sequences at one rate, there are no points.

    Args:
        backend: library of the data frame, as in `capax.read`.

    Returns:
        One row per point: `key`, the fields of the task, model, training and protocol, parameter counts,
        `library_bits` (what there was to be known), `exposures` and `known_bits`.

    Raises:
        StoreError: when the file is missing or no store.
        TableError: when no run has a curve, or the backend is not there.
    """
    given(pl.DataFrame(), backend)
    with Store(store, create=False) as opened:
        rows = list(points(opened.each()))
    if not rows:
        raise TableError(f"store: no run of {store} has bits after so many exposures (protocols capacity and mac)")
    return given(pl.DataFrame(rows, infer_schema_length=None), backend)


def points(runs: Iterable[Measurement]) -> Iterator[dict[str, Any]]:
    """The points of runs, as rows of the table of `curves`."""
    for run in runs:
        task = run.spec.task
        drawn = task.drawn and not task.files and task.reads == "tokens"
        if not drawn or run.spec.protocol.protocol not in ("mac", "capacity"):
            continue
        known = {
            **({"key": ""} | tables.spec_columns(run.spec) | {"key": run.key}),  # facts have a field of that name
            "library_size": run.library_size,
            "seed": run.spec.seed,
            **tables.parameter_columns(run),
            "library_bits": run.library_size * task.information_per_item(),
        }
        for exposures, bits in _points(run):
            if exposures >= 1 and bits > 0:
                yield {**known, "exposures": float(exposures), KNOWN: bits}


def _points(run: Measurement) -> Iterator[tuple[float, float]]:
    """Exposures and bits of the points of one run."""
    training = run.spec.training
    if training.schedule == "cycles":
        for ends in zip(*(member.cycles for member in run.members), strict=False):  # as long as all are trained
            yield ends[0].epochs, sum(end.bits for end in ends) / len(ends)
    elif training.scheduled:
        if last := run.unit("morris_bits"):
            yield run.epochs, last.amount
    elif (guess := run.spec.task.uniform_nats()) is not None:
        yield from _by_loss(run, guess)


def _by_loss(run: Measurement, guess: float) -> Iterator[tuple[float, float]]:
    """Points of a training at one rate: what the loss is below that of a uniform guess (nats), of all items.

    The last evaluation is one, and before it those that are far enough apart.
    """
    most = run.library_size * run.spec.task.information_per_item()
    seen = zip(*(zip(member.curve.epoch, member.curve.loss, strict=True) for member in run.members), strict=False)
    every, before = list[tuple[float, float]](), 0
    for evaluations in seen:
        epoch, losses = evaluations[0][0], [loss for _, loss in evaluations if loss is not None]
        if len(losses) == len(evaluations):
            every.append(((before + epoch) / 2, most * (1 - sum(losses) / len(losses) / guess)))
        before = epoch
    kept = list[tuple[float, float]]()
    for point in reversed(every):
        if not kept or point[0] * APART <= kept[-1][0]:
            kept.append(point)
    yield from reversed(kept)


def below_their_library(rows: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The rows of runs that knew at most 70 % of their library, and a note of those that knew more.

    A table without `library_bits` keeps its rows.

    Raises:
        TableError: when no row is left.
    """
    if not {"library_bits", "key", KNOWN} <= set(rows.columns):
        return rows, ()
    share = (pl.col(KNOWN) / pl.col("library_bits")).max().over("key")
    kept = rows.filter(share.le(MOST_KNOWN).fill_null(value=True))
    if kept.is_empty():
        raise TableError(f"{KNOWN}: every run knew more than {MOST_KNOWN:.0%} of its library: they are too small")
    count = rows["key"].n_unique() - kept["key"].n_unique()
    which = "1 run was" if count == 1 else f"{count} runs were"
    return kept, (f"{which} left out: more than {MOST_KNOWN:.0%} of the library is known",) if count else ()


def begun(rows: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The rows at which a run knew at least a tenth of what it came to know, and a note of the others."""
    if not {"key", KNOWN} <= set(rows.columns):
        return rows, ()
    kept = rows.filter((pl.col(KNOWN) >= BEGUN * pl.col(KNOWN).max().over("key")).fill_null(value=True))
    count = len(rows) - len(kept)
    which = f"{count} points of starts were" if count > 1 else "1 point of a start was"
    return kept, (f"{which} left out: less than {BEGUN:.0%} of what the training came to know",) if count else ()
