"""Bits a parameter: by the law of capacity, and as others measured them, side by side."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from capax.laws.law import Law
from capax.literature import stated_by
from capax.planning.answers import Columns, predicted
from capax.planning.counting import Counts
from capax.results import LEVEL, Result
from capax.store import published

WEIGHT_BITS = 32
"""Of a float32 weight, which holds no more."""
ALLEN_ZHU = {
    "GPT-2 with rotary positions, bioS": None,
    "the same rounded to int8": "int8",
    "the same rounded to int4": "int4",
}
"""Rows of the source that are shown, and to what their weights were rounded."""


class Density(Result):
    """How many bits a parameter holds, by one source, and what that is of a model."""

    name: str
    standing: Annotated[
        Literal["measured", "read", "secondary", "derived"],
        Field(description="measured: by a law fitted to runs of capax; of others as docs/literature.md says."),
    ]
    source: str
    precision: Annotated[str | None, Field(description="Of the weights; None where it is not said.")]
    exposures: Annotated[int | None, Field(description="Times that each item was seen; None: to convergence.")]
    bits_per_parameter: Annotated[float, Field(description="Of all parameters.")]
    bits: Annotated[float, Field(description="That the model holds.")]
    low: Annotated[float | None, Field(description="Bits: the lower end of `range_of`; None where there is none.")]
    high: Annotated[float | None, Field(description="Bits: the upper end.")]
    range_of: Annotated[str, Field(description="What lies between `low` and `high`.")]
    cut: Annotated[bool, Field(description="Whether the upper end is that of the weights' own bits.")] = False
    used: Annotated[float | None, Field(description="Share of these bits that was asked for.")] = None


def density(law: Law, table: Columns, counts: Counts) -> Density:
    """What the law of capacity says of a model; it counts effective parameters.

    Args:
        table: one row, with the law's columns.
        counts: of the model.
    """
    bits = float(predicted(law, table)[0])
    low, high = (float(one[0]) for one in law.quantiles(table, ((1 - LEVEL) / 2, (1 + LEVEL) / 2)))
    most = float(WEIGHT_BITS * counts.total)
    return Density(
        name="capax, law of capacity",
        standing="measured",
        source=law.source_,
        precision="float32",
        exposures=None,
        bits_per_parameter=bits / counts.total,
        bits=bits,
        low=low,
        high=min(high, most),
        range_of=f"{LEVEL:.0%} interval of a new measurement",
        cut=high > most,
    )


def published_densities(total: int) -> list[Density]:
    """What was published, of a model of so many parameters."""
    return [*_allen_zhu(total), *_morris(total)]


def _allen_zhu(total: int) -> list[Density]:
    """Bounds that the paper states, of the peaks of networks."""
    found, source = [], stated_by("allenzhu2024")["source"]
    for row in published.table("published:allenzhu2024").iter_rows(named=True):
        if row["network"] not in ALLEN_ZHU:
            continue
        precision, low, high = ALLEN_ZHU[row["network"]], row[published.LOW], row[published.HIGH]
        each = high if low is None else low
        rounded = "" if precision is None else f", {precision}"
        found.append(
            Density(
                name=f"Allen-Zhu and Li 2024{rounded}",
                standing=row["standing"],
                source=source,
                precision=precision,
                exposures=row["exposures"],
                bits_per_parameter=each,
                bits=each * total,
                low=None if low is None else low * total,
                high=None if high is None else high * total,
                range_of="bounds that the paper states",
            )
        )
    return found


def _morris(total: int) -> list[Density]:
    """Means over the networks of each precision."""
    table = published.table("published:morris2025")
    found, source = [], stated_by("morris2025")["source"]
    for (precision,), rows in table.group_by("precision", maintain_order=True):
        each = rows["bits_per_parameter"].to_numpy()
        found.append(
            Density(
                name=f"Morris et al. 2025, {precision}",
                standing="read",
                source=source,
                precision=str(precision),
                exposures=None,
                bits_per_parameter=float(np.mean(each)),
                bits=float(np.mean(each)) * total,
                low=float(each.min()) * total,
                high=float(each.max()) * total,
                range_of=f"smallest and largest of {len(each)} networks",
            )
        )
    return found
