"""The errors that capax raises on purpose: each is one line that a user can act on."""

from __future__ import annotations

from typing import Any


class CapaxError(Exception):
    """Base of every error that is the user's to mend; the command line prints it and exits with `exit_code`."""

    exit_code = 2


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


class ReportError(CapaxError):
    """A figure or a report cannot be drawn or written."""


class FigureFailed(UserWarning):
    """A figure of a page failed, not for want of runs; the page stands without it, and says so in its place."""


class SweepFailed(CapaxError):
    """Runs of a sweep failed."""

    exit_code = 1


class RulerOff(CapaxError):
    """A system whose capacity is known was measured off by more than its tolerance."""

    exit_code = 1
