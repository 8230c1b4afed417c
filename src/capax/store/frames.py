"""Data frames of any library, in and out, by narwhals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from capax.errors import TableError

Backend = Literal["polars", "pandas", "pyarrow", "modin", "cudf", "dict"]
"""Libraries that a table can be given to; dict is a mapping of lists."""


def taken(data: Any) -> Any:
    """A table as a data frame of polars; what is none, such as an array, or a frame without names, as it is.

    Args:
        data: a data frame of any library that narwhals knows, a mapping of arrays, or an array.

    Raises:
        TableError: for a frame with two columns of one name, or a column that holds no numbers, texts or truths.
    """
    if isinstance(data, pl.DataFrame | np.ndarray | list | tuple):
        return data
    if isinstance(data, Mapping):
        return _of_mapping(data)
    import narwhals  # here: it takes a tenth of a second, and most tables are of polars

    try:
        frame = narwhals.from_native(data, pass_through=True)
        if isinstance(frame, narwhals.LazyFrame):
            frame = frame.collect()
        if not isinstance(frame, narwhals.DataFrame) or not all(isinstance(name, str) for name in frame.columns):
            return data
        if isinstance(native := frame.to_native(), pl.DataFrame):
            return native
        return pl.DataFrame({column.name: _values(column) for column in frame.iter_columns()}, infer_schema_length=None)
    except (narwhals.exceptions.NarwhalsError, pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise TableError(f"table: cannot read this {type(data).__name__}: {error}") from None


def _values(column: Any) -> list[Any]:
    """A column of any frame; None for what is missing, however its library writes that."""
    rows = zip(column.to_list(), column.is_null().to_list(), strict=True)
    return [None if missing or value != value else value for value, missing in rows]


def _of_mapping(data: Mapping[Any, Any]) -> Any:
    """A mapping as a frame, if its values are columns; who reads it says what is wrong with another."""
    columns = {name: np.asarray(values) for name, values in data.items() if isinstance(name, str)}
    alike = {column.shape for column in columns.values()}
    if len(columns) < len(data) or len(alike) != 1 or len(next(iter(alike))) != 1:
        return data
    try:
        return pl.DataFrame({name: values.tolist() for name, values in columns.items()}, infer_schema_length=None)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        return data


def given(table: pl.DataFrame, backend: Backend) -> Any:
    """A table as a data frame of another library, which has to be installed.

    Raises:
        TableError: for a library that is not known, or not installed.
    """
    if backend not in get_args(Backend):
        raise TableError(f"backend: one of {', '.join(get_args(Backend))}, got {backend!r:.80}")
    if backend == "polars":
        return table
    columns = table.to_dict(as_series=False)
    if backend == "dict":
        return columns
    import narwhals

    try:
        return narwhals.from_dict(columns, backend=backend).to_native()
    except (ModuleNotFoundError, ImportError):
        raise TableError(f"backend: {backend} is not installed (pip install {backend})") from None
