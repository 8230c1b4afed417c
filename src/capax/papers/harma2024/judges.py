"""How the claims of Härmä et al. 2024 are judged by measurements."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from math import comb

import numpy as np

from capax import tables
from capax.laws.ecm import ECM
from capax.laws.polynomial import Polynomial
from capax.laws.published import data
from capax.measures.negative_binomial import fit_negative_binomial
from capax.papers import evidence as ev
from capax.papers.recipe import Evidence, Unjudged, Verdict, cannot
from capax.results import Measurement
from capax.specs import Mls, Sequences, Transformer

SATURATED = 0.9
"""Share of a library from which on its size, and not the model, sets the count."""
LARGE = 128
"""Width from which we take the paper's "large" to begin (ours: its widths are not known, but reach hundreds)."""
FITS = 99
"""Simulated studies behind the p-value of a goodness of fit."""


def task(run: Measurement) -> Sequences:
    """The task of a run on sequences."""
    assert isinstance(run.spec.task, Sequences)
    return run.spec.task


def model(run: Measurement) -> Transformer:
    """The transformer of a run."""
    assert isinstance(run.spec.model, Transformer)
    return run.spec.model


def rising(runs: Sequence[Measurement]) -> list[Measurement]:
    """Runs whose count the library's size does not set, and that is above chance."""
    kept = [run for run in runs if run.memorized < SATURATED * run.library_size and run.above_chance]
    if not kept:
        raise Unjudged("every library was memorized, or nothing above chance")
    return kept


def counts(run: Measurement) -> np.ndarray:
    """What each restart recalled, above chance."""
    return (np.array(run.memorized_per_restart) - run.chance) / (1 - run.chance / run.library_size)


# One-layer grid


def as_printed(of: Evidence) -> Verdict:
    """Whether any network memorized fewer than the printed maximum says is the least."""
    printed = data("harma2024")["table_1"]["1"]
    least = [printed["alpha"] * model(run).n_heads + printed["beta"] for run in of.runs]
    below = [
        run
        for run, limit in zip(of.runs, least, strict=True)
        if run.memorized < SATURATED * min(limit, run.library_size)
    ]
    fewest = min(below, key=lambda run: run.memorized / run.library_size, default=None)
    if fewest is None:
        return cannot("no network recalled less than nine tenths of its library")
    return ev.exactly(
        False,
        f"{fewest.memorized} of {fewest.library_size}",
        f"max would mean {min(least):,.0f} sequences, or the whole library, for every network; {len(below)} of "
        f"{len(of.runs)} recalled fewer: read it as min",
    )


def table_1(of: Evidence) -> Verdict:
    """Whether our fit's intervals hold the printed parameters; only of the paper's own grid."""
    if of.scale != "paper":
        raise Unjudged(f"the {of.scale} grid is not the paper's: other widths, lengths and library, so another fit")
    fitted = ECM(n_bootstrap=200).fit(tables.table(of.runs))
    printed, ranges = data("harma2024")["table_1"]["1"], fitted.parameter_intervals()
    out, told = [], 0
    for name, value in printed.items():
        low, high = ranges[name]
        if low is None and high is None:
            continue
        told += 1
        if not (low if low is not None else -math.inf) <= value <= (high if high is not None else math.inf):
            out.append(name)
    measured = ", ".join(f"{name} {value:.3g}" for name, value in fitted.parameters_.items() if value is not None)
    if not told:
        return cannot("the data determine none of the parameters", measured)
    return ev.exactly(not out, measured, f"outside of our 95 % intervals: {', '.join(out) or 'none'}")


def linear_in_width(of: Evidence) -> Verdict:
    """The power of the width that counts grow by, before the library is full."""
    runs = rising(of.runs)
    series = [(task(run).seq_len, model(run).n_heads) for run in runs]
    found = ev.exponent([model(run).d_model for run in runs], [run.memorized_above_chance for run in runs], series)
    return ev.has_exponent(found, 1.0, "width")


def constant_tokens(of: Evidence) -> Verdict:
    """The power of N − 1 that the counts of one head fall by: −1 is a constant number of tokens."""
    runs = [run for run in rising(of.runs) if model(run).n_heads == 1]
    if len({task(run).seq_len for run in runs}) < 3:
        raise Unjudged("fewer than three lengths with counts below the library's size")
    found = ev.exponent(
        [task(run).seq_len - 1 for run in runs],
        [run.memorized_above_chance for run in runs],
        [model(run).d_model for run in runs],
    )
    return ev.has_exponent(found, -1.0, "N − 1")


def falls_with_length(of: Evidence) -> Verdict:
    """The power of N that counts fall by, at all head counts and widths."""
    runs = rising(of.runs)
    found = ev.exponent(
        [task(run).seq_len for run in runs],
        [run.memorized_above_chance for run in runs],
        [(model(run).n_heads, model(run).d_model) for run in runs],
    )
    if found.high < 0:
        return Verdict(answer="agrees", measured=f"N to the {found}", reason="the 95 % interval is below 0")
    if found.low > 0:
        return Verdict(answer="differs", measured=f"N to the {found}", reason="counts rise with length")
    return cannot("the 95 % interval of the power holds 0", f"N to the {found}")


