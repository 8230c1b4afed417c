"""What the command line shows: a progress bar while training, and a result that a person can read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel
from rich.console import Console
from rich.text import Text

from capax.cli import streams
from capax.errors import printable
from capax.specs.plugins import resolve
from capax.store.schema import Failure, Summary
from capax.text import counted

PIPE_WIDTH = 200
LONGEST_ERROR = 140


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
        print(found.model_dump_json(), file=streams.stdout())
    elif not quiet:
        show(found)
        for name, path in files.items():
            if path is not None:
                print(f"{name.capitalize()}: {printable(path)}")


def rows(count: int) -> str:
    """So many rows, in words."""
    return counted(count, "row")


def warn(device: str, *precisions: str) -> None:
    """Say on stderr what to know of arithmetic on a device before something starts.

    Raises:
        DeviceError: for a device that is not there.
    """
    where = resolve("capax.devices:choose_gpus")(device)[0]
    for precision in precisions:
        caveat = resolve("capax.devices:caveat")(precision, where)
        if caveat is not None:
            streams.tell(f"capax: {caveat}")


class Screen(Console):
    """A console that shows the control characters of a text and obeys none, and fills no lines of a file or a pipe."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does; where no terminal reads it without the spaces to the width of a table."""
        if self.is_terminal:
            super().print(*objects, **options)
            return
        with self.capture() as found:
            super().print(*objects, **options)
        self.file.write("\n".join(line.rstrip(" ") for line in found.get().split("\n")))

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


def show_runs(runs: list[Summary], apart: Mapping[str, str]) -> None:
    """Print one line per run; a narrow terminal is shown fewer columns.

    Args:
        apart: by key, what tells apart runs whose other columns are the same.
    """
    columns: dict[str, list[str]] = {
        "key": [run.key[:12] for run in runs],
        **({"name": [run.name or "-" for run in runs]} if any(run.name for run in runs) else {}),
        **({"tags": [", ".join(run.tags) or "-" for run in runs]} if any(run.tags for run in runs) else {}),
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
        **({"apart by": [apart.get(run.key) or "-" for run in runs]} if any(apart.values()) else {}),
    }
    kept = show_lines(
        columns,
        words=("key", "name", "tags", "protocol", "items", "stopped", "apart by"),
        spare=("seconds", "bits/par.", "layers", "stopped", "heads", "width", "apart by"),
        cut=("apart by", "name", "tags", "items"),
    )
    tell_narrow(columns, kept)


def tell_narrow(columns: Iterable[str], kept: Sequence[str]) -> None:
    """Name the columns that a narrow terminal had no room for."""
    if narrow := [name for name in columns if name not in kept]:
        console().print(f"Left out, as the terminal is narrow (--json has them): {', '.join(narrow)}.")


def show_notes(notes: Iterable[str]) -> None:
    """Print what a reader must know of a result, a line each."""
    for note in notes:
        console().print(f"note: {note}")


def show_failures(failures: list[Failure]) -> None:
    """Print one line per failed run; a terminal shows a long error cut short."""
    if not failures:
        print("none failed")
        return
    longest = LONGEST_ERROR if console().is_terminal else None
    columns: dict[str, list[str]] = {
        "key": [item.key[:12] for item in failures],
        "failed": [item.failed for item in failures],
        "attempts": [str(item.attempts) for item in failures],
        "error": [_one_line(item.error, longest) for item in failures],
    }
    show_lines(columns, words=("key", "failed", "error"))


def _one_line(error: str, longest: int | None) -> str:
    line = " ".join(error.split())
    return line if longest is None or len(line) <= longest else f"{line[: longest - 3]}..."


LEAST_CUT = 12
"""Signs of a text that are shown at least where a narrow terminal cuts it."""


def show_lines(
    columns: Mapping[str, Sequence[str]],
    *,
    words: Sequence[str] = (),
    spare: Sequence[str] = (),
    cut: Sequence[str] = (),
) -> list[str]:
    """Print columns as wide as their longest text, so that none is cut: numbers to the right, `words` to the left.

    Where the terminal is too narrow, heads of two words take two lines, then columns of `spare` are left out, the first
    of them first, until the texts of `cut`, the first of them first, need not be cut to fewer than `LEAST_CUT` signs.
    (rich's tables cut numbers, and take seconds for ten thousand rows.)

    Returns:
        The names of the columns shown.
    """
    screen = console()
    columns = {name: [*map(printable, cells)] for name, cells in columns.items()}
    heads = {name: [name] for name in columns}

    def width(name: str) -> int:
        return max(map(len, [*heads[name], *columns[name]]))

    def over() -> int:
        if not screen.is_terminal:  # a file or a pipe is as wide as the text
            return 0
        return sum(width(name) + 2 for name in heads) - 2 - screen.width

    def too_wide() -> bool:
        return over() > sum(max(width(name) - LEAST_CUT, 0) for name in cut if name in heads)

    if over() > 0:
        apart = {name: name.replace("/", "/ ").replace(" %", "\0%").split() for name in columns}  # 95 % is one word
        heads = {name: [word.replace("\0", " ") for word in words] for name, words in apart.items()}
    for name in spare:
        if name in heads and too_wide():
            del heads[name]
    for name in cut:
        if name in heads and over() > 0:
            longest = max(width(name) - over(), LEAST_CUT)
            columns[name] = [cell if len(cell) <= longest else f"{cell[: longest - 1]}…" for cell in columns[name]]
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
