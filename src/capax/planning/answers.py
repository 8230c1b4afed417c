"""What a law says of rows, and how an answer is put."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from capax.errors import LawError
from capax.laws.compare import HELD
from capax.laws.domain import OutsideDomainWarning
from capax.laws.law import Law
from capax.results import Interval
from capax.store.tables import IN_BITS

Columns = dict[str, np.ndarray]
SUREST = 0.999
"""Probability that a thousand draws of a law still tell."""
KINDS = (
    "the interval knows nothing of kinds of networks outside the domain; what variants, such as mixtures of experts, "
    "hold beside a plain network is in docs/how-to/which-attention.md"
)


def of_kinds(law: Law, outside: Iterable[str]) -> tuple[str, ...]:
    """What a law that travels does not know: kinds of networks that none of its data were of."""
    return (KINDS,) if law.travels and any(" is not " in reason for reason in outside) else ()


def predicted(law: Law, table: Columns) -> np.ndarray:
    """What a law expects of some rows, wherever they lie: of one that averages, the middle of what it may be.

    Far from the data an average of coefficients would follow the steepest of the regressions.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDomainWarning)
        return law.quantile(table, 0.5) if law.travels else law.predict(table)


def of_new_measurement(low: float, high: float, level: float) -> Interval:
    """Where a new measurement falls; it has no upper end where that would be infinite."""
    return Interval(low=low, high=high if math.isfinite(high) else None, level=level, of="a new measurement")


def refuse_of_bits(law: Law, **options: Any) -> None:
    """Raise LawError where an option that only laws in bits have is given with another."""
    for name, given in options.items():
        if given is not None and law.target not in IN_BITS:
            raise LawError(f"{name}: only for laws in bits, such as capacity; {law.name} is none")


def refuse_early(law: Law, exposures: int | None) -> None:
    """Raise LawError for exposures beside a law of anything but what is held in the end.

    Of a law of what trainings reached some exposures are in its counts already.
    """
    refuse_of_bits(law, exposures=exposures)
    if exposures is not None and law.target != HELD:
        raise LawError(
            f"exposures: only beside a law of what is held at convergence ({HELD}); {law.name} is of {law.target}"
        )


def about_law(law: Law, outside: Sequence[str] = (), remarks: Sequence[str] = ()) -> dict[str, Any]:
    """What an answer says of its law: fields of `Prediction` and `Frontier`."""
    return {
        "law": law.name,
        "source": law.source_,
        "domain": law.domain_,
        "notes": (*remarks, *law.notes_, *(f"outside the domain of the law: {reason}" for reason in outside)),
    }
