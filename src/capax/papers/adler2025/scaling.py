"""How claims of Adler 2025 on how D_K* grows are judged: its law, the logarithm, the diagonal."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from capax.laws.power import RelationLaw
from capax.papers import evidence as ev
from capax.papers.adler2025.cells import (
    NARROWEST,
    TARGET,
    best_trained,
    counts_of,
    is_searched,
    is_wide,
    items_of,
    key_dims_of,
    load_of,
    searched_cells,
    width_of,
    with_left_out,
)
from capax.papers.recipe import Evidence, Unjudged, Verdict, agrees, cannot, differs
from capax.results import Measurement
from capax.tasks.graph_classes import derangements
from capax.theory.bounds.relations import real
from capax.theory.bounds.stored_bits import f1_information

LAW = RelationLaw()
# cells up to which a slope of those of so many channels alone is not looked at
FEWEST_CELLS = 3
# difference of AIC from which one of two laws is taken to be the better one (Burnham and Anderson)
LIKELIER = 4.0


def grows_with_items(of: Evidence) -> Verdict:
    """Powers of m and of d that the number of heads grows by: of those with the least D_K, and the fewest enough.

    Of cells whose search began with one head: where it began with more, the trend would be that of what was tried.
    """
    cells = [run for run in searched_cells(of) if any(one.n_heads == 1 for one in counts_of(run))]
    if not cells:
        raise Unjudged("in no cell one head was tried")
    fewest = [min(one.n_heads for one in counts_of(run) if one.total_key_dim is not None) for run in cells]
    found = {
        "those of the least D_K": _grows(cells, [run.n_heads or 0 for run in cells]),
        "the fewest that are enough": _grows(cells, fewest),
    }
    return with_left_out(ev.whatever("which number of heads is meant", found), of)


def _grows(cells: list[Measurement], values: ev.Numbers) -> Verdict:
    """Whether something grows with the items at a fixed number of channels, and falls with these at fixed items."""
    logs = [np.log([items_of(run) for run in cells]), np.log([width_of(run) for run in cells])]
    more, wider = ev.slopes(logs, np.log(values))
    measured = f"m to the {more}, d to the {wider}"
    if more.low > 0 and wider.high < 0:
        return agrees("both 95 % intervals are on their side of 0", measured)
    if more.high < 0 or wider.low > 0:
        return differs("a 95 % interval is on the other side of 0", measured)
    return cannot("a 95 % interval holds 0", measured)


def _law_power(of: Evidence) -> ev.Estimate:
    """The log-log slope of D_K* on m' log2 m' / d."""
    cells = searched_cells(of)
    return ev.exponent([load_of(run) for run in cells], key_dims_of(cells))


def law_slope(of: Evidence) -> Verdict:
    """The log-log slope of D_K* on m' log2 m' / d: 1, whether cells of few channels, where D_K* is large, count or not.

    Where so few are left that they determine no slope, or none is of few channels, all of them count.
    """
    readings = {"all cells": of.runs}
    wide = tuple(run for run in of.runs if is_wide(run))
    if len(wide) < len(of.runs) and sum(map(is_searched, wide)) > FEWEST_CELLS:
        readings[f"{NARROWEST} channels and more"] = wide
    powers = {name: _law_power(replace(of, runs=runs)) for name, runs in readings.items()}
    found = {name: ev.has_exponent(power, 1.0, "m' log2 m' / d") for name, power in powers.items()}
    return with_left_out(ev.whatever("whether cells of fewer channels count", found), of)


def law_fits(of: Evidence) -> Verdict:
    """R² of log D_K* on the law's logarithm: above a half, or not."""
    cells = searched_cells(of)
    r2 = ev.line_r2(np.log([load_of(run) for run in cells]), np.log(key_dims_of(cells)))
    measured = f"R² {r2} in {len(cells)} cells"
    if _law_power(of).high < 0:
        return differs("D_K* falls as the law rises", measured)
    verdict = ev.above(
        r2,
        measured,
        "the law says at least half of the variance of log D_K*",
        "the law says less than half of the variance",
        "the 95 % interval of R² holds a half",
        at=0.5,
    )
    return with_left_out(verdict, of)


