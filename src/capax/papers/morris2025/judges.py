"""How the claims of Morris et al. 2025 on random tokens are judged: by capacities, their intervals and their trends."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from capax.literature import stated_by
from capax.papers import evidence as ev
from capax.papers.evidence import Density, Estimate, field
from capax.papers.recipe import Evidence, Unjudged, Verdict, agrees, cannot, differs
from capax.results import Measurement
from capax.specs import Sequences, Transformer
from capax.store import published, tables
from capax.text import counted

WIDEST = 1.0
"""Bits a parameter: an interval that is wider agrees with anything (ours)."""
SCATTER = 0.067
"""Mean error of one density for all of the paper's rows in float32 (computed from them): how near a row can be met."""
FEWER = 0.01
"""Share of parameters that ours may lack, as they have fewer biases."""
STATED = stated_by("morris2025")["stated"]
MEAN, MEAN_ERROR = STATED["bits_per_parameter"]["float32"], STATED["error"]
"""The paper's mean in float32, with the ± 0.1 that it states."""
DEPTH_COST = 0.1
"""Of an exponent of depth at equal parameters: the rows' own is −0.01 ± 0.034 in float32 (computed)."""
PLATEAU = 0.1
NEARLY_ALL = 0.99
"""Share of what can be known that counts as all of it (ours)."""
SHORT = "but after a fraction of the paper's million steps: a lower bound"
"""Why what holds less at scales of ours does not contradict the paper."""


@cache
def rows() -> dict[tuple[int, int], tuple[int, float]]:
    """The paper's networks by layers and width: parameters, and bits each of them holds in float32."""
    table = tables.where(published.table("published:morris2025"), ["precision=float32"])
    return {
        (row["n_layers"], row["d_model"]): (row["total_parameters"], row["bits_per_parameter"])
        for row in table.iter_rows(named=True)
    }


def density(run: Measurement) -> Density:
    """Bits that a run holds for each of all its parameters."""
    return ev.density(run, run.parameters.total)


def held(run: Measurement) -> float:
    """Bits that a run holds: extrapolated where it converged."""
    return density(run).value * run.parameters.total


def _row(of: Evidence, layers: int, width: int) -> Verdict:
    """A row of the table: does the interval meet the paper's value to the scatter of its own rows?"""
    value = rows()[layers, width][1]
    low, high = value * (1 - SCATTER), value * (1 + SCATTER)
    for run in of.runs:
        task, model = run.spec.task, run.spec.model
        if not isinstance(task, Sequences) or not isinstance(model, Transformer):
            continue
        if (model.n_layers, model.d_model, task.vocab_size, task.seq_len) != (layers, width, 2048, 64):
            continue
        ours = density(run)
        measured = f"{ours}; after {run.steps} steps"
        if ours.low > high:
            return differs(f"more than {value} by more than {SCATTER:.1%}, the scatter of the paper's rows", measured)
        if not ours.converged:
            return cannot(f"a lower bound: the training did not converge ({low:.3g} would agree)", measured)
        if ours.most - ours.low > WIDEST:
            return cannot(f"the interval is wider than {WIDEST:g} bit a parameter", measured)
        if ours.most < low and of.scale != "paper":
            return cannot(f"less, {SHORT} ({low:.3g} would agree)", measured)
        if ours.most < low:
            return differs(f"less than {value} by more than {SCATTER:.1%}, the scatter of the paper's rows", measured)
        return agrees(f"the interval meets {value} ± {SCATTER:.1%}, the scatter of the paper's rows", measured)
    raise Unjudged(
        f"no network of {counted(layers, 'layer')} and width {width} is trained on 64 tokens of 2048 at this scale"
    )


def row_80k(of: Evidence) -> Verdict:
    """One layer of width 32."""
    return _row(of, 1, 32)


def row_93k(of: Evidence) -> Verdict:
    """Two layers of width 32."""
    return _row(of, 2, 32)


def row_185k(of: Evidence) -> Verdict:
    """One layer of width 64."""
    return _row(of, 1, 64)


def parameters(of: Evidence) -> Verdict:
    """The formula against the table's rounded counts, and ours against the formula."""
    apart, fewer = [], []
    for (layers, width), (printed, _) in rows().items():
        formula = 12 * width**2 * layers + 13 * width * layers + (2048 + 64) * width + 2 * width
        model = Transformer(
            n_layers=layers, n_heads=4, d_model=width, d_head=width // 4, embeddings="trained", readout="tied"
        )
        ours = model.parameter_counts(**Sequences(seq_len=64, vocab_size=2048, bos=True).sizes())["trainable"]
        apart.append(abs(formula / printed - 1))
        fewer.append(1 - ours / printed)
    return ev.exactly(
        max(apart) < FEWER and max(map(abs, fewer)) < FEWER,
        f"formula within {max(apart):.1%}; ours have {min(fewer):.1%} to {max(fewer):.1%} fewer",
        f"{len(rows())} rows, within {FEWER:.0%}: ours have no biases in attention and norms, and a row for the first "
        "token",
    )


