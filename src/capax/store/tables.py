"""Measurements as tables: one row per run, one named column per field."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from capax.errors import TableError, among
from capax.results import Measurement
from capax.specs import Run
from capax.store import DEFAULT, Store, record
from capax.store.conditions import where as where
from capax.store.frames import Backend, given

ROWS_AT_ONCE = 1000
"""Runs that are made rows of a table together."""


GRID = ("vocab_size=100", "loss=all", "n_layers=1", "d_head=64", "ffn=mlp", "embeddings=frozen")
"""What the rows of `reference:grid` have in common."""


@overload
def read(store: Store | Path | str = DEFAULT) -> pl.DataFrame: ...


@overload
def read(store: Store | Path | str = DEFAULT, backend: Backend = "polars") -> Any: ...


def read(store: Store | Path | str = DEFAULT, backend: Backend = "polars") -> Any:
    """The finished runs of a store as a table, oldest first.

    Args:
        backend: library of the data frame, which has to be installed; `dict` for a mapping of lists.

    Returns:
        One row per run: `key`, the fields of its task, model, training and protocol, `seed`, the counts (`memorized`,
        `chance` and its two kinds, `memorized_above_chance`, `above_chance`), their units, parameter counts, epochs,
        seconds and `stop_reason`; of protocol capacity also `capacity_bits` and `capacity_items` (so many items have
        these bits; both null where it did not converge), `capacity_reached`, `capacity_low`, `capacity_high`,
        `converged`; of relations `f1` and the channel's `total_key_dim`, which protocol budget finds (D_K*, of
        `n_heads` heads of `d_head`, `reached_by` training or built weights, `total_key_dim_low` and
        `total_key_dim_high`), while its F1, counts and parameters are of `trained_n_heads` heads of
        `trained_d_head`. `exposures` is how often the training that counts saw each item, `flops` what that took,
        forward and backward (as `capax plan` reckons; both null of searches). A field that a run's protocol does not
        have is null. Last come `chance_p`, `interval_low` and `interval_high` of `memorized`, the run's `name` and
        `tags` (joined by commas), when it `finished`, its `host` and `processor`, and the versions it was measured with
        (`torch_version`, ...). Imported rows follow, with what was known of them, but for rows of these runs (an export
        of the store); then there is a column `source`, null for the runs.

    Raises:
        StoreError: when the file is missing or no store.
        TableError: when imported rows do not fit the runs, or the backend is not there.
    """
    given(pl.DataFrame(), backend)
    return given(_stored(store), backend)


def _stored(store: Store | Path | str) -> pl.DataFrame:
    with Store(store, create=False) as opened:
        finished = {summary.key: summary.finished for summary in opened.summaries()}
        runs = table(opened.each(), lambda run: record.columns(run, finished.get(run.key)))
        imported = opened.imported()
    if not imported:
        return runs
    parts = [
        pl.DataFrame(rows, infer_schema_length=None).with_columns(source=pl.lit(source))
        for source, rows in imported.items()
    ]
    try:
        return pl.concat([runs, *parts], how="diagonal_relaxed")
    except PolarsError as error:
        raise TableError(f"store: rows imported into {store} do not fit each other: {error}") from None


def table(runs: Iterable[Measurement], more: Callable[[Measurement], dict[str, Any]] = lambda run: {}) -> pl.DataFrame:
    """Measurements as a table with the columns of `read`, up to `stop_reason`.

    Args:
        more: further columns of a run.
    """
    rest, parts = iter(runs), list[pl.DataFrame]()
    while rows := [
        _row(run) | more(run) for run in itertools.islice(rest, ROWS_AT_ONCE)
    ]:  # as dictionaries they take most room
        parts.append(pl.DataFrame(rows, infer_schema_length=None))
    return pl.concat(parts, how="diagonal_relaxed") if parts else pl.DataFrame()


INFORMATION = ("morris_bits", "allen_zhu_bits")
"""Units that do not follow from the count."""


def spec_columns(run: Run) -> dict[str, Any]:
    """A run's columns before it is measured: the fields of its task, model, training and protocol."""
    protocols = (part.model_dump(mode="json") for part in (run.training, run.protocol))
    task = run.task.columns()
    own = {**task, **run.model.columns(), **task}  # a module's options may be called as the task's fields are
    parts = (own, *protocols)
    return {name: _cell(value) for part in parts for name, value in part.items()}


