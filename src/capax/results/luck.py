"""The probability that luck recalls as many, by an exact test."""

from __future__ import annotations

import math

SIGNIFICANCE = 0.01
"""Probability below which luck is ruled out."""


def luck_p(memorized: int, probability: float, library_size: int, counts: int = 1) -> float:
    """The probability that luck recalls so many of a library, or more.

    One-sided exact binomial test, P(k or more of M) for items that are right with a probability each; for the best of
    R counts 1 − (1 − P)^R, at most so much where they are alike.
    """
    from scipy.special import betainc  # here: reading results needs no more of scipy

    if memorized <= 0 or probability >= 1:
        return 1.0
    single = float(betainc(memorized, library_size - memorized + 1, probability)) if probability > 0 else 0.0
    return 1.0 if single >= 1 else -math.expm1(max(counts, 1) * math.log1p(-single))
