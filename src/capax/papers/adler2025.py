"""Adler 2025 (arXiv 2509.22840): every figure and theorem as a recipe.

The paper's abstract and captions were available to us, its body was not: grids, training and constants are ours at
every scale, and so are the algorithms behind the explicit weights.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import product

import numpy as np

from capax.laws.power import RelationLaw
from capax.papers import evidence as ev
from capax.papers.recipe import Claim, Evidence, Recipe, Scale, Study, Unjudged, Verdict, cannot, unknown
from capax.results import Measurement
from capax.seeds import numpy_generator
from capax.specs import Budget, KeyQueryChannel, Mac, Relations, Run, Training

PAPER = "adler2025"
TARGET = 0.99
ANSWERS = ("agrees", "cannot be judged", "differs")
"""Of a claim that something is so somewhere: one place shows it, and only if none leaves it open it is not so."""
LIKELIER = 4.0
"""Difference of AIC from which one of two laws is taken to be the better one (Burnham and Anderson)."""
HOUR = 3600.0
SCALES: tuple[Scale, ...] = ("demo", "small", "paper")


# What is run


def _f1(scale: Scale) -> tuple[Run, ...]:
    """F1 of several head counts at several total key dimensions, each by independent trainings."""
    items, width = {"demo": (32, 8), "small": (64, 16), "paper": (256, 32)}[scale]
    heads = {"demo": (1, 2, 4, 8), "small": (1, 2, 4, 8, 16), "paper": (1, 2, 4, 8, 16, 32)}[scale]
    totals = {"demo": (8, 16, 24), "small": (4, 8, 16, 32, 48), "paper": (32, 64, 96, 128, 192)}[scale]
    seeds = {"demo": 5, "small": 10, "paper": 10}[scale]
    return tuple(
        Run(
            task=Relations(n_items=items),
            model=KeyQueryChannel(n_heads=count, d_model=width, d_head=total // count),
            training=Training(),
            protocol=Mac(restarts=1),
            seed=seed,
        )
        for count, total, seed in product(heads, totals, range(seeds))
        if total % count == 0
    )


CELLS: dict[Scale, tuple[tuple[int, int, tuple[int, ...]], ...]] = {
    "demo": (
        *((m, m, (1, 2)) for m in (16, 32)),
        *((m, m // 2, (1, 2)) for m in (16, 32, 64)),
        *((m, m // 4, (1, 2, 4)) for m in (32, 64)),
    ),
    "small": (
        *((m, m, (1, 2)) for m in (32, 64, 128)),
        *((m, m // 2, (1, 2)) for m in (32, 64, 128, 256)),
        *((m, m // 4, (1, 2, 4, 8)) for m in (32, 64, 128)),
        (256, 64, (1, 2, 4)),
        (64, 8, (8, 16, 32)),
        (128, 16, (4, 8, 16)),
        (256, 32, (2, 4, 8)),
    ),
    "paper": tuple(
        (m, d, tuple(2**k for k in range(0, 7) if 2**k <= max(2, 4 * m // d)))
        for m, d in product((32, 64, 128, 256, 512), (8, 16, 32, 64, 128, 256))
        if 1 <= m // d <= 16
    ),
}
"""Items, channels and head counts to choose from."""


def _budget(scale: Scale, items: int, width: int, counts: tuple[int, ...]) -> Run:
    return Run(
        task=Relations(n_items=items),
        model=KeyQueryChannel(d_model=width),
        training=Training(),
        protocol=Budget(head_counts=counts, restarts=10 if scale == "paper" else 3),
    )


def _budgets(scale: Scale) -> tuple[Run, ...]:
    return tuple(_budget(scale, *cell) for cell in CELLS[scale])


F1 = Study("f1", {s: _f1(s) for s in SCALES}, {"demo": 20, "small": 30, "paper": 2 * HOUR})
BUDGETS = Study(
    "budgets", {s: _budgets(s) for s in SCALES}, {"demo": 50, "small": 400, "paper": 20 * HOUR}, RelationLaw()
)
DIAGONAL = Study(
    "diagonal",
    {
        "demo": (_budget("demo", 32, 8, (1, 2, 4)), _budget("demo", 64, 16, (1, 2, 4))),
        "small": tuple(_budget("small", 8 * d, d, tuple(c // d for c in (64, 128, 256))) for d in (8, 16, 32)),
        "paper": tuple(_budget("paper", 8 * d, d, (1, 2, 4, 8, 16, 32)) for d in (8, 16, 32, 64)),
    },
    {"demo": 20, "small": 160, "paper": 5 * HOUR},
)


# Verdicts


def items(run: Measurement) -> int:
    """The number of items (here of edges, too: permutations)."""
    assert isinstance(run.spec.task, Relations)
    return run.spec.task.library_size


def width(run: Measurement) -> int:
    """Channels of an item."""
    assert isinstance(run.spec.model, KeyQueryChannel)
    return run.spec.model.d_model


def load(run: Measurement) -> float:
    """The law's load m' log2 m' / d: what it says D_K* is proportional to."""
    return items(run) * math.log2(items(run)) / width(run)