def _converged(of: Evidence) -> tuple[Measurement, ...]:
    runs = tuple(run for run in of.runs if density(run).converged)
    if len(runs) < 4:
        raise Unjudged(f"{len(runs)} of {len(of.runs)} networks converged: at least 4 are needed")
    return runs


def proportional(of: Evidence) -> Verdict:
    """The exponent of what is held in parameters."""
    runs = _converged(of)
    power = ev.exponent([run.parameters.total for run in runs], [held(run) for run in runs])
    return ev.has_exponent(power, 1.0, "capacity in parameters")


def depth_is_free(of: Evidence) -> Verdict:
    """The exponent of depth beside that of parameters."""
    runs = _converged(of)
    columns = [np.log([run.parameters.total for run in runs]), np.log([field(run, "n_layers") for run in runs])]
    power = ev.slopes(columns, np.log([held(run) for run in runs]))[1]
    measured = f"exponent of depth {power}"
    if power.low > -DEPTH_COST and power.high < DEPTH_COST:
        return agrees(f"its interval is within ± {DEPTH_COST}", measured)
    if power.low > DEPTH_COST or power.high < -DEPTH_COST:
        return differs(f"all of its interval is beyond ± {DEPTH_COST}", measured)
    return cannot(f"its interval holds values within ± {DEPTH_COST} and beyond", measured)


def mean_density(of: Evidence) -> Verdict:
    """The mean of bits a parameter over the networks that converged."""
    mean = ev.mean([density(run).value for run in _converged(of)])
    measured = f"{mean} bits a parameter, extrapolated, {len(_converged(of))} networks"
    if mean.high < MEAN - MEAN_ERROR and of.scale != "paper":
        return cannot(f"less than {MEAN} ± {MEAN_ERROR}, {SHORT}", measured)
    if mean.high < MEAN - MEAN_ERROR or mean.low > MEAN + MEAN_ERROR:
        return differs(f"the interval of the mean does not meet {MEAN} ± {MEAN_ERROR}", measured)
    if mean.high - mean.low > 1:
        return cannot("the interval of the mean is wider than a bit", measured)
    return agrees(f"the interval of the mean meets {MEAN} ± {MEAN_ERROR}", measured)


def _known(run: Measurement) -> list[float]:
    """Bits that each restart of a run knows at its end."""
    ends = [max((cycle.bits for cycle in member.cycles), default=math.nan) for member in run.members]
    if not ends or not np.isfinite(ends).all():
        raise Unjudged(f"run {run.key[:12]} has no cycles, at whose ends bits are counted")
    return ends


def _by_library(of: Evidence) -> list[tuple[float, list[float]]]:
    """Bits of each library, and what restarts know of it."""
    runs = sorted(of.runs, key=lambda run: run.library_size)
    return [(run.library_size * run.spec.task.information_per_item(), _known(run)) for run in runs]


def learned_whole(of: Evidence) -> Verdict:
    """The share that is known of the smallest library: of its bits but log2 M a sequence, which one of M comes next."""
    run = min(of.runs, key=lambda run: run.library_size)
    bits, known = _by_library(of)[0]
    most = bits - run.library_size * math.log2(run.library_size)
    share = min(known) / most
    measured = f"{share:.2%} of {most:.4g} bits, the least of {counted(len(known), 'restart')}"
    limit = f"{NEARLY_ALL:.0%} (ours) of what can be known of the smallest library"
    return ev.exactly(share >= NEARLY_ALL, measured, f"{'at least' if share >= NEARLY_ALL else 'less than'} {limit}")


def plateau(of: Evidence) -> Verdict:
    """Whether the two largest libraries leave as much."""
    libraries = _by_library(of)[-2:]
    if len(libraries) < 2:
        raise Unjudged("one library: at least 2 are needed")
    gap = ev.difference(*(np.log(known) for _, known in reversed(libraries)))
    larger, smaller = (f"{np.mean(known):.4g} of {bits:.4g}" for bits, known in reversed(libraries))
    ratio = Estimate(*(math.exp(value) for value in (gap.value, gap.low, gap.high)))
    return ev.alike(gap, PLATEAU, f"{larger} bits against {smaller}: ratio {ratio}", f"share of {PLATEAU:.0%}")
