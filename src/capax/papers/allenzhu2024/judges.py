"""How the claims of Allen-Zhu and Li 2024 are judged: by the capacity ratio of runs on biographies."""

from __future__ import annotations

import math
from collections.abc import Iterable

from capax.papers.evidence import Estimate, above, exactly, field
from capax.papers.recipe import Evidence, Unjudged, Verdict, agrees, cannot, differs
from capax.results import Measurement
from capax.specs import Biographies
from capax.text import counted

MOST = 2.3
A_MILLION = 1_000_000
"""Parameters from which on the paper's statements are."""
PERFECT = 1.8
"""Bits a parameter that a library has at most to be known perfectly (R_max)."""
SHARE = 0.99
"""Of R_max that counts as all of it (ours)."""


def ratio(run: Measurement) -> Estimate:
    """R: bits of names and values that a network knows, per parameter.

    Raises:
        Unjudged: for a run whose outputs were no finite probabilities, and for a single training, which tells no
            interval.
    """
    found = run.unit("allen_zhu_bits")
    if found is None:
        raise Unjudged(f"run {run.key[:12]} ended without finite probabilities")
    if found.interval is None:
        raise Unjudged(f"run {run.key[:12]} is one training, which tells no interval: at least 2 restarts are needed")
    parameters, low, high = run.parameters.total, found.interval.low, found.interval.high
    return Estimate(found.amount / parameters, low / parameters, (found.amount if high is None else high) / parameters)


def most(run: Measurement) -> float:
    """R_max: what there is to be known, N log2(N0/N) + N log2 S0, per parameter.

    Raises:
        Unjudged: for a run on anything but biographies.
    """
    task = run.spec.task
    if not isinstance(task, Biographies):
        raise Unjudged(f"run {run.key[:12]} did not learn biographies")
    return run.library_size * (task.information_per_item() - math.log2(run.library_size)) / run.parameters.total


def _deep(run: Measurement) -> bool:
    """Whether the paper's statements are of such networks: of two layers and more."""
    return bool(field(run, "n_layers") > 1)


def _chosen(of: Evidence, exposures: int, optimizer: str, deep: bool = True) -> list[Measurement]:
    """The runs of so many exposures by an optimizer, of several layers or of one.

    Raises:
        Unjudged: where there are none.
    """
    runs = [
        run
        for run in of.runs
        if (run.spec.training.optimizer, run.spec.training.max_epochs, _deep(run)) == (optimizer, exposures, deep)
    ]
    if not runs:
        layers = "two layers and more" if deep else "one layer"
        raise Unjudged(f"no run of {exposures} exposures by {optimizer}, of {layers}")
    return runs


def _large(runs: Iterable[Measurement]) -> list[Measurement]:
    """Those of which the paper speaks: of two layers and a million parameters and more."""
    return [run for run in runs if _deep(run) and run.parameters.total >= A_MILLION]


def _too_small(measured: str) -> Verdict:
    return cannot(f"the claim is of {A_MILLION:,} parameters and more", measured)


def _networks(runs: Iterable[Measurement]) -> dict[tuple[int, int], list[Measurement]]:
    """The runs of each network, by layers and width."""
    networks: dict[tuple[int, int], list[Measurement]] = {}
    for run in runs:
        networks.setdefault((field(run, "n_layers"), field(run, "d_model")), []).append(run)
    return networks


def _reaches(runs: Iterable[Measurement], least: float) -> Verdict:
    """Whether the peak of every network is at least so high."""
    networks = _networks(runs)
    peaks = {at: max(members, key=lambda run: ratio(run).value) for at, members in networks.items()}
    found = {at: ratio(run) for at, run in peaks.items()}
    measured = ", ".join(f"{found[at]} {_size(run)}" for at, run in peaks.items())
    if all(one.low >= least for one in found.values()):
        return agrees(f"the peak of every network is at least {least:g} (interval over restarts)", measured)
    below = [at for at, members in networks.items() if all(ratio(run).high < least for run in members)]
    if any(max(map(most, networks[at])) >= least for at in below):
        return differs(f"the peak of a network is below {least:g} (interval over restarts)", measured)
    if below:
        return cannot(f"no library of a network below has {least:g} bits a parameter", measured)
    return cannot(f"the interval of a peak holds {least:g}", measured)