def found(of: Evidence) -> list[Measurement]:
    """Cells in which some head size was enough."""
    kept = [run for run in of.runs if run.total_key_dim is not None]
    if not kept:
        raise Unjudged("in no cell was any head size enough")
    return kept


def _f1s(of: Evidence) -> dict[tuple[int, int], list[float]]:
    """F1 of the trainings of each head count and total key dimension."""
    result: dict[tuple[int, int], list[float]] = defaultdict(list)
    for run in of.runs:
        assert isinstance(run.spec.model, KeyQueryChannel)
        assert run.f1 is not None
        result[run.spec.model.n_heads, run.spec.model.total_key_dim or 0].append(run.f1)
    return result


def one_head_is_worse(of: Evidence) -> Verdict:
    """F1 of the best of several heads above that of one, at the largest total key dimension of both."""
    f1 = _f1s(of)
    both = {total for heads, total in f1 if heads == 1} & {total for heads, total in f1 if heads > 1}
    if not both:
        raise Unjudged("at no total key dimension there are both one head and several")
    largest = max(both)
    several = max(
        (heads for heads, total in f1 if total == largest and heads > 1), key=lambda h: np.mean(f1[h, largest])
    )
    return ev.larger(f1[several, largest], f1[1, largest], f"F1 of {several} heads at D_K {largest}", "F1 of one head")


def sharp(of: Evidence) -> Verdict:
    """For the best head count: D_K grows less than fourfold between the last F1 below a half and the first of .99."""
    f1 = _f1s(of)
    best: tuple[int, int] | None = None
    for heads in {heads for heads, _ in f1}:
        totals = sorted(total for other, total in f1 if other == heads)
        high = [total for total in totals if np.mean(f1[heads, total]) >= TARGET]
        low = [total for total in totals if np.mean(f1[heads, total]) <= 0.5]
        if high and low and (best is None or high[0] / low[-1] < best[1] / best[0]):
            best = (low[-1], high[0])
    if best is None:
        raise Unjudged("no head count has both an F1 of a half or less and one of .99")
    return ev.exactly(
        best[1] / best[0] < 4, f"half at {best[0]}, .99 at {best[1]}", "mean F1; sharp: within a factor of 4 (ours)"
    )


def inverted_u(of: Evidence) -> Verdict:
    """At one total key dimension the best head count is inside, and beats both ends; it takes one that shows it."""
    f1 = _f1s(of)
    totals = sorted({total for _, total in f1})
    told: list[Verdict] = []
    for total in totals:
        heads = sorted(count for count, other in f1 if other == total)
        if len(heads) < 3:
            continue
        best = max(heads, key=lambda count: np.mean(f1[count, total]))
        measured = f"D_K {total}: " + ", ".join(f"{np.mean(f1[count, total]):.2f} with {count}" for count in heads)
        if best in (heads[0], heads[-1]):
            told.append(Verdict(answer="differs", measured=measured, reason="the best number of heads is at an end"))
            continue
        gaps = [ev.difference(f1[best, total], f1[end, total]) for end in (heads[0], heads[-1])]
        if all(gap.low > 0 for gap in gaps):
            return Verdict(answer="agrees", measured=measured, reason="best inside, above both ends (Welch)")
        told.append(cannot("best inside, but not above both ends for sure (Welch)", measured))
    if not told:
        raise Unjudged("at no total key dimension there are three numbers of heads")
    return min(told, key=lambda verdict: ANSWERS.index(verdict.answer))


