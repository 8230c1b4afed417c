"""What stderr shows while something takes long: a bar or a status on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from capax import working
from capax.cli import output, streams
from capax.text import duration

if TYPE_CHECKING:
    from capax.protocols import progress as measuring

WIDE = 110
"""Columns from which on a line of progress holds all of it."""
SILENT_SECONDS = 0.5
"""After which a terminal shows what is being done."""
FIRST_SECONDS, EVERY_SECONDS = 10.0, 30.0
"""After which something is said where stderr is no terminal, and from then on."""
LATEST_SECONDS = 60.0
"""After which it is said even if nobody can tell yet how long it takes."""


class Lines:
    """Lines on stderr, now and then."""

    def __init__(self) -> None:
        self._next = time.monotonic() + FIRST_SECONDS

    def __call__(self, words: Callable[[], str]) -> None:
        """Say something, if it is time."""
        if (now := time.monotonic()) >= self._next:
            self._next = now + EVERY_SECONDS
            streams.tell(f"capax: {words()}")


@contextmanager
def training(
    hidden: bool = False, label: str = "training", about: Callable[[measuring.Progress], str] | None = None
) -> Iterator[measuring.Callback | None]:
    """A callback that shows the course of a measurement; a bar is gone when that is over. None when hidden.

    Args:
        label: what is trained.
        about: what is measured, and how long that is likely to take: said once, before all else.
    """
    screen = output.console(stderr=True)
    if hidden:
        yield None
    elif screen.is_terminal:
        with _bar(screen.width < WIDE, label, about) as show:
            yield show
    else:
        lines = Lines()

        def words(state: measuring.Progress) -> str:
            nonlocal about
            first, about = "" if about is None else f"{about(state)}\ncapax: ", None
            return f"{first}{label}: {_in_words(state)}"

        def log(state: measuring.Progress) -> None:
            if state.seconds_left is not None or state.seconds > LATEST_SECONDS:
                lines(lambda: words(state))

        yield log


@contextmanager
def _bar(narrow: bool, label: str, about: Callable[[measuring.Progress], str] | None) -> Iterator[measuring.Callback]:
    screen = output.console(stderr=True)
    label_column, state_column = (
        TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[state]}")
    )
    with Progress(label_column, BarColumn(8 if narrow else 24), state_column, console=screen, transient=True) as bar:
        task = bar.add_task(label, total=None, state="")

        def show(state: measuring.Progress) -> None:
            nonlocal about
            if about is not None and state.seconds_left is not None:
                screen.print(about(state), soft_wrap=True)
                about = None
            bar.update(task, total=state.seconds_in_all, completed=state.seconds, state=_in_words(state, narrow))

        yield show


def _in_words(state: measuring.Progress, narrow: bool = False) -> str:
    leader = state.leader
    parts = [
        f"{leader.memorized} of {leader.library_size}{'' if narrow else ' recalled'}",
        f"epoch {leader.epoch}",
        *([] if leader.loss is None or narrow else [f"loss {leader.loss:.3f}"]),
        f"{state.done}/{state.total} done",
    ]
    if state.seconds_left is not None:
        parts.append(_left(state, narrow))
    return " · ".join(parts)


def _left(state: measuring.Progress, narrow: bool = False) -> str:
    """How long it takes if nothing improves, which with patience would have it go on; without, it is the longest."""
    left, run = f"{duration(state.seconds_left or 0.0)} left", state.run
    if run is not None and run.training.patience is None and run.protocol.one_library:  # else a search adds trainings
        limited = run.training.time_limit is not None or run.training.budget(1) is not None
        return f"at most {left}" if limited else "no end but a complete library"
    return f"{left} or more" if narrow else f"{left} unless it improves"


@contextmanager
def under_way() -> Iterator[None]:
    """Show how far something is that says so (`capax.working`), once it has taken a moment."""
    screen, lines, began = output.console(stderr=True), Lines(), time.monotonic()
    status = screen.status("")

    def show(*said: Any) -> None:
        if not screen.is_terminal:
            lines(lambda: _done(*said))
        elif time.monotonic() - began > SILENT_SECONDS:
            status.update(Text(_done(*said)))
            status.start()

    try:
        with working.heard_by(show):
            yield
    finally:
        status.stop()


def _done(what: str, done: int, of: int | None = None) -> str:
    return f"{what}: {done}{'' if of is None else f' of {of}'}"
