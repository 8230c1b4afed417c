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
from rich.table import Table
from rich.text import Text

from capax.cli import streams
from capax.errors import FigureFailed, printable
from capax.results import Breakdown, CapacityEstimate, Interval, KeyDimensionSearch, Measurement, Search
from capax.specs import Run, Training
from capax.specs.plugins import resolve
from capax.store.schema import Failure, Summary
from capax.text import duration

if TYPE_CHECKING:
    from capax.protocols import progress as measuring
    from capax.training.stopping import StopReason

PIPE_WIDTH = 200
WIDE = 110
"""Columns from which on a line of progress holds all of it."""
LONGEST_ERROR = 140
STOPPED = {
    "complete": "the library was complete",
    "plateau": "nothing improved any more",
    "converged": "a cycle added too little",
    "budget": "its budget was spent",
    "diverged": "it diverged",
}


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


def show(run: Measurement) -> None:
    """Print a measurement as a table, with how it was measured."""
    spec = run.spec
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in _rows(run):
        table.add_row(name, value)
    screen = console()
    screen.print(f"{setting(spec)}; protocol {spec.protocol.protocol}, seed {spec.seed}")
    screen.print(table)


def setting(spec: Run) -> str:
    """Model and task in words."""
    return f"{spec.model.words(spec.protocol)}; {spec.task.words()}"


def ended(reason: StopReason, training: Training) -> str:
    """Why a training ended, in words; a complete library need not have ended it."""
    if reason == "complete" and not training.stop_when_complete:
        return "the library was complete, and training went on to its end"
    return f"ended as {STOPPED[reason]}"