def parameter_columns(run: Measurement) -> dict[str, int]:
    """How many parameters a run's model has; and how many of them a token meets, where it does not meet all."""
    counts = {f"{kind}_parameters": getattr(run.parameters, kind) for kind in ("trainable", "total", "effective")}
    idle = run.spec.model.idle_parameters
    return counts | ({"active_parameters": counts["total_parameters"] - idle} if idle else {})


def _row(run: Measurement) -> dict[str, Any]:
    counts = (
        *("memorized", "chance", "chance_uniform", "chance_constant", "memorized_above_chance", "above_chance"),
        *("bits", "bits_per_parameter", "tokens_per_parameter"),
    )
    information: dict[str, float] = {unit.name: unit.amount for unit in run.units if unit.name in INFORMATION}
    return {
        **({"key": ""} | spec_columns(run.spec) | {"key": run.key}),  # first, and no task's field of that name (facts)
        "library_size": run.library_size,
        "seed": run.spec.seed,
        **{name: getattr(run, name) for name in counts},
        **information,
        **parameter_columns(run),
        **record.capacity(run),
        "epochs": run.epochs,
        "steps": run.steps,
        **record.spent(run),
        "seconds": run.seconds,
        "stop_reason": run.stop_reason,
        **record.channel(run),
    }


def _cell(value: Any) -> Any:
    """A field as a table holds it: lists joined by commas, objects as JSON."""
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    return ",".join(map(str, value)) if isinstance(value, list) else value


