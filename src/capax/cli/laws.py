"""`capax fit`: measurements to a law."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
import polars as pl
from cyclopts import Parameter
from rich.table import Table

from capax import outputs
from capax.cli import output
from capax.cli.flags import Flag, Json
from capax.errors import LawError, TableError
from capax.figures.drawing import check_writable, draw
from capax.figures.predicted import compared
from capax.laws.capacity import Size
from capax.laws.compare import ITEMS, Comparison
from capax.laws.compare import compare as compare_laws
from capax.laws.files import LAWS, LawName, save_law
from capax.laws.law import Law
from capax.laws.report import FitReport, report
from capax.laws.rows import saying
from capax.results import LEVEL
from capax.specs import Task
from capax.specs.spec import proper_share
from capax.store import DEFAULT, published, table_files, tables
from capax.store.curves import curves
from capax.text import percent

MOST_SHOWN = 12
"""Parameters of a law that are printed one by one."""


def fit(
    *,
    store: Path | None = None,
    data: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    where: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    law: LawName | None = None,
    axes: str | None = None,
    size: Size | None = None,
    method: Literal["joint", "stages"] | None = None,
    as_printed: Annotated[bool, Flag] = False,
    degree: int | None = None,
    target: str | None = None,
    level: float = LEVEL,
    compare: Annotated[bool, Flag] = False,
    figure: Path | None = None,
    out: Path | None = None,
    as_json: Json = False,
) -> None:
    """Fit a law of capacity to measurements: parameters with intervals, and how well laws predict what was left out.

    Parameters
    ----------
    store
        SQLite file of finished runs. [default: capax.db]
    data
        A .csv or .parquet table instead (columns seq_len, n_heads, d_model, library_size, memorized, ...), or
        reference, the study that ships with capax, or published:morris2025, published:nguyen2026 and
        published:allenzhu2024, what others measured; may be given more than once.
    where
        Only rows with column=value; may be given more than once.
    law
        ecm: Härmä et al. 2024; polynomial: its rival there; exponential, logistic: forms that the paper rejects; bits:
        constant bits per parameter; power: powers of length, heads and width, or of other columns (--axes); depth:
        power with layers; capacity: bits held at convergence; exposure: bits known after so many exposures, from the
        curves of the store's trainings; association, relation, relation-linear: those of associations and relations
        (without the logarithm). [default: that of the rows' task; of sequences capacity where all rows are of that
        protocol, and else power; of published data the law that they are there for, with its axes, target and rows]
    axes
        The columns that the power law depends on, "seq_len,n_heads,n_kv_heads"; or the terms that the capacity law may
        have. [default: seq_len, n_heads, d_model; all terms]
    size
        Which parameters count in the capacity law. [default: effective_parameters]
    method
        How the ecm is fitted: all parameters at once, or in the paper's stages. [default: joint]
    as_printed
        The ecm with max for min, as summaries of the paper print it.
    degree
        Degree of the polynomial. [default: 5]
    target
        Column of counts. [default: memorized_above_chance, or memorized where a file has no such column;
        capacity_items where all rows are of protocol capacity; of the capacity law capacity_bits, of the relation law
        total_key_dim, of the exposure law known_bits]
    level
        Level of the intervals.
    compare
        Set all laws side by side (that of depth where there is more than one).
    figure
        With --compare: where to draw predicted against measured (PNG or PDF).
    out
        Where to write the law (JSON), for predict and plan.
    """
    if data and store is not None:
        raise LawError("store: not with data, which is read in its place")
    store = store or DEFAULT
    if figure is not None and not compare:
        raise LawError("figure: only with --compare")
    if figure is not None:
        check_writable(figure, "figure")
    if out is not None:
        outputs.check(out, ours=(b'{"law":', "law"))
    proper_share("level", level, LawError)
    shelf = str(data[0]) if len(data) == 1 and str(data[0]).startswith(published.PREFIX) else None
    suggested = published.usual_fit(shelf) if shelf else {}
    law = law or suggested.get("law")
    stored = tables.read if law is None or LAWS[law].along is None else curves
    rows = table_files.from_files(data) if data else stored(store)
    if rows.is_empty():
        raise TableError(f"store: {store} holds no runs")
    chosen_rows = [f"{name}={value}" for name, value in suggested.get("where", {}).items() if not _named(name, where)]
    rows = tables.where(rows, [*where, *chosen_rows])
    law = law or _usual(rows, {"method": method, "as_printed": as_printed, "degree": degree})
    if compare and LAWS[law].along is not None:
        raise LawError(f"compare: no other law is of curves as {law} is")
    if law == suggested.get("law"):
        target = target or suggested.get("target")
        axes = axes or ",".join(suggested["axes"])
    given = {
        "axes": None if axes is None else [name.strip() for name in axes.split(",")],
        "size": size,
        "method": method,
        "as_printed": as_printed or None,
        "degree": degree,
    }
    rivals = _rivals(law, rows) if compare else []
    _refuse_unused(given, law, rivals)
    targets = _targets(law, rows, target)
    given |= {"loss": rows["loss"][0]} if "loss" in rows.columns else {}
    chosen = _made(law, targets, given)
    rows, left_out = _countable(chosen, rows, of_store=not data)
    notes = [*(published.notes(shelf) if shelf else ()), *left_out]
    notes.extend(f"only rows with {condition}; --where chooses others" for condition in chosen_rows)
    with saying(notes):
        fitted = chosen.fit(rows)
    fitted.notes_.extend(note for note in notes if note not in fitted.notes_)
    comparison = compare_laws(rows, [_made(name, targets, given) for name in rivals]) if compare else None
    found = report(fitted, level, comparison)
    if out is not None:
        save_law(fitted, out)
    if figure is not None and found.comparison is not None:
        draw(compared(found.comparison), figure, "figure")
    output.emit(found, _show_fit, as_json=as_json, law=out, figure=figure)


def _targets(law: LawName, rows: pl.DataFrame, target: str | None) -> dict[str, str]:
    """The column of counts of each law: the one that was given, or its own; of laws side by side they are alike."""
    above = rows.get_column("memorized_above_chance", default=None)
    usual = "memorized" if above is None or above.is_null().all() else "memorized_above_chance"
    usual = ITEMS if _at_convergence(rows) else usual
    own = {name: kind().target for name, kind in LAWS.items()}
    found = {name: target or (usual if counts == Law.usual_target else counts) for name, counts in own.items()}
    return found if _at_convergence(rows) else dict.fromkeys(LAWS, found[law])


def _rivals(law: LawName, rows: pl.DataFrame) -> list[str]:
    """The laws that can be fitted to the rows, too; that of depth where there is more than one."""
    one_depth = "n_layers" not in rows.columns or rows["n_layers"].n_unique() == 1
    found = [name for name, kind in LAWS.items() if kind.items == LAWS[law].items and kind.along is None]
    found = [name for name in found if name != "depth" or not one_depth]
    return [name for name in found if name == law or set(LAWS[name]().columns) <= set(rows.columns)]


def _refuse_unused(given: Mapping[str, Any], law: LawName, rivals: Sequence[str]) -> None:
    """Raise LawError for an option that neither the law nor any other has."""
    for name in (name for name, value in given.items() if value is not None):
        meant = [other for other, kind in LAWS.items() if name in kind().get_params()]
        if not {*meant} & {law, *rivals}:
            beside = f", nor for {', '.join(rivals)}" if rivals and rivals != [law] else ""
            raise LawError(f"{name}: only for {', '.join(meant)}, not {law}{beside}")


def _countable(law: Law, rows: pl.DataFrame, *, of_store: bool) -> tuple[pl.DataFrame, list[str]]:
    """The rows that a law can be fitted to, and notes of the others; of a user's counts a zero is a fault."""
    rows, notes = law.usable(rows)
    bounded = law.bound is not None and law.bound in rows.columns
    if bounded or not (of_store or law.target in tables.CAPACITIES):
        return rows, [*notes]
    counted = rows.filter(pl.Series(~np.isnan(tables.numbers(rows, law.target, "target"))))
    uncounted = 0 if counted.is_empty() else len(rows) - len(counted)
    kept, zeros = tables.above_zero(counted if uncounted else rows, law.target)
    items = law.needed_for is None and law.target not in tables.CAPACITIES
    why = "not above chance" if items else f"with a {law.target} of zero"
    reasons = ((uncounted, "row", f"without a {law.target}"), (zeros, "run", why))
    notes = (
        *notes,
        *(f"{n} {of}{'s' * (n > 1)} {why} {'were' if n > 1 else 'was'} left out" for n, of, why in reasons if n),
    )
    if uncounted and law.target == Law.usual_target and rows.filter(pl.col(law.target).is_null())["memorized"].count():
        notes = (*notes, "--target memorized counts such rows, too")
    return kept, [*notes]


