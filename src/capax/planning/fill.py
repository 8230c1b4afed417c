"""What a few files tell of a new one: a geometric mean and its spread; how full a network may be for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from capax.laws.law import Law
from capax.planning.answers import Columns
from capax.seeds import numpy_generator

FEWEST = 3
"""Files by which a mean and a spread are known well enough to speak of a new one."""


def geometric(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The geometric mean of some values, and the standard deviation of their logarithms."""
    logs = np.log(values)
    return float(np.exp(logs.mean())), float(logs.std(ddof=1))


def of_new(count: int, level: float) -> float:
    """A quantile of a new value by some, in standard deviations from their mean, whose error counts (Student's t)."""
    return float(np.sqrt(1 + 1 / count) * scipy.stats.t.ppf(level, count - 1))


class Fill(NamedTuple):
    """How full a network may be for what it learns to be recalled.

    Attributes:
        share: bits of the items by bits of its capacity.
        spread: standard deviation of that share's logarithm.
        files: of the study that ships, by which it is known.
        more: of data of one's own, by which it is known, too.
        short: runs of these that ended before their usual budget, and are left out.
        rounding: standard deviation of the logarithm of what rounding leaves of its bits; that is in the share.
        networks: by which it is known.
    """

    share: float = 1.0
    spread: float = 0.0
    files: int = 0
    more: int = 0
    short: int = 0
    rounding: float = 0.0
    networks: int = 0

    def widened(
        self, law: Law, table: Columns, levels: Sequence[float], shares: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """Quantiles of what a law says, with the spread: distances from the median add up as independent ones.

        Args:
            shares: `(draws, rows)` of what is known of it early, as independent as the spread; all where none are
                given.
        """
        *found, median = _known(law, table, (*levels, 0.5), shares)
        steps = [self._step(level) for level in levels]
        return [
            bits if step == 0 else median * np.exp(np.sign(step) * np.hypot(np.log(bits / median), step))
            for bits, step in zip(found, steps, strict=True)
        ]

    def _step(self, level: float) -> float:
        """How far a quantile of a new share's logarithm is from its mean: of a new file's, and of what rounding leaves.

        Each by as many files or networks as it is known by; exactly, where none are named.
        """
        parts = ((self.spread, self.files + self.more), (self.rounding, self.networks))
        steps = [
            spread * (of_new(known, level) if known > 1 else float(scipy.stats.norm.ppf(level)))
            for spread, known in parts
        ]
        return math.copysign(math.hypot(*steps), level - 0.5) if level != 0.5 else 0.0


def _known(law: Law, table: Columns, levels: Sequence[float], shares: np.ndarray | None) -> list[np.ndarray]:
    """Quantiles of a new measurement by a law, or of the share of it that is known early."""
    if shares is None:
        return law.quantiles(table, levels)
    law.refuse_beyond_draws(levels)
    draws = law.new_measurements(table)
    # in another order than theirs, as what is held and how fast it is learned are of different studies
    order = numpy_generator(0, "shares of what is held").permutation(np.arange(len(draws)) % len(shares))
    return list(np.quantile(draws * shares[order], levels, axis=0, method="weibull"))