def with_columns(
    rows: pl.DataFrame, columns: Iterable[str], option: str | None = None
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The runs whose task and model have all of some columns, and a note of those that do not.

    Args:
        option: what named the columns, where those were not themselves.

    Raises:
        TableError: when no run has one of the columns.
    """
    if "model" not in rows.columns:
        return rows, ()
    runs, notes = rows, []
    for name in columns:
        missing = pl.col(name).is_null() if name in rows.columns else pl.lit(value=True)
        kept = rows.filter(~(missing & pl.col("model").is_not_null()))
        if kept.is_empty() and len(rows):
            models = ", ".join(rows["model"].unique().sort())
            said = (
                f"{name}: no run has this column" if option is None else f"{option}: no run has a column {name!r:.80}"
            )
            raise TableError(f"{said} (model {models}); the table has {among(name, runs.columns)}")
        if count := len(rows) - len(kept):
            notes.append(f"{count} run{'s were' if count > 1 else ' was'} left out: {name} is not known")
        rows = kept
    return rows, tuple(notes)


ABOVE_LUCK = ("memorized_above_chance", "bits", "morris_bits", "allen_zhu_bits")
"""Columns of what is above luck: noise where a count is not. A raw count (`memorized`) is a value, luck or not."""
CAPACITIES = ("capacity_items", "capacity_bits", "capacity_reached")
"""Columns of what can be held (protocol capacity); null in runs of other protocols, and where nothing converged."""
IN_BITS = ("bits", "morris_bits", "allen_zhu_bits", "known_bits", "capacity_bits", "capacity_reached")
OF_RECALL = ("bits",)
"""Those of them that count what recall counts of an item; of the others an item has all that the loss covers."""
UNBOUNDED = (*IN_BITS, "capacity_items")
"""Columns that a library's size in items is no bound of."""
UNITS = {
    **dict.fromkeys(("memorized", "memorized_above_chance", "capacity_items"), "items"),
    **dict.fromkeys(IN_BITS, "bits"),
}
"""What columns count."""


def unit(name: str) -> str | None:
    """What a column counts: items, bits, or something by parameters; None of a column that is not known."""
    return "shares of parameters" if name.endswith("_parameter") and "_per_" in name else UNITS.get(name)


def above_luck(rows: pl.DataFrame, name: str) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The rows whose count is significantly above chance, and a note of those whose is not: they are no values.

    A table that does not say so (no column `above_chance`, or null there) keeps its rows.

    Raises:
        TableError: when no row is.
    """
    if name not in ABOVE_LUCK or "above_chance" not in rows.columns:
        return rows, ()
    kept = rows.filter(pl.col("above_chance").ne_missing(False))
    if kept.is_empty() and len(rows):
        raise TableError(f"{name}: no row is significantly above chance")
    count = len(rows) - len(kept)
    which = "1 run was" if count == 1 else f"{count} runs were"
    return kept, (f"{which} not significantly above chance and left out",) if count else ()


def cut_short(rows: pl.DataFrame, name: str) -> tuple[str, ...]:
    """A note of trainings that ended at their budget, where a column counts what these reached."""
    if name in CAPACITIES or UNITS.get(name) is None or "stop_reason" not in rows.columns:
        return ()
    count = (rows["stop_reason"].cast(pl.String) == "budget").sum()
    which = f"{count} of {len(rows)} trainings" if len(rows) > 1 else "the training"
    return (f"{which} ended at a budget: counts are what these reached, and no capacities",) if count else ()


def above_zero(rows: pl.DataFrame, name: str) -> tuple[pl.DataFrame, int]:
    """The rows whose count is above zero, and how many were dropped: a count of zero has no logarithm."""
    kept = rows.filter(pl.Series(numbers(rows, name) > 0))
    if kept.is_empty():
        raise TableError(f"{name}: no run has a count above zero")
    return kept, len(rows) - len(kept)


def is_table(data: Any) -> bool:
    """Whether data has named columns: a mapping of arrays, or a data frame (polars, pandas)."""
    if isinstance(data, Mapping):
        return all(isinstance(name, str) for name in data)  # a sparse matrix may be a mapping, too
    return hasattr(data, "columns")


def names(data: Any) -> list[str]:
    """The names of a table's columns."""
    return list(data) if isinstance(data, Mapping) else list(data.columns)


def numbers(data: Any, name: str, option: str | None = None) -> np.ndarray:
    """A column of a table as float64.

    Args:
        option: what named the column, where that was not the column itself.

    Raises:
        TableError: when it is missing or holds something else than numbers.
    """
    _check_has(data, name, option)
    column = np.asarray(data[name])
    try:
        found = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        row, value = next((row, value) for row, value in enumerate(column.flat, start=1) if not _is_number(value))
        raise TableError(f"{name}: row {row}: should be a number, got {value!s:.80}") from None
    except OverflowError:  # an integer that is no float
        raise TableError(f"{name}: should be numbers below 1e308, got more") from None
    if found.ndim != 1:
        raise TableError(f"{name}: should have one value a row, got an array of shape {found.shape}")
    return found


def _check_has(data: Any, name: str, option: str | None = None) -> None:
    if name not in names(data):
        said = f"{name}: no such column" if option is None else f"{option}: no column {name!r:.80}"
        raise TableError(f"{said}; the table has {among(name, names(data))}")


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def codes(data: Any, name: str, kinds: Sequence[str]) -> np.ndarray:
    """A column of a table that holds kinds as numbers: 1 is the first kind.

    Raises:
        TableError: when it is missing, or holds another kind.
    """
    _check_has(data, name)
    found = values(data, name)
    for row, kind in enumerate(found, start=1):
        if kind not in kinds:
            raise TableError(f"{name}: row {row}: {' or '.join(kinds)}, got {kind!r:.80}")
    return np.array([kinds.index(kind) + 1.0 for kind in found])


def values(data: Any, name: str) -> list[Any]:
    """A column of a table as a list, None for what is missing."""
    found = data[name].to_list() if hasattr(data[name], "to_list") else np.asarray(data[name]).tolist()
    return [None if value != value else value for value in found]