def grows_with_items(of: Evidence) -> Verdict:
    """The best number of heads against m/d, by trend."""
    cells = found(of)
    ratios = [items(run) / width(run) for run in cells]
    return ev.rises(ratios, [run.n_heads or 0 for run in cells], "the best number of heads", "items a channel")


def law_slope(of: Evidence) -> Verdict:
    """The log-log slope of D_K* on m' log2 m' / d."""
    cells = found(of)
    power = ev.exponent([load(run) for run in cells], [run.total_key_dim or 0 for run in cells])
    return ev.has_exponent(power, 1.0, "m' log2 m' / d")


def law_fits(of: Evidence) -> Verdict:
    """R² of log D_K* on the law's logarithm: above a half, or not."""
    cells = found(of)
    r2 = ev.line_r2(np.log([load(run) for run in cells]), np.log([run.total_key_dim or 0 for run in cells]))
    measured = f"R² {r2} in {len(cells)} cells"
    if r2.low >= 0.5:
        return Verdict(
            answer="agrees", measured=measured, reason="the law says at least half of the variance of log D_K*"
        )
    if r2.high < 0.5:
        return Verdict(answer="differs", measured=measured, reason="the law says less than half of the variance")
    return cannot("the 95 % interval of R² holds a half", measured)


def logarithm(of: Evidence) -> Verdict:
    """Whether D_K* follows m' log m' / d better than m' / d: least squares of the logarithms, by AIC."""
    cells = found(of)
    if len(cells) < 4:
        raise Unjudged(f"two laws of {len(cells)} cells: at least 4 are needed")
    dims = np.log([run.total_key_dim or 0 for run in cells])
    squares = []
    for loads in ([load(run) for run in cells], [items(run) / width(run) for run in cells]):
        design = np.column_stack([np.ones(len(cells)), np.log(loads)])
        squares.append(float(((dims - design @ np.linalg.lstsq(design, dims)[0]) ** 2).sum()))
    gain = len(cells) * math.log(max(squares[1], 1e-12) / max(squares[0], 1e-12))
    measured = f"AIC {abs(gain):.2g} {'lower' if gain > 0 else 'higher'} with the logarithm, {len(cells)} cells"
    if gain > LIKELIER:
        return Verdict(answer="agrees", measured=measured, reason=f"at least {LIKELIER:g} lower")
    if gain < -LIKELIER:
        return Verdict(answer="differs", measured=measured, reason=f"at least {LIKELIER:g} higher")
    return cannot(f"less than {LIKELIER:g} apart: m'/d describes the cells as well", measured)


def one_head_suffices(of: Evidence) -> Verdict:
    """Cells of one item a channel: whether one head reaches .99, and with the least key dimension."""
    cells = [run for run in of.runs if items(run) == width(run)]
    if not cells:
        raise Unjudged("no cell has as many channels as items")
    best = [run.n_heads == 1 for run in cells]
    measured = ", ".join(f"m = d = {width(run)}: {run.n_heads} x {run.d_head}" for run in cells)
    return ev.exactly(all(best), measured, "the head count of the least total key dimension, ties to fewer")


def one_head_fails(of: Evidence) -> Verdict:
    """Cells whose load is above the width: whether no size of one head is enough."""
    told = [
        (run, count)
        for run in of.runs
        for count in run.per_heads or ()
        if count.n_heads == 1 and load(run) > width(run)
    ]
    if not told:
        raise Unjudged("one head was tried in no cell whose m' log2 m' / d is above d")
    enough = [run for run, count in told if count.total_key_dim is not None]
    measured = ", ".join(f"m {items(run)}, d {width(run)}: best F1 {count.f1:.2f}" for run, count in told)
    return ev.exactly(not enough, measured, "one head of any size up to the width (where m' log2 m' > d²)")


