"""Laws side by side: in sample, on configurations left out, on the largest models, and on a head count never seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field
from sklearn.base import clone

from capax.errors import CapaxError, LawError, TableError, shown
from capax.laws.capacity import ARCHITECTURE, Size
from capax.laws.law import Law
from capax.laws.rows import Rows, left_out
from capax.store import frames, tables
from capax.text import MOST_VALUES, together

FOLDS = 5
RANK, SAME = 1e-7, 1e-6
"""Below these shares singular values are none, and what is outside a span is rounding."""

ITEMS = "capacity_items"
HELD = "capacity_bits"
MERGED = "AIC, BIC: of measurements that repeat an architecture it counts one, where other laws count each"
ONE_CONFIGURATION = "left out: all rows are of one configuration, so that none is left to fit without it"


class Part(BaseModel):
    """Base of the parts of a comparison."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Score(Part):
    """How well one law says what was measured, and what was left out of its fit.

    A MAPE is the mean of |predicted − measured| / measured (0.5 is 50 %); a prediction above the library's size counts
    as the whole library.
    """

    law: str
    n_parameters: Annotated[int | None, Field(description="Parameters that were fitted.")] = None
    mape: Annotated[float | None, Field(description="In sample.")] = None
    mape_left_out: Annotated[float | None, Field(description="Configurations left out, a fifth at a time.")] = None
    mape_largest: Annotated[float | None, Field(description="The largest width left out.")] = None
    mape_heads: Annotated[float | None, Field(description="The largest head count left out (the paper's test).")] = None
    aic: float | None = None
    bic: float | None = None
    predicted_left_out: Annotated[
        tuple[float, ...] | None, Field(description="Per row, from a fit without its configuration.")
    ] = None
    reasons: Annotated[tuple[str, ...], Field(description="Why a number is missing, or means little.")] = ()


class Comparison(Part):
    """Laws on the same measurements, the best first by the error on configurations that were left out."""

    counts: Annotated[tuple[float, ...], Field(description="What was measured.")]
    of: Annotated[str, Field(description="The column of what was measured; empty of counts without one.")] = ""
    n_heads: tuple[float, ...]
    largest_width: float
    largest_heads: float
    scores: tuple[Score, ...]


def mape(law: Law, rows: Rows) -> float:
    """Mean absolute relative error of a fitted law on rows, as a fraction; of laws in bits on those that converged."""
    return _error(_capped(law, rows), rows, law)


def _capped(law: Law, rows: Rows) -> np.ndarray:
    return np.minimum(law._predict(rows.columns), rows.library)


