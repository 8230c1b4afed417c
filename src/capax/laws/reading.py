"""How laws read tables and arrays: their columns, the counts and the libraries, checked."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from capax.errors import LawError, TableError
from capax.laws.rows import LIBRARY, Columns, Rows, Vector, check_lengths, check_positive, checked_rows
from capax.store import published, tables


class Reader(RegressorMixin, BaseEstimator):
    """Base of the laws: a regressor of scikit-learn that takes tables with named columns as well as arrays."""

    target: str
    columns: ClassVar[tuple[str, ...]]
    needed_for: ClassVar[str | None] = None
    """Of a law of what is needed (a key dimension): the column that counts the items that it is needed for. What is
    needed may exceed the library, and such a law is meant for more items than can be measured."""
    coded: ClassVar[dict[str, tuple[str, ...]]] = {}
    """Kinds of the columns that hold no numbers: in arrays, and inside the law, 1 is the first."""
    bound: ClassVar[str | None] = None
    """The column that is a lower bound where the target has no value."""

    def usable(self, table: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
        """The rows of a table of `capax.read` that the law can use, and notes of others and of what they tell.

        Those are runs of models that lack one of its columns and, where the target is what is above chance, counts that
        are not significantly so.

        Raises:
            TableError: when no row is left.
        """
        bound = (self.bound,) if self.bound in table.columns else ()
        table, lacking = tables.with_columns(table, (*self.columns, *bound), self._chosen_by())
        table, luck = tables.above_luck(table, self.target)
        cut = () if self.along is not None else tables.cut_short(table, self.target)
        return table, (*luck, *lacking, *cut)

    def read(self, X: Any, y: Any = None, reset: bool = True) -> Rows:
        """The rows of a table or an array, checked; the arguments and errors are those of `fit`."""
        if tables.is_table(X):
            if y is None and published.LOW in tables.names(X) and self.target not in tables.names(X):
                raise LawError(
                    f"{self.target}: the rows are bounds ({published.LOW}, {published.HIGH}), not measurements: "
                    "there is nothing to fit"
                )
            counts = tables.numbers(X, self.target, "target") if y is None else np.asarray(y, dtype=np.float64)
            columns = {name: self._column(X, name) for name in self.columns}
            items = self.needed_for is None and self.target not in tables.UNBOUNDED
            library = _libraries(X) if items and LIBRARY in tables.names(X) else None
            if y is None and self.bound in tables.names(X):
                reached, lacks = tables.numbers(X, self.bound), np.isnan(counts)
                counts, library = np.where(lacks, reached, counts), np.where(lacks, reached, np.inf)
            if reset:
                self.n_features_in_ = len(self.columns)
            label = self.target if y is None else "y"
        else:
            if y is None:
                raise ValueError(
                    f"This {type(self).__name__} estimator requires y to be passed, but the target y is None."
                )
            array, counts = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=reset)
            columns, library = self._split(array)
            label = "y"
        return checked_rows(columns, counts, library, label)

    def _column(self, table: Any, name: str) -> Vector:
        kinds = self.coded.get(name)
        empty = table[name].is_null().to_numpy() if isinstance(table, pl.DataFrame) and name in table.columns else None
        if empty is not None and empty.any():
            raise TableError(f"{name}: row {empty.argmax() + 1}: should be a positive number, got nothing")
        return tables.numbers(table, name, self._chosen_by()) if kinds is None else tables.codes(table, name, kinds)

    def _chosen_by(self) -> str | None:
        """The option that names its columns, where one does."""
        return None

    def _columns_of(self, X: Any) -> Columns:
        check_is_fitted(self, "solution_")
        if tables.is_table(X):
            columns = {name: self._column(X, name) for name in self.columns}
            check_lengths(columns)
        else:
            legal = np.ndim(X) == 2 and np.shape(X)[1] in (len(self.columns), len(self.columns) + 1)
            array = check_array(X, dtype=np.float64) if legal else validate_data(self, X, dtype=np.float64, reset=False)
            columns, _ = self._split(array)
        for name, values in columns.items():
            check_positive(name, values)
        return columns

    def _split(self, array: np.ndarray) -> tuple[Columns, Vector | None]:
        expected = (len(self.columns), len(self.columns) + 1)
        if array.shape[1] not in expected:
            raise TableError(
                f"X: {expected[0]} columns ({', '.join(self.columns)}), or {expected[1]} with {LIBRARY}, "
                f"got n_features = {array.shape[1]}"
            )
        columns = {name: array[:, place] for place, name in enumerate(self.columns)}
        for name, kinds in self.coded.items():
            foreign = np.setdiff1d(columns.get(name, ()), np.arange(1, len(kinds) + 1))
            if foreign.size:
                codes = ", ".join(f"{code} ({kind})" for code, kind in enumerate(kinds, 1))
                raise TableError(f"{name}: one of {codes}, got {foreign[0]:g}")
        return columns, array[:, -1] if array.shape[1] == expected[1] else None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.target_tags.positive_only = True
        return tags


def _libraries(table: Any) -> Vector:
    """Items of each row's library; infinite where a row does not say, such as one of a table without the column."""
    found = tables.numbers(table, LIBRARY)
    return np.where(table[LIBRARY].is_null(), np.inf, found) if isinstance(table, pl.DataFrame) else found
