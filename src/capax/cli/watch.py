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
from typing import Annotated

from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions, Group
from rich.layout import Layout
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from capax.cli import output
from capax.cli.flags import Flag
from capax.cli.plot import Scatter
from capax.errors import SpecError
from capax.reports.watching import Watched, look, study_keys
from capax.specs.apart import Fields
from capax.store.schema import Failure, Summary
from capax.text import counted, duration

PIPE = (80, 24)
TALL = 30
HEAD_HEIGHT = 3
RESULTS_WIDTH = 42
"""Room for the numbers; items that differ take more."""
ITEMS_WIDTH = 18
"""From which on items are wrapped where there is no more room."""
LEAST_PLOT = 24
"""Room below which there is no plot."""
DISPENSABLE = ("chance", "ago", "protocol")
"""Columns that are left out where there is no room, the first one first."""
KEYED = 60
"""Width from which on failures have their key and age."""
LONGEST_NAME = 32
MOST_STEPS = 3
"""Trainings of which the steps are shown."""
STEP_SECONDS = 0.1
"""How soon a terminal that was resized is drawn anew."""


def watch(
    store: Path,
    /,
    *,
    study: Path | None = None,
    every: float = 2.0,
    once: Annotated[bool, Flag] = False,
) -> None:
    """Watch a sweep that another process runs: progress, latest results, failures, capacity against width.

    Reads only. Ends when the sweep ends or on Ctrl-C, which does not affect the sweep; the last state stays on the
    screen. If no sweep is running, it shows the current state and ends; on an empty store it waits for a sweep to
    start. If stdout is not a terminal, it prints one state.

    Parameters
    ----------
    store
        SQLite file that the sweep writes.
    study
        Count and show only the runs of this study file, for example what a sweep that has ended left undone.
    every
        Seconds until the store is read again.
    once
        Print one state and end.
    """
    if not 0 < every < math.inf:
        raise SpecError(f"every: should be above 0 seconds, got {every:g}")
    keys = None if study is None else study_keys(study)

    known: dict[str, Fields] = {}

    def see() -> Watched:
        return look(store, keys, known=known)

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a frame or an error may hold what a terminal's encoding lacks
    console = output.console()
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
        pass  # ends the watching, not the sweep
    return seen


def _is_over(first: Watched, seen: Watched) -> bool:
    return seen.sweep != "running" and (first.sweep == "running" or seen.sweep == "killed" or not seen.empty)


def _wait(console: Console, seconds: float) -> None:
    """Until the time is up or the terminal has another size."""
    size, end = console.size, time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and console.size == size:
        time.sleep(min(STEP_SECONDS, left))


def frame(seen: Watched, size: ConsoleDimensions) -> Layout:
    """All of it, as large as the terminal; what has no room is left out."""
    body, whole = Layout(), Layout()
    shown = seen.last[: max(size.height - HEAD_HEIGHT - 4, 1)]
    columns = _columns(seen, shown)
    beside = _fitting(columns, size.width - LEAST_PLOT)
    if beside is None:
        body.update(_results(shown, _fitting(columns, size.width) or _needed(columns)))
    else:
        half = size.width // 2 if "items" in beside else 0
        wide = max(_width(beside), half, min(RESULTS_WIDTH, size.width - LEAST_PLOT))
        body.split_row(Layout(_plot(seen)), Layout(_results(shown, beside), size=wide))
    parts = [Layout(_head(seen), size=HEAD_HEIGHT), body]
    if seen.failures:
        count = min(len(seen.failures), 5 if size.height >= TALL else 2)
        parts.append(Layout(_failures(seen, seen.failures[:count], size.width >= KEYED), size=count + 2))
    whole.split_column(*parts)
    return whole


