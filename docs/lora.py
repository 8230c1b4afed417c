"""Writes the reference data of adapters, and what how-to/lora.md shows of them: `python docs/lora.py [FOLDER]`.

In the folder lie the stores that `capax sweep` wrote of examples/lora/*.toml. A test compares the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars
from parts import filled, keep

from capax.errors import LawError
from capax.figures.runs import read
from capax.planning.lora_study import PLACES, Load, load, rows, study
from capax.results import LEVEL, Measurement
from capax.specs import Lora

FOLDER = Path(__file__).with_name("lora")
PAGE = Path(__file__).parent / "how-to" / "lora.md"
REFERENCE = Path(__file__).parents[1] / "src/capax/data/reference/lora.csv"
RECALLS = (0.9, 0.99)


def runs() -> list[Measurement]:
    """All that is kept."""
    return list(read([FOLDER / "lora.db"]).runs)


def kept() -> polars.DataFrame:
    """A row for each run on facts."""
    return rows(runs())


def strings() -> list[str]:
    """What adapters hold of random tokens."""
    lines = [
        "| adapter | layers | trained | effective | bits held (95 %) | per trained number | base's loss, after |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run in sorted(runs(), key=lambda one: (one.spec.model.columns().get("targets", ""), one.parameters.trainable)):
        model, found = run.spec.model, run.capacity
        if not isinstance(model, Lora) or found is None:
            continue
        ends = "not converged" if found.interval is None else f"{found.interval.low:.0f} to {found.interval.high:.0f}"
        losses = [run.metrics[name] for name in ("base_loss", "base_loss_after")]
        lines.append(
            f"| {model.kind}, rank {model.rank} | {model.targets} | {run.parameters.trainable} | "
            f"{run.parameters.effective} | {found.extrapolated or found.bits:.0f} ({ends}) | "
            f"{found.per_trainable_parameter:.2f} | {losses[0]:.2f}, {losses[1]:.2f} |"
        )
    return lines


def facts() -> list[str]:
    """What adapters recall of facts in sentences."""
    lines = [
        "| layers | "
        + " | ".join(f"bits at {recall:.0%} recalled ({LEVEL:.0%})" for recall in RECALLS)
        + " | most bits known (at least) |",
        "| --- |" + " --- |" * (len(RECALLS) + 1),
    ]
    there = set(study()["targets"])
    return lines + [
        f"| {targets} | " + " | ".join(_said(targets, recall) for recall in RECALLS) + f" | {_most(targets):.2f} |"
        for targets in PLACES
        if targets in there
    ]


def _said(targets: str, recall: float) -> str:
    try:
        found: Load = load(study(), targets, recall)
    except LawError:
        return "–"
    low, high = found.quantile((1 - LEVEL) / 2), found.quantile((1 + LEVEL) / 2)
    return f"{found.bits:.2f} ({low:.2f} to {high:.2f}; {found.files} files)"


def _most(targets: str) -> float:
    """Bits known per effective parameter of the fullest adapter."""
    of = study().filter(polars.col("targets") == targets)
    return float((of["known_bits"] / of["effective_parameters"]).to_numpy().max())


def shown() -> str:
    """The tables of the page."""
    return "\n".join(
        [
            "### Random tokens",
            "",
            *strings(),
            "",
            "### Facts in sentences",
            "",
            "Bits of the facts, by the entropy of their answers, that an effective parameter of the adapter takes:",
            "",
            *facts(),
            "",
        ]
    )


def page(text: str) -> str:
    """The page with the tables of today."""
    return filled(text, "measured", "lora.py", shown())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        keep(Path(sys.argv[1]), FOLDER / "lora.db")
    REFERENCE.write_text("# Facts in sentences that low-rank adapters recall (docs/lora.py)\n" + kept().write_csv())
    study.cache_clear()
    PAGE.write_text(page(PAGE.read_text()))
