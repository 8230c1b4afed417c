"""How claims on the one-layer grid of Härmä et al. 2024 are judged: Table 1, slopes, saturation, eq. 12."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import binomtest

from capax.laws.ecm import ECM
from capax.literature import stated_by
from capax.papers import evidence as ev
from capax.papers.evidence import field
from capax.papers.harma2024.readings import in_every_reading, refuted_in_every_reading
from capax.papers.harma2024.runs import SATURATED, above_chance, full, grouped, on_plateaus, spans_saturation
from capax.papers.recipe import Evidence, Unjudged, Verdict, agrees, cannot, differs
from capax.protocols import units
from capax.results import LEVEL, Measurement
from capax.store import tables
from capax.text import counted

# share of the count at the widest width from which on that at the next one says that counts rise no further (ours)
STILL = 0.9


def _held(run: Measurement) -> float:
    """The count above chance; of a library that is as good as full, what tells that it is."""
    least = units.above_chance(SATURATED * run.library_size, run.chance, run.library_size)
    return least if full(run) else run.memorized_above_chance


def _seen(of: Evidence) -> list[Measurement]:
    """Runs whose count is above chance.

    Raises:
        Unjudged: where there is none, or every library is full.
    """
    kept = [run for run in of.runs if run.above_chance]
    if all(full(run) for run in kept):
        raise Unjudged("every library was memorized, or nothing above chance")
    return kept


def _power(runs: Sequence[Measurement], of: Sequence[float], *series: str) -> ev.Estimate:
    """The power of a size that counts grow by, with a level of its own for each series; full libraries are bounds."""
    groups = [tuple(field(run, name) for name in series) for run in runs]
    return ev.exponent(of, [_held(run) for run in runs], groups, [full(run) for run in runs])


def as_printed(of: Evidence) -> Verdict:
    """Whether any network memorized fewer than the printed maximum says is the least."""
    printed = stated_by("harma2024")["table_1"]["1"]
    least = [printed["alpha"] * field(run, "n_heads") + printed["beta"] for run in of.runs]
    below = [
        run
        for run, limit in zip(of.runs, least, strict=True)
        if run.memorized < SATURATED * min(limit, run.library_size)
    ]
    if not below:
        return cannot("no network recalled less than nine tenths of its library")
    fewest = min(below, key=lambda run: run.memorized / run.library_size)
    return differs(
        f"max would mean {min(least):,.0f} sequences, or the whole library, for every network; {len(below)} of "
        f"{len(of.runs)} recalled fewer: read it as min",
        f"{fewest.memorized} of {fewest.library_size}",
    )


def table_1(of: Evidence) -> Verdict:
    """Whether our fit's intervals, together at 95 %, hold the printed parameters; only of the paper's own grid."""
    if of.scale != "paper":
        raise Unjudged(f"the {of.scale} grid is not the paper's: other widths, lengths and library, so another fit")
    fitted = ECM(n_bootstrap=200).fit(tables.table(of.runs))
    printed = stated_by("harma2024")["table_1"]["1"]
    ranges = fitted.parameter_intervals(1 - (1 - LEVEL) / len(printed))
    ends = {name: ranges[name] for name in printed if ranges[name] != (None, None)}
    measured = ", ".join(f"{name} {value:.3g}" for name, value in fitted.parameters_.items() if value is not None)
    if not ends:
        return cannot("the data determine none of the parameters", measured)
    outside = [
        name
        for name, (low, high) in ends.items()
        if not (-math.inf if low is None else low) <= printed[name] <= (math.inf if high is None else high)
    ]
    return ev.exactly(not outside, measured, f"outside of our intervals (95 % for all): {', '.join(outside) or 'none'}")


@refuted_in_every_reading
def linear_in_width(of: Evidence) -> Verdict:
    """The power of the width that counts grow by, before the library is full, in a grid that reaches that."""
    runs = _seen(of)
    power = _power(runs, [field(run, "d_model") for run in runs], "seq_len", "n_heads")
    try:
        spans_saturation(of.runs)
    except Unjudged as error:
        return cannot(f"{error}; the exponent up to there", str(power))
    return ev.has_exponent(power, 1.0, "width")


def saturates_at_library(of: Evidence) -> Verdict:
    """The share of the library at which counts of a length and a head count rise no further: nine tenths and more.

    They do not where the widest network has nine tenths of the library, or above chance hardly more than the one before
    it. A capacity model with a plateau of its own has counts that level off far below the library's size. Libraries
    below the plateau that Table 1 has for their number of heads are full before it is seen, which tells nothing.
    """
    rising = sorted(above_chance(of), key=lambda run: field(run, "d_model"))
    series = grouped(rising, lambda run: (field(run, "seq_len"), field(run, "n_heads")))
    widest = [runs[-2:] for runs in series.values() if len(runs) > 1]
    level = [(two, one) for two, one in widest if full(one) or _hardly_more(two, one)]
    if not level:
        raise Unjudged("counts of every length and head count still rise at the widest width")
    on_plateaus([run for pair in level for run in pair])
    ends = [one for _, one in level]
    shares = [one.memorized / one.library_size for one in ends]
    of_library = " to ".join(dict.fromkeys(f"{share:.0%}" for share in (min(shares), max(shares))))
    measured = f"{of_library} of the library, at {len(level)} of {len(series)} lengths and head counts"
    how = f"counts at the widest width, of full libraries or no more than {1 / STILL - 1:.0%} above the one before"
    if below := [_place(one) for one in ends if _share(one)[1] < SATURATED]:
        return differs(f"{how}: below {SATURATED:.0%} of the library with {'; '.join(below)}", measured)
    said = f"{how}: at least {SATURATED:.0%} of the library (ours)"
    printed = stated_by("harma2024")["table_1"]["1"]
    telling = [run for run in ends if printed["alpha"] * field(run, "n_heads") + printed["beta"] < run.library_size]
    if not telling:
        sizes = " and ".join(map(str, sorted({run.library_size for run in ends})))
        return cannot(f"{said}, but libraries of {sizes} are full below all plateaus of Table 1 there", measured)
    ranges = "; ".join(f"{_place(run)}, {_share(run)[0]:.1%} to {_share(run)[1]:.1%}" for run in telling)
    measured = f"{measured}; where Table 1 has a plateau below it: {ranges}"
    if any(_share(run)[0] < SATURATED for run in telling):
        return cannot(f"an interval holds {SATURATED:.0%} of the library", measured)
    return agrees(f"{said}, and so do the 95 % intervals (binomial) where Table 1 has a plateau below it", measured)


def _hardly_more(narrower: Measurement, wider: Measurement) -> bool:
    """Whether a count is no more than a tenth above another, where guesses do not differ by as much."""
    told = (1 - STILL) * wider.memorized_above_chance > 2 * math.sqrt(wider.chance)
    return told and narrower.memorized_above_chance >= STILL * wider.memorized_above_chance


def _share(run: Measurement) -> tuple[float, float]:
    """The 95 % interval of the share of the library that is recalled, by its items."""
    ends = binomtest(run.memorized, run.library_size).proportion_ci(LEVEL, method="wilson")
    return float(ends.low), float(ends.high)


def _place(run: Measurement) -> str:
    return f"{field(run, 'seq_len')} tokens, {counted(field(run, 'n_heads'), 'head')}"


@refuted_in_every_reading
def constant_tokens(of: Evidence) -> Verdict:
    """The power of N − 1 that the counts of one head fall by: −1 is a constant number of tokens."""
    runs = [run for run in _seen(of) if field(run, "n_heads") == 1]
    lengths = [field(run, "seq_len") for run in runs]
    if len({field(run, "seq_len") for run in runs if not full(run)}) < 3:
        raise Unjudged("fewer than three lengths with counts below the library's size")
    return ev.has_exponent(_power(runs, [length - 1 for length in lengths], "d_model"), -1.0, "N − 1")


@in_every_reading
def falls_with_length(of: Evidence) -> Verdict:
    """The power of N that counts fall by, at all head counts and widths."""
    runs = _seen(of)
    power = _power(runs, [field(run, "seq_len") for run in runs], "n_heads", "d_model")
    return ev.above(
        -power,
        f"N to the {power}",
        "the 95 % interval is below 0",
        "counts rise with length",
        "the 95 % interval of the power holds 0",
    )


def falls_with_the_loss_that_is_ours(of: Evidence) -> Verdict:
    """The same by the loss on all positions, which was chosen because counts fall with length by it: no test of it."""
    return _by_our_loss(falls_with_length(of))


def _by_our_loss(found: Verdict) -> Verdict:
    return cannot(
        "depends on the loss, which is not known to us: with that on all positions, which we chose because counts fall "
        f"with length by it: {found.reason}; figure unstated has that on the last position, too",
        found.measured,
    )


@in_every_reading
def heads_slow_the_decay(of: Evidence) -> Verdict:
    """The sign of log N · H in log counts: positive where more heads lose less with length (b < 0)."""
    runs = _seen(of)
    lengths = np.log([field(run, "seq_len") for run in runs])
    heads = np.array([field(run, "n_heads") for run in runs], float)
    interaction = ev.slopes(
        [lengths, (lengths - lengths.mean()) * heads],
        np.log([_held(run) for run in runs]),
        [(field(run, "n_heads"), field(run, "d_model")) for run in runs],
        [full(run) for run in runs],
    )[1]
    return ev.above(
        interaction,
        f"{interaction} per head",
        "more heads lose less with length",
        "more heads lose more with length",
        "the interval of the interaction of heads and log length holds 0",
    )


@in_every_reading
def small_are_efficient(of: Evidence) -> Verdict:
    """The power of the width that memorized tokens a parameter go by."""
    return _fewer_along(of, "d_model", "width", "wider networks hold more per parameter")


@in_every_reading
def heads_are_cheaper(of: Evidence) -> Verdict:
    """The power of the parameters that tokens a parameter go by, as heads add them and as width does.

    Powers of H and of B would not do: a doubled width has more new parameters than a doubled head count.
    """
    heads, width = (_per_parameter(of, size, lambda run: run.parameters.trainable) for size in ("n_heads", "d_model"))
    measured = f"tokens per parameter scale as the parameters of heads to the {heads}, of width to the {width}"
    if heads.low > width.high:
        return agrees("a head costs less: the intervals do not meet", measured)
    if heads.high < width.low:
        return differs("width costs less: the intervals do not meet", measured)
    return cannot("the intervals meet", measured)


def by_length_with_our_loss(of: Evidence) -> Verdict:
    """What tokens a parameter do with the length, by the loss that was chosen because counts fall with length by it."""
    return _by_our_loss(shorter_are_efficient(of))


@in_every_reading
def shorter_are_efficient(of: Evidence) -> Verdict:
    """The power of the length that memorized tokens a parameter go by."""
    return _fewer_along(of, "seq_len", "length", "longer sequences are held better")


def _fewer_along(of: Evidence, size: str, named: str, otherwise: str) -> Verdict:
    """Whether tokens a parameter fall along a size, by their power of it."""
    power = _per_parameter(of, size, lambda run: float(field(run, size)))
    return ev.above(
        -power,
        f"tokens per parameter scale as the {named} to the {power}",
        "the 95 % interval is below 0",
        otherwise,
        "the 95 % interval holds 0",
    )


def _per_parameter(of: Evidence, along: str, by: Callable[[Measurement], float]) -> ev.Estimate:
    """The power that eq. 12, tokens a trainable parameter, goes by along one size, the others held."""
    runs = _seen(of)
    others = [name for name in ("seq_len", "n_heads", "d_model") if name != along]
    tokens = [field(run, "seq_len") * _held(run) / run.parameters.trainable for run in runs]
    groups = [tuple(field(run, name) for name in others) for run in runs]
    return ev.exponent([by(run) for run in runs], tokens, groups, [full(run) for run in runs])
