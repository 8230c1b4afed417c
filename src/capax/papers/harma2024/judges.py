"""How the claims of Härmä et al. 2024 are judged by measurements."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from capax.laws.ecm import ECM
from capax.laws.polynomial import Polynomial
from capax.laws.published import data
from capax.papers import evidence as ev
from capax.papers.evidence import field
from capax.papers.recipe import Evidence, Unjudged, Verdict, agrees, cannot, differs
from capax.protocols.shatter import fit_negative_binomial
from capax.results import Measurement
from capax.store import tables

LAW = ECM(n_bootstrap=200)
# share of a library from which on its size, and not the model, sets the count
SATURATED = 0.9
# width from which we take the paper's "large" to begin (ours: its widths are not known, but reach hundreds)
LARGE = 128
# simulated studies behind the p-value of a goodness of fit
FITS = 99


def _grouped(runs: Iterable[Measurement], key: Callable[[Measurement], Any]) -> dict[Any, list[Measurement]]:
    """Runs of each value, rising."""
    groups = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return dict(sorted(groups.items()))


def _by_width(runs: Iterable[Measurement]) -> dict[int, list[Measurement]]:
    return _grouped(runs, lambda run: field(run, "d_model"))


def _counts(runs: Iterable[Measurement]) -> np.ndarray:
    """What each restart recalled, above chance."""
    each = [(np.array(run.memorized_per_restart) - run.chance) / (1 - run.chance / run.library_size) for run in runs]
    return np.concatenate(each) if each else np.empty(0)


# One-layer grid


def _rising(runs: Sequence[Measurement]) -> list[Measurement]:
    """Runs whose count the library's size does not set, and that is above chance."""
    kept = [run for run in runs if run.memorized < SATURATED * run.library_size and run.above_chance]
    if not kept:
        raise Unjudged("every library was memorized, or nothing above chance")
    return kept


def _power(runs: Sequence[Measurement], of: Sequence[float], *series: str) -> ev.Estimate:
    """The power of a size that counts grow by, with a level of its own for each series."""
    groups = [tuple(field(run, name) for name in series) for run in runs]
    return ev.exponent(of, [run.memorized_above_chance for run in runs], groups)


def as_printed(of: Evidence) -> Verdict:
    """Whether any network memorized fewer than the printed maximum says is the least."""
    printed = data("harma2024")["table_1"]["1"]
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
    """Whether our fit's intervals hold the printed parameters; only of the paper's own grid."""
    if of.scale != "paper":
        raise Unjudged(f"the {of.scale} grid is not the paper's: other widths, lengths and library, so another fit")
    fitted = ECM(n_bootstrap=200).fit(tables.table(of.runs))
    printed, ranges = data("harma2024")["table_1"]["1"], fitted.parameter_intervals()
    ends = {name: ranges[name] for name in printed if ranges[name] != (None, None)}
    measured = ", ".join(f"{name} {value:.3g}" for name, value in fitted.parameters_.items() if value is not None)
    if not ends:
        return cannot("the data determine none of the parameters", measured)
    outside = [
        name
        for name, (low, high) in ends.items()
        if not (-math.inf if low is None else low) <= printed[name] <= (math.inf if high is None else high)
    ]
    return ev.exactly(not outside, measured, f"outside of our 95 % intervals: {', '.join(outside) or 'none'}")


def linear_in_width(of: Evidence) -> Verdict:
    """The power of the width that counts grow by, before the library is full."""
    runs = _rising(of.runs)
    power = _power(runs, [field(run, "d_model") for run in runs], "seq_len", "n_heads")
    return ev.has_exponent(power, 1.0, "width")


def constant_tokens(of: Evidence) -> Verdict:
    """The power of N − 1 that the counts of one head fall by: −1 is a constant number of tokens."""
    runs = [run for run in _rising(of.runs) if field(run, "n_heads") == 1]
    lengths = [field(run, "seq_len") for run in runs]
    if len(set(lengths)) < 3:
        raise Unjudged("fewer than three lengths with counts below the library's size")
    return ev.has_exponent(_power(runs, [length - 1 for length in lengths], "d_model"), -1.0, "N − 1")


def falls_with_length(of: Evidence) -> Verdict:
    """The power of N that counts fall by, at all head counts and widths."""
    runs = _rising(of.runs)
    power = _power(runs, [field(run, "seq_len") for run in runs], "n_heads", "d_model")
    return ev.above(
        ev.Estimate(-power.value, -power.high, -power.low),
        f"N to the {power}",
        "the 95 % interval is below 0",
        "counts rise with length",
        "the 95 % interval of the power holds 0",
    )