def _usual(rows: pl.DataFrame, options: Mapping[str, Any]) -> LawName:
    """The law that has the options that were given, or that of the rows' task; of sequences that of their protocol.

    Of points of curves it is that of curves.
    """
    given = {name for name, value in options.items() if value}
    for name, kind in LAWS.items():
        if kind.along is not None and {kind.along, kind().target} <= set(rows.columns):
            return cast(LawName, name)
    said = {name: set(rows[name].unique()) for name in ("task", "protocol") if name in rows.columns}
    units = {kind.unit for tag, kind in Task.registry.items() if tag in said.get("task", ())}
    for name, kind in LAWS.items():
        if (given and given <= kind().get_params().keys()) or (not given and kind.items in units - {Law.items}):
            return cast(LawName, name)
    return "capacity" if _at_convergence(rows) else "power"


def _at_convergence(rows: pl.DataFrame) -> bool:
    """Whether all rows say what a model can hold."""
    return "protocol" in rows.columns and set(rows["protocol"]) == {"capacity"}


def _named(column: str, conditions: Iterable[str]) -> bool:
    """Whether a condition `column=value` names a column."""
    return any(condition.partition("=")[0].strip() == column for condition in conditions)


def _made(name: str, targets: Mapping[str, str], given: Mapping[str, Any]) -> Law:
    """A law with its own target and those of the options that it has."""
    known = LAWS[name]().get_params()
    chosen = {option: value for option, value in given.items() if option in known and value is not None}
    return LAWS[name](**chosen | {"target": targets[name]})