def compare(table: Any, laws: Iterable[Law], y: Any = None) -> Comparison:
    """Fit laws to the same table and measure their errors.

    Beside laws of bits held at convergence (`CapacityLaw`) the others are fitted to `capacity_items`, on the rows that
    converged, whatever else these differ in: relative errors are the same of items as of bits.

    Args:
        table: named columns, `n_heads` and `d_model` among them; of a table of `capax.read` without the rows that are
            not significantly above chance.
        laws: unfitted laws; they are cloned.
        y: counts; the table's column `target` of each law when not given.

    Raises:
        LawError: when the table has no named columns, laws have targets of their own without one of `capacity_bits`, or
            one is no law.
        TableError: when the table lacks those two columns, or has no rows.
    """
    table = frames.taken(table)
    if not tables.is_table(table):
        raise LawError("compare: a table with named columns is needed, since laws differ in theirs")
    if not isinstance(laws, Iterable):
        raise LawError(f"laws: unfitted laws, such as [capax.PowerLaw()], got {shown(laws)}")
    laws = list(laws)
    for law in laws:
        if not isinstance(law, Law):
            raise LawError(f"laws: unfitted laws, such as capax.PowerLaw(), got {shown(law)}")
    luck: tuple[str, ...] = ()
    named = set(table.columns) if isinstance(table, pl.DataFrame) else set()
    both = y is None and {HELD, ITEMS} <= named
    held = next((law for law in laws if both and law.bound is not None and law.target == HELD), None)
    targets = {law.target: law.name for law in laws}
    if held is None and y is None and len(targets) > 1:
        said = ", ".join(f"{target!r} ({name})" for target, name in targets.items())
        raise LawError(f"target: one for all laws that are compared, got {said}")
    if isinstance(table, pl.DataFrame) and y is None and laws:
        table, luck = (held or laws[0]).usable(table)
    if held is not None:
        table = table.drop_nulls(held.target)
    heads, widths = tables.numbers(table, "n_heads"), tables.numbers(table, "d_model")
    if not len(heads):
        raise TableError("compare: a table with at least one row is needed, got none")
    read: dict[int, Rows] = {}
    scores, counts = [], np.empty(0)
    for place, law in enumerate(laws):
        try:
            if _in_bits(law, held):
                law.check_options(y)
                read[place] = law.read(table, y)
                counts = read[place].counts
            else:
                read[place] = clone(law).set_params(target=ITEMS).read(table.select(*law.columns, ITEMS))
        except CapaxError as error:
            scores.append(Score(law=law.name, reasons=("; ".join((str(error), *luck)),)))
    known = {name: values for rows in read.values() for name, values in rows.columns.items()}
    parts = _Parts(heads, widths, _folds(table, known))
    for place, rows in read.items():
        law = laws[place]
        try:
            if _in_bits(law, held):
                scores.append(_score(law, rows, table, parts))
            else:
                assert held is not None
                scores.append(_of_items(law, held, rows, table, parts))
        except CapaxError as error:
            scores.append(Score(law=law.name, reasons=("; ".join((str(error), *luck)),)))
    scores.sort(key=lambda score: np.inf if score.mape_left_out is None else score.mape_left_out)
    return Comparison(
        counts=tuple(counts.tolist()),
        of="" if y is not None else HELD if held is not None else next(iter(targets), ""),
        n_heads=tuple(heads.tolist()),
        largest_width=float(widths.max()),
        largest_heads=float(heads.max()),
        scores=tuple(scores),
    )


SHAPE = {"n_layers", "n_heads", "d_head", "d_model"}


@dataclass(frozen=True)
class _Parts:
    """What is held out in turn, the same for all laws: by heads, by widths, and folds of whole architectures."""

    heads: np.ndarray
    widths: np.ndarray
    folds: tuple[np.ndarray, ...]


