"""How claims of Härmä et al. 2024 on single choices are judged: FFN, MLS and MAC, shatter, batch size, heads."""

from __future__ import annotations

import numpy as np
from scipy import stats

from capax.papers import evidence as ev
from capax.papers.evidence import field
from capax.papers.harma2024.runs import above_chance, by_width, counts, grouped, not_full, on_plateaus
from capax.papers.recipe import Evidence, Unjudged, Verdict, agrees, cannot, differs
from capax.protocols.shatter import distance_of_fit, fit_negative_binomial
from capax.results import LEVEL, Measurement
from capax.text import counted, listed

# width from which we take the paper's "large" to begin (ours: its widths are not known, but reach hundreds)
LARGE = 128
# simulated studies behind the p-value of a goodness of fit: more where fewer do not tell whether it is below 5 %
FITS = (499, 1999, 7999)
# completed trials below which nothing is fitted to them
FEWEST = 20
# completed trials from which on a fit that is not rejected is kept (ours): of 300 trials that reject one at p .004,
# 40 drawn at random do so in 15 % of draws, 100 in half, 200 in 80 %
TELLING = 200
# share of trials that may have been cut off by a budget: a truncated distribution is no negative binomial
CUT_OFF = 0.01
# share by which two counts that are "the same" may differ (ours)
ALIKE = 0.25


# both of what "the identity operation" may mean: a block that adds what it reads, or none
IDENTITIES = {"identity": "x + norm(x)", "none": "no FFN"}


