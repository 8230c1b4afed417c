"""Laws with the parameters that papers print."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from capax.errors import LawError
from capax.laws.censored import Solution
from capax.laws.domain import Domain
from capax.laws.law import Law
from capax.literature import stated_by

Fitted = TypeVar("Fitted", bound=Law)

SOURCES = ("harma2024",)


def spread_of(mape: float) -> float:
    """The σ of a lognormal error whose mean absolute relative error is `mape`: exp(σ²/2)·(2Φ(σ) − 1) = mape."""
    return float(brentq(lambda sigma: np.exp(sigma**2 / 2) * (2 * ndtr(sigma) - 1) - mape, 0.0, 3.0))


def adopt(law: Fitted, source: str, n_layers: int) -> Fitted:
    """Give an unfitted law the printed parameters.

    Raises:
        LawError: for an unknown source or a depth that the paper does not print.
    """
    if source not in SOURCES:
        raise LawError(f"source: one of {', '.join(SOURCES)}, got {source!r}")
    found = stated_by(source)
    rows = found["table_1"]
    if str(n_layers) not in found["usable"]:
        raise LawError(f"n_layers: {source} prints {', '.join(found['usable'])}, got {n_layers}")
    printed, place = rows[str(n_layers)], found["domain"]
    sigma = spread_of(found["mape"]["ecm"])
    law.solution_ = Solution({name: printed[name] for name in law.names}, law.names, sigma, 0, 0.0)
    law.sigma_, law.parameters_, law.undetermined_ = sigma, dict(printed), {}
    law.domain_ = Domain(
        ranges={name: tuple(place[name]) for name in law.columns},
        protocol={"n_layers": n_layers, "d_head": place["d_head"]},
        largest_library=place["largest_library"],
        usable=found["usable"][str(n_layers)],
    )
    law.notes_ = [*found["notes"][str(n_layers)], *law.reading_notes()]
    law.source_ = f"published:{source}" + ("" if n_layers == 1 else f":{n_layers}")
    law.draws_ = np.tile([*law.solution_.theta, sigma], (law.n_bootstrap, 1))
    return law