def _rows(run: Measurement) -> list[tuple[str, str]]:
    protocol, counts = run.spec.protocol, run.memorized_per_restart
    each = f" (restarts: {', '.join(map(str, counts))})" if protocol.one_library and len(counts) > 1 else ""
    rows = [
        *([] if run.capacity is None else _capacity_rows(run.capacity)),
        *_unconverged(run),
        (protocol.counted, f"{run.memorized} of {run.library_size}{each}"),
        ("chance", _chance(run)),
    ]
    if run.interval is not None:
        rows.append(("interval", _range(run.interval)))
    if isinstance(run.search, Search):
        sure = run.search.largest_sure
        rows.append(
            ("search", f"{len(run.members)} trainings; every one succeeded up to {'no size' if sure is None else sure}")
        )
    if run.shatter is not None:
        rows += _shatter_rows(run)
    if run.key_search is not None:
        rows += _key_dimension_rows(run.key_search)
    rows += [(name.replace("_", " "), f"{value:.4g}") for name, value in run.metrics.items()]
    rows += _group_rows(run.breakdown)
    rows += _unit_rows(run)
    if run.bits_per_item is not None and run.bits_per_item != run.bits_per_item_uniform:
        guess = f"{run.bits_per_item_uniform:.4g} of a uniform guess"
        rows.append(("bits per item", f"{run.bits_per_item:.4g}, the entropy of the targets; {guess}"))
    rows += [
        ("parameters", _parameters(run)),
        (
            "training",
            f"{run.epochs} epochs, {run.steps} steps, {duration(run.seconds)}; "
            f"{ended(run.stop_reason, run.spec.training)}",
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


UNCONVERGED = {"budget": "at its budget", "plateau": "on a plateau"}
LAST = 0.1
"""Share of a training, its end, over which it is said how much the loss still fell."""


def _unconverged(run: Measurement) -> list[tuple[str, str]]:
    """That the best of some restarts is no capacity where it ended for another reason than having learned all."""
    if run.spec.protocol.protocol != "mac" or run.stop_reason not in UNCONVERGED or not run.spec.task.has_probabilities:
        return []
    curve = max(run.members, key=lambda member: member.memorized).curve
    losses = [(epoch, loss) for epoch, loss in zip(curve.epoch, curve.loss, strict=True) if loss is not None]
    before = [loss for epoch, loss in losses if epoch <= (1 - LAST) * curve.epoch[-1]]
    fell = ""
    if before and before[-1] > 0:
        drop = 1 - losses[-1][1] / before[-1]
        fell = f"; its loss {'fell' if drop >= 0 else 'rose'} {abs(drop):.1%} over its last tenth"
    return [
        (
            "not a capacity",
            f"ended {UNCONVERGED[run.stop_reason]}: a count of what this training reached{fell}; `--protocol capacity` "
            "measures what the model can hold",
        )
    ]


def _chance(run: Measurement) -> str:
    """What luck recalls, by guesses and by a constant answer, and what is above it."""
    both = ""
    if run.chance_constant is not None:
        both = f" (guesses {run.chance_uniform:.4g}, one constant answer {run.chance_constant:.4g})"
    above = f"{run.memorized_above_chance:.4g} above chance" if run.above_chance else "not significantly above chance"
    return f"{run.chance:.4g} by luck{both}; {above}"


MOSTLY = 0.5
"""Share of the parameters from which it is said that they are tables of tokens."""


def _parameters(run: Measurement) -> str:
    effective = run.parameters.effective
    more = "" if effective in (None, run.parameters.trainable) else f", {effective} effective"
    share = run.spec.model.table_parameters(**run.spec.task.sizes()) / run.parameters.total
    tables = f"; {share:.0%} of all are tables of tokens" if share > MOSTLY else ""
    return f"{run.parameters.trainable} trainable of {run.parameters.total}{more}{tables}"


def _capacity_rows(found: CapacityEstimate) -> list[tuple[str, str]]:
    """What a model can hold; where it did not converge, that first."""
    reached = f"{found.bits:.4g} bits known of {found.library_bits:.4g}"
    gained = "" if found.last_gain is None else f"; the last cycle added {found.last_gain:.1%}"
    if found.extrapolated is None or found.interval is None:
        rows = [("capacity", f"not converged: at least {reached}{gained}")]
    else:
        rows = [
            ("capacity", f"{found.extrapolated:.4g} bits; {_range(found.interval)}"),
            ("reached", f"{reached}{gained}"),
        ]
    effective = "" if found.per_effective_parameter is None else f"{found.per_effective_parameter:.3g} per effective, "
    density = (
        f"{effective}{found.per_trainable_parameter:.3g} per trainable, {found.per_parameter:.3g} per any parameter"
    )
    rows.append(("bits", density))
    if len(found.library_sizes) > 1:
        rows.append(
            ("libraries", f"of {', '.join(map(str, found.library_sizes))} items in turn, until it held only part")
        )
    return rows


MOST_GROUPS = 6


def _group_rows(found: Breakdown | None) -> list[tuple[str, str]]:
    """What is recalled of each group, the largest first, and one of those that are missed most."""
    if found is None:
        return []
    rows = []
    for by in dict.fromkeys(group.by for group in found.groups):
        groups = [group for group in found.groups if group.by == by]
        if len(groups) > 1:
            said = [f"{group.of} {group.recalled} of {group.items}" for group in groups[:MOST_GROUPS]]
            rows.append((by.replace("_", " "), "; ".join(said) + ("; …" if len(groups) > MOST_GROUPS else "")))
    return [*rows, *([("missed most", found.missed[0])] if found.missed else [])]


UNITS = {
    "tokens": "tokens",
    "bits": "bits",
    "morris_bits": "bits (Morris)",
    "allen_zhu_bits": "bits (Allen-Zhu)",
}


def _unit_rows(run: Measurement) -> list[tuple[str, str]]:
    """Each definition: how much, its range, and per parameter."""
    rows = []
    for unit in run.units:
        if unit.name in UNITS:
            low_high = unit.interval
            high = "no upper end" if low_high is None or low_high.high is None else f"{low_high.high:.4g}"
            spread = "" if low_high is None else f" ({low_high.low:.4g} to {high})"
            rows.append(
                (
                    UNITS[unit.name],
                    f"{unit.amount:.4g}{spread}; {unit.per_trainable_parameter:.3g} per trainable, "
                    f"{unit.per_parameter:.3g} per any parameter",
                )
            )
    return rows


def _key_dimension_rows(search: KeyDimensionSearch) -> list[tuple[str, str]]:
    rows = []
    if search.total_key_dim is None:
        rows.append(("key dimension", "no head size up to the width is enough"))
    else:
        range_ = "" if search.interval is None else f"; {_range(search.interval)}"
        rows.append(("key dimension", f"{search.total_key_dim}: {search.n_heads} x {search.d_head}{range_}"))
    for count in search.per_heads:
        enough = (
            "no head size is enough"
            if count.total_key_dim is None
            else f"{count.n_heads} x {count.d_head} = {count.total_key_dim}"
        )
        high = "no upper end" if count.interval.high is None else f"{count.interval.high:.4g}"
        rows.append(
            (
                f"{count.n_heads} head{'s' * (count.n_heads > 1)}",
                f"{enough} ({count.interval.low:.4g} to {high}), F1 {count.f1:.3f}, {count.trainings} trainings",
            )
        )
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


def _range(interval: Interval) -> str:
    high = "no upper end" if interval.high is None else f"{interval.high:.4g}"
    return f"{interval.low:.4g} to {high} ({interval.level:.0%}: {interval.of})"


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
