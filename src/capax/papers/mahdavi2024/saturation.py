"""Whether the heads of trained layers divide the examples among them: our reading of Mahdavi et al. 2024."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool

from capax.checks.saturation import saturated
from capax.papers.evidence import Estimate, above
from capax.papers.recipe import Evidence, Unjudged, Verdict, agrees, cannot, differs
from capax.results import LEVEL
from capax.seeds import numpy_generator

# built weights of 8 heads have 0.16, heads that know nothing of each other 1
BETWEEN = 0.5
RESAMPLES = 2000
NONE = "no head saturates on some examples and not on others"

Map = Bool[np.ndarray, "heads items"]


def specialise(of: Evidence) -> Verdict:
    """The share of examples on which some heads saturate and others do not, against heads that know nothing of others.

    Such heads, that saturate as often, would do so on many examples, too: 1 − Πp − Π(1 − p) of them. Heads that always
    saturate, or never, divide nothing, and are left out. The interval of the difference is of examples that are drawn
    anew: how often each head saturates is as uncertain as the share itself.
    """
    maps = [one[(one.mean(1) > 0) & (one.mean(1) < 1)] for one in _maps(of)]
    if not any(map(len, maps)):
        raise Unjudged(NONE)
    mixed, alone = _mixed(maps)
    generator = numpy_generator(0, "heads that divide examples")
    gaps = [np.subtract(*_mixed([_again(one, generator) for one in maps])) for _ in range(RESAMPLES)]
    gap = Estimate(mixed - alone, *_ends(np.array(gaps)))
    items = sum(one.shape[1] for one in maps)
    measured = f"{mixed:.3g} of {items} examples saturate some heads and not others, {gap} more than by chance"
    of_others = f"heads that know nothing of each other ({alone:.3g})"
    more, fewer, unclear = (
        f"{word} {of_others}" for word in ("more than by", "fewer than by", "not told from the share of")
    )
    return above(gap, measured, more, fewer, unclear)


def _mixed(maps: list[Map]) -> tuple[float, float]:
    """The share of examples on which some heads saturate and others do not; of heads that know nothing of others."""
    items = sum(one.shape[1] for one in maps)
    mixed = sum(int((one.any(0) & ~one.all(0)).sum()) for one in maps)
    alone = sum(one.shape[1] * (1 - one.mean(1).prod() - (1 - one.mean(1)).prod()) for one in maps)
    return mixed / items, float(alone) / items


def _ends(draws: np.ndarray) -> tuple[float, float]:
    """Of the 95 % interval that resampled examples give."""
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def as_built(of: Evidence) -> Verdict:
    """The variance of how many heads saturate on an example, over that of heads that know nothing of each other.

    It is small in weights that are built (0.16 for 8 heads of 8): all heads that saturate at all do so on every example
    but their own. The interval is of
    examples that are drawn anew (2.5 % and 97.5 %).
    """
    maps = _maps(of)
    generator = numpy_generator(0, "saturation of heads")
    draws = np.array([_ratio([_again(one, generator) for one in maps]) for _ in range(RESAMPLES)])
    ratio = Estimate(_ratio(maps), *_ends(draws))
    measured = f"{ratio} of the variance of independent heads"
    if ratio.high < BETWEEN:
        return agrees("nearer to built weights (near 0) than to heads that know nothing of each other (1)", measured)
    if ratio.low > BETWEEN:
        return differs("nearer to heads that know nothing of each other (1) than to built weights (near 0)", measured)
    return cannot("the interval holds both halves between built weights (near 0) and independent heads (1)", measured)


def _maps(of: Evidence) -> list[Map]:
    """Which heads saturate on which examples, a map of each run.

    Raises:
        Unjudged: where no weights were kept.
    """
    from capax.memory import load  # torch, which a list of recipes does not need

    if of.store is None:
        raise Unjudged("no weights were kept of its runs")
    memories: list[Any] = [load(run.key, of.store) for run in of.runs]
    return [saturated(memory.attention()) for memory in memories]


def _ratio(maps: list[Map]) -> float:
    shares = [one.mean(1) for one in maps]
    alone = sum(float((share * (1 - share)).sum()) for share in shares)
    if alone == 0:
        raise Unjudged(NONE)
    return sum(float(one.sum(0).var()) for one in maps) / alone


def _again(one: Map, generator: np.random.Generator) -> Map:
    return one[:, generator.integers(one.shape[1], size=one.shape[1])]
