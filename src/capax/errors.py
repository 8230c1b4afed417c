"""The errors that capax raises on purpose: each is one line that a user can act on."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

LONGEST = 500
"""Characters of a message; a longer one is cut in the middle: it begins with the field and ends with the reason."""

OF_A_PLUGIN = "or of a plugin (--plugin FILE or CAPAX_PLUGINS)"
"""What a message adds to the tasks or models that are known."""


def printable(text: object) -> str:
    """A text as a terminal may show it: control characters, also those that turn or break lines, are escaped."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in str(text))


def one_line(text: object) -> str:
    """A message of at most `LONGEST` characters on one line that a terminal may show."""
    line = printable(" ".join(str(text).split()))
    half = (LONGEST - len(" ... ")) // 2
    return line if len(line) <= LONGEST else f"{line[:half]} ... {line[-half:]}"


def said(error: BaseException, most: int = 200) -> str:
    """An error of code that is not ours, on one line: its kind, and what it says."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")[:most]


def among(name: str, names: Iterable[object]) -> str:
    """Names that there are, for a message: those that are spelled like a name first, as a long message is cut."""
    every = list(map(str, names))
    return ", ".join(dict.fromkeys((*get_close_matches(name, every), *every)))


def shown(value: object) -> str:
    """What was given, for a message: at most 80 characters of it."""
    try:
        return f"{value!r:.80}"
    except ValueError:  # of more digits than Python prints
        return "an integer of thousands of digits"


class CapaxError(Exception):
    """Base of every error that is the user's to mend; the command line prints it and exits with `exit_code`."""

    exit_code = 2

    def __str__(self) -> str:
        return one_line(super().__str__())


class SpecError(CapaxError):
    """A field of a spec has a value that is not allowed."""


class LibraryError(CapaxError):
    """A library of items cannot be built from what was given."""


class EmbeddingError(CapaxError):
    """Embeddings cannot be made of this model and text."""


class DeviceError(CapaxError):
    """The device that was asked for is not there."""


class StoreError(CapaxError):
    """The store cannot be opened, read or written."""


class StoreWriteError(StoreError):
    """Something could not be written; what was in the store before is untouched.

    Attributes:
        unsaved: the finished run (a `Measurement`), if it was one, so that it is not lost.
    """

    exit_code = 1
    unsaved: Any = None


class TableError(CapaxError, ValueError):
    """A table of measurements lacks a column, or holds a value that cannot be."""


class AssumptionError(CapaxError, ValueError):
    """Examples, or sizes, do not meet what a theorem assumes."""


class LawError(CapaxError, ValueError):
    """A law cannot be fitted to these measurements, or does not hold where it is asked."""


class OutsideDomain(LawError):
    """A law is not asked outside its domain, unless told to extrapolate."""


class ClaimError(CapaxError):
    """A file with weights and a claim cannot be read, or its parts do not fit together."""


class ClaimFailed(CapaxError):
    """What a file claims of its weights does not hold."""

    exit_code = 1


class NoPlan(CapaxError):
    """Nothing that a plan may choose from holds the target; what comes nearest was shown."""

    exit_code = 3


class ReportError(CapaxError):
    """A figure or a report cannot be drawn or written."""


class FigureFailed(UserWarning):
    """A figure of a page failed, not for want of runs; the page stands without it, and says so in its place."""


class LettersMissing(UserWarning):
    """The font of a figure lacks letters of its texts: it shows boxes in their place."""


class FurtherKinds(UserWarning):
    """A figure shows the runs of one kind, and there are others."""


class OutputError(ReportError):
    """What was to be written could not be: no room, no permission, nobody who reads it."""

    exit_code = 1


class TrackerError(CapaxError):
    """A tracker of experiments is not installed, or cannot be set up so."""


class SweepFailed(CapaxError):
    """Runs of a sweep failed."""

    exit_code = 1


class CalibrationFailed(CapaxError):
    """A system of known capacity was measured off by more than its tolerance."""

    exit_code = 1