def heads_slow_the_decay(of: Evidence) -> Verdict:
    """The sign of log N · H in log counts: positive where more heads lose less with length (b < 0)."""
    runs = rising(of.runs)
    lengths = np.log([task(run).seq_len for run in runs])
    heads = np.array([model(run).n_heads for run in runs], float)
    found = ev.slopes(
        [lengths, (lengths - lengths.mean()) * heads],
        np.log([run.memorized_above_chance for run in runs]),
        [(model(run).n_heads, model(run).d_model) for run in runs],
    )[1]
    measured = f"{found} per head"
    if found.low > 0:
        return Verdict(answer="agrees", measured=measured, reason="more heads lose less with length")
    if found.high < 0:
        return Verdict(answer="differs", measured=measured, reason="more heads lose more with length")
    return cannot("the interval of the interaction of heads and log length holds 0", measured)


def _errors(of: Evidence, held_out: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Relative errors of ECM and polynomial on the same rows, and the polynomial's degree."""
    runs = [run for run in of.runs if run.above_chance]
    if not runs:
        raise Unjudged("nothing was recalled above chance")
    heads = np.array([model(run).n_heads for run in runs])
    held = heads == heads.max() if held_out else np.ones(len(runs), bool)
    known = ~held if held_out else held
    if not known.any():
        raise Unjudged("there is one head count only")
    degree = max((k for k in range(1, 6) if 2 * comb(k + 3, 3) <= known.sum()), default=None)
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


def beats_polynomial(of: Evidence) -> Verdict:
    """ECM against the polynomial in sample."""
    ecm, polynomial, degree = _errors(of, held_out=False)
    return ev.paired_smaller(ecm, polynomial, "the ECM's error", f"that of a polynomial of degree {degree}")


def beats_polynomial_held_out(of: Evidence) -> Verdict:
    """ECM against the polynomial on the largest head count, which neither saw."""
    ecm, polynomial, degree = _errors(of, held_out=True)
    return ev.paired_smaller(ecm, polynomial, "the ECM's error", f"that of a polynomial of degree {degree}")


def within_half(of: Evidence) -> Verdict:
    """The ECM's relative error in sample against the published one, read as a fraction."""
    published = data("harma2024")["mape"]["ecm"]
    found = ev.mean(_errors(of, held_out=False)[0])
    if found.value <= published:
        return Verdict(answer="agrees", measured=str(found), reason=f"no larger than {published}")
    if found.low > published:
        return Verdict(answer="differs", measured=str(found), reason=f"its 95 % interval is above {published}")
    return cannot(f"larger than {published}, but its 95 % interval reaches it", str(found))


# Other studies


def by_width(runs: Sequence[Measurement]) -> dict[int, list[Measurement]]:
    """Runs of each width, rising."""
    found = defaultdict(list)
    for run in runs:
        found[model(run).d_model].append(run)
    return dict(sorted(found.items()))


def _ffn(of: Evidence, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts with the FFN as the identity, and with it trained, at one width."""
    runs = by_width(of.runs)[width]
    kinds = {kind: [counts(run) for run in runs if model(run).ffn == kind] for kind in ("identity", "mlp")}
    if not all(kinds.values()):
        raise Unjudged(f"width {width} lacks the FFN that is trained, or the one that is not")
    return np.concatenate(kinds["identity"]), np.concatenate(kinds["mlp"])


def ffn_alike(of: Evidence) -> Verdict:
    """At the smallest width: no more apart than a fifth of the counts."""
    width = min(by_width(of.runs))
    identity, trained = _ffn(of, width)
    gap, allowed = ev.difference(identity, trained), 0.2 * float(np.mean(trained))
    measured = f"width {width}: {identity.mean():.4g} frozen, {trained.mean():.4g} trained; difference {gap}"
    if max(abs(gap.low), abs(gap.high)) <= allowed:
        return Verdict(answer="agrees", measured=measured, reason="no more apart than a fifth (Welch's interval)")
    if min(abs(gap.low), abs(gap.high)) > allowed and gap.low * gap.high > 0:
        return Verdict(answer="differs", measured=measured, reason="further apart than a fifth (Welch's interval)")
    return cannot("Welch's 95 % interval holds both more and less than a fifth", measured)


def ffn_frozen_higher(of: Evidence) -> Verdict:
    """At the largest width, where that is large."""
    width = max(by_width(of.runs))
    identity, trained = _ffn(of, width)
    return _at_large(width, ev.larger(identity, trained, f"the identity at width {width}", "the trained FFN"))


def _at_large(width: int, found: Verdict) -> Verdict:
    """A verdict on large widths, which smaller ones cannot give."""
    if width >= LARGE:
        return found
    return cannot(f"a width of {width} is not large; there {found.reason}", found.measured)


def mac_is_mls_and_guesses(of: Evidence) -> Verdict:
    """Whether the count above chance is in the interval of the largest library, at each width."""
    out = []
    widths = _mls_and_mac(of)
    for width, (low, high, mac) in widths.items():
        if not low <= mac <= high:
            out.append(f"width {width}: {mac:.3g} against {low:.3g} to {high:.3g}")
    measured = "; ".join(f"width {w}: {mac:.3g}, MLS {low:.3g} to {high:.3g}" for w, (low, high, mac) in widths.items())
    return ev.exactly(
        not out, measured, f"MAC above chance in the 95 % interval of MLS at {len(widths) - len(out)} of {len(widths)}"
    )


def mac_below_mls(of: Evidence) -> Verdict:
    """At the largest width: the range of MAC's best count, less chance, against MLS's interval."""
    widths = _mls_and_mac(of)
    width = max(widths)
    low, high, mac = widths[width]
    measured = f"width {width}: {mac:.3g} above chance, MLS {low:.3g} to {high:.3g}"
    if mac < low:
        found = Verdict(answer="agrees", measured=measured, reason="MAC is below MLS's 95 % interval")
    elif mac > high:
        found = Verdict(answer="differs", measured=measured, reason="MAC is above MLS's 95 % interval")
    else:
        found = cannot("MAC is inside MLS's 95 % interval", measured)
    return _at_large(width, found)


def _mls_and_mac(of: Evidence) -> dict[int, tuple[float, float, float]]:
    """Per width the ends of MLS's interval and MAC's count above chance."""
    found = {}
    for width, runs in by_width(of.runs).items():
        searched = [run.interval for run in runs if isinstance(run.spec.protocol, Mls)]
        counted = [run.memorized_above_chance for run in runs if not isinstance(run.spec.protocol, Mls)]
        if searched and counted and searched[0] is not None and searched[0].high is not None:
            found[width] = (searched[0].low, searched[0].high, counted[0])
    if not found:
        raise Unjudged("no width has both MAC and an MLS whose interval has two ends")
    return found


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
    measured = f"r {fit.r}, p {fit.p:.3g}; largest distance {fit.distance:.3f}, p-value {p:.2g}"
    told = f"{len(epochs)} trials that completed, {FITS} simulated studies"
    if p > ev.SIGNIFICANT:
        return Verdict(answer="agrees", measured=measured, reason=f"not rejected at 5 % ({told})")
    return Verdict(answer="differs", measured=measured, reason=f"rejected at 5 % ({told})")


def _batches(of: Evidence) -> dict[int, np.ndarray]:
    """Counts per restart, by batch size, over the lengths: each relative to its length's mean."""
    cut = sum(run.stop_reason == "budget" for run in of.runs)
    if cut:
        raise Unjudged(f"{cut} of {len(of.runs)} trainings ended at a budget, of which small batches make more steps")
    lengths = defaultdict(list)
    for run in of.runs:
        lengths[task(run).seq_len].append(run)
    found: dict[int, list[np.ndarray]] = defaultdict(list)
    for runs in lengths.values():
        level = float(np.mean(np.concatenate([counts(run) for run in runs])))
        for run in runs:
            found[run.spec.training.batch_size].append(counts(run) / level)
    if len(found) < 2:
        raise Unjudged("there is one batch size only")
    return {size: np.concatenate(found[size]) for size in sorted(found)}


def small_batches_lower(of: Evidence) -> Verdict:
    """The smallest batch against the second largest, which is 512 where the library is large enough."""
    batches = _batches(of)
    sizes = list(batches)
    return ev.larger(
        batches[sizes[-2]], batches[sizes[0]], f"the count at batch {sizes[-2]}", f"that at batch {sizes[0]}"
    )


def flat_beyond(of: Evidence) -> Verdict:
    """The largest batch against the second largest: no more apart than a tenth."""
    batches = _batches(of)
    sizes = list(batches)
    gap = ev.difference(batches[sizes[-1]], batches[sizes[-2]])
    measured = f"batch {sizes[-1]} minus {sizes[-2]}: {gap} of the mean count"
    if max(abs(gap.low), abs(gap.high)) <= 0.1:
        return Verdict(answer="agrees", measured=measured, reason="no more apart than a tenth (Welch's interval)")
    if gap.low > 0.1 or gap.high < -0.1:
        return Verdict(answer="differs", measured=measured, reason="further apart than a tenth (Welch's interval)")
    return cannot("Welch's 95 % interval holds both more and less than a tenth", measured)


def heads_hold_more(of: Evidence) -> Verdict:
    """Four heads against two, at about the same number of coefficients."""
    two, four = (
        np.concatenate([counts(run) for run in of.runs if model(run).n_heads == heads] or [np.empty(0)])
        for heads in (2, 4)
    )
    found = ev.larger(four, two, "the count of four heads", "that of two with as many coefficients")
    if of.scale == "paper":
        return found
    size = of.runs[0].parameters.trainable
    return cannot(f"two million coefficients are claimed for; at about {size}, {found.reason}", found.measured)
