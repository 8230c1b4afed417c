"""`capax sweep`: a study file, run to its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from capax.errors import SweepFailed

if TYPE_CHECKING:
    from capax.sweeps.sweep import SweepProgress, Watch

Flag = Parameter(negative="")
LOG_SECONDS = 10


def sweep(
    study: Path,
    /,
    *,
    store: Path | None = None,
    dry_run: Annotated[bool, Flag] = False,
    workers: int | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    retries: int = 1,
    fail_fast: Annotated[bool, Flag] = False,
    yes: Annotated[bool, Flag] = False,
    quiet: Annotated[bool, Flag] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Do every run of a study file that its store lacks; start it again after any fault, and only the rest is done.

    Ctrl-C lets the runs in flight write their checkpoints and ends with code 130; a second one ends at once.

    Parameters
    ----------
    study
        A TOML file (docs/sweeps.md; examples/*.toml).
    store
        SQLite file of finished runs. [default: the study's own, or its name with .db]
    dry_run
        Say what would be run, and stop.
    workers
        Local processes, one torch thread each. [default: one per core, at most 8]
    device
        Where to train; auto takes a GPU where there is one.
    retries
        How often a run whose process died, or that found no memory, is tried again.
    fail_fast
        Stop when a run fails, instead of going on with the others.
    yes
        Allow more than a million runs.
    quiet
        No progress and no table.
    as_json
        Print one JSON object at the end (docs/schemas/sweep.json).
    """
    from capax.sweeps.grid import read_study

    found = read_study(study, allow_many=yes)
    place = store or found.store or study.with_suffix(".db")
    if dry_run:
        from capax.sweeps.preview import preview

        seen = preview(found, place, workers=workers, device=device)
        print(seen.model_dump_json() if as_json else seen.in_words())
        return
    from capax.results import SweepSummary
    from capax.sweeps.sweep import sweep as start

    began = time.monotonic()
    with _progress(hidden=quiet or as_json) as (show, state):
        for _ in start(
            found.runs,
            place,
            workers=workers,
            device=device,
            retries=retries,
            keep_going=not fail_fast,
            progress=show,
        ):
            pass
    summary = SweepSummary(
        study=str(study),
        store=str(place),
        runs=state.total,
        stored=state.stored,
        done=state.done,
        failed=state.failed,
        seconds=time.monotonic() - began,
    )
    if as_json:
        print(summary.model_dump_json())
    elif not quiet:
        print(
            f"{summary.done} runs done, {summary.stored} were there, {summary.failed} failed; {place} "
            f"({summary.seconds:.0f} s)"
        )
    if summary.failed:
        raise SweepFailed(f"{summary.failed} runs failed: capax runs --failed --store {place} says why")


class _State:
    """The last state of a sweep."""

    total = stored = done = failed = 0


@contextmanager
def _progress(hidden: bool) -> Iterator[tuple[Watch, _State]]:
    """A callback that keeps the last state, and shows it: a bar on a terminal, a line now and then in a log file."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    state, console, told = _State(), Console(stderr=True), 0.0

    def keep(seen: SweepProgress) -> None:
        state.total, state.stored, state.done, state.failed = seen.total, seen.stored, seen.done, seen.failed

    def log(seen: SweepProgress) -> None:
        nonlocal told
        keep(seen)
        if time.monotonic() - told > LOG_SECONDS or seen.stored + seen.done + seen.failed == seen.total:
            told = time.monotonic()
            print(_in_words(seen), file=sys.stderr, flush=True)

    if hidden or not console.is_terminal:
        yield keep if hidden else log, state
        return
    with Progress(BarColumn(24), TextColumn("{task.fields[state]}"), console=console, transient=True) as bar:
        task = bar.add_task("", state="")

        def draw(seen: SweepProgress) -> None:
            keep(seen)
            finished = seen.stored + seen.done + seen.failed
            bar.update(task, total=seen.total, completed=finished, state=_in_words(seen))

        yield draw, state


def _in_words(seen: SweepProgress) -> str:
    from capax.cli.output import duration

    left = "" if seen.seconds_left is None else f" · {duration(seen.seconds_left)} left"
    return (
        f"{seen.stored + seen.done} of {seen.total} runs done · {seen.running} running · {seen.failed} failed · "
        f"{seen.memorized} items recalled{left}"
    )