def _folds(table: Any, known: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """Whole architectures, a fifth at a time: the same for all laws, and whichever are compared.

    Args:
        known: columns of the laws, `(rows,)` each.
    """
    columns = {name: values for name, values in known.items() if name not in get_args(Size)}  # which follow from others
    if isinstance(table, pl.DataFrame):
        named = [name for name in ARCHITECTURE if name in table.columns]
        columns |= {name: table[name].rank("dense").fill_null(0).to_numpy() for name in named}
    columns = columns or dict(known)
    if not columns:
        return ()
    return tuple(left_out(np.column_stack([columns[name] for name in sorted(columns)]), FOLDS))


def _in_bits(law: Law, held: Law | None) -> bool:
    """Whether a law is fitted to its own target, and not to items beside a law of what is held."""
    return held is None or (law.bound is not None and law.target == HELD)


def _of_items(law: Law, held: Law, rows: Rows, table: pl.DataFrame, parts: _Parts) -> Score:
    """The score of a law of counts on rows that say in bits what is held."""
    law = clone(law).set_params(target=ITEMS)
    score = _score(law, rows, table.select(*law.columns, ITEMS), parts)
    own = {*law.columns, *get_args(Size)}  # sizes follow from shapes
    if not set(get_args(Size)).isdisjoint(law.columns):
        own |= SHAPE  # of which they tell
    differ = [name for name in held.columns if name not in own and table[name].n_unique() > 1]
    reasons = [f"it knows nothing of {', '.join(differ)}, in which the rows differ"] if differ else []
    an_item = tables.numbers(table, held.target) / rows.counts  # in bits
    shift = 2 * float(np.log(an_item).sum())  # from the density of items to that of bits
    predicted = None if score.predicted_left_out is None else tuple((score.predicted_left_out * an_item).tolist())
    return score.model_copy(
        update={
            "aic": None if score.aic is None else score.aic + shift,
            "bic": None if score.bic is None else score.bic + shift,
            "predicted_left_out": predicted,
            "reasons": (*reasons, *score.reasons),
        }
    )


def _score(law: Law, rows: Rows, table: Any, parts: _Parts) -> Score:
    fitted = clone(law).fit_rows(rows, table)
    aic, bic = None, None
    reasons = [] if parts.folds else [ONE_CONFIGURATION]
    if len(fitted.measurements().counts) == len(rows.counts):
        aic, bic = fitted.information()
    else:
        reasons.append(MERGED)
    predicted = np.full(len(rows.counts), np.nan)
    for held in parts.folds:
        found = _left_out(law, rows, held, "left out", reasons)
        if found is None:
            break
        predicted[held] = found
    whole = bool(np.isfinite(predicted).all())
    return Score(
        law=law.name,
        n_parameters=len(fitted.solution_.free),
        mape=mape(fitted, rows),
        mape_left_out=_error(predicted, rows, law) if whole else None,
        mape_largest=_largest(law, rows, parts.widths, "width", "largest width", reasons),
        mape_heads=_largest(law, rows, parts.heads, "number of heads", "most heads", reasons),
        aic=aic,
        bic=bic,
        predicted_left_out=tuple(predicted.tolist()) if whole else None,
        reasons=tuple(dict.fromkeys(reasons)),
    )


def _largest(law: Law, rows: Rows, values: np.ndarray, name: str, label: str, reasons: list[str]) -> float | None:
    held = values == values.max()
    if held.all():
        reasons.append(f"{label}: all rows have the same {name}, so that none is left to fit without it")
        return None
    predicted = _left_out(law, rows, held, label, reasons)
    return None if predicted is None else _error(predicted, rows.take(held), law)


def _left_out(law: Law, rows: Rows, held: np.ndarray, label: str, reasons: list[str]) -> np.ndarray | None:
    """Predictions of the rows that are held out; None, with the reason, when the others do not suffice for a fit."""
    try:
        fitted, asked = clone(law).fit_rows(rows.take(~held)), rows.take(held)
        predicted = _capped(fitted, asked)
    except LawError as error:
        reasons.append(f"{label}: {error}")
        return None
    if not fitted.travels and (names := _untold(fitted, asked)):
        unknown = together(names) if len(names) <= MOST_VALUES else f"{len(names)} parameters"
        reasons.append(f"{label}: the other rows do not determine {unknown}, on which the prediction depends")
        return None
    if (predicted < 0).any():
        reasons.append(f"{label}: it predicts counts below zero, which no measurement can have")
    return predicted


def _untold(law: Law, asked: Rows) -> list[str]:
    """Parameters that predictions depend on, and the rows of the fit do not, but in a combination with others.

    Such are there where derivatives of the one are outside the span of those of the other. A parameter that is held at
    its usual value, as an exponent of what all rows have alike, says nothing of rows that differ in it.
    """
    theta, rows = law.solution_.theta, law.measurements()
    known, wanted = (law._model(of.columns)(theta)[1] for of in (rows.take(~rows.complete), asked))
    size = np.linalg.norm(known, axis=0)
    scale = np.where(size > 0, size, 1.0)
    _, singular, directions = np.linalg.svd(known / scale, full_matrices=False)
    span = directions[singular > RANK * singular[0]]
    wanted = wanted / scale
    least = SAME * np.abs(wanted).max()
    if np.abs(wanted - wanted @ span.T @ span).max() <= least:
        return []
    differ = np.ptp(np.vstack([known / scale, wanted]), axis=0) > least
    names = [name for name, one in zip(law.names, differ, strict=True) if one]
    return [name for name in names if name in law.undetermined_] or names


def _error(predicted: np.ndarray, rows: Rows, law: Law) -> float:
    """Of rows that are bounds to a law in bits nobody knows how far off it is."""
    kept = np.full(len(rows.counts), True) if law.bound is None else ~rows.complete
    counts = rows.counts[kept]
    return float(np.mean(np.abs(predicted[kept] - counts) / counts))