def grows_on_the_diagonal(of: Evidence) -> Verdict:
    """D_K* against the items at a fixed compression, by the intervals of its ends."""
    cells = sorted(found(of), key=items)
    if len(cells) < 2:
        raise Unjudged("fewer than two cells of that compression")
    first, last = cells[0], cells[-1]
    measured = ", ".join(f"m {items(run)}: {run.total_key_dim} ({run.n_heads} heads)" for run in cells)
    if first.total_key_dim_interval is None or last.total_key_dim_interval is None:
        raise Unjudged("a cell has no interval")
    one, other = first.total_key_dim_interval, last.total_key_dim_interval
    if one.high is not None and other.low > one.high:
        return Verdict(answer="agrees", measured=measured, reason="the 95 % interval of the most items is above")
    if other.high is not None and other.high < one.low:
        return Verdict(answer="differs", measured=measured, reason="the 95 % interval of the most items is below")
    return cannot("the 95 % intervals of the fewest and the most items overlap", measured)


def map_trend(of: Evidence) -> Verdict:
    """Powers of m and of d that D_K* grows by."""
    cells = found(of)
    logs = [np.log([items(run) for run in cells]), np.log([width(run) for run in cells])]
    more, wider = ev.slopes(logs, np.log([run.total_key_dim or 0 for run in cells]))
    measured = f"m to the {more}, d to the {wider}"
    if more.low > 0 and wider.high < 0:
        return Verdict(answer="agrees", measured=measured, reason="both 95 % intervals are on their side of 0")
    if more.high < 0 or wider.low > 0:
        return Verdict(answer="differs", measured=measured, reason="a 95 % interval is on the other side of 0")
    return cannot("a 95 % interval holds 0", measured)


def law_is_needed(of: Evidence) -> Verdict:
    """Whether D_K* grows at least as the law: below an exponent of 1 it would fall behind any constant of it."""
    cells = found(of)
    power = ev.exponent([load(run) for run in cells], [run.total_key_dim or 0 for run in cells])
    if power.high < 1:
        return Verdict(answer="differs", measured=str(power), reason="D_K* grows more slowly than m' log2 m' / d")
    if power.low > 0.5:
        reason = "not contradicted: the interval of the exponent reaches 1 (no measurement shows a lower bound)"
        return Verdict(answer="agrees", measured=str(power), reason=reason)
    return cannot("the interval of the exponent reaches 1, and below a half", str(power))


def above_lower_bound(of: Evidence) -> Verdict:
    """Every D_K* against the bound of real weights (LB-3), for graphs recognized to an F1 of .99."""
    from capax.tasks.graph_classes import derangements
    from capax.theory.relation_bounds import real_lower_bound
    from capax.theory.stored_bits import f1_information

    cells, wrong, nearest = found(of), [], math.inf
    for run in cells:
        m = items(run)
        bits = f1_information(m, m, derangements(m).bits, TARGET)
        least = real_lower_bound(bits, m, run.n_heads or 1, width(run)).value or 0.0
        if (run.total_key_dim or 0) < least:
            wrong.append(f"m {m}, d {width(run)}: {run.total_key_dim} below {least:.3g}")
        nearest = min(nearest, (run.total_key_dim or 0) / max(least, 1e-9))
    measured = f"at least {nearest:.3g} times the bound in {len(cells)} cells"
    return ev.exactly(not wrong, measured, "; ".join(wrong) or "Warren's bound (LB-3), which has no logarithm")


BUILT: dict[Scale, tuple[tuple[int, int], ...]] = {
    "demo": ((64, 32), (128, 32), (128, 64), (256, 64)),
    "small": ((128, 32), (128, 64), (256, 64), (512, 128), (512, 64)),
    "paper": ((256, 64), (512, 128), (512, 64), (1024, 256), (1024, 128)),
}
"""Items and channels of the channels that are built."""


def _constant(place: int, m: int, d: int, onehot: bool) -> tuple[float, float, int]:
    """F1, c = D_K d / (m ln m) and heads of weights built for a random permutation."""
    from capax.tasks.embeddings import gaussian
    from capax.tasks.graphs import derangement
    from capax.theory.relations import construct

    generator = numpy_generator(0, "reproduce relations", place)
    edges = np.stack([np.arange(m), derangement(m, generator)], axis=1)
    vectors = np.eye(m) if onehot else gaussian(m, d, generator)
    built = construct(edges, vectors, generator=generator, method="onehot" if onehot else "whitened")
    return built.recognition.f1, built.constant or 0.0, built.weights.query.shape[0]


