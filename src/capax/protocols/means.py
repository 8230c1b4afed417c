"""How far a mean of a few numbers may be from that of all of their kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy
from jaxtyping import Float

from capax.results import LEVEL


def half_of_mean(values: Sequence[float] | Float[np.ndarray, " values"], level: float = LEVEL) -> float:
    """Half of the interval of a mean, by Student's t, of two numbers or more."""
    count = len(values)
    quantile = float(scipy.stats.t.ppf((1 + level) / 2, count - 1))
    return quantile * float(np.std(values, ddof=1)) / count**0.5
