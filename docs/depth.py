"""Writes what predictions.md says of depth at equal parameters, as far as examples/capacity-depth.toml has been run.

`python docs/depth.py predict` wrote what the law of capacity said before; `python docs/depth.py` writes the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from ladder import GPU, kbit
from parts import filled, head, powers
from predicted import predict

from capax.figures.runs import read
from capax.papers.evidence import Estimate
from capax.results import Measurement
from capax.specs import Run
from capax.store import tables
from capax.sweeps.grid import read_study

PAGE = Path(__file__).with_name("predictions.md")
PREDICTED = Path(__file__).with_name("capacity") / "depth-predicted.csv"
AGAIN = PREDICTED.with_name("depth-predicted-again.csv")
"""What the laws that shipped said of networks before they were measured, knowing some of the others; to 1000 bits."""
STORE, SECOND = PREDICTED.with_name("depth.db"), PREDICTED.with_name("depth-held-out.db")
STUDY = Path(__file__).parents[1] / "examples" / "capacity-depth.toml"
ENOUGH = 10
"""Networks that converged from which a power law is fitted: all depths with one number of heads, some with two."""
SIZES = {"effective_parameters": "effective", "trainable_parameters": "trained"}
HEADS = (
    *("layers", "width", "heads", "trained", "effective", "kbit, measured (95 %)", "on a second library"),
    *("bits per effective (95 %)", "kbit, predicted (95 %)", "measured / predicted"),
    *("kbit, predicted with others known (95 %)", "measured / predicted"),
)


def networks() -> dict[str, Run]:
    """Those of the study, by key."""
    return {run.key(): run for run in read_study(STUDY).runs}


def exponents(runs: list[Measurement], size: str) -> str:
    """How bits grow with the depth, and with a count of parameters and the heads beside it."""
    others = {name: pl.col(name) for name in (size, "n_heads")}
    of_depth, found = powers(tables.table(runs), "n_layers", others, "capacity_bits")

    def said(power: Estimate) -> str:
        return f"{power.value:.3f} ({power.low:.3f} to {power.high:.3f})"

    return (
        f"**{said(of_depth)}** at equal {SIZES[size]} parameters (their exponent: {said(found[size])}; that of heads: "
        f"{said(found['n_heads'])})"
    )


def held_bits(found: Measurement | None) -> str:
    """What a network holds, with its interval; a dash where it was not run."""
    if found is None or found.capacity is None:
        return "–"
    value, interval = found.capacity.extrapolated, found.capacity.interval
    return "not converged" if value is None or interval is None else kbit(value, interval.low, interval.high)


Prediction = dict[str, float] | None


def row(
    run: Run, found: Measurement, second: Measurement | None, said: tuple[Prediction, Prediction]
) -> tuple[str, list[bool | None]]:
    """A network's line of the table, and whether what it holds lies where it was predicted, at first and again."""
    sizes, model, held = run.task.sizes(), run.model.columns(), found.capacity
    assert held is not None
    effective = run.model.effective_parameters(**sizes)
    assert effective is not None
    density = "–"
    if held.extrapolated is not None and held.interval is not None:
        low, high = held.interval.low, held.interval.high
        assert high is not None
        density = f"{held.extrapolated / effective:.2f} ({low / effective:.2f}–{high / effective:.2f})"
    told, inside = [], []
    for one in said:
        known = one is not None and held.extrapolated is not None
        told.append("–" if one is None else kbit(one["predicted"], one["low"], one["high"]))
        told.append(f"{held.extrapolated / one['predicted']:.2f}" if known else "–")
        inside.append(one["low"] <= held.extrapolated <= one["high"] if known else None)
    cells = (
        *(f"{model[name]}" for name in ("n_layers", "d_model", "n_heads")),
        f"{run.model.parameter_counts(**sizes)['trainable']:,}",
        f"{effective:,}",
        held_bits(found),
        held_bits(second),
        density,
        *told,
    )
    return f"| {' | '.join(cells)} |", inside


def section() -> str:
    """The table, and what a power law of it says."""
    runs, found = networks(), {run.key: run for run in read([STORE]).runs}
    others = {run.key: run for run in read([SECOND]).runs}
    second = {key: others.get(run.replace(seed=1).key()) for key, run in runs.items()}
    first, later = (
        {line["key"]: line for line in pl.read_csv(path).iter_rows(named=True)} for path in (PREDICTED, AGAIN)
    )
    lines = head(*HEADS)
    lying: list[list[bool]] = [[], []]
    for key, run in runs.items():
        if key in found:
            line, held = row(run, found[key], second[key], (first[key], later.get(key)))
            lines.append(line)
            for hits, one in zip(lying, held, strict=True):
                hits += [] if one is None else [one]
    inside, again_inside = lying
    whole = [run for run in found.values() if run.capacity is not None and run.capacity.converged]
    on_gpu = [run for run in found.values() if run.processor == GPU]
    begun = [run for run in found.values() if any(GPU in note for note in run.notes)]
    hours = sum(run.seconds for run in found.values() if run.processor != GPU) / 3600
    told = [
        f"{len(found)} of {len(runs)} networks have been run, with two restarts each. This took {hours:.0f} hours of a "
        f"processor and nine minutes of an H200, which trained {len(on_gpu)} of them and began {len(begun)} more, "
        f"along with two rungs of the ladder. {len(whole)} converged. {sum(inside)} of {len(inside)} lie in their "
        f"predicted intervals. Of those that were predicted again, by laws that knew some of the others, "
        f"{sum(again_inside)} of {len(again_inside)} do.",
    ]
    if len(whole) >= ENOUGH:
        told += [
            "",
            f"In a power law of the {len(whole)} that converged, the exponent of the depth (95 % interval, with each "
            "depth as one unit: networks of a depth err alike about a power) is "
            f"{exponents(whole, 'effective_parameters')}; {exponents(whole, 'trainable_parameters')}.",
        ]
    again = {key: run for key, run in second.items() if run is not None and run.capacity is not None}
    pairs = [(found[key].capacity.extrapolated, run.capacity.extrapolated) for key, run in again.items()]
    apart = [2 * abs(one - other) / (one + other) for one, other in pairs]
    deepest = max(run.spec.model.columns()["n_layers"] for run in again.values())
    told += [
        "",
        f"{len(again)}, of up to {deepest} layers, were trained on a second library too, which no law is fitted to "
        f"([store](capacity/{SECOND.name})): two libraries of one network differ by {np.mean(apart):.1%} on average, "
        f"{max(apart):.1%} at most. There the depth's exponent is "
        f"{exponents(list(again.values()), 'effective_parameters')}.",
    ]
    return "\n".join([*lines, "", *told])


def page(text: str) -> str:
    """The page with the networks that have been run."""
    return filled(text, "depth", "depth.py", section())


if __name__ == "__main__":
    if sys.argv[1:] == ["predict"]:
        predict(networks(), PREDICTED)
    else:
        PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