def logarithm(of: Evidence) -> Verdict:
    """Whether D_K* follows m' log m' / d better than m' / d: least squares of the logarithms, by AIC.

    Of cells of 16 channels and more: with 8, D_K* is larger than by either.
    """
    cells = [run for run in searched_cells(of) if is_wide(run)]
    if len(cells) < 4:
        raise Unjudged(f"two laws of {len(cells)} cells: at least 4 are needed")
    if len({items_of(run) / width_of(run) for run in cells}) == 1:
        raise Unjudged("all cells have as many items a channel: at least two ratios are needed")
    if (power := _law_power(replace(of, runs=tuple(cells)))).low <= 0:
        raise Unjudged(f"D_K* is not shown to rise with either: an exponent of {power}")
    dims = np.log(key_dims_of(cells))
    with_log, without = (
        float(np.polynomial.Polynomial.fit(np.log(loads), dims, 1, full=True)[1][0].sum())
        for loads in ([load_of(run) for run in cells], [items_of(run) / width_of(run) for run in cells])
    )
    gain = len(cells) * math.log(max(without, 1e-12) / max(with_log, 1e-12))
    measured = f"AIC {abs(gain):.2g} {'lower' if gain > 0 else 'higher'} with the logarithm, {len(cells)} cells"
    if abs(gain) > LIKELIER:
        return ev.exactly(gain > 0, measured, f"at least {LIKELIER:g} {'lower' if gain > 0 else 'higher'}")
    return cannot(f"less than {LIKELIER:g} apart: m'/d describes the cells as well", measured)


def grows_on_the_diagonal(of: Evidence) -> Verdict:
    """D_K* against the items at a fixed compression, by the intervals of its ends.

    A cell whose D_K* is that of built weights is left out: no training reached it, so that it is a bound from above. So
    are cells of fewer than 16 channels.
    """
    left_out: dict[str, str] = {}
    every = sorted((run for run in of.runs if run.total_key_dim is not None), key=items_of)
    for run in every:
        if not is_wide(run):
            left_out[run.key] = f"; d {width_of(run)}, left out"
        elif best_trained(run) is not None:
            left_out[run.key] = "; built, left out"
    cells = [run for run in every if run.key not in left_out]
    measured = ", ".join(
        f"m {items_of(run)}: {run.total_key_dim} ({run.n_heads} heads{left_out.get(run.key, '')})" for run in every
    )
    if len(cells) < 2:
        raise Unjudged(
            f"fewer than two cells of {NARROWEST} channels or more whose D_K* a training reached: {measured}"
        )
    first, last = (None if run.key_search is None else run.key_search.interval for run in (cells[0], cells[-1]))
    if first is None or last is None:
        raise Unjudged("a cell has no interval")
    if first.high is not None and last.low > first.high:
        return agrees("the 95 % interval of the most items is above", measured)
    if last.high is not None and last.high < first.low:
        return differs("the 95 % interval of the most items is below", measured)
    return cannot("the 95 % intervals of the fewest and the most items overlap", measured)


def map_trend(of: Evidence) -> Verdict:
    """Powers of m and of d that D_K* grows by."""
    cells = searched_cells(of)
    return with_left_out(_grows(cells, key_dims_of(cells)), of)


def law_is_needed(of: Evidence) -> Verdict:
    """Whether D_K* grows more slowly than the law, and so falls behind any constant of it; else nothing is shown."""
    power = _law_power(of)
    if power.high < 1:
        return with_left_out(differs("D_K* grows more slowly than m' log2 m' / d", str(power)), of)
    why = "not contradicted, as the interval reaches 1; no measurement shows a lower bound"
    return with_left_out(cannot(why, str(power)), of)


def above_lower_bound(of: Evidence) -> Verdict:
    """Every D_K* against the bound of real weights (LB-3), for graphs recognized to an F1 of .99."""
    cells, wrong, nearest = [run for run in of.runs if run.total_key_dim is not None], [], math.inf
    if not cells:
        raise Unjudged("in no cell was any head size enough")
    for run in cells:
        m, d, key_dim = items_of(run), width_of(run), run.total_key_dim or 0
        bits = f1_information(m, m, derangements(m).bits, TARGET)
        least = real(bits, m, run.n_heads or 1, d).value or 0.0
        if key_dim < least:
            wrong.append(f"m {m}, d {d}: {key_dim} below {least:.3g}")
        nearest = min(nearest, key_dim / max(least, 1e-9))
    measured = f"at least {nearest:.3g} times the bound in {len(cells)} cells"
    return ev.exactly(not wrong, measured, "; ".join(wrong) or "Warren's bound (LB-3), which has no logarithm")
