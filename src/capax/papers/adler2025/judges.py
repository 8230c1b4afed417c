"""How the claims of Adler 2025 are judged: by measurements, and by weights that are built."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np

from capax.laws.power import RelationLaw
from capax.papers import evidence as ev
from capax.papers.evidence import field
from capax.papers.recipe import Evidence, Unjudged, Verdict, agrees, cannot, differs
from capax.results import HeadCount, Measurement
from capax.tasks.graph_classes import derangements
from capax.text import counted
from capax.theory.bounds.relations import real
from capax.theory.bounds.stored_bits import f1_information

LAW = RelationLaw()
TARGET = 0.99
# channels below which D_K* is larger than by any law (ours: with 8 it is): logarithm and diagonal are judged without
NARROWEST = 16
# cells up to which a slope of those of so many channels alone is not looked at
FEWEST_CELLS = 3
# of a claim that something is so somewhere: one place shows it, and only if none leaves it open it is not so
ANSWERS = ("agrees", "cannot be judged", "differs")
# difference of AIC from which one of two laws is taken to be the better one (Burnham and Anderson)
LIKELIER = 4.0


def _items(run: Measurement) -> int:
    """The number of items (here of edges, too: permutations)."""
    return run.library_size


def _width(run: Measurement) -> int:
    return int(field(run, "d_model"))


def _wide(run: Measurement) -> bool:
    """Whether how D_K* grows can be told from it."""
    return _width(run) >= NARROWEST


def _load(run: Measurement) -> float:
    """The law's load m' log2 m' / d: what it says D_K* is proportional to."""
    return _items(run) * math.log2(_items(run)) / _width(run)


def _trained(run: Measurement) -> HeadCount | None:
    """The smallest key dimension that trainings reached, where built weights need less; None where these do not."""
    search = run.key_search
    return search.trained if search is not None and search.reached_by == "built" else None


def _searched(run: Measurement) -> bool:
    """Whether some head size was enough for trainings, and explicit weights do not need less."""
    return run.total_key_dim is not None and _trained(run) is None


def _cells(of: Evidence) -> list[Measurement]:
    """Cells whose D_K* trainings tell: where explicit weights need less, both are bounds from above.

    Raises:
        Unjudged: where there is none.
    """
    cells = [run for run in of.runs if _searched(run)]
    if not cells:
        raise Unjudged("in no cell was any head size enough for trainings, with no more channels than explicit weights")
    return cells


def _key_dims(cells: list[Measurement]) -> np.ndarray:
    """D_K* of each cell, as trainings reached it."""
    return np.array([run.total_key_dim or 0 for run in cells], float)


def _told(verdict: Verdict, of: Evidence) -> Verdict:
    """A verdict on D_K* that tells of the cells that are left out."""
    built = [(run, trained) for run in of.runs if (trained := _trained(run)) is not None]
    if not built:
        return verdict
    cells = ", ".join(
        f"m {_items(run)}, d {_width(run)}: {trained.total_key_dim or 'none'} by training, {run.total_key_dim} built"
        for run, trained in built
    )
    which = f"without {counted(len(built), 'cell')} where explicit weights need less than trainings ({cells})"
    return verdict.model_copy(update={"reason": f"{verdict.reason}; {which}"})


def _cut(of: Evidence) -> str:
    """How many trainings were not at rest when they ended, in brackets; nothing where all were."""
    ended = sum(run.stop_reason == "budget" for run in of.runs)
    return f" ({ended} of {len(of.runs)} trainings ended at their budget)" if ended else ""


def _f1s(of: Evidence) -> dict[tuple[int, int], list[float]]:
    """F1 of the trainings of each head count and total key dimension."""
    f1s: dict[tuple[int, int], list[float]] = defaultdict(list)
    for run in of.runs:
        heads = field(run, "n_heads")
        f1s[heads, heads * (field(run, "d_head") or 0)].append(run.metrics["f1"])
    return f1s


