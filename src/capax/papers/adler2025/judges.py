"""How the claims of Adler 2025 are judged: by measurements, and by weights that are built."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np

from capax.papers import evidence as ev
from capax.papers.adler2025.cells import TARGET, counts_of, cut_short, items_of, load_of, width_of
from capax.papers.evidence import field
from capax.papers.recipe import Evidence, Unjudged, Verdict, agrees, cannot, differs
from capax.results import HeadCount, Measurement
from capax.text import counted

# of a claim that something is so somewhere: one place shows it, and only if none leaves it open it is not so
ANSWERS = ("agrees", "cannot be judged", "differs")


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
    by_steps = _by_steps(of)
    most, longest = by_steps.popitem()
    verdict = _one_head_against_several(longest)
    before = ""
    for steps, shorter in by_steps.items():
        with suppress(Unjudged):  # not all heads were trained for so long
            before += f"; after {steps} steps in place of {most} {_one_head_against_several(shorter).measured}"
    return verdict.model_copy(update={"reason": f"{verdict.reason}{cut_short(longest)}{before}"})


def _by_steps(of: Evidence) -> dict[int, Evidence]:
    """The trainings of each budget of steps, the largest last."""
    return {
        steps: replace(of, runs=tuple(run for run in of.runs if (run.spec.training.max_steps or 0) == steps))
        for steps in sorted({run.spec.training.max_steps or 0 for run in of.runs})
    }


def _one_head_against_several(of: Evidence) -> Verdict:
    """F1 of the best of several heads above that of one, whatever the budgets.

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
    """Whether several heads beat one by the threshold, and then with softmax and values and in a block, too.

    Of each channel's trainings those with the largest budget of steps count.
    """
    kinds = {kind: tuple(run for run in of.runs if field(run, "channel") == kind) for kind in CHANNELS}
    longest = {kind: _by_steps(replace(of, runs=runs)).popitem() for kind, runs in kinds.items()}
    found = {kind: _one_head_against_several(one) for kind, (_, one) in longest.items()}
    measured = "; ".join(
        f"{kind}, at most {longest[kind][0]} steps: {verdict.measured}" for kind, verdict in found.items()
    )
    cut = cut_short(replace(of, runs=tuple(run for _, one in longest.values() for run in one.runs)))
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


def one_head_suffices(of: Evidence) -> Verdict:
    """Cells of one item per channel: whether one head reaches .99, and with the least key dimension."""
    cells = [run for run in of.runs if items_of(run) == width_of(run)]
    if not cells:
        raise Unjudged("no cell has as many channels as items")
    measured = ", ".join(f"m = d = {width_of(run)}: {run.n_heads} x {run.d_head}" for run in cells)
    reason = "the head count of the least total key dimension, ties to fewer"
    return ev.exactly(all(run.n_heads == 1 for run in cells), measured, reason)


def _of_one_head(of: Evidence, above: Callable[[Measurement], bool], where: str) -> Verdict:
    """Whether in no such cell any training of one head, of any size up to the width, has an F1 of .99."""
    tried = [(run, count) for run in of.runs for count in counts_of(run) if count.n_heads == 1 and above(run)]
    if not tried:
        raise Unjudged(f"one head was tried in no cell {where}")
    measured = ", ".join(f"m {items_of(run)}, d {width_of(run)}: {_best(count)}" for run, count in tried)
    enough = sum(count.total_key_dim is not None for _, count in tried)
    can = sum(count.total_key_dim is not None or count.f1 >= TARGET for _, count in tried)
    had = {run.key for run, _ in tried}
    others = [f"m {items_of(run)}, d {width_of(run)}" for run in of.runs if above(run) and run.key not in had]
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
    cells = [run for run in of.runs if items_of(run) > width_of(run)]
    tried = {run.key: one for run in cells for one in counts_of(run) if one.n_heads == 1}
    if not tried:
        raise Unjudged("one head was tried in no cell where m > d")
    able = [run for run in cells if any(one.n_heads > 1 and one.total_key_dim is not None for one in counts_of(run))]
    if not able:
        raise Unjudged("several heads reach .99 in no cell where m > d")
    alone = [
        run for run in able if run.key in tried and tried[run.key].total_key_dim is None and tried[run.key].f1 < TARGET
    ]
    said = ", ".join(f"m {items_of(run)}, d {width_of(run)}: {tried[run.key].f1:.2f}" for run in alone)
    measured = f"best F1 of one head where several reach .99: {said}" if said else "in no cell"
    return ev.exactly(bool(alone), measured, f"so in {len(alone)} of {len(tried)} cells where m > d")


def one_head_fails(of: Evidence) -> Verdict:
    """Cells of more items than channels."""
    return _of_one_head(of, lambda run: items_of(run) > width_of(run), "where m > d")


def one_head_fails_beyond(of: Evidence) -> Verdict:
    """Cells whose load is above the width."""
    return _of_one_head(of, lambda run: load_of(run) > width_of(run), "where m' log2 m' > d²")