def _line(text: str, style: str = "") -> Text:
    """One line of what a file says: nothing in it is taken for a command to the terminal."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return Text(" ".join(shown.split()), style, no_wrap=True, overflow="ellipsis")


def _head(seen: Watched) -> Group:
    if not seen.total:
        done = f"{counted(seen.done, 'run')} done{_of_how_many(seen)}"
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
    last = None if seen.holder is None else seen.holder.progress
    if last is None or last.total is None:
        return ""
    return f"; the sweep last reported {last.stored + last.done} of {last.total}"


def _title(seen: Watched) -> Text:
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
            state, style = "empty: no run is done", "yellow"
        case "none":
            state, style = "no sweep is running", ""
    name = str(seen.store)
    name = name if len(name) <= LONGEST_NAME else f"...{name[3 - LONGEST_NAME :]}"
    return Text.assemble(_line(name, "bold"), ": ", _line(state, style), no_wrap=True, overflow="ellipsis")


def _facts(seen: Watched) -> list[str]:
    facts = []
    if seen.running is not None:
        facts.append(f"{seen.running} running")
    facts.append(f"{seen.failed} failed")
    if seen.per_minute is not None:
        facts.append(f"{seen.per_minute:.3g} runs a minute")
    if seen.seconds_left is not None:
        facts.append(f"{duration(seen.seconds_left)} left")
    if seen.saved:
        facts.append(_steps(seen))
    if seen.last:
        facts.append(f"last result {duration(seen.age(seen.last[0].finished))} ago")
    return facts


def _steps(seen: Watched) -> str:
    """How far the trainings are whose checkpoints were written last."""
    shown = [f"{state.steps:,}" for state in seen.saved[:MOST_STEPS]]
    ago = duration(seen.age(seen.saved[0].written.isoformat()))
    return f"step{'s' * (len(shown) > 1)} {', '.join(shown)} saved {ago} ago"


def _plot(seen: Watched) -> Panel:
    if seen.kind is None:
        why = "no finished run has a width" if seen.last else "no finished run yet"
        return Panel(_line(why), title="memorized against width", title_align="left")
    return Panel(
        Scatter(seen.points),
        title=_line(seen.kind),
        title_align="left",
        subtitle=_line(f"{counted(seen.others, 'other')} not drawn") if seen.others else None,
        subtitle_align="left",
    )


def _columns(seen: Watched, shown: tuple[Summary, ...]) -> dict[str, list[str]]:
    """What is said of the last results; protocol and items where they differ."""
    columns = {
        "ago": [duration(seen.age(run.finished)) for run in shown],
        "heads": [str(run.n_heads or "") for run in shown],
        "width": [str(run.d_model or "") for run in shown],
        "memorized": [f"{run.memorized}/{run.library_size}" for run in shown],
        "chance": [f"{run.chance:.3g}" for run in shown],
    }
    further = {"protocol": [run.protocol for run in shown], "items": [_line(run.items).plain for run in shown]}
    return columns | {name: cells for name, cells in further.items() if len(set(cells)) > 1}


def _width(columns: dict[str, list[str]]) -> int:
    """Characters that a table of these columns takes with its frame, items wrapped."""
    widths = {name: max(map(cell_len, (name, *cells))) for name, cells in columns.items()}
    widths["items"] = min(widths.get("items", 0), ITEMS_WIDTH)
    return sum(widths.values()) + len(columns) + 4


def _needed(columns: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: cells for name, cells in columns.items() if name not in DISPENSABLE}


def _fitting(columns: dict[str, list[str]], room: int) -> dict[str, list[str]] | None:
    """As many of the columns as have room; None where those that are needed have none."""
    for name in ("", *DISPENSABLE):
        columns = {other: cells for other, cells in columns.items() if other != name}
        if _width(columns) <= room:
            return columns
    return None


def _results(shown: tuple[Summary, ...], columns: dict[str, list[str]]) -> Panel:
    """One row a run."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand="items" in columns)
    for name in columns:
        if name == "items":
            table.add_column(name, ratio=1, overflow="fold")
        else:
            table.add_column(name, justify="left" if name == "protocol" else "right", no_wrap=True)
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*(Text(cell) for cell in cells))
    alike = len({(run.items, run.protocol) for run in shown}) == 1
    title = f"last: {shown[0].items}, {shown[0].protocol}" if alike else "last results"
    return Panel(table, title=_line(title), title_align="left")


def _failures(seen: Watched, shown: tuple[Failure, ...], keyed: bool) -> Panel:
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    if keyed:
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for failure in shown:
        known = (failure.key[:12], f"{duration(seen.age(failure.failed))} ago") if keyed else ()
        table.add_row(*known, _line(failure.error))
    count = len(seen.failures)
    return Panel(
        table,
        title=_line(f"{counted(count, 'failure')} kept: capax runs --failed --store {shlex.quote(str(seen.store))}"),
        title_align="left",
        border_style="red",
    )
