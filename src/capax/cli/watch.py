"""`capax watch`: a sweep that another process runs, live in a terminal."""

from __future__ import annotations

import io
import math
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console, ConsoleDimensions, Group
from rich.layout import Layout
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from capax.errors import SpecError

if TYPE_CHECKING:
    from capax.reports.watching import Watched
    from capax.store_schema import Failure, Summary

PIPE = (80, 24)
TALL = 30
HEAD_HEIGHT = 3
RESULTS_WIDTH = 42
"""Room for the numbers; what tells kinds apart takes more."""
LONGEST_NAME = 32
STEP_SECONDS = 0.1
"""How soon a terminal that was resized is drawn anew."""


def watch(
    store: Path,
    /,
    *,
    study: Path | None = None,
    every: float = 2.0,
    once: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Show a sweep that another process runs: how far it is, the last results, failures, capacity against width.

    Only reads. Ends when the sweep does, or with Ctrl-C, which leaves the sweep alone; the last state stays on the
    screen. Where no sweep is under way it shows what there is and ends; on an empty store it waits for one to begin.
    Where stdout is no terminal it prints one state.

    Parameters
    ----------
    store
        SQLite file that the sweep writes.
    study
        Count and show the runs of this study file alone, such as those that a sweep which has ended left undone.
    every
        Seconds until the store is read again.
    once
        Print one state and end.
    """
    from capax.reports.watching import look, study_keys

    if not 0 < every < math.inf:
        raise SpecError(f"every: should be above 0 seconds, got {every:g}")
    keys = None if study is None else study_keys(study)

    def see() -> Watched:
        return look(store, keys)

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a frame or an error may hold what a terminal's encoding lacks
    console = Console(highlight=False)
    seen = see()
    if console.is_terminal and not console.is_dumb_terminal and not once and not _is_over(seen, seen):
        seen = _follow(see, seen, console, every)
        size = console.size
    else:
        size = console.size if console.is_terminal else ConsoleDimensions(*shutil.get_terminal_size(PIPE))
    console.print(frame(seen, size), width=size.width, height=size.height - 1)  # a line is left for the prompt


def _follow(see: Callable[[], Watched], first: Watched, console: Console, every: float) -> Watched:
    """Draw until the sweep ends or the user has seen enough; what was seen last."""
    seen = first
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(frame(seen, console.size), refresh=True)
                if _is_over(first, seen):
                    break
                _wait(console, every)
                seen = see()
    except KeyboardInterrupt:
        pass  # who looks away has done nothing wrong
    return seen


def _is_over(first: Watched, seen: Watched) -> bool:
    return seen.sweep != "running" and (first.sweep == "running" or seen.sweep == "killed" or not seen.empty)


def _wait(console: Console, seconds: float) -> None:
    """Until the time is up or the terminal has another size."""
    size, end = console.size, time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and console.size == size:
        time.sleep(min(STEP_SECONDS, left))


def frame(seen: Watched, size: ConsoleDimensions) -> Layout:
    """All of it, as large as the terminal."""
    from capax.reports.watching import Kind

    body, whole = Layout(), Layout()
    shown = seen.last[: max(size.height - HEAD_HEIGHT - 4, 1)]
    mixed = len(set(map(Kind.of, shown))) > 1
    wide = max(size.width // 2, RESULTS_WIDTH + 4) if mixed else RESULTS_WIDTH
    body.split_row(Layout(_plot(seen)), Layout(_results(seen, shown, mixed), size=wide))
    parts = [Layout(_head(seen), size=HEAD_HEIGHT), body]
    if seen.failures:
        count = min(len(seen.failures), 5 if size.height >= TALL else 2)
        parts.append(Layout(_failures(seen, seen.failures[:count]), size=count + 2))
    whole.split_column(*parts)
    return whole


def _line(text: str, style: str = "") -> Text:
    """One line of what a file says: nothing in it is taken for a command to the terminal."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return Text(" ".join(shown.split()), style, no_wrap=True, overflow="ellipsis")


def _head(seen: Watched) -> Group:
    if not seen.total:
        done = f"{seen.done} run{'s' * (seen.done != 1)} done{_of_how_many(seen)}"
        return Group(_title(seen), _line(done), _line(", ".join(_facts(seen))))
    bar = Table.grid(padding=(0, 1, 0, 0), expand=True)
    bar.add_column(ratio=1)
    bar.add_column(no_wrap=True)
    bar.add_row(
        ProgressBar(seen.total, seen.done),
        _line(f"{seen.done} of {seen.total} runs done ({seen.done / seen.total:.0%})"),
    )
    return Group(_title(seen), bar, _line(", ".join(_facts(seen))))


def _of_how_many(seen: Watched) -> str:
    """Why there is no total, where something is known of it."""
    if seen.running is not None:
        return "; an adaptive sweep chooses them on the way"
    last = None if seen.holder is None else seen.holder.standing
    if last is None or last.runs is None:
        return ""
    return f"; when the sweep last told, {last.stored + last.done} of its {last.runs}"


def _title(seen: Watched) -> Text:
    from capax.cli.output import duration

    holder = seen.holder
    match seen.sweep:
        case "running":
            who = (
                ""
                if holder is None
                else f" for {duration(seen.age(holder.since))}, process {holder.pid} on {holder.host}"
            )
            state, style = f"a sweep is running{who}", "green"
        case "killed":
            state, style = "the sweep was killed; start it again to do the rest", "red"
        case "none" if seen.empty:
            state, style = "empty: no sweep has begun", "yellow"
        case "none":
            state, style = "no sweep is running", ""
    name = str(seen.store)
    name = name if len(name) <= LONGEST_NAME else f"...{name[3 - LONGEST_NAME :]}"
    return Text.assemble(_line(name, "bold"), ": ", _line(state, style), no_wrap=True, overflow="ellipsis")


def _facts(seen: Watched) -> list[str]:
    from capax.cli.output import duration

    facts = []
    if seen.running is not None:
        facts.append(f"{seen.running} running")
    facts.append(f"{seen.failed} failed")
    if seen.per_minute is not None:
        facts.append(f"{seen.per_minute:.3g} runs a minute")
    if seen.seconds_left is not None:
        facts.append(f"{duration(seen.seconds_left)} left")
    if seen.last:
        facts.append(f"last result {duration(seen.age(seen.last[0].finished))} ago")
    return facts


def _plot(seen: Watched) -> Panel:
    from capax.cli.scatter import Scatter

    if seen.kind is None:
        return Panel(_line("no run is done yet"), title="memorized against width", title_align="left")
    return Panel(
        Scatter(seen.points),
        title=_line(seen.kind.in_words()),
        title_align="left",
        subtitle=_line(f"{seen.others} of other kinds not drawn") if seen.others else None,
        subtitle_align="left",
    )


def _results(seen: Watched, shown: tuple[Summary, ...], mixed: bool) -> Panel:
    """One line a run; what kind it is of, where they are of several."""
    from capax.cli.output import duration
    from capax.reports.watching import Kind

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand=mixed)
    for name in ("ago", "heads", "width", "memorized", "chance"):
        table.add_column(name, justify="right", no_wrap=True)
    if mixed:
        table.add_column("kind", ratio=1, no_wrap=True, overflow="ellipsis")
    for run in shown:
        cells = (
            duration(seen.age(run.finished)),
            str(run.n_heads),
            str(run.d_model),
            f"{run.memorized}/{run.library_size}",
            f"{run.chance:.3g}",
        )
        table.add_row(*cells, *([_line(Kind.of(run).in_words())] if mixed else []))
    title = f"last: {Kind.of(shown[0]).in_words()}" if shown and not mixed else "last results"
    return Panel(table, title=_line(title), title_align="left")


def _failures(seen: Watched, shown: tuple[Failure, ...]) -> Panel:
    from capax.cli.output import duration

    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for failure in shown:
        table.add_row(failure.key[:12], f"{duration(seen.age(failure.failed))} ago", _line(failure.error))
    count = len(seen.failures)
    return Panel(
        table,
        title=_line(
            f"{count} failure{'s' * (count > 1)} kept: capax runs --failed --store {shlex.quote(str(seen.store))}"
        ),
        title_align="left",
        border_style="red",
    )
