"""What a fit found, for people and for other programs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from capax.laws.compare import Comparison, mape
from capax.laws.domain import Domain
from capax.laws.law import Law
from capax.results import LEVEL, Result


class FittedParameter(Result):
    """A parameter of a law with its interval."""

    name: str
    value: Annotated[float | None, Field(description="None when the data do not determine it.")]
    low: Annotated[float | None, Field(description="None when the data set no lower end.")]
    high: Annotated[float | None, Field(description="None when the data set no upper end.")]
    reason: Annotated[str | None, Field(description="Why it is not determined.")]


class FitReport(Result):
    """A fitted law."""

    law: str
    form: Annotated[str | None, Field(description="What it says in symbols, where it has some (docs/laws.md).")] = None
    options: dict[str, Any]
    parameters: tuple[FittedParameter, ...]
    level: Annotated[float, Field(description="Of the parameters' intervals.")]
    sigma: Annotated[float, Field(description="Spread of log counts about the law (polynomial: of counts).")]
    mape: Annotated[float, Field(description="Mean |predicted − measured| / measured in sample; 0.5 is 50 %.")]
    aic: float
    bic: float
    n_rows: int
    n_complete: Annotated[int, Field(description="Rows whose library was memorized whole: lower bounds.")]
    domain: Domain
    notes: tuple[str, ...]
    comparison: Comparison | None = None
    schema_version: Literal[1] = 1


def report(law: Law, level: float = LEVEL, comparison: Comparison | None = None) -> FitReport:
    """Describe a law that was fitted to measurements, with parameter intervals by profile likelihood.

    Raises:
        LawError: for a law without measurements, such as a published one, and for a level beyond what its intervals
            tell (`Law.parameter_intervals`).
    """
    rows, intervals = law.measurements(), law.parameter_intervals(level)
    aic, bic = law.information()
    return FitReport(
        law=law.name,
        form=law.form,
        options=law.options(),
        parameters=tuple(
            FittedParameter(
                name=name,
                value=law.parameters_[name],
                low=intervals[name][0],
                high=intervals[name][1],
                reason=law.undetermined_.get(name),
            )
            for name in law.names
        ),
        level=level,
        sigma=law.sigma_,
        mape=mape(law, rows),
        aic=aic,
        bic=bic,
        n_rows=len(rows.counts),
        n_complete=int(rows.complete.sum()),
        domain=law.domain_,
        notes=tuple(law.notes_),
        comparison=comparison,
    )
