"""A power law through points, by least squares on logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from capax.errors import ReportError
from capax.results import LEVEL

FEWEST = 3

HOW = (
    "Dashed: y = a·x^b, by least squares of log y on log x, every point alike; after the exponent b its 95 % interval "
    "(Student's t, n − 2 degrees of freedom)."
)


@dataclass(frozen=True)
class PowerFit:
    """y = constant · x^exponent.

    Attributes:
        low: lower end of the exponent's 95 % interval.
        high: upper end.
    """

    constant: float
    exponent: float
    low: float
    high: float

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The law at some x."""
        return np.asarray(self.constant * x**self.exponent)

    def __str__(self) -> str:
        """Its exponent with the interval."""
        digits = f".{max(2, 1 - int(np.floor(np.log10(max(self.high - self.low, 1e-4)))))}f"
        return f"x^{self.exponent:{digits}} ({self.low:{digits}} to {self.high:{digits}})"


def power_fit(x: Sequence[float], y: Sequence[float], of: str, names: tuple[str, str] = ("x", "y")) -> PowerFit | None:
    """The power law through some points.

    Args:
        of: what they are of, for errors.
        names: of both columns, for errors.

    Returns:
        None for fewer than 3 points, or points at one x.

    Raises:
        ReportError: for what has no logarithm.
    """
    if len(x) < FEWEST or len(set(x)) < 2:
        return None
    for name, values in zip(names, (x, y), strict=True):
        if min(values) <= 0:
            raise ReportError(f"fit: a power law needs {name} above 0, got {min(values):g} ({of})")
    line = stats.linregress(np.log(x), np.log(y))
    apart = float(stats.t.ppf((1 + LEVEL) / 2, len(x) - 2) * line.stderr)
    exponent = float(line.slope)
    return PowerFit(float(np.exp(line.intercept)), exponent, exponent - apart, exponent + apart)
