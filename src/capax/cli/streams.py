"""What a command prints: it always can be encoded, and what cannot be written is one line and exit code 1."""

from __future__ import annotations

import codecs
import io
import os
import sys
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from capax.errors import FigureFailed, LettersMissing, OutputError, printable

LARGEST_SCREEN = 10_000
PLAIN = {
    "×": "x",
    "–": "-",
    "—": "-",
    "−": "-",
    "·": "-",
    "…": "...",
    "≥": ">=",
    "≤": "<=",
    "≠": "!=",
    "≈": "~",
    "∝": "~",
    "∞": "infinity",
    "±": "+-",
    "∓": "-+",
    "→": "->",
    "←": "<-",
    "∈": "in",
    "∫": "integral",
    "√": "sqrt ",
    "‖": "||",
    "⟨": "<",
    "⟩": ">",
    "⌊": "floor(",
    "⌋": ")",
    "⌈": "ceil(",
    "⌉": ")",
    "²": "^2",
    "⁻": "^-",
    "ᵀ": "^T",
    "½": "1/2",
    "●": "*",
    "\u201c": '"',
    "\u201d": '"',
    "\u2018": "'",
    "\u2019": "'",
}
"""What stands for signs where a terminal has no more than ASCII or Latin-1."""

_stdout: TextIO | None = None
"""The process's own, while another stands in for it."""


def prepare(as_json: bool) -> None:
    """Let everything be printed in whatever encoding the terminal has, and at whatever width it says it has.

    Raises:
        OutputError: when there is no stdout.
    """
    if stdout() is None:
        raise OutputError("cannot write to stdout: it is closed")
    for stream in (stdout(), sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="capax-json" if as_json and stream is stdout() else "capax-plain")
    for name in ("COLUMNS", "LINES"):
        size = os.environ.get(name, "1")
        if not (size.isascii() and size.isdecimal() and 1 <= int(size[:9]) <= LARGEST_SCREEN):
            del os.environ[name]  # rich would draw into no column, or fill a line of a thousand million


@contextmanager
def for_json(alone: bool) -> Iterator[None]:
    """Keep stdout for the result: what else is printed meanwhile, as a user's module may, goes to stderr.

    Args:
        alone: whether to.
    """
    global _stdout
    before = sys.stdout
    if alone and None not in (sys.stdout, sys.stderr):
        _stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        yield
    finally:
        _stdout, sys.stdout = None, before


def stdout() -> TextIO:
    """Where a result goes."""
    return sys.stdout if _stdout is None else _stdout


def settle() -> None:
    """Write what is left for stdout, or forget it: Python would try again at its end, and tell it in its own words."""
    try:
        stdout().flush()
    except AttributeError:  # there is none
        pass
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stdout().fileno())
        os.close(nowhere)


def tell(line: str) -> None:
    """Print a line on stderr, if it can be printed: no work ends for want of it."""
    with suppress(OSError, AttributeError):  # no room for it, or no stderr
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


@contextmanager
def warnings_of_figures() -> Iterator[None]:
    """Say what figures warn of (which of a page failed, letters that a font lacks) on stderr, in a line each."""

    def tell_ours(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, FigureFailed | LettersMissing):
            tell(f"capax: {printable(message)}")
        else:
            usual(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        for category in (FigureFailed, LettersMissing):
            warnings.simplefilter("always", category)
        usual, warnings.showwarning = warnings.showwarning, tell_ours
        yield


def reason(error: OSError) -> str:
    """What could not be read or written, and why."""
    why = error.strerror or str(error)
    if error.filename is not None:
        return f"{error.filename}: {why}"
    return f"cannot write to stdout: {why}"


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Words for signs that an encoding lacks, letters without their accents, and `?` for the rest."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_stand_in, error.object[error.start : error.end])), error.end


def _stand_in(letter: str) -> str:
    if letter in PLAIN:
        return PLAIN[letter]
    if 0xDC80 <= ord(letter) <= 0xDCFF:  # a byte of a file's name that is no text
        return f"\\x{ord(letter) - 0xDC00:02x}"
    name = unicodedata.name(letter, "").split()
    if name[:2] in (["GREEK", "SMALL"], ["GREEK", "CAPITAL"]):
        return name[3].lower() if name[1] == "SMALL" else name[3].title()
    if name[:2] == ["BOX", "DRAWINGS"]:
        return {"HORIZONTAL": "-", "VERTICAL": "|"}.get(name[-1], "+")
    return unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode() or "?"


def _json(error: UnicodeError) -> tuple[str, int]:
    """Letters as JSON escapes them."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end


codecs.register_error("capax-plain", _plain)
codecs.register_error("capax-json", _json)
