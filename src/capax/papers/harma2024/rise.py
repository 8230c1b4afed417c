"""Which curve counts follow as the width grows: a line, a power or a logistic curve, each up to the library's size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import least_squares
from scipy.special import expit

from capax.laws.censored import Vector
from capax.papers import evidence as ev
from capax.papers.evidence import field
from capax.papers.harma2024.runs import SATURATED, above_chance, full, grouped, spans_saturation
from capax.papers.recipe import Evidence, Unjudged, Verdict, agrees, cannot, differs
from capax.results import Measurement

FEWEST = 3
"""Widths below the library's size that two numbers of a curve, and one that is held out, take."""
HOW = "curves of each length and head count by itself, one width held out at a time, in shares of the library"


class Curve(NamedTuple):
    """A curve in the width.

    Attributes:
        share: of the library at each width, by the curve's numbers.
        starts: numbers to begin with, by the widths, and the logarithm of the share per channel at the first.
    """

    share: Callable[[Vector, Vector], Vector]
    starts: Callable[[Vector, float], list[tuple[float, ...]]]


LINE = Curve(
    lambda numbers, width: np.minimum(np.exp(numbers[0]) * width, 1),
    lambda width, first: [(first,)],
)
POWER = Curve(
    lambda numbers, width: np.minimum(np.exp(numbers[0] + numbers[1] * np.log(width)), 1),
    lambda width, first: [(first - (steep - 1) * float(np.log(width[0])), steep) for steep in (1.0, 1.5, 2.5)],
)
LOGISTIC = Curve(
    lambda numbers, width: expit((width - numbers[0]) * np.exp(-numbers[1])),
    lambda width, first: [
        (float(middle), float(np.log(part * middle))) for middle in width for part in (0.1, 0.2, 0.4)
    ],
)


def _fit(curve: Curve, width: Vector, share: Vector, bound: Bool[np.ndarray, " widths"]) -> Vector:
    """The numbers of a curve, by least squares; a share that is a lower bound says nothing of a curve above it."""

    def off(numbers: Vector) -> Vector:
        gap = curve.share(numbers, width) - share
        return np.where(bound, np.minimum(gap, 0), gap)

    found = [least_squares(off, start) for start in curve.starts(width, float(np.log(share[0] / width[0])))]
    return np.asarray(min(found, key=lambda one: one.cost).x)


def _errors(runs: Sequence[Measurement]) -> Float[np.ndarray, " curves"]:
    """The mean error of each curve on the widths of one length and head count that are held out in turn."""
    width = np.array([field(run, "d_model") for run in runs], float)
    bound = np.array([full(run) for run in runs])
    share = np.array([run.memorized_above_chance / run.library_size for run in runs])
    share = np.where(bound, np.minimum(share, SATURATED), share)

    def off(curve: Curve, out: int) -> float:
        kept = np.arange(len(runs)) != out
        numbers = _fit(curve, width[kept], share[kept], bound[kept])
        return float(np.abs(curve.share(numbers, width[[out]]) - share[out])[0])

    return np.array(
        [np.mean([off(curve, at) for at in np.flatnonzero(~bound).tolist()]) for curve in (LINE, POWER, LOGISTIC)]
    )


def sigmoidal(of: Evidence) -> Verdict:
    """A logistic rise in width against a line and against a power, both cut off at the library's size.

    That the rise is no line is said of any curve that is slow, steep and then flat. A power above 1 that is cut off is
    so, too, but has no slow end: unless it errs more, that end is not seen. Power and logistic curve have two numbers
    each, the line has one; all have those of their own for each length and head count, so that the width alone tells
    them apart.
    """
    runs = above_chance(of)
    spans_saturation(runs)
    series = grouped(
        sorted(runs, key=lambda run: field(run, "d_model")), lambda run: (field(run, "seq_len"), field(run, "n_heads"))
    )
    told = [some for some in series.values() if sum(not full(run) for run in some) >= FEWEST]
    if len(told) < FEWEST:
        raise Unjudged(f"{len(told)} lengths and head counts have {FEWEST} widths below the library's size: too few")
    line, power, logistic = np.array([_errors(some) for some in told]).T
    gaps = {"a line": ev.mean(logistic - line), "a power": ev.mean(logistic - power)}
    measured = f"a logistic curve errs by {logistic.mean():.3g} of the library"
    for (name, gap), error in zip(gaps.items(), (line, power), strict=True):
        measured += f"; {name} by {error.mean():.3g}, difference {gap}"
    how = f"{HOW} ({len(told)} of them)"
    to_line, to_power = gaps.values()
    if to_line.low > 0:
        return differs(f"it errs more than a line: {how}", measured)
    if to_line.high >= 0:
        return cannot(f"it is not told from a line: {how}", measured)
    if to_power.low > 0:
        return cannot(
            f"no line, but a slow end is not told from a sudden one, with which a power errs less: {how}", measured
        )
    if to_power.high >= 0:
        return cannot(f"no line, but not told from a power, whose end is sudden: {how}", measured)
    return agrees(f"it errs less than a line, and less than a power: {how}", measured)
