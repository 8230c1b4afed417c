"""Writes what laws.md says of laws of ours beside what others published: `python docs/published.py`.

Each law in bits is fitted anew to the data that ship with capax. A test compares the page.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import polars as pl

import capax
from capax.laws.domain import OutsideDomainWarning
from capax.laws.law import Law
from capax.store import tables

PAGE = Path(__file__).with_name("laws.md")
BEGIN, END = "<!-- published: python docs/published.py -->\n", "<!-- end of published -->\n"
SIZE = "effective_parameters"


def law() -> Law:
    """Bits over effective parameters, of the networks that ship with capax."""
    rows = tables.where(tables.from_file("reference:capacity"), ["vocab_size=100", "loss=all"])
    return capax.PowerLaw(axes=[SIZE], target="capacity_bits").fit(rows)


def said(ours: Law, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bits of networks of some sizes, and the ends of their intervals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDomainWarning)
        return ours.predict({SIZE: sizes}), *ours.predict_interval({SIZE: sizes})


def times(ours: Law, sizes: np.ndarray) -> str:
    """How far sizes lie beyond the largest that a law was fitted to."""
    largest = ours.domain_.ranges[SIZE][1]
    ends = list(dict.fromkeys(f"{float(f'{size / largest:.2g}'):,.0f}" for size in (sizes.min(), sizes.max())))
    return f"{' to '.join(ends)} ×"


def rounded(bits: float) -> str:
    """Bits to three digits."""
    return f"{float(f'{bits:.3g}'):,.0f}"


def networks(ours: Law) -> list[str]:
    """Morris et al. 2025, row by row."""
    rows = tables.where(tables.from_file("published:morris2025"), ["precision=float32"]).sort(SIZE)
    sizes, held = rows[SIZE].to_numpy().astype(float), rows["capacity_bits"].to_numpy()
    value, low, high = said(ours, sizes)
    lines = head("layers, width", "effective", "published", "predicted (95 %)", "predicted / published", "beyond")
    for place, row in enumerate(rows.iter_rows(named=True)):
        cells = (
            f"{row['n_layers']}, {row['d_model']}",
            f"{row[SIZE]:,}",
            f"{held[place]:,}",
            f"{rounded(value[place])} ({rounded(low[place])} to {rounded(high[place])})",
            f"{value[place] / held[place]:.2f}",
            times(ours, sizes[[place]]),
        )
        lines.append(f"| {' | '.join(cells)} |")
    inside = int(((low <= held) & (held <= high)).sum())
    error = float(np.mean(np.abs(value / held - 1)))
    lines += ["", f"{inside} of {len(rows)} published values lie in the interval; the mean error is {error:.0%}."]
    return lines


def by_source(ours: Law) -> list[str]:
    """Bounds of Allen-Zhu and Li 2024, and adapters of Nguyen 2026 by their base."""
    lines = head("source", "parameters", "published, bits a parameter", "predicted, bits a parameter", "beyond")
    bounds = tables.from_file("published:allenzhu2024").filter(pl.col("total_parameters_low").is_not_null())
    for row in bounds.iter_rows(named=True):
        sizes = np.array([row["total_parameters_low"], row["total_parameters_high"]], dtype=float)
        ends = " to ".join(f"{density:.3g}" for density in said(ours, sizes)[0] / sizes)
        published = f"{row['bits_per_parameter_low']:g} to {row['bits_per_parameter_high']:g}"
        who = f"Allen-Zhu and Li 2024, {row['exposures']} exposures, {row['network']}"
        counts = " to ".join(f"{size:,.0f}" for size in sizes)
        lines.append(f"| {who} | {counts} | {published} | {ends} | {times(ours, sizes)} |")
    for (base,), rows in tables.from_file("published:nguyen2026").group_by("base_parameters", maintain_order=True):
        sizes = rows["adapter_parameters"].to_numpy().astype(float)
        published, ends = (
            f"{density.min():.2g} to {density.max():.2g}"
            for density in (rows["capacity_bits"].to_numpy() / sizes, said(ours, sizes)[0] / sizes)
        )
        counts = f"{sizes.min():,.0f} to {sizes.max():,.0f}"
        who = f"Nguyen 2026, adapters on {base / 1e6:,.0f} M"
        lines.append(f"| {who} | {counts} | {published} | {ends} | {times(ours, sizes)} |")
    return lines


def head(*names: str) -> list[str]:
    """The first two lines of a table."""
    return [f"| {' | '.join(names)} |", f"| {' | '.join('---' for _ in names)} |"]


def outside(ours: Law) -> str:
    """What besides its size is no network of the law's data."""
    row = tables.where(tables.from_file("published:morris2025"), ["precision=float32"]).row(0, named=True)
    return "; ".join(one for one in ours.domain_.outside_in_words(row) if not one.startswith(SIZE))


def section() -> str:
    """Both tables, and where the published networks lie."""
    ours = law()
    k, exponent = ours.parameters_.values()
    low, high = ours.domain_.ranges[SIZE]
    said_by = (
        f"C = {k:.3g} · P^{exponent:.3g}, fitted to {len(ours.rows_.counts)} networks of {low:,.0f} to {high:,.0f}"
    )
    lines = [
        f"The law: {said_by} effective parameters. Morris et al. 2025, float32 ({outside(ours)}):",
        "",
        *networks(ours),
        "",
        *by_source(ours),
    ]
    return "\n".join([*lines, ""])


def page(text: str) -> str:
    """The page with the tables of today."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{section()}\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Write it."""
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