def one_head_is_worse(of: Evidence) -> Verdict:
    """F1 of the best of several heads above that of one, at the largest total key dimension of both.

    Of trainings with several budgets those with the largest count, and the others tell how much more steps bring.
    """
    budgets = sorted({run.spec.training.max_steps or 0 for run in of.runs})
    *shorter, longest = (
        replace(of, runs=tuple(run for run in of.runs if (run.spec.training.max_steps or 0) == steps))
        for steps in budgets
    )
    verdict = _one_head_against_several(longest)
    before = ""
    for steps, one in zip(budgets[:-1], shorter, strict=True):
        with suppress(Unjudged):  # not all heads were trained for so long
            before += f"; after {steps} steps in place of {budgets[-1]} {_one_head_against_several(one).measured}"
    return verdict.model_copy(update={"reason": f"{verdict.reason}{_cut(longest)}{before}"})


def _one_head_against_several(of: Evidence) -> Verdict:
    """The same.

    One head's product of queries and keys has no higher rank than the width: beyond it, its channels are of no use.
    """
    f1 = _f1s(of)
    both = {total for heads, total in f1 if heads == 1} & {total for heads, total in f1 if heads > 1}
    if not both:
        raise Unjudged("at no total key dimension there are both one head and several")
    width = max(field(run, "d_model") for run in of.runs)
    largest = max({total for total in both if total <= width} or both)
    tried = [heads for heads, total in f1 if total == largest and heads > 1]
    best = max(tried, key=lambda heads: np.mean(f1[heads, largest]))
    named = f"F1 of {best} heads at D_K {largest}"
    return ev.larger(f1[best, largest], f1[1, largest], named, "F1 of one head", tried=len(tried))


CHANNELS = ("threshold", "softmax", "block")


def survives(of: Evidence) -> Verdict:
    """Whether several heads beat one by the threshold, and then with softmax and values and in a block, too."""
    kinds = {kind: tuple(run for run in of.runs if field(run, "channel") == kind) for kind in CHANNELS}
    found = {kind: _one_head_against_several(replace(of, runs=runs)) for kind, runs in kinds.items()}
    measured = "; ".join(f"{kind}: {verdict.measured}" for kind, verdict in found.items())
    cut = _cut(of)
    first, *others = (verdict.answer for verdict in found.values())
    if first != "agrees":
        return cannot(
            f"by the threshold several heads are not shown to beat one: nothing there to survive{cut}", measured
        )
    answer = max(others, key=ANSWERS.index)
    reasons = "; ".join(f"{kind}: {verdict.reason}" for kind, verdict in found.items())
    return Verdict(answer=answer, measured=measured, reason=f"{reasons}{cut}")


def sharp(of: Evidence) -> Verdict:
    """On its way to .99 the F1 of every head count that gets there rises more steeply than in proportion to D_K.

    What "sharp" means is not stated: this is ours. Of each head count the steepest step counts, between neighbouring
    key dimensions of which at least three lie up to its first F1 of .99 beyond the last of a half or less (Welch, for
    all its steps).
    """
    f1 = _f1s(of)
    gaps, said = [], []
    for heads in sorted({heads for heads, _ in f1}):
        totals = sorted(total for other, total in f1 if other == heads)
        means = [np.mean(f1[heads, total]) for total in totals]
        last = max((place for place, mean in enumerate(means) if mean <= 0.5), default=-1)
        enough = [place for place, mean in enumerate(means) if place > last and mean >= TARGET]
        steps = list(itertools.pairwise(totals[: enough[0] + 1])) if enough else []
        if len(steps) < 2:
            continue
        proportional = {(a, b): np.multiply(b / a, f1[heads, a]) for a, b in steps}
        a, b = max(steps, key=lambda step: np.mean(f1[heads, step[1]]) - np.mean(proportional[step]))
        gaps.append(ev.difference(f1[heads, b], proportional[a, b], tried=len(steps)))
        said.append(f"{counted(heads, 'head')}: {np.mean(f1[heads, a]):.2f} at {a}, {np.mean(f1[heads, b]):.2f} at {b}")
    if not gaps:
        raise Unjudged("no head count has an F1 of .99 beyond its last one of a half or less, above two key dimensions")
    measured = f"mean F1 at the steepest step of D_K, {'; '.join(said)}"
    steeper = "more steeply than in proportion to D_K, with every number of heads that gets to .99 (ours)"
    if all(gap.low > 0 for gap in gaps):
        return agrees(f"F1 rises {steeper}", measured)
    if any(gap.high < 0 for gap in gaps):
        return differs(f"F1 does not rise {steeper}", measured)
    return cannot(f"F1 is not shown to rise {steeper}", measured)


