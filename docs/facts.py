"""Writes the reference data of facts, and what how-to/my-facts.md shows of them: `python docs/facts.py [FOLDER]`.

In the folder lie the stores that `capax sweep` wrote of examples/facts/facts.toml and real.toml. A test compares the
page.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars
from parts import filled, keep
from scipy import stats

from capax.figures.runs import read
from capax.laws.files import load_law
from capax.planning.facts_study import Measured, pooled, rows, shares, study
from capax.results import LEVEL

FOLDER = Path(__file__).with_name("facts")
PAGE = Path(__file__).parent / "how-to" / "my-facts.md"
REFERENCE = Path(__file__).parents[1] / "src/capax/data/reference/facts.csv"
RECALLS = (0.9, 0.99)


def kept() -> polars.DataFrame:
    """A row for each run."""
    return rows(read([FOLDER / "facts.db"]).runs)


class Planned(NamedTuple):
    """A plan for a file by the study of the other files, beside what the file needed; in effective parameters."""

    file: str
    recall: float
    needed: float
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """By how much the prediction is off, as a share of what was needed."""
        return self.predicted / self.needed - 1

    @property
    def inside(self) -> bool:
        """Whether what was needed lies in the interval."""
        return self.low <= self.needed <= self.high


def planned() -> list[Planned]:
    """For each file and share the parameters that the others' fill and the law predict, and those that were needed."""
    return [
        _planned(one, recall, needed)
        for recall in RECALLS
        for one in study()
        if (needed := one.fill_at(recall)) is not None
    ]


def _planned(one: Measured, recall: float, needed: float) -> Planned:
    held = pooled(*shares([other for other in study() if other.name != one.name], recall))
    table = polars.read_csv(REFERENCE, comment_prefix="#").filter(polars.col("file") == one.name)
    law = load_law("reference")
    columns = {column: table[column].to_numpy() for column in law.columns if column in table.columns}
    sizes, bits = np.log(columns["effective_parameters"]), table["entropy_bits"].to_numpy()
    levels = ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2)
    low, middle, high = (np.log(bits / held.share / known) for known in held.widened(law, columns, levels))

    def size(logs_of_fill: np.ndarray) -> float:
        """Parameters at which a file is as full as it may be; beyond the networks, by the last slope."""
        slope = stats.linregress(logs_of_fill, sizes)
        within = logs_of_fill.min() <= 0 <= logs_of_fill.max()
        return float(np.exp(np.interp(0, logs_of_fill[::-1], sizes[::-1]) if within else slope.intercept))

    fills = np.log(one.fills)[::-1]
    true = float(np.exp(np.interp(np.log(needed), fills[::-1], sizes[::-1])))
    return Planned(one.name, recall, true, size(middle), size(high), size(low))


def shown() -> str:
    """The tables of the page."""
    lines = [
        "## How far a plan is off",
        "",
        "| file | facts | bits (entropy) | " + " | ".join(f"fill at {recall:.0%}" for recall in RECALLS) + " |",
        "| --- | --- | --- |" + " --- |" * len(RECALLS),
    ]
    table = polars.read_csv(REFERENCE, comment_prefix="#")
    for one in study():
        first = table.filter(polars.col("file") == one.name).row(0, named=True)
        fills = [one.fill_at(recall) for recall in RECALLS]
        said = " | ".join("–" if fill is None else f"{fill:.2f}" for fill in fills)
        lines.append(f"| {one.name} | {first['facts']} | {first['entropy_bits']:.0f} | {said} |")
    found = planned()
    lines += [
        "",
        "`mondo` and `wordnet` are 2500 facts drawn of the files above, with one answer each "
        "(examples/facts/real.toml); the others are synthetic (examples/facts/facts.toml). One training each, one "
        "layer with one head, codes of two tokens. For the two that are drawn, the bits are 2500 times the mean per "
        "fact of the whole file, because the network also has to learn which of the file's answers occur. By the "
        "entropy of the 2500 answers alone they have 24,052 and 23,095 bits; counted that way, fills differ more from "
        "file to file.",
        "",
        "*Fill*: the bits of a file divided by the capacity (by the law) of the network that just recalls that share "
        "of it.",
        "",
        "| file | recall | parameters needed | planned (95 %) | off by | inside |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {one.file} | {one.recall:.0%} | {one.needed:.0f} | {one.predicted:.0f} ({one.low:.0f} to {one.high:.0f}) | "
        f"{one.error:+.0%} | {'yes' if one.inside else 'NO'} |"
        for one in found
    ]
    errors = np.abs([one.error for one in found])
    lines += [
        "",
        f"Mean absolute error over {len(found)} pairs of file and recall: {errors.mean():.0%}, the largest "
        f"{errors.max():.0%}; {sum(one.inside for one in found)} of {len(found)} lie inside their interval. Each plan "
        "is made by the law and the fills of the other files; parameters are effective ones.",
        "",
    ]
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the tables of today."""
    return filled(text, "measured", "facts.py", shown())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        keep(Path(sys.argv[1]), FOLDER / "facts.db")
    REFERENCE.write_text("# Files of facts in networks of several widths (docs/facts.py)\n" + kept().write_csv())
    study.cache_clear()
    PAGE.write_text(page(PAGE.read_text()))