def one_hot(of: Evidence) -> Verdict:
    """One head built for one-hot items: where ours is not enough, others may be."""
    told = [(m, *_constant(place, m, m, True)) for place, (m, _) in enumerate(BUILT[of.scale])]
    measured = f"least F1 {min(f1 for _, f1, _, _ in told):.3f}"
    if all(f1 >= TARGET and heads == 1 for _, f1, _, heads in told):
        return Verdict(answer="agrees", measured=measured, reason=f"one head built for {len(told)} permutations")
    return cannot("our weights need more than one head, or do not reach an F1 of .99; others may do better", measured)


def gaussian_items(of: Evidence) -> Verdict:
    """Several heads built for Gaussian items: D_K within a constant of m log m / d.

    That such weights exist is what is claimed: ours may show it, but where they do not, others may.
    """
    cells = BUILT[of.scale]
    told = [(m, d, *_constant(place, m, d, False)) for place, (m, d) in enumerate(cells)]
    constants = [c for *_, c, _ in told]
    least = min(f1 for _, _, f1, _, _ in told)
    each = ", ".join(f"{c:.2g} (m {m}, d {d})" for m, d, _, c, _ in told)
    measured = f"D_K / (m ln m / d): {each}; least F1 {least:.3f}"
    if least >= TARGET and max(constants) / min(constants) < 3:
        return Verdict(answer="agrees", measured=measured, reason="our weights; the constants are within threefold")
    missed = "do not reach an F1 of .99" if least < TARGET else "have constants more than threefold apart"
    return cannot(f"our weights {missed}; others may do better", measured)


CAPTIONS = unknown("its caption and content are not known to us")
RECIPES = (
    Recipe(
        PAPER,
        "theorem-b1",
        "one head, one-hot items",
        (Claim("one head suffices for a permutation where m = d_model", "1", "read", one_hot),),
    ),
    Recipe(
        PAPER,
        "theorem-4.2",
        "several heads, Gaussian items",
        (Claim("D_K = O(m' log m' / d_model) suffices", None, "read", gaussian_items),),
    ),
    Recipe(
        PAPER,
        "theorem-7.2",
        "lower bound on the key dimension",
        (
            Claim("D_K = Ω(m' log m' / d_model) is needed", None, "read", law_is_needed),
            Claim("no trained channel is below the bound that we can prove", None, "ours", above_lower_bound),
        ),
        BUDGETS,
    ),
    Recipe(
        PAPER,
        "figure-1",
        "F1 against D_K for each number of heads",
        (
            Claim("one head is significantly worse than several", None, "read", one_head_is_worse),
            Claim("F1 has a sharp threshold in D_K", None, "read", sharp),
            Claim("at one D_K, F1 against the heads is an inverted U", None, "ours", inverted_u),
        ),
        F1,
        chart="f1",
    ),
    Recipe(
        PAPER,
        "figure-2",
        "the best number of heads",
        (Claim("it grows with m and as d_model shrinks", None, "read", grows_with_items),),
        BUDGETS,
        chart="best-heads",
    ),
    Recipe(
        PAPER,
        "figure-3",
        "D_K* against the scaling law",
        (
            Claim("D_K* is proportional to m' log m' / d_model", "slope 1", "read", law_slope),
            Claim("the law describes D_K*", None, "read", law_fits),
            Claim("m' log m' / d_model describes it better than m' / d_model", None, "ours", logarithm),
        ),
        BUDGETS,
        chart="key-dimension",
    ),
    Recipe(
        PAPER,
        "figure-4",
        "the diagonal of fixed compression (8 items a channel; demo: 4)",
        (Claim("D_K* grows with m along it", None, "reconstructed", grows_on_the_diagonal),),
        DIAGONAL,
        chart="fixed-compression",
    ),
    Recipe(
        PAPER,
        "figure-5",
        "map of D_K* over items and channels",
        (
            Claim("D_K* grows with m and falls with d_model", None, "read", map_trend),
            Claim("one head suffices where m = d_model", "1", "read", one_head_suffices),
            Claim("one large head cannot do it where m is well above d_model", None, "read", one_head_fails),
        ),
        BUDGETS,
        chart="key-dimension-map",
    ),
    *(
        Recipe(PAPER, name, "not known to us", (Claim("not known to us", None, "reconstructed", CAPTIONS),))
        for name in ("figures-6-to-8", "tables-1-and-2")
    ),
)