def inverted_u(of: Evidence) -> Verdict:
    """At one total key dimension the best head count is inside, and beats both ends; it takes one that shows it."""
    f1 = _f1s(of)
    verdicts: list[Verdict] = []
    heads_at = {total: sorted(count for count, other in f1 if other == total) for total in {total for _, total in f1}}
    heads_at = {total: heads for total, heads in sorted(heads_at.items()) if len(heads) >= 3}
    tried = sum(len(heads) - 2 for heads in heads_at.values())  # inner numbers, of which one is enough
    for total, heads in heads_at.items():
        best = max(heads, key=lambda count: np.mean(f1[count, total]))
        measured = f"D_K {total}: " + ", ".join(f"{np.mean(f1[count, total]):.2f} with {count}" for count in heads)
        ends = (heads[0], heads[-1])
        if best in ends:
            inner = (ev.difference(f1[best, total], f1[count, total], tried=2) for count in heads[1:-1])
            if all(gap.low > 0 for gap in inner):
                verdicts.append(differs("the best number of heads is at an end (Welch, for both ends)", measured))
            else:
                verdicts.append(cannot("best at an end, but not above all inside for sure (Welch)", measured))
        elif all(ev.difference(f1[best, total], f1[end, total], tried=tried).low > 0 for end in ends):
            verdicts.append(agrees("best inside, above both ends (Welch, for all that were tried)", measured))
        else:
            verdicts.append(cannot("best inside, but not above both ends for sure (Welch, for all tried)", measured))
    if not verdicts:
        raise Unjudged("at no total key dimension there are three numbers of heads")
    return min(verdicts, key=lambda verdict: ANSWERS.index(verdict.answer))


def grows_with_items(of: Evidence) -> Verdict:
    """Powers of m and of d that the number of heads grows by: of those with the least D_K, and the fewest enough.

    Of cells whose search began with one head: where it began with more, the trend would be that of what was tried.
    """
    cells = [run for run in _cells(of) if any(one.n_heads == 1 for one in _counts(run))]
    if not cells:
        raise Unjudged("in no cell one head was tried")
    fewest = [min(one.n_heads for one in _counts(run) if one.total_key_dim is not None) for run in cells]
    found = {
        "those of the least D_K": _grows(cells, [run.n_heads or 0 for run in cells]),
        "the fewest that are enough": _grows(cells, fewest),
    }
    return _told(ev.whatever("which number of heads is meant", found), of)


def _grows(cells: list[Measurement], values: ev.Numbers) -> Verdict:
    """Whether something grows with the items at a fixed number of channels, and falls with these at fixed items."""
    logs = [np.log([_items(run) for run in cells]), np.log([_width(run) for run in cells])]
    more, wider = ev.slopes(logs, np.log(values))
    measured = f"m to the {more}, d to the {wider}"
    if more.low > 0 and wider.high < 0:
        return agrees("both 95 % intervals are on their side of 0", measured)
    if more.high < 0 or wider.low > 0:
        return differs("a 95 % interval is on the other side of 0", measured)
    return cannot("a 95 % interval holds 0", measured)


def _law_power(of: Evidence) -> ev.Estimate:
    """The log-log slope of D_K* on m' log2 m' / d."""
    cells = _cells(of)
    return ev.exponent([_load(run) for run in cells], _key_dims(cells))


def law_slope(of: Evidence) -> Verdict:
    """The log-log slope of D_K* on m' log2 m' / d: 1, whether cells of few channels, where D_K* is large, count or not.

    Where so few are left that they determine no slope, or none is of few channels, all of them count.
    """
    readings = {"all cells": of.runs}
    wide = tuple(run for run in of.runs if _wide(run))
    if len(wide) < len(of.runs) and sum(map(_searched, wide)) > FEWEST_CELLS:
        readings[f"{NARROWEST} channels and more"] = wide
    powers = {name: _law_power(replace(of, runs=runs)) for name, runs in readings.items()}
    found = {name: ev.has_exponent(power, 1.0, "m' log2 m' / d") for name, power in powers.items()}
    return _told(ev.whatever("whether cells of fewer channels count", found), of)


