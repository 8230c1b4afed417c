"""What the command line shows: a progress bar while training, and a result that a person can read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from capax.measures import progress as measuring
from capax.results import Interval, Measurement

PIPE_WIDTH = 200
STOPPED = {
    "complete": "the library was complete",
    "plateau": "nothing improved any more",
    "budget": "its budget was spent",
    "diverged": "it diverged",
}


@contextmanager
def progress_bar(hidden: bool = False, label: str = "") -> Iterator[measuring.Callback | None]:
    """A callback that draws on stderr, gone when the measurement is over; None when hidden or stderr is no terminal."""
    console = Console(stderr=True)
    if hidden or not console.is_terminal:
        yield None
        return
    columns = [TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.fields[state]}")]
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label or "training", total=None, state="")

        def show(state: measuring.Progress) -> None:
            leader = state.leader
            loss = "" if leader.loss is None else f" · loss {leader.loss:.3f}"
            left = "" if state.seconds_left is None else f" · {duration(state.seconds_left)} left unless it improves"
            bar.update(
                task,
                total=leader.library_size,
                completed=leader.memorized,
                state=f"{leader.memorized} of {leader.library_size} recalled · epoch {leader.epoch}{loss}"
                f" · {state.done}/{state.total} done{left}",
            )

        yield show


def show(run: Measurement) -> None:
    """Print a measurement as a table, with how it was measured."""
    spec = run.spec
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in _rows(run):
        table.add_row(name, value)
    task, model = spec.task, spec.model
    screen = console()
    screen.print(
        f"{model.n_layers} layer{'s' * (model.n_layers > 1)}, {model.n_heads} head{'s' * (model.n_heads > 1)} of "
        f"{model.d_head}, width {model.d_model}; {task.seq_len} tokens from {task.vocab_size}, loss on {task.loss} "
        f"position{'s' * (task.loss == 'all')}; protocol {spec.protocol.protocol}, seed {spec.seed}"
    )
    screen.print(table)


def _rows(run: Measurement) -> list[tuple[str, str]]:
    name = {"mac": "memorized", "mls": "largest library", "shatter": "memorized (best)"}[run.spec.protocol.protocol]
    counts = run.memorized_per_restart
    each = (
        f" (restarts: {', '.join(map(str, counts))})" if run.spec.protocol.protocol == "mac" and len(counts) > 1 else ""
    )
    rows = [
        (name, f"{run.memorized} of {run.library_size}{each}"),
        ("chance", f"{run.chance:.4g} by luck; {run.memorized_above_chance:.4g} above chance"),
    ]
    if run.interval is not None:
        rows.append(("interval", _range(run.interval)))
    if run.search is not None:
        sure = run.search.largest_sure
        rows.append(
            ("search", f"{len(run.members)} trainings; every one succeeded up to {'no size' if sure is None else sure}")
        )
    if run.shatter is not None:
        rows += _shatter_rows(run)
    rows += [
        ("bits", f"{run.bits:.4g}, {run.bits_per_parameter:.3g} per trainable parameter"),
        ("tokens", f"{run.tokens_per_parameter:.3g} per trainable parameter"),
        ("parameters", f"{run.parameters.trainable} trainable of {run.parameters.total}"),
        (
            "training",
            f"{run.epochs} epochs, {run.steps} steps, {duration(run.seconds)}; ended as {STOPPED[run.stop_reason]}",
        ),
    ]
    diverged = sum(member.stop_reason == "diverged" for member in run.members)
    if diverged:
        rows.append(("diverged", f"{diverged} of {len(run.members)} trainings"))
    if run.unreachable:
        rows.append(
            ("unreachable", f"the frozen read-out can never give these targets: {', '.join(map(str, run.unreachable))}")
        )
    rows += [("note", note) for note in run.notes]
    rows.append(("key", run.key[:12]))
    return rows


def _shatter_rows(run: Measurement) -> list[tuple[str, str]]:
    assert run.shatter is not None
    shatter, fit = run.shatter, run.shatter.fit
    trials = len(shatter.epochs) + len(shatter.censored)
    rows = [("completed", f"{len(shatter.epochs)} of {trials} trials; {_range(shatter.completed_share)}")]
    if shatter.median is not None:
        rows.append(("epochs", f"median {shatter.median:g}, {min(shatter.epochs)} to {max(shatter.epochs)}"))
    if fit is not None:
        low, high = fit.r_interval
        rows.append(
            (
                "neg. binomial",
                f"r {fit.r} ({low:g} to {high:g}), p {fit.p:.4g} ({fit.p_interval[0]:.4g} to {fit.p_interval[1]:.4g}); "
                f"largest distance to the data {fit.distance:.3f}",
            )
        )
    return rows


def console() -> Console:
    """Stdout; as wide as the text needs where it is a file or a pipe."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def _range(interval: Interval) -> str:
    high = "no upper end" if interval.high is None else f"{interval.high:.4g}"
    return f"{interval.low:.4g} to {high} ({interval.level:.0%}: {interval.of})"


def duration(seconds: float) -> str:
    """Seconds in a unit that suits them."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def show_runs(runs: list[Measurement]) -> None:
    """Print one line per run."""
    table = Table(box=None, pad_edge=False)
    numbers = ["layers", "heads", "width", "seq_len", "vocab", "library", "memorized", "chance", "bits/par.", "seconds"]
    for name in ("key", "protocol", *numbers, "stopped"):
        table.add_column(name, justify="right" if name in numbers else "left", no_wrap=True)
    for run in runs:
        task, model = run.spec.task, run.spec.model
        sizes = (model.n_layers, model.n_heads, model.d_model, task.seq_len, task.vocab_size, run.library_size)
        table.add_row(
            run.key[:12],
            run.spec.protocol.protocol,
            *map(str, sizes),
            str(run.memorized),
            f"{run.chance:.4g}",
            f"{run.bits_per_parameter:.3g}",
            f"{run.seconds:.1f}",
            run.stop_reason,
        )
    console().print(table)
