"""What is not known of Härmä et al. 2024, crossed: which vocabulary, loss, stop rule and positions make it hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from capax.papers import evidence as ev
from capax.papers.evidence import field
from capax.papers.harma2024 import grid, judges
from capax.papers.harma2024.runs import full
from capax.papers.recipe import Claim, Evidence, Judge, Unjudged, Verdict, agrees, cannot, differs
from capax.results import Measurement
from capax.specs import Mac, Mls, Shatter

# mean share by which counts may differ and still be called as many (ours)
ALIKE = 0.1


class Combination(NamedTuple):
    """One reading of what is not known; the stop rule as evaluations without improvement, after 32 steps each."""

    loss: str
    vocab_size: int
    patience: int | None
    positions: str

    def __str__(self) -> str:
        return f"loss {self.loss}, {self.vocab_size} tokens, patience {self.patience}, {self.positions} positions"


def _in_grid(run: Measurement) -> bool:
    return isinstance(run.spec.protocol, Mac) and run.spec.protocol.restarts == 1


def _of_ffn(run: Measurement) -> bool:
    return bool(field(run, "n_layers") == 2)


def _of_shatter(run: Measurement) -> bool:
    return isinstance(run.spec.protocol, Shatter)


def _of_mls(run: Measurement) -> bool:
    return isinstance(run.spec.protocol, Mls) or not (_in_grid(run) or _of_ffn(run) or _of_shatter(run))


CLAIMS: Mapping[str, tuple[Judge, Callable[[Measurement], bool]]] = {
    "2: the FFN does not matter at small widths": (judges.ffn_alike, _of_ffn),
    "4: MAC is MLS and guesses": (judges.mac_is_mls_and_guesses, _of_mls),
    "5: negative binomial": (judges.negative_binomial, _of_shatter),
    "7: linear in width": (grid.linear_in_width, _in_grid),
    "9: slopes fall with length": (grid.falls_with_length, _in_grid),
    "9: with more heads less": (grid.heads_slow_the_decay, _in_grid),
    "eq. 12: small networks are efficient": (grid.small_are_efficient, _in_grid),
    "eq. 12: heads are cheaper than width": (grid.heads_are_cheaper, _in_grid),
}
"""What the paper says, by figure: how it is judged, and by which runs."""


def table(runs: Iterable[Measurement]) -> dict[Combination, dict[str, Verdict]]:
    """The verdict on each claim for each combination, by the runs that are there.

    A trial until a library is whole has no stop rule: it counts for every patience.
    """
    every = tuple(runs)
    judged: dict[tuple[str, ...], Verdict] = {}  # trials are those of every patience: they are judged once
    found: dict[Combination, dict[str, Verdict]] = {}
    for combination in sorted({_combination(run) for run in every if not _of_shatter(run)}):
        own = [run for run in every if _combination(run, combination.patience) == combination]
        found[combination] = {}
        for name, (judge, of) in CLAIMS.items():
            chosen = tuple(run for run in own if of(run))
            key = (name, *(run.key for run in chosen))
            if key not in judged:
                claim = Claim(says=name, standing="ours", judge=judge, scaled=False)
                judged[key] = claim.verdict(Evidence(chosen, "small"), missing=not chosen)
            found[combination][name] = judged[key]
    return found


def _combination(run: Measurement, patience: int | None = None) -> Combination:
    """That of a run; of a trial with the patience that is given."""
    own = patience if _of_shatter(run) else run.spec.training.patience
    return Combination(field(run, "loss"), field(run, "vocab_size"), own, field(run, "positions"))


def most_hold(of: Evidence) -> Verdict:
    """Whether more than half of the claims hold together in some combination; at most half in all, nowhere.

    A claim that no combination can judge holds nowhere, whatever the paper did: the verdict says how many can be.
    """
    found = table(of.runs)
    if not found:
        raise Unjudged("no run of the crossed study is there")

    def count(verdicts: Mapping[str, Verdict], *answers: str) -> int:
        return sum(verdict.answer in answers for verdict in verdicts.values())

    half = len(CLAIMS) / 2
    told = [name for name in CLAIMS if any(verdicts[name].answer != "cannot be judged" for verdicts in found.values())]
    judged = f"{len(told)} of {len(CLAIMS)} claims can be judged in any combination"
    best = max(found, key=lambda one: count(found[one], "agrees"))
    held = [name for name, verdict in found[best].items() if verdict.answer == "agrees"]
    ties = sum(count(verdicts, "agrees") == len(held) for verdicts in found.values())
    measured = (
        f"at most {len(held)} hold, in {ties} of {len(found)} combinations; {judged}: {'; '.join(told) or 'none'}"
    )
    if held:
        measured += f"; first: {best} ({'; '.join(held)})"
    if len(held) > half:
        return agrees("more than half of the claims hold together in some combination", measured)
    if all(count(verdicts, "agrees", "cannot be judged") <= half for verdicts in found.values()):
        return differs("in no combination more than half of the claims can hold", measured)
    return cannot("too few claims can be judged at these sizes; in no combination do more than half hold", measured)


def positions_alike(of: Evidence) -> Verdict:
    """Counts of networks with frozen positions, of those of the same with trained ones (paired, on a log scale).

    For each length. Pairs that differ in their stop rule alone are one.
    """
    runs = {run.key: run for run in of.runs if _in_grid(run)}
    ratios: dict[int, dict[str, list[float]]] = {}
    for run in runs.values():
        if field(run, "positions") != "frozen":
            continue
        spec = run.spec
        other = runs.get(spec.replace(model=spec.model.replace(positions="trained")).key())
        if other is not None and all(one.above_chance and not full(one) for one in (run, other)):
            network = spec.replace(training=spec.training.replace(patience=None)).key()
            ratio = np.log(run.memorized_above_chance / other.memorized_above_chance)
            ratios.setdefault(field(run, "seq_len"), {}).setdefault(network, []).append(ratio)
    networks = {length: [float(np.mean(each)) for each in found.values()] for length, found in sorted(ratios.items())}
    by_length = {length: each for length, each in networks.items() if len(each) > 1}
    if not by_length:
        raise Unjudged("fewer than 2 networks of a length whose counts are above chance and set by no library")
    return ev.whatever("the length", {f"{length} tokens": _alike(each) for length, each in by_length.items()})


def _alike(ratios: Sequence[float]) -> Verdict:
    """Whether counts are as many, by the logarithms of their ratios."""
    mean = ev.mean(ratios)
    ratio = ev.Estimate(*(float(np.exp(end)) for end in (mean.value, mean.low, mean.high)))
    measured = f"{ratio} of the count with trained ones, geometric mean of {len(ratios)} networks"
    if ratio.low >= 1 - ALIKE and ratio.high <= 1 / (1 - ALIKE):
        return agrees("the 95 % interval is within a tenth", measured)
    if ratio.high < 1 - ALIKE or ratio.low > 1 / (1 - ALIKE):
        return differs("the 95 % interval is beyond a tenth", measured)
    return cannot("the 95 % interval holds both less and more than a tenth", measured)