def _show_fit(found: FitReport) -> None:
    screen = output.console()
    which = "complete" if LAWS[found.law].bound is None else "not converged"
    rows = f"{found.n_rows} rows" + (f", of which {found.n_complete} {which}" if found.n_complete else "")
    scale = "counts" if found.law == "polynomial" else "log counts"
    screen.print(f"{found.law}: {rows}; mean error {found.mape:.1%} in sample, spread of {scale} {found.sigma:.3g}")
    if found.form is not None:
        screen.print(f"{found.form} (docs/laws.md names the letters)")
    if len(found.parameters) <= MOST_SHOWN:
        table = Table(box=None, pad_edge=False)
        table.add_column("parameter")
        table.add_column("value", justify="right")
        table.add_column(f"{percent(found.level)} interval")
        for parameter in found.parameters:
            if parameter.value is None:
                table.add_row(parameter.name, "–", f"not determined: {parameter.reason or ''}")
            else:
                table.add_row(parameter.name, f"{parameter.value:.4g}", _ends(parameter.low, parameter.high))
        screen.print(table)
    else:
        screen.print(f"{len(found.parameters)} coefficients (--json shows them)")
    screen.print(f"domain: {found.domain.in_words()}")
    output.show_notes(found.notes)
    if found.comparison is not None:
        _show_comparison(found.comparison)


def _ends(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return "no limit on either side"
    if low is None:
        return f"below {high:.4g}"
    return f"above {low:.4g}" if high is None else f"{low:.4g} to {high:.4g}"


def _show_comparison(found: Comparison) -> None:
    screen = output.console()
    table = Table(box=None, pad_edge=False, title="\nMean error of each law", title_justify="left")
    table.add_column("law")
    left_out = (f"width {found.largest_width:g}", f"{found.largest_heads:g} head{'s' * (found.largest_heads != 1)}")
    for name in ("parameters", "in sample", "left out", *left_out, "AIC", "BIC"):
        table.add_column(name, justify="right", no_wrap=True)
    for score in found.scores:
        errors = (score.mape, score.mape_left_out, score.mape_largest, score.mape_heads)
        table.add_row(
            score.law,
            "–" if score.n_parameters is None else str(score.n_parameters),
            *("–" if error is None else f"{error:.1%}" for error in errors),
            *("–" if value is None else f"{value:.1f}" for value in (score.aic, score.bic)),
        )
    screen.print(table)
    screen.print("left out: a fifth of the configurations at a time; the next two: the largest width, the most heads")
    for score in found.scores:
        for reason in score.reasons:
            screen.print(f"{score.law}: {reason}")