def _ffn(of: Evidence, width: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each reading of the identity, counts with it and with a trained FFN, at one width."""
    on_plateaus(of.runs)
    kinds = grouped(by_width(of.runs)[width], lambda run: field(run, "ffn"))
    if "mlp" not in kinds or len(kinds) < 2:
        raise Unjudged(f"width {width} lacks the FFN that is trained, or one that is not")
    return {name: (counts(kinds[kind]), counts(kinds["mlp"])) for kind, name in IDENTITIES.items() if kind in kinds}


def ffn_alike(of: Evidence) -> Verdict:
    """At the smallest width: no more apart than a fifth of the counts."""
    width = min(by_width(of.runs))

    def verdict(identity: np.ndarray, trained: np.ndarray) -> Verdict:
        gap = ev.difference(identity, trained, unit=1)
        measured = f"width {width}: {identity.mean():.4g} frozen, {trained.mean():.4g} trained; difference {gap}"
        found = ev.alike(gap, 0.2 * float(np.mean(trained)), measured, "fifth")
        if found.answer == "agrees":
            not_full(by_width(of.runs)[width])
        return found

    return ev.whatever("what the identity is", {name: verdict(*both) for name, both in _ffn(of, width).items()})


def ffn_frozen_higher(of: Evidence) -> Verdict:
    """At the largest width, where that is large."""
    width = max(by_width(of.runs))

    def verdict(identity: np.ndarray, trained: np.ndarray) -> Verdict:
        return _at_large(
            width, ev.larger(identity, trained, f"the identity at width {width}", "the trained FFN", unit=1)
        )

    return ev.whatever("what the identity is", {name: verdict(*both) for name, both in _ffn(of, width).items()})


def _at_large(width: int, verdict: Verdict) -> Verdict:
    """A verdict on large widths, which smaller ones cannot give."""
    if width >= LARGE:
        return verdict
    return cannot(f"a width of {width} is not large; there {verdict.reason}", verdict.measured)


def mac_is_mls_and_guesses(of: Evidence) -> Verdict:
    """A single training's count less M/T, on the mean, against the size that half of single trainings complete."""
    widths = _mls_and_mac(of)
    apart = [
        width
        for width, (low, high, mac) in widths.items()
        if max(low - mac.high, mac.low - high) > ALIKE * (low + high) / 2
    ]
    close = [
        width
        for width, (low, high, mac) in widths.items()
        if max(abs(mac.low - high), abs(mac.high - low)) <= ALIKE * (low + high) / 2
    ]
    measured = "; ".join(
        f"width {w}: {mac} less M/T, MLS {low:.3g} to {high:.3g}" for w, (low, high, mac) in widths.items()
    )
    if apart:
        return differs(f"more than {ALIKE:.0%} apart at width {listed(apart)} (both intervals)", measured)
    if len(close) == len(widths):
        return agrees(f"no more apart than {ALIKE:.0%} at every width (both intervals)", measured)
    return cannot(f"the intervals allow both less and more than {ALIKE:.0%} between them", measured)


def mac_below_mls(of: Evidence) -> Verdict:
    """At the largest width: a single training's count less M/T, on the mean, against MLS's interval."""
    widths = _mls_and_mac(of)
    width = max(widths)
    low, high, mac = widths[width]
    measured = f"width {width}: {mac} less M/T, MLS {low:.3g} to {high:.3g}"
    if mac.low <= high and mac.high >= low:
        return _at_large(width, cannot("the intervals meet", measured))
    side = "below" if mac.high < low else "above"
    return _at_large(width, ev.exactly(mac.high < low, measured, f"a training's count is {side} MLS's 95 % interval"))


def _mls_and_mac(of: Evidence) -> dict[int, tuple[float, float, ev.Estimate]]:
    """Per width the ends of MLS's interval, and the mean of single trainings' counts less the guesses M/T.

    MLS is the size that half of single trainings complete, so that the best of several restarts is not its like. Where
    the frozen read-out cannot give some targets no library with one of them is ever whole: such widths are left out.
    """
    widths = {}
    for width, runs in by_width(of.runs).items():
        protocols = {run.spec.protocol.protocol: run for run in runs}
        if {"mls", "mac"} <= set(protocols) and not protocols["mac"].unreachable:
            interval = protocols["mls"].interval
            if interval is not None and interval.high is not None:
                mac = protocols["mac"]
                guesses = mac.library_size / field(mac, "vocab_size")
                widths[width] = (interval.low, interval.high, ev.mean(np.array(mac.memorized_per_restart) - guesses))
    if not widths:
        raise Unjudged("no width has MAC, an MLS whose interval has two ends, and targets that are all within reach")
    return widths


def negative_binomial(of: Evidence) -> Verdict:
    """Whether completed trials are a negative binomial, for every vocabulary, loss and network that we tried."""
    trials = {_reading(run): run for run in of.runs if run.shatter is not None and len(run.shatter.epochs) >= FEWEST}
    if not trials:
        raise Unjudged(f"fewer than {FEWEST} trials completed")
    for name, run in trials.items():
        assert run.shatter is not None
        cut, every = len(run.shatter.censored), len(run.shatter.censored) + len(run.shatter.epochs)
        if cut > CUT_OFF * every:
            raise Unjudged(f"{cut} of {every} trials of {name} were ended by a budget: what is left is truncated")
    found = {name: _distance_p(run) for name, run in trials.items()}
    measured = "; ".join(f"{name}: p-value {p}" for name, p in found.items())
    rejected = [name for name, p in found.items() if p.high <= ev.SIGNIFICANT]
    few = [name for name, run in trials.items() if run.shatter is not None and len(run.shatter.epochs) < TELLING]
    kept = [name for name, p in found.items() if p.low > ev.SIGNIFICANT and name not in few]
    weak = [name for name, p in found.items() if p.low > ev.SIGNIFICANT and name in few]
    how = f"at 5 %, by the distance of the fit in up to {FITS[-1]} simulated studies (95 % interval of the p-value)"
    if max(len(rejected), len(kept)) == len(found):
        return ev.exactly(not rejected, measured, f"{'rejected' if rejected else 'not rejected'} {how}")
    readings = f"of {len(found)} readings"
    said = "; ".join(f"{one} with {len(names)}" for one, names in (("rejected", rejected), ("kept", kept)) if names)
    said = f"{readings} {said}" if said else ""
    if rejected and kept:
        return cannot(f"depends on what is not known: {said}; {how}", measured)
    if weak:
        weakly = f"not rejected with {len(weak)}, by fewer than {TELLING} trials (ours)"
        said = f"{said}; {weakly}" if said else weakly
    return cannot(f"{said or 'neither rejected nor kept'}: not decided; {how}", measured)


def _reading(run: Measurement) -> str:
    """Of what is not known of the paper, the choice of a run."""
    heads, layers = field(run, "n_heads"), field(run, "n_layers")
    deeper = "" if (heads, layers) == (1, 1) else f", {counted(heads, 'head')} in {counted(layers, 'layer')}"
    return f"{field(run, 'vocab_size')} tokens, loss {field(run, 'loss')}{deeper}"


def _distance_p(run: Measurement) -> ev.Estimate:
    """How often trials drawn from the fitted distribution are as far from their own fit (parametric bootstrap)."""
    assert run.shatter is not None
    epochs = np.array(run.shatter.epochs)
    fit = fit_negative_binomial(epochs)
    generator = np.random.default_rng(0)
    further, done = 0, 0
    for most in FITS:
        for _ in range(done, most):
            drawn = generator.negative_binomial(fit.r, fit.p, len(epochs)) + fit.r
            further += distance_of_fit(drawn) >= fit.distance
        done = most
        interval = stats.binomtest(further, done).proportion_ci(LEVEL)
        if not interval.low <= ev.SIGNIFICANT <= interval.high:
            break
    return ev.Estimate((further + 1) / (done + 1), interval.low, interval.high)


EQUAL, CONVERGED = "after equal steps", "with patience in steps"
LENGTH_AND_END = "the length, and on when a training ends"


def _batches(of: Evidence) -> dict[str, dict[int, np.ndarray]]:
    """Counts per restart, by batch size, for each length and end of training: each relative to the mean of these.

    Patience in epochs would give small batches many times the steps of large ones. Lengths of which nothing is recalled
    above chance are left out; lengths are not put together, for where little is recalled relative counts vary much.
    """
    lengths = len({field(run, "seq_len") for run in above_chance(of)})
    found: dict[str, dict[int, np.ndarray]] = {}
    for (kind, length), some in grouped(of.runs, _end_and_length).items():
        if kind == CONVERGED:
            on_plateaus(some)
        if not any(run.above_chance for run in some):
            continue
        batches = grouped(some, lambda run: run.spec.training.batch_size)
        if len(batches) < 2:
            raise Unjudged("there is one batch size only")
        level = float(np.mean(counts(some)))
        name = f"{kind}, {length} tokens" if lengths > 1 else kind
        found[name] = {size: counts(runs) / level for size, runs in batches.items()}
    return found


def _end_and_length(run: Measurement) -> tuple[str, int]:
    return EQUAL if run.spec.training.patience is None else CONVERGED, field(run, "seq_len")


def small_batches_lower(of: Evidence) -> Verdict:
    """The smallest batch against the second largest, which is 512 where the library is large enough."""

    def verdict(batches: dict[int, np.ndarray]) -> Verdict:
        sizes = list(batches)
        if len(sizes) < 3:
            raise Unjudged("there are fewer than three batch sizes")
        small, large = sizes[0], sizes[-2]
        return ev.larger(batches[large], batches[small], f"the count at batch {large}", f"that at batch {small}")

    return ev.whatever(LENGTH_AND_END, {name: verdict(batches) for name, batches in _batches(of).items()})


def flat_beyond(of: Evidence) -> Verdict:
    """The largest batch against the second largest: no more apart than a tenth."""

    def verdict(batches: dict[int, np.ndarray]) -> Verdict:
        *_, second, largest = batches
        gap = ev.difference(batches[largest], batches[second])
        found = ev.alike(gap, 0.1, f"batch {largest} minus {second}: {gap} of the mean count", "tenth")
        if found.answer == "agrees":
            not_full(run for run in of.runs if run.spec.training.batch_size in (second, largest))
        return found

    return ev.whatever(LENGTH_AND_END, {name: verdict(batches) for name, batches in _batches(of).items()})


def heads_hold_more(of: Evidence) -> Verdict:
    """Four heads against two, at about the same number of coefficients."""
    two, four = (counts(run for run in of.runs if field(run, "n_heads") == heads) for heads in (2, 4))
    verdict = ev.larger(four, two, "the count of four heads", "that of two with as many coefficients", unit=1)
    if of.scale == "paper":
        return verdict
    size, cut = of.runs[0].parameters.trainable, any(run.stop_reason == "budget" for run in of.runs)
    there = f"at about {size}{', after trainings that ended at a budget' if cut else ''}, {verdict.reason}"
    return cannot(f"two million coefficients are claimed for; {there}", verdict.measured)
