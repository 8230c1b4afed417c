"""What one run found, in a few words and numbers, by whatever its protocol counts."""

from __future__ import annotations

from typing import NamedTuple

from capax.results import CapacityEstimate, Interval, KeyDimensionSearch, Measurement, Search, ShatterEpochs

ENDS = {
    "complete": "whole library",
    "plateau": "on a plateau",
    "converged": "after a cycle that added too little",
    "budget": "at the budget",
    "diverged": "diverged",
}
"""How the training that counts ended, for a count."""
PRECISE = "as precise as asked"
SEARCHED = {
    "precise": PRECISE,
    "budget": "at the budget of trainings",
    "all_succeeded": "every size whole: at least this",
    "all_failed": "no size whole",
}
LUCK = "not significantly above chance"


class Found(NamedTuple):
    """What a run found.

    Attributes:
        rank: runs of one kind are compared by it; the largest is the best.
        text: the result.
        interval: of it; empty where there is none.
        standing: whether it converged, or how it ended.
    """

    rank: tuple[float, ...]
    text: str
    interval: str
    standing: str


def found(run: Measurement) -> Found:
    """What a run found."""
    if run.capacity is not None:
        return _bits(run.capacity)
    if run.key_search is not None:
        return _key_dimension(run.key_search)
    if run.shatter is not None:
        return _epochs(run, run.shatter)
    if isinstance(run.search, Search):
        return _largest(run, run.search)
    return _count(run)


def of_items(run: Measurement) -> str:
    """How many items were recalled of how many, as its task says it."""
    task = run.spec.task
    count = f"{run.memorized} of {run.library_size} {task.unit}"
    if task.metric in run.metrics:
        count += f", {task.metric.upper()} {run.metrics[task.metric]:.3g}"
    return count if task.share is None else f"{task.share} {_percent(run.memorized / run.library_size)} ({count})"


def density(run: Measurement, *, effective: bool) -> float | None:
    """Bits per effective or per trainable parameter: those held, or those of the items above chance."""
    held = run.capacity or run.unit("bits")
    if held is None:
        return None
    return held.per_effective_parameter if effective else held.per_trainable_parameter


def number(value: float) -> str:
    """To four digits, without an exponent."""
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"


def _bits(held: CapacityEstimate) -> Found:
    if held.extrapolated is None:
        return Found((0, held.bits), f"at least {number(held.bits)} bits", "", "not converged")
    return Found((1, held.extrapolated), f"{number(held.extrapolated)} bits", _range(held.interval), "converged")


def _key_dimension(search: KeyDimensionSearch) -> Found:
    if search.total_key_dim is None:
        return Found((0, 0), "no head size is enough", "", "none up to the width")
    text = f"D_K* {search.total_key_dim} ({search.n_heads} x {search.d_head})"
    standing = "built, not reached by training" if search.reached_by == "built" else "reached by training"
    return Found((1, -search.total_key_dim), text, _range(search.interval), standing)


def _largest(run: Measurement, search: Search) -> Found:
    text = f"{run.memorized} {run.spec.task.unit}, memorized whole"
    standing = _by_luck(run, SEARCHED[search.stop_reason])
    return Found((1, run.memorized), text, _range(run.interval), standing)


def _epochs(run: Measurement, trials: ShatterEpochs) -> Found:
    done, every = len(trials.epochs), len(trials.epochs) + len(trials.censored)
    median = "" if trials.median is None else f", after {trials.median:g} epochs (median)"
    text = f"{done} of {every} trials memorized {run.library_size} {run.spec.task.unit} whole{median}"
    low, high = trials.completed_share.low, trials.completed_share.high
    share = f"{_percent(low)} to {_percent(1.0 if high is None else high)} of trials"
    return Found((done / every, -(trials.median or 0)), text, share, f"{done} of {every} whole")


def _count(run: Measurement) -> Found:
    task, all_of_it = run.spec.task, ENDS["complete"]
    if run.recallable < run.library_size:
        all_of_it = "all that can be recalled"
    standing = _by_luck(run, all_of_it if run.whole else ENDS[run.stop_reason])
    # by bits, not by the share of a library: of a small one little is enough
    rank = (float(bool(run.above_chance)), run.metrics.get(task.metric, 0.0), run.bits, run.memorized)
    return Found(rank, of_items(run), _range(run.interval), standing)


def _by_luck(run: Measurement, ended: str) -> str:
    """How a run ended, and that its count may be luck."""
    return ended if run.above_chance else f"{ended}; {LUCK}"


def _percent(value: float) -> str:
    """A share in percent; all or nothing only where it is."""
    shown = f"{100 * value:.1f}"
    if 0 < value < 1 and shown in ("100.0", "0.0"):
        return "above 99.9 %" if value > 0.5 else "below 0.1 %"
    return f"{shown.removesuffix('.0')} %"


def _range(interval: Interval | None) -> str:
    return "" if interval is None else interval.ends(number)
