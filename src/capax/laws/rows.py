"""The measurements that a law is fitted to, checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import GroupKFold

from capax.errors import LawError, TableError

Columns = dict[str, np.ndarray]
Vector = np.ndarray
LIBRARY = "library_size"


@contextmanager
def saying(notes: Iterable[str]) -> Iterator[None]:
    """Let a law that cannot be fitted say, too, which rows were left out before."""
    try:
        yield
    except LawError as error:
        said = str(error)  # a law within a law may have said them
        raise type(error)("; ".join((said, *(note for note in notes if note not in said)))) from None


@dataclass(frozen=True)
class Rows:
    """Measurements that a law is fitted to.

    Attributes:
        columns: the law's columns by name, `(rows,)` each.
        counts: items that were memorized.
        library: items that were to be memorized; infinite where it is not known. A count as large is a lower bound.
    """

    columns: Columns
    counts: Vector
    library: Vector

    @property
    def complete(self) -> np.ndarray:
        """Which libraries were memorized whole."""
        return self.counts >= self.library * (1 - 1e-12)

    def take(self, kept: np.ndarray) -> Rows:
        """Some of the rows."""
        columns = {name: values[kept] for name, values in self.columns.items()}
        return Rows(columns, self.counts[kept], self.library[kept])


def left_out(values: np.ndarray, folds: int) -> Iterator[np.ndarray]:
    """Masks of the rows that are left out, a fold at a time; rows of equal values go together.

    Args:
        values: what tells rows apart, `(rows, columns)`.
        folds: as many at most; none where all rows are equal.
    """
    groups = np.unique(values, axis=0, return_inverse=True)[1].ravel()
    folds = min(folds, len(np.unique(groups)))
    if folds < 2:
        return
    for _, held in GroupKFold(folds, shuffle=True, random_state=0).split(values, groups=groups):
        mask = np.zeros(len(values), dtype=bool)
        mask[held] = True
        yield mask


def checked_rows(columns: Columns, counts: Vector, library: Vector | None, label: str) -> Rows:
    """Columns of one length, positive and finite, and no count above its library; `label` is the counts' name.

    Raises:
        TableError: otherwise; it names column and row.
    """
    if counts.ndim != 1:
        raise TableError(f"{label}: should have one value a row, got an array of shape {counts.shape}")
    check_lengths({**columns, label: counts})
    if not len(counts):
        raise TableError(f"{label}: the table holds no rows")
    library = np.full(len(counts), np.inf) if library is None else library
    for name, values in {**columns, LIBRARY: library, label: counts}.items():
        check_positive(name, values, infinite=name == LIBRARY)
    if (above := np.flatnonzero(counts > library * (1 + 1e-12))).size:
        raise TableError(
            f"{label}: row {above[0] + 1}: {counts[above[0]]:g} memorized of {library[above[0]]:g} (library_size)"
        )
    return Rows(columns, np.asarray(counts, dtype=np.float64), library)


def check_lengths(columns: Columns) -> None:
    """Raise TableError where not all columns have as many rows."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise TableError(f"columns of different lengths: {lengths}")


def check_positive(name: str, values: Vector, infinite: bool = False) -> None:
    """Raise `TableError`, with the first wrong row, when not all values are positive (and finite)."""
    wrong = ~(values > 0) | (~np.isfinite(values) & (not infinite))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise TableError(f"{name}: row {row + 1}: should be a positive number, got {values[row]:g}")
