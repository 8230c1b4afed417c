"""What the report's page needs to plan by itself, with the numbers of `capax plan`."""

from __future__ import annotations

import base64
import itertools
import math
import warnings
from typing import Any

import numpy as np

from capax.errors import LawError
from capax.figures.interactive import GREY, SYMBOLS
from capax.figures.looks import COLORS
from capax.laws import published
from capax.laws.domain import OutsideDomainWarning
from capax.laws.files import DEFAULT, load_law
from capax.laws.law import Law
from capax.laws.polynomial import Polynomial
from capax.laws.report import FittedParameter, report
from capax.planning.candidates import choices, model, rows, vocabulary
from capax.results import Result

IN_PAGE = ("power", "depth", "ecm", "bits")
"""Laws that planner.js computes, too."""
LEVEL = 0.95
PROBABILITY = 0.9
REACH = [1_000, 1_000_000_000]
"""Parameters that the slider offers where the law's domain does not say."""


class Planner(Result):
    """The planner's section of a report.

    Attributes:
        given: whether the report was asked to use this law; else it is the one that ships with capax.
        formula: what the law says, in a sentence.
        parameters: with profile intervals, where the law has rows that it was fitted to.
        reason: why the page cannot plan with this law; None where it can.
        carried: what planner.js reads: see `carried`.
    """

    law: str
    source: str
    given: bool
    formula: str
    domain: str
    notes: tuple[str, ...]
    errata: tuple[str, ...]
    parameters: tuple[FittedParameter, ...]
    level: float
    reason: str | None
    carried: dict[str, Any] | None


def planner(given: Law | None) -> Planner:
    """The planner with a law, or with the one that ships with capax."""
    law = load_law(DEFAULT) if given is None else given
    reason = refusal(law)
    assert law.__doc__ is not None
    return Planner(
        law=law.name,
        source=law.source_,
        given=given is not None,
        formula=law.__doc__.splitlines()[0],
        domain=law.domain_.in_words(),
        notes=tuple(law.notes_),
        errata=_errata(law),
        parameters=_parameters(law),
        level=LEVEL,
        reason=reason,
        carried=None
        if reason
        else carried(law) | _start(law) | {"looks": {"colors": COLORS, "symbols": SYMBOLS, "grey": GREY}},
    )


def refusal(law: Law) -> str | None:
    """Why planner.js cannot plan with a law; None where it can."""
    if law.task != "sequences":
        return f"the law {law.name} is of {law.task}; the page plans for sequences (capax plan {law.task} does for it)"
    if law.name not in IN_PAGE:
        return f"the law {law.name} is not computed in the page; capax plan --law does it"
    if not law.domain_.usable:
        return f"the law {law.name} ({law.source_}) is not usable as published"
    if not len(law.bootstrap()):
        return f"the law {law.name} ({law.source_}) carries no refits, from which its intervals come"
    return None


def carried(law: Law) -> dict[str, Any]:
    """A law as JSON from which planner.js computes what `capax.plan` does.

    Numbers that decide are base64 of little-endian float64, exact and shorter than their decimals; of the bootstrap's
    refits each column is such a text, or a single one where all agree.
    """
    draws = law.bootstrap()
    options = law.get_params()
    known = ("seq_len", "vocab_size", "n_layers", "n_heads", "d_model", "d_head")
    return {
        "name": law.name,
        "source": law.source_,
        "columns": list(law.columns),
        "options": {name: options[name] for name in ("as_printed", "loss") if name in options},
        "values": _packed(list(law.solution_.values.values())),
        "sigma": _packed([law.sigma_]),
        "draws": [_packed(column[:1] if (column == column[0]).all() else column) for column in draws.T],
        "noise": _packed(law.noise()),
        "domain": {
            "ranges": law.domain_.ranges,
            "protocol": {name: [value, str(value)] for name, value in law.domain_.protocol.items() if name in known},
            "usable": law.domain_.usable,
            "words": law.domain_.in_words(),
        },
        "model": model(law, None, 1, 1).model_dump(mode="json"),
        "vocab_size": vocabulary(law, None),
    }


def _packed(values: Any) -> str:
    return base64.b64encode(np.asarray(values, dtype="<f8").tobytes()).decode()


def _parameters(law: Law) -> tuple[FittedParameter, ...]:
    """Those of a law with names that mean something; without intervals where it was not fitted to rows."""
    if isinstance(law, Polynomial):
        return ()
    if hasattr(law, "rows_"):
        return report(law, LEVEL).parameters
    return tuple(
        FittedParameter(name=name, value=value, low=None, high=None, reason=law.undetermined_.get(name))
        for name, value in law.parameters_.items()
    )


def _errata(law: Law) -> tuple[str, ...]:
    """What is wrong in the paper whose parameters a law has."""
    kind, _, source = law.source_.partition(":")
    return tuple(published.data(source.partition(":")[0])["errata"]) if kind == "published" else ()


def _start(law: Law) -> dict[str, Any]:
    """A first question, in the middle of what a law knows, and from how few to how many parameters it reaches."""
    low, high = law.domain_.ranges["seq_len"]
    seq_len, tokens = max(round(math.sqrt(low * high)), 2), vocabulary(law, None)
    start = {"sequences": 100, "seq_len": seq_len, "vocab_size": tokens, "probability": PROBABILITY}
    try:
        axes = [choices("n_layers", None, law), choices("n_heads", None, law), choices("d_model", None, law, 8)]
        table = rows([model(law, *sizes) for sizes in itertools.product(*axes)], seq_len, tokens)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideDomainWarning)
            held = law.quantile(table, 1 - PROBABILITY)
    except LawError:
        return {"start": start, "reach": REACH}
    size = table["trainable_parameters"]
    widest = held[np.array(table["d_model"]) == max(axes[-1])]
    return {
        "start": start | {"sequences": _round(float(np.median(widest)) / 2)},
        "reach": [int(size.min()), int(size.max())],
        "several_depths": len(axes[0]) > 1,
    }


def _round(value: float) -> int:
    """To one digit, at least 1."""
    if value < 1:
        return 1
    unit = 10 ** math.floor(math.log10(value))
    return int(max(value // unit, 1) * unit)
