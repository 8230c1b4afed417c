"""Writes the tables of runs into literature.md: `python docs/literature.py`. A test compares them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from parts import filled

from capax.figures.runs import read
from capax.papers.allenzhu2024.judges import most, ratio
from capax.papers.evidence import Estimate, field
from capax.papers.recipe import recipes
from capax.results import Measurement

FOLDER = Path(__file__).parent
PAGE = FOLDER / "literature.md"
OPTIMIZERS = ("soap", "adam")


def runs() -> list[Measurement]:
    """Those of the biographies at demo that are kept."""
    keys = {run.key() for recipe in recipes("allenzhu2024") for run in recipe.runs("demo")}
    return [run for run in read([FOLDER / "reproduced" / "allenzhu2024-demo.db"]).runs if run.key in keys]


def biographies(found: Iterable[Measurement]) -> str:
    """A row for each network, library and number of exposures, a column for each optimizer."""
    table: dict[tuple[int, int, int, float, int], dict[str, Estimate]] = {}
    for run in found:
        of = (field(run, "n_layers"), run.parameters.total, run.library_size, most(run), run.spec.training.max_epochs)
        table.setdefault(of, {})[run.spec.training.optimizer] = ratio(run)
    lines = [
        "| layers, parameters | people (bits a parameter) | exposures | bits a parameter, SOAP | Adam |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (layers, parameters, people, there, exposures), held in sorted(table.items()):
        cells = (_cell(held.get(name)) for name in OPTIMIZERS)
        lines.append(f"| {layers}, {parameters:,} | {people} ({there:.2f}) | {exposures} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(one: Estimate | None) -> str:
    return "–" if one is None else f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})"


def page(text: str) -> str:
    """The page with the table as it is now."""
    return filled(text, "biographies", "literature.py", biographies(runs()))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
