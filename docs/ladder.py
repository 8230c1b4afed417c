"""Writes the ladder of predictions.md: what the law of capacity said of larger networks, and what they hold.

`python docs/ladder.py predict FILE` writes what the law that ships says of networks before they are measured, once and
for all: a law that is fitted later may know them. `python docs/ladder.py` writes the page. A test compares it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
from parts import filled, head
from predicted import predict

from capax.figures.runs import read
from capax.planning.cost import operations
from capax.results import Measurement
from capax.specs import Capacity, Run, Sequences, Transformer
from capax.sweeps.grid import read_study
from capax.text import duration

PAGE = Path(__file__).with_name("predictions.md")
FOLDER = Path(__file__).with_name("capacity")
PREDICTED = {
    "predicted": FOLDER / "ladder-predicted.csv",
    "with the first known": FOLDER / "ladder-predicted-again.csv",
    "with five known": FOLDER / "ladder-predicted-five.csv",
}
"""What laws said of the rungs that were not measured yet, by what they knew of the ladder."""
STORES = (FOLDER / "ladder.db", FOLDER / "ladder-gpu.db")
EXAMPLES = Path(__file__).parents[1] / "examples"
STUDIES = tuple(EXAMPLES / name for name in ("capacity-ladder.toml", "capacity-ladder-gpu.toml"))
BEYOND = (256, 640, 2048)
"""Widths of the rungs above those of the study."""
STEPS = 3100
"""Of those rungs: the first had not converged after some 2,450 (the records), and the next cycle ends here."""
CORES = 2
GPU = "NVIDIA H200"
HEADS = (
    *("width", "trained", "effective", *(f"kbit, {when} (95 %)" for when in PREDICTED), "measured (95 %)"),
    *("measured / last predicted", "operations", "on two cores", "on an H200"),
)


def rungs() -> dict[str, Run]:
    """The networks of the studies, then the larger ones, by key."""
    runs = [run for study in STUDIES for run in read_study(study).runs]
    task, model = runs[0].task, runs[0].model
    assert isinstance(task, Sequences)
    assert isinstance(model, Transformer)
    sizes = {"seq_len": task.seq_len, "vocab_size": task.vocab_size}  # the library follows from the network
    for width in BEYOND:
        larger = model.replace(d_model=width, d_head=width // model.n_heads)
        runs.append(Run(task=Sequences(**sizes), model=larger, protocol=Capacity()))
    return {run.key(): run for run in runs}


def measured() -> dict[str, Measurement]:
    """The rungs that have been run, by key."""
    return {run.key: run for run in read(STORES).runs}


def kbit(bits: float, low: float | None, high: float | None) -> str:
    """Bits with their interval."""
    ends = " to ".join("no end" if end is None else f"{end / 1000:,.0f}" for end in (low, high))
    return f"{bits / 1000:,.0f} ({ends})"


def scientific(value: float) -> str:
    """A number in two digits."""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits} · 10^{int(exponent)}"


def took(seconds: float) -> str:
    """A time, as far as it can be reckoned."""
    return duration(seconds) if seconds >= 60 else "less than 1 min"


def work(run: Run, steps: int) -> float:
    """Operations of all restarts; a batch is the whole library."""
    size = run.task.library_size
    assert size is not None
    return run.protocol.restarts * operations(run.model, run.task, size, steps)


def section() -> str:
    """The table, and what it is reckoned by."""
    runs, found = rungs(), measured()
    said = [{row["key"]: row for row in pl.read_csv(path).iter_rows(named=True)} for path in PREDICTED.values()]
    inside: list[list[bool]] = [[] for _ in said]
    lines = head(*HEADS)
    done_runs = [found[key] for key in runs if key in found]
    last, on_cores = done_runs[-1], [run for run in done_runs if run.processor != GPU][-1]
    rate = CORES * work(on_cores.spec, on_cores.steps) / on_cores.seconds
    gpu_rate = work(last.spec, last.steps) / last.seconds
    for key, run in runs.items():
        done, asked = found.get(key), [law.get(key) for law in said]
        sizes, held = run.task.sizes(), None if done is None else done.capacity
        shown, ratio = "not run" if held is None else "not converged", "–"
        if held is not None and held.extrapolated is not None and held.interval is not None:
            shown = kbit(held.extrapolated, held.interval.low, held.interval.high)
            for hits, row in zip(inside, asked, strict=True):
                if row is not None:
                    ratio = f"{held.extrapolated / row['predicted']:.2f}"
                    hits.append(row["low"] <= held.extrapolated <= row["high"])
        flops = work(run, STEPS if done is None else done.steps)
        cells = (
            f"{width(run)}",
            f"{run.model.parameter_counts(**sizes)['trainable']:,}",
            f"{run.model.effective_parameters(**sizes):,}",
            *("–" if row is None else kbit(row["predicted"], row["low"], row["high"]) for row in asked),
            shown,
            ratio,
            scientific(flops),
            took(flops / rate),
            took(flops / gpu_rate),
        )
        lines.append(f"| {' | '.join(cells)} |")
    later = ", ".join(
        f"{sum(of)} of {len(of)} in the intervals {when}"
        for when, of in zip(list(PREDICTED)[1:], inside[1:], strict=True)
    )
    told = (
        f"{sum(inside[0])} of {len(inside[0])} measured lie in the first intervals (the first rung had been measured "
        f"before), {later}. The {len(BEYOND)} widest were not run: their cost assumes three trainings of {STEPS} "
        f"steps, because the seventh needs more than 2,450 (the largest that was run took {last.steps} steps). It "
        f"assumes that {CORES} cores are as fast as they were at width {width(on_cores.spec)} "
        f"({rate / CORES / 1e9:.0f} GFLOP/s each, beside other work), and an H200 as fast as it was at width "
        f"{width(last.spec)} with nothing else running: two trainings in {last.seconds:.0f} s "
        f"({gpu_rate / 1e12:.0f} TFLOP/s, products in TF32)."
    )
    return "\n".join([*lines, "", told])


def width(run: Run) -> int:
    """Of a rung."""
    return run.model.columns()["d_model"]


def page(text: str) -> str:
    """The page with the ladder as far as it has been run."""
    return filled(text, "ladder", "ladder.py", section())


if __name__ == "__main__":
    if sys.argv[1:2] == ["predict"]:
        predict({key: run for key, run in rungs().items() if key not in measured()}, Path(sys.argv[2]))
    else:
        PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
