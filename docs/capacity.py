"""Writes what capacity.md and the README show of runs, and the reference data: `python docs/capacity.py`.

In the folder lies the store that `capax sweep examples/capacity.toml` wrote. Networks of the demonstration are among
them. A test compares the pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parts import filled, head

import capax
from capax.cli.demo import CELLS
from capax.figures.capacity import bits_by_parameters, convergence, per_parameter
from capax.figures.drawing import draw
from capax.figures.runs import read
from capax.results import CapacityEstimate, Measurement
from capax.store import tables

FOLDER = Path(__file__).with_name("capacity")
PAGE = Path(__file__).with_name("capacity.md")
README = Path(__file__).parents[1] / "README.md"
DEMO = Path(__file__).with_name("images") / "demo.png"
REFERENCE = Path(__file__).parents[1] / "src/capax/data/reference/capacity.csv"
STUDIES = ("varied.db", "grid.db", "ladder.db", "depth.db")
HEADS = (
    *("width", "heads", "sequences", "loss", "trained", "effective", "bits"),
    *("per effective (95 %)", "per trained", "per any"),
)


def runs() -> list[Measurement]:
    """The runs, by their effective parameters."""
    return sorted(read([FOLDER / "capacity.db"]).runs, key=lambda run: (per_parameter(run), run.key))


def table(found: Sequence[Measurement]) -> list[str]:
    """A row for each network."""
    lines = head(*HEADS)
    for run in found:
        held = run.capacity
        assert held is not None
        effective = per_parameter(run)
        model = run.spec.model.columns()
        cells = (
            f"{model['d_model']}{', 2 layers' if model['n_layers'] == 2 else ''}",
            f"{model['n_heads']} of {model['d_head']}",
            run.spec.task.items,
            getattr(run.spec.task, "loss", ""),
            f"{run.parameters.trainable}",
            f"{effective}",
            _with_ends(held, 1, "{:.0f}").partition(" (")[0],
            _with_ends(held, effective, "{:.2f}"),
            f"{held.per_trainable_parameter:.2f}",
            f"{held.per_parameter:.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _with_ends(held: CapacityEstimate, unit: int, form: str) -> str:
    """What is held, in some unit, and the ends of its interval."""
    if held.extrapolated is None:
        return f"at least {form.format(held.bits / unit)}"
    ends = [] if held.interval is None else [held.interval.low, held.interval.high]
    known = "–".join("no end" if end is None else form.format(end / unit) for end in ends)
    return form.format(held.extrapolated / unit) + (f" ({known})" if known else "")


def section(found: Sequence[Measurement]) -> str:
    """The table, and the two figures with their captions."""
    lines = [*table(found), ""]
    for charts in (bits_by_parameters(found, None), convergence(found, None)):
        (chart,) = charts
        lines += [f"![{chart.title}](capacity/{chart.name}.png)", "", f"**{chart.title}.** {chart.caption}", ""]
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with what was measured."""
    return filled(text, "measured", "capacity.py", section(runs()))


def readme(text: str) -> str:
    """The README with what the demonstration shows."""
    lines = ["| network | sequences | effective | bits | per effective (95 %) |", "| --- | --- | --- | --- | --- |"]
    for run in demonstrated():
        held = run.capacity
        assert held is not None
        bits, density = _with_ends(held, 1, "{:.0f}").partition(" (")[0], _with_ends(held, per_parameter(run), "{:.2f}")
        cells = (run.spec.model.words(), run.spec.task.items, f"{per_parameter(run)}", bits, density)
        lines.append(f"| {' | '.join(cells)} |")
    return filled(text, "measured", "capacity.py", "\n".join(lines))


def demonstrated() -> list[Measurement]:
    """The runs of the demonstration."""
    keys = {capax.Run(task=task, model=model, protocol=capax.Capacity()).key() for task, model in CELLS}
    return [run for run in runs() if run.key in keys]


def reference() -> bytes:
    """The runs, and those of the studies, as the table that ships with capax."""
    studies = (run for study in STUDIES for run in read([FOLDER / study]).runs)
    return tables.table({run.key: run for run in (*studies, *runs())}.values()).write_csv().encode()


def main() -> None:
    """Write all of them."""
    for charts in (bits_by_parameters(runs(), None), convergence(runs(), None)):
        draw(charts[0], FOLDER / f"{charts[0].name}.png")
    REFERENCE.write_bytes(reference())
    draw(bits_by_parameters(demonstrated(), None)[0], DEMO)
    README.write_text(readme(README.read_text("utf-8")), "utf-8")
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