def law_fits(of: Evidence) -> Verdict:
    """R² of log D_K* on the law's logarithm: above a half, or not."""
    cells = _cells(of)
    r2 = ev.line_r2(np.log([_load(run) for run in cells]), np.log(_key_dims(cells)))
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
    return _told(verdict, of)


def logarithm(of: Evidence) -> Verdict:
    """Whether D_K* follows m' log m' / d better than m' / d: least squares of the logarithms, by AIC.

    Of cells of 16 channels and more: with 8, D_K* is larger than by either.
    """
    cells = [run for run in _cells(of) if _wide(run)]
    if len(cells) < 4:
        raise Unjudged(f"two laws of {len(cells)} cells: at least 4 are needed")
    if len({_items(run) / _width(run) for run in cells}) == 1:
        raise Unjudged("all cells have as many items a channel: at least two ratios are needed")
    if (power := _law_power(replace(of, runs=tuple(cells)))).low <= 0:
        raise Unjudged(f"D_K* is not shown to rise with either: an exponent of {power}")
    dims = np.log(_key_dims(cells))
    with_log, without = (
        float(np.polynomial.Polynomial.fit(np.log(loads), dims, 1, full=True)[1][0].sum())
        for loads in ([_load(run) for run in cells], [_items(run) / _width(run) for run in cells])
    )
    gain = len(cells) * math.log(max(without, 1e-12) / max(with_log, 1e-12))
    measured = f"AIC {abs(gain):.2g} {'lower' if gain > 0 else 'higher'} with the logarithm, {len(cells)} cells"
    if abs(gain) > LIKELIER:
        return ev.exactly(gain > 0, measured, f"at least {LIKELIER:g} {'lower' if gain > 0 else 'higher'}")
    return cannot(f"less than {LIKELIER:g} apart: m'/d describes the cells as well", measured)


def one_head_suffices(of: Evidence) -> Verdict:
    """Cells of one item per channel: whether one head reaches .99, and with the least key dimension."""
    cells = [run for run in of.runs if _items(run) == _width(run)]
    if not cells:
        raise Unjudged("no cell has as many channels as items")
    measured = ", ".join(f"m = d = {_width(run)}: {run.n_heads} x {run.d_head}" for run in cells)
    reason = "the head count of the least total key dimension, ties to fewer"
    return ev.exactly(all(run.n_heads == 1 for run in cells), measured, reason)


def _of_one_head(of: Evidence, above: Callable[[Measurement], bool], where: str) -> Verdict:
    """Whether in no such cell any training of one head, of any size up to the width, has an F1 of .99."""
    tried = [(run, count) for run in of.runs for count in _counts(run) if count.n_heads == 1 and above(run)]
    if not tried:
        raise Unjudged(f"one head was tried in no cell {where}")
    measured = ", ".join(f"m {_items(run)}, d {_width(run)}: {_best(count)}" for run, count in tried)
    enough = sum(count.total_key_dim is not None for _, count in tried)
    can = sum(count.total_key_dim is not None or count.f1 >= TARGET for _, count in tried)
    had = {run.key for run, _ in tried}
    others = [f"m {_items(run)}, d {_width(run)}" for run in of.runs if above(run) and run.key not in had]
    untried = f"; it was not tried in {len(others)} ({'; '.join(others)})" if others else ""
    reason = (
        f"one head reaches it in {can} of {len(tried)} cells {where}, in half of its trainings in {enough}{untried}"
    )
    return ev.exactly(not can, measured, reason)


def _best(one: HeadCount) -> str:
    """What trainings of one head reached: a single one that has an F1 of .99 shows that it can be done."""
    if one.total_key_dim is not None:
        return f"enough with {one.total_key_dim} channels"
    return f"best F1 {one.f1:.2f}" + (", of fewer than half" if one.f1 >= TARGET else "")


