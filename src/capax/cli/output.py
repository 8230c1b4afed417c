"""What the command line shows: a progress bar while training, and a result that a person can read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from pydantic import BaseModel
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from capax.cli import streams
from capax.errors import FigureFailed, printable
from capax.specs.plugins import resolve
from capax.store.schema import Failure, Summary
from capax.text import duration

if TYPE_CHECKING:
    from capax.protocols import progress as measuring

PIPE_WIDTH = 200
WIDE = 110
"""Columns from which on a line of progress holds all of it."""
LONGEST_ERROR = 140


@contextmanager
def progress_bar(hidden: bool = False, label: str = "") -> Iterator[measuring.Callback | None]:
    """A callback that draws on stderr, gone when the measurement is over; None when hidden or stderr is no terminal."""
    screen = console(stderr=True)
    if hidden or not screen.is_terminal:
        yield None
        return
    narrow = screen.width < WIDE
    label_column, state_column = (
        TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[state]}")
    )
    with Progress(label_column, BarColumn(8 if narrow else 24), state_column, console=screen, transient=True) as bar:
        task = bar.add_task(label or "training", total=None, state="")

        def show(state: measuring.Progress) -> None:
            leader = state.leader
            bar.update(
                task, total=leader.library_size, completed=leader.memorized, state=_state_in_words(state, narrow)
            )

        yield show


MANY = 100_000
"""Facts of a file from which it is shown that they are read."""


@contextmanager
def reading() -> Iterator[None]:
    """Count on stderr the facts that are read of a file, where they are many and stderr is a terminal."""
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield
        return
    watched: ContextVar[Callable[[int], None] | None] = resolve("capax.tasks.facts.table:WATCH")
    bar = Progress(TextColumn("{task.description}", markup=False), console=screen, transient=True)
    task = bar.add_task("")

    def show(number: int) -> None:
        if number >= MANY:
            bar.start()
            bar.update(task, description=f"{number} facts read")

    token = watched.set(show)
    try:
        yield
    finally:
        watched.reset(token)
        bar.stop()


Found = TypeVar("Found", bound=BaseModel)


def emit(
    found: Found,
    show: Callable[[Found], object],
    *,
    as_json: bool,
    quiet: bool = False,
    **files: Path | None,
) -> None:
    """Print a result: as one JSON object, in words, or not at all.

    Args:
        show: prints it in words.
        files: what else was written, such as a `figure`.
    """
    if as_json:
        print(found.model_dump_json())
    elif not quiet:
        show(found)
        for name, path in files.items():
            if path is not None:
                print(f"{name.capitalize()}: {printable(path)}")


def rows(count: int) -> str:
    """So many rows, in words."""
    return f"{count} row{'s' * (count != 1)}"


def warn(device: str, *precisions: str) -> None:
    """Say on stderr what to know of arithmetic on a device before something starts.

    Raises:
        DeviceError: for a device that is not there.
    """
    where = resolve("capax.devices:choose_device")(device)
    for precision in precisions:
        caveat = resolve("capax.devices:caveat")(precision, where)
        if caveat is not None:
            streams.tell(f"capax: {caveat}")


def _state_in_words(state: measuring.Progress, narrow: bool) -> str:
    leader = state.leader
    parts = [
        f"{leader.memorized} of {leader.library_size}{'' if narrow else ' recalled'}",
        f"epoch {leader.epoch}",
        *([] if leader.loss is None or narrow else [f"loss {leader.loss:.3f}"]),
        f"{state.done}/{state.total} done",
    ]
    if state.seconds_left is not None:
        parts.append(f"{duration(state.seconds_left)} left{' or more' if narrow else ' unless it improves'}")
    return " · ".join(parts)


class Screen(Console):
    """A console that shows the control characters of a text and obeys none."""

    def render_str(self, text: str, **options: Any) -> Text:
        """A string as rich shows it."""
        return super().render_str("\n".join(map(printable, text.split("\n"))), **options)


def console(stderr: bool = False) -> Console:
    """Stdout or stderr; as wide as the text needs where it is a file or a pipe.

    Nothing in a text is a command to it (`[red]`, `:key:`): names, paths and errors are the user's. A style is an
    argument, or a `rich.text.Text`.
    """
    console = Screen(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


@contextmanager
def failed_figures() -> Iterator[None]:
    """Say on stderr, in a line each, which figures of a page failed, and why."""

    def tell(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, FigureFailed):
            streams.tell(f"capax: {printable(message)}")
        else:
            usual(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.simplefilter("always", FigureFailed)
        usual, warnings.showwarning = warnings.showwarning, tell
        yield


def show_runs(runs: list[Summary]) -> None:
    """Print one line per run; a narrow terminal is shown fewer columns."""
    columns: dict[str, list[str]] = {
        "key": [run.key[:12] for run in runs],
        "protocol": [run.protocol for run in runs],
        "items": [run.items for run in runs],
        "layers": [str(run.n_layers or "-") for run in runs],
        "heads": [str(run.n_heads or "-") for run in runs],
        "width": [str(run.d_model or "-") for run in runs],
        "library": [str(run.library_size) for run in runs],
        "memorized": [str(run.memorized) for run in runs],
        "chance": [f"{run.chance:.4g}" for run in runs],
        "bits/par.": [f"{run.bits_per_parameter:.3g}" for run in runs],
        "seconds": [f"{run.seconds:.1f}" for run in runs],
        "stopped": [run.stop_reason for run in runs],
    }
    show_lines(
        columns,
        words=("key", "protocol", "items", "stopped"),
        spare=("seconds", "bits/par.", "layers", "stopped", "chance"),
    )


def show_failures(failures: list[Failure]) -> None:
    """Print one line per failed run; a long error is cut short."""
    if not failures:
        print("none failed")
        return
    columns: dict[str, list[str]] = {
        "key": [item.key[:12] for item in failures],
        "failed": [item.failed for item in failures],
        "attempts": [str(item.attempts) for item in failures],
        "error": [_one_line(item.error) for item in failures],
    }
    show_lines(columns, words=("key", "failed", "error"))


def _one_line(error: str) -> str:
    line = " ".join(error.split())
    return line if len(line) <= LONGEST_ERROR else f"{line[: LONGEST_ERROR - 3]}..."


def show_lines(
    columns: Mapping[str, Sequence[str]], *, words: Sequence[str] = (), spare: Sequence[str] = ()
) -> list[str]:
    """Print columns as wide as their longest text, so that none is cut: numbers to the right, `words` to the left.

    Where the terminal is too narrow, heads of two words take two lines, and then columns of `spare` are left out, the
    first of them first. (rich's tables cut numbers, and take seconds for ten thousand rows.)

    Returns:
        The names of the columns shown.
    """
    screen = console()
    columns = {name: [*map(printable, cells)] for name, cells in columns.items()}
    heads = {name: [name] for name in columns}

    def width(name: str) -> int:
        return max(map(len, [*heads[name], *columns[name]]))

    def too_wide() -> bool:
        return sum(width(name) + 2 for name in heads) - 2 > screen.width

    if too_wide():
        heads = {name: name.replace("/", "/ ").split() for name in columns}
    for name in spare:
        if too_wide():
            del heads[name]
    widths = {name: width(name) for name in heads}

    def line(cells: Iterable[str]) -> str:
        pads = (str.ljust if name in words else str.rjust for name in heads)
        return "  ".join(pad(cell, width) for pad, cell, width in zip(pads, cells, widths.values(), strict=True))

    tall = max(map(len, heads.values()))
    for row in zip(*([""] * (tall - len(head)) + head for head in heads.values()), strict=True):
        screen.print(line(row), style="bold", soft_wrap=True)
    for row in zip(*(columns[name] for name in heads), strict=True):
        print(line(row))
    return list(heads)
