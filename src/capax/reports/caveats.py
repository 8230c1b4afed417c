"""What must be known to read the counts of some runs, each line only where it applies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from capax.figures.words import of_runs
from capax.results import Measurement


def caveats(runs: Sequence[Measurement]) -> list[str]:
    """Sentences about counts, chance, intervals, and how the trainings of these runs ended."""
    return [
        "memorized is a raw count; chance is what guessing or one constant answer would recall, whichever is more. "
        "memorized_above_chance = (memorized − "
        "chance) / (1 − chance / library_size), so that a library that is recalled whole counts whole.",
        "bits are those of the items above chance, by what recalling one is worth against a guess; morris_bits and "
        "allen_zhu_bits come from the probabilities instead and may differ. per_parameter is per trainable parameter.",
        *_capacities(runs),
        *_intervals(runs),
        *_ends(runs),
        *(f"{of_runs(number)}: {note}" for note, number in _notes(runs).items()),
    ]


def _capacities(runs: Sequence[Measurement]) -> list[str]:
    found = [run.capacity for run in runs if run.capacity is not None]
    if not found:
        return []
    short = sum(one.extrapolated is None for one in found)
    return [
        "capacity_bits is what eight times as many steps would bring, with its interval from capacity_low to "
        "capacity_high; capacity_reached is the mean of the restarts at their ends, a lower bound. per_effective_"
        "parameter counts the two matrices of a product by the freedom of the product.",
        *([f"{of_runs(short)} did not converge: only capacity_reached is known."] if short else []),
    ]


def _intervals(runs: Sequence[Measurement]) -> list[str]:
    kinds = Counter(f"{run.interval.level:.0%} ranges: {run.interval.of}" for run in runs if run.interval is not None)
    lines = [f"Intervals of {of_runs(number)} are {kind}." for kind, number in kinds.items()]
    without = [run for run in runs if run.interval is None and run.spec.protocol.one_library]
    if lone := sum(len(run.memorized_per_restart) < 2 for run in without):
        lines.append(f"{of_runs(lone)} without an interval: one training says nothing of its spread.")
    if alike := len(without) - lone:
        lines.append(f"{of_runs(alike)} without an interval: all restarts begin with equal weights.")
    return lines


def _ends(runs: Sequence[Measurement]) -> list[str]:
    counted = [run for run in runs if run.spec.protocol.one_library]
    lines = []
    if whole := sum(run.whole for run in counted):
        lines.append(f"{of_runs(whole)} recalled all that can be recalled: the count is a lower bound of the capacity.")
    ends = Counter(run.stop_reason for run in counted)
    if ends["budget"]:
        lines.append(f"{of_runs(ends['budget'])} ended at the budget of the training: more steps might have held more.")
    if ends["diverged"]:
        lines.append(f"{of_runs(ends['diverged'])} diverged: the count is the best before that.")
    if unreachable := sum(bool(run.unreachable) for run in counted):
        lines.append(f"{of_runs(unreachable)} had targets that a frozen read-out can never put first.")
    return lines


def _notes(runs: Sequence[Measurement]) -> Counter[str]:
    return Counter(note for run in runs for note in run.notes)