def one_head_cannot(of: Evidence) -> Verdict:
    """Whether one head of no size does it where several do: at some sizes with more items than channels, or at all."""
    return ev.whatever(
        "whether it is said of every m > d", {"of some sizes": _fails_somewhere(of), "of all": one_head_fails(of)}
    )


def _fails_somewhere(of: Evidence) -> Verdict:
    """Whether there are cells of more items than channels where one head of no size does it, and several heads do."""
    cells = [run for run in of.runs if _items(run) > _width(run)]
    tried = {run.key: one for run in cells for one in _counts(run) if one.n_heads == 1}
    if not tried:
        raise Unjudged("one head was tried in no cell where m > d")
    able = [run for run in cells if any(one.n_heads > 1 and one.total_key_dim is not None for one in _counts(run))]
    if not able:
        raise Unjudged("several heads reach .99 in no cell where m > d")
    alone = [
        run for run in able if run.key in tried and tried[run.key].total_key_dim is None and tried[run.key].f1 < TARGET
    ]
    said = ", ".join(f"m {_items(run)}, d {_width(run)}: {tried[run.key].f1:.2f}" for run in alone)
    measured = f"best F1 of one head where several reach .99: {said}" if said else "in no cell"
    return ev.exactly(bool(alone), measured, f"so in {len(alone)} of {len(tried)} cells where m > d")


def _counts(run: Measurement) -> tuple[HeadCount, ...]:
    """What the search of a cell found of each number of heads."""
    return () if run.key_search is None else run.key_search.per_heads


def one_head_fails(of: Evidence) -> Verdict:
    """Cells of more items than channels."""
    return _of_one_head(of, lambda run: _items(run) > _width(run), "where m > d")


def one_head_fails_beyond(of: Evidence) -> Verdict:
    """Cells whose load is above the width."""
    return _of_one_head(of, lambda run: _load(run) > _width(run), "where m' log2 m' > d²")


def grows_on_the_diagonal(of: Evidence) -> Verdict:
    """D_K* against the items at a fixed compression, by the intervals of its ends.

    A cell whose D_K* is that of built weights is left out: no training reached it, so that it is a bound from above. So
    are cells of fewer than 16 channels.
    """
    left_out: dict[str, str] = {}
    every = sorted((run for run in of.runs if run.total_key_dim is not None), key=_items)
    for run in every:
        if not _wide(run):
            left_out[run.key] = f"; d {_width(run)}, left out"
        elif _trained(run) is not None:
            left_out[run.key] = "; built, left out"
    cells = [run for run in every if run.key not in left_out]
    measured = ", ".join(
        f"m {_items(run)}: {run.total_key_dim} ({run.n_heads} heads{left_out.get(run.key, '')})" for run in every
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
    cells = _cells(of)
    return _told(_grows(cells, _key_dims(cells)), of)


def law_is_needed(of: Evidence) -> Verdict:
    """Whether D_K* grows more slowly than the law, and so falls behind any constant of it; else nothing is shown."""
    power = _law_power(of)
    if power.high < 1:
        return _told(differs("D_K* grows more slowly than m' log2 m' / d", str(power)), of)
    why = "not contradicted, as the interval reaches 1; no measurement shows a lower bound"
    return _told(cannot(why, str(power)), of)


def above_lower_bound(of: Evidence) -> Verdict:
    """Every D_K* against the bound of real weights (LB-3), for graphs recognized to an F1 of .99."""
    cells, wrong, nearest = [run for run in of.runs if run.total_key_dim is not None], [], math.inf
    if not cells:
        raise Unjudged("in no cell was any head size enough")
    for run in cells:
        m, d, key_dim = _items(run), _width(run), run.total_key_dim or 0
        bits = f1_information(m, m, derangements(m).bits, TARGET)
        least = real(bits, m, run.n_heads or 1, d).value or 0.0
        if key_dim < least:
            wrong.append(f"m {m}, d {d}: {key_dim} below {least:.3g}")
        nearest = min(nearest, key_dim / max(least, 1e-9))
    measured = f"at least {nearest:.3g} times the bound in {len(cells)} cells"
    return ev.exactly(not wrong, measured, "; ".join(wrong) or "Warren's bound (LB-3), which has no logarithm")
