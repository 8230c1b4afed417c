"""Writes what how-to/which-attention.md shows of runs: `python docs/variants.py`.

In the folder lies the store that `capax sweep` wrote of examples/variants.toml and examples/variants-blocks.toml. A
test compares the page.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from parts import filled, head

from capax.figures.capacity import per_parameter
from capax.figures.chart import Chart
from capax.figures.drawing import draw
from capax.figures.runs import read
from capax.figures.variants import UNITS, Variant, by_variant, variants
from capax.results import Measurement

FOLDER = Path(__file__).with_name("variants")
PAGE = Path(__file__).parent / "how-to/which-attention.md"


def runs() -> list[Measurement]:
    """The runs that converged."""
    found = read([FOLDER / "variants.db"]).runs
    return [run for run in found if run.capacity is not None and run.capacity.extrapolated is not None]


def chart() -> Chart:
    """The figure."""
    (found,) = by_variant(runs(), None)
    return found


def section() -> str:
    """The table, the best first, and the figure with its caption."""
    densities = [f"bits per {unit} parameter" for unit in UNITS]
    lines = head("what differs", "runs", "effective", *densities, "against the base (95 %)", "after 100 exposures")
    for one in sorted(variants(runs()), key=lambda one: -one.density("effective")):
        cells = [
            one.name.replace("\n", " "),
            str(len(one.runs)),
            str(one.runs[0].parameters.effective),
            *(f"{one.density(unit):.2f}" for unit in UNITS),
            _against(one),
            f"{_early(one):.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    shown = chart()
    lines += ["", f"![{shown.title}](../variants/variants.png)", "", f"**{shown.title}.** {shown.caption}", ""]
    return "\n".join(lines)


def _against(one: Variant) -> str:
    if one.ratios is None:
        return "–"
    middle, *ends = (f"{100 * (ratio - 1):+.1f} %" for ratio in one.ratios["effective"])
    return f"{middle} ({' to '.join(ends)})"


def _early(one: Variant) -> float:
    """Bits per effective parameter at the end of the first cycle, the mean of all restarts."""
    firsts = [(member.cycles[0], per_parameter(run)) for run in one.runs for member in run.members]
    assert {first.epochs for first, _ in firsts} == {100}
    return fmean(first.bits / size for first, size in firsts)


def page(text: str) -> str:
    """The page with what was measured."""
    return filled(text, "measured", "variants.py", section())


def main() -> None:
    """Write all of it."""
    draw(chart(), FOLDER / "variants.png")
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