def _size(run: Measurement) -> str:
    return f"of {run.parameters.total} parameters, {counted(field(run, 'n_layers'), 'layer')}"


def _by_adam(of: Evidence, exposures: int, least: float) -> Verdict:
    chosen = _chosen(of, exposures, "adam")
    if not _large(chosen):
        peak = max(chosen, key=lambda run: ratio(run).value)
        return _too_small(f"{ratio(peak)} {_size(peak)}")
    return _reaches(_large(chosen), least)


def two_bits(of: Evidence) -> Verdict:
    """1000 exposures."""
    return _by_adam(of, 1000, 2.0)


def one_bit(of: Evidence) -> Verdict:
    """100 exposures."""
    return _by_adam(of, 100, 1.0)


def two_bits_by_soap(of: Evidence) -> Verdict:
    """1000 exposures by SOAP, of networks of any size."""
    return _reaches(_chosen(of, 1000, "soap"), 2.0)


def one_bit_by_soap(of: Evidence) -> Verdict:
    """100 exposures by SOAP, of networks of any size."""
    return _reaches(_chosen(of, 100, "soap"), 1.0)


def two_bits_in_one_layer(of: Evidence) -> Verdict:
    """1000 exposures of one layer, of which the paper does not speak."""
    return _reaches(_chosen(of, 1000, "soap", deep=False), 2.0)


def never_above(of: Evidence) -> Verdict:
    """The largest ratio of all runs of two layers and more."""
    deep = [run for run in of.runs if _deep(run)]
    if not deep:
        raise Unjudged("no run of two layers and more")
    ratios = [ratio(run) for run in _large(deep) or deep]
    measured = f"at most {max(ratios, key=lambda one: one.value)}, {counted(len(ratios), 'run')}"
    if not _large(deep):
        return _too_small(measured)
    if all(one.high <= MOST for one in ratios):
        return agrees(f"no run is above {MOST} (intervals over restarts)", measured)
    if any(one.low > MOST for one in ratios):
        return differs(f"a run is above {MOST} (interval over restarts)", measured)
    return cannot(f"the interval of a run over its restarts holds {MOST}", measured)


def known_perfectly(of: Evidence) -> Verdict:
    """The share that is known of every library that has few enough bits."""
    runs = _of_few_bits(of)
    return _known(_large(runs)) if _large(runs) else _too_small(_least_known(runs)[1])


def known_perfectly_by_few(of: Evidence) -> Verdict:
    """The same of networks of any size."""
    return _known(_of_few_bits(of))


def _of_few_bits(of: Evidence) -> list[Measurement]:
    runs = [run for run in _chosen(of, 1000, "soap") if most(run) <= PERFECT]
    if not runs:
        raise Unjudged(f"no library has at most {PERFECT} bits a parameter")
    return runs


def _least_known(runs: list[Measurement]) -> tuple[Estimate, str]:
    """The least share of what there is to be known, with its interval over restarts, and it in words."""
    worst = min(runs, key=lambda run: ratio(run).value / most(run))
    found, every = ratio(worst), most(worst)
    share = Estimate(found.value / every, found.low / every, found.high / every)
    return share, f"{share} of {every:.3g} bits a parameter, the least of {counted(len(runs), 'run')}"


def _known(runs: list[Measurement]) -> Verdict:
    share, measured = _least_known(runs)
    return above(
        share,
        measured,
        f"at least {SHARE:.0%} (ours) of each is known",
        f"less than {SHARE:.0%} (ours) of one is known",
        f"the interval over restarts holds {SHARE:.0%} (ours)",
        at=SHARE,
    )


def bits_of_a_person(of: Evidence) -> Verdict:
    """Log2 of 2 · 12 · 28 · 200 · 200 · 300 · 100 · 263, from the task."""
    bits = Biographies().bits_per_item()
    return exactly(round(bits, 1) == 47.6, f"{bits:.2f}", "2 · (12 · 28 · 200) · 200 · 300 · 100 · 263 values")