def heads_slow_the_decay(of: Evidence) -> Verdict:
    """The sign of log N · H in log counts: positive where more heads lose less with length (b < 0)."""
    runs = _rising(of.runs)
    lengths = np.log([field(run, "seq_len") for run in runs])
    heads = np.array([field(run, "n_heads") for run in runs], float)
    interaction = ev.slopes(
        [lengths, (lengths - lengths.mean()) * heads],
        np.log([run.memorized_above_chance for run in runs]),
        [(field(run, "n_heads"), field(run, "d_model")) for run in runs],
    )[1]
    return ev.above(
        interaction,
        f"{interaction} per head",
        "more heads lose less with length",
        "more heads lose more with length",
        "the interval of the interaction of heads and log length holds 0",
    )


def _errors(of: Evidence, held_out: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Relative errors of ECM and polynomial on the same rows, and the polynomial's degree."""
    runs = [run for run in of.runs if run.above_chance]
    if not runs:
        raise Unjudged("nothing was recalled above chance")
    heads = np.array([field(run, "n_heads") for run in runs])
    held = heads == heads.max() if held_out else np.ones(len(runs), bool)
    known = ~held if held_out else held
    if not known.any():
        raise Unjudged("there is one head count only")
    degree = max((k for k in range(1, 6) if 2 * math.comb(k + 3, 3) <= known.sum()), default=None)
    if degree is None:
        raise Unjudged(f"{known.sum()} networks are too few for a polynomial")
    table = tables.table(runs)
    measured = np.array([run.memorized_above_chance for run in runs])[held]
    library = np.array([run.library_size for run in runs], float)[held]
    errors = []
    for law in (ECM(n_bootstrap=1), Polynomial(degree=degree, n_bootstrap=1)):
        rows = law.read(table)
        fitted = law.fit_rows(rows.take(known), table.filter(known))
        predicted = np.minimum(fitted._predict(rows.take(held).columns), library)
        errors.append(np.abs(predicted - measured) / measured)
    return errors[0], errors[1], degree


def beats_polynomial(of: Evidence, held_out: bool = False) -> Verdict:
    """ECM against the polynomial, in sample."""
    ecm, polynomial, degree = _errors(of, held_out)
    return ev.paired_smaller(ecm, polynomial, "the ECM's error", f"that of a polynomial of degree {degree}")


def beats_polynomial_held_out(of: Evidence) -> Verdict:
    """ECM against the polynomial on the largest head count, which neither saw."""
    return beats_polynomial(of, held_out=True)


def within_half(of: Evidence) -> Verdict:
    """The ECM's relative error in sample against the published one, read as a fraction."""
    published = data("harma2024")["mape"]["ecm"]
    error = ev.mean(_errors(of, held_out=False)[0])
    if error.value <= published:
        return agrees(f"no larger than {published}", str(error))
    if error.low > published:
        return differs(f"its 95 % interval is above {published}", str(error))
    return cannot(f"larger than {published}, but its 95 % interval reaches it", str(error))


# Other studies


def _ffn(of: Evidence, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts with the FFN as the identity, and with it trained, at one width."""
    kinds = _grouped(_by_width(of.runs)[width], lambda run: field(run, "ffn"))
    if set(kinds) != {"identity", "mlp"}:
        raise Unjudged(f"width {width} lacks the FFN that is trained, or the one that is not")
    return _counts(kinds["identity"]), _counts(kinds["mlp"])


def ffn_alike(of: Evidence) -> Verdict:
    """At the smallest width: no more apart than a fifth of the counts."""
    width = min(_by_width(of.runs))
    identity, trained = _ffn(of, width)
    gap = ev.difference(identity, trained)
    measured = f"width {width}: {identity.mean():.4g} frozen, {trained.mean():.4g} trained; difference {gap}"
    return ev.alike(gap, 0.2 * float(np.mean(trained)), measured, "fifth")


def ffn_frozen_higher(of: Evidence) -> Verdict:
    """At the largest width, where that is large."""
    width = max(_by_width(of.runs))
    identity, trained = _ffn(of, width)
    return _at_large(width, ev.larger(identity, trained, f"the identity at width {width}", "the trained FFN"))


def _at_large(width: int, verdict: Verdict) -> Verdict:
    """A verdict on large widths, which smaller ones cannot give."""
    if width >= LARGE:
        return verdict
    return cannot(f"a width of {width} is not large; there {verdict.reason}", verdict.measured)


def mac_is_mls_and_guesses(of: Evidence) -> Verdict:
    """Whether the count above chance is in the interval of the largest library, at each width."""
    widths = _mls_and_mac(of)
    inside = sum(low <= mac <= high for low, high, mac in widths.values())
    measured = "; ".join(f"width {w}: {mac:.3g}, MLS {low:.3g} to {high:.3g}" for w, (low, high, mac) in widths.items())
    reason = f"MAC above chance in the 95 % interval of MLS at {inside} of {len(widths)}"
    return ev.exactly(inside == len(widths), measured, reason)


def mac_below_mls(of: Evidence) -> Verdict:
    """At the largest width: MAC's best count, less chance, against MLS's interval."""
    widths = _mls_and_mac(of)
    width = max(widths)
    low, high, mac = widths[width]
    measured = f"width {width}: {mac:.3g} above chance, MLS {low:.3g} to {high:.3g}"
    if low <= mac <= high:
        return _at_large(width, cannot("MAC is inside MLS's 95 % interval", measured))
    side = "below" if mac < low else "above"
    return _at_large(width, ev.exactly(mac < low, measured, f"MAC is {side} MLS's 95 % interval"))


def _mls_and_mac(of: Evidence) -> dict[int, tuple[float, float, float]]:
    """Per width the ends of MLS's interval and MAC's count above chance."""
    widths = {}
    for width, runs in _by_width(of.runs).items():
        protocols = {run.spec.protocol.protocol: run for run in runs}
        if {"mls", "mac"} <= set(protocols):
            interval = protocols["mls"].interval
            if interval is not None and interval.high is not None:
                widths[width] = (interval.low, interval.high, protocols["mac"].memorized_above_chance)
    if not widths:
        raise Unjudged("no width has both MAC and an MLS whose interval has two ends")
    return widths


def negative_binomial(of: Evidence) -> Verdict:
    """Whether completed trials are a negative binomial: distance of the fit, by parametric bootstrap."""
    shatter = of.runs[0].shatter
    if shatter is None or len(shatter.epochs) < 20:
        raise Unjudged("fewer than 20 trials completed")
    epochs = np.array(shatter.epochs)
    fit = fit_negative_binomial(epochs)
    generator = np.random.default_rng(0)
    further = 0
    for _ in range(FITS):
        drawn = generator.negative_binomial(fit.r, fit.p, len(epochs)) + fit.r
        further += fit_negative_binomial(drawn).distance >= fit.distance
    p = (further + 1) / (FITS + 1)
    rejected = p <= ev.SIGNIFICANT
    return ev.exactly(
        not rejected,
        f"r {fit.r}, p {fit.p:.3g}; largest distance {fit.distance:.3f}, p-value {p:.2g}",
        f"{'rejected' if rejected else 'not rejected'} at 5 % ({len(epochs)} trials that completed, {FITS} simulated "
        "studies)",
    )


def _batches(of: Evidence) -> dict[int, np.ndarray]:
    """Counts per restart, by batch size, over the lengths: each relative to its length's mean."""
    cut = sum(run.stop_reason == "budget" for run in of.runs)
    if cut:
        raise Unjudged(f"{cut} of {len(of.runs)} trainings ended at a budget, of which small batches make more steps")
    batches: dict[int, list[np.ndarray]] = defaultdict(list)
    for runs in _grouped(of.runs, lambda run: field(run, "seq_len")).values():
        level = float(np.mean(_counts(runs)))
        for run in runs:
            batches[run.spec.training.batch_size].append(_counts([run]) / level)
    if len(batches) < 2:
        raise Unjudged("there is one batch size only")
    return {size: np.concatenate(batches[size]) for size in sorted(batches)}


def small_batches_lower(of: Evidence) -> Verdict:
    """The smallest batch against the second largest, which is 512 where the library is large enough."""
    batches = _batches(of)
    sizes = list(batches)
    small, large = sizes[0], sizes[-2]
    return ev.larger(batches[large], batches[small], f"the count at batch {large}", f"that at batch {small}")


def flat_beyond(of: Evidence) -> Verdict:
    """The largest batch against the second largest: no more apart than a tenth."""
    batches = _batches(of)
    *_, second, largest = batches
    gap = ev.difference(batches[largest], batches[second])
    return ev.alike(gap, 0.1, f"batch {largest} minus {second}: {gap} of the mean count", "tenth")


def heads_hold_more(of: Evidence) -> Verdict:
    """Four heads against two, at about the same number of coefficients."""
    two, four = (_counts(run for run in of.runs if field(run, "n_heads") == heads) for heads in (2, 4))
    verdict = ev.larger(four, two, "the count of four heads", "that of two with as many coefficients")
    if of.scale == "paper":
        return verdict
    size = of.runs[0].parameters.trainable
    return cannot(f"two million coefficients are claimed for; at about {size}, {verdict.reason}", verdict.measured)
