"""What rounding leaves of what networks remember, and what a byte of their file then holds."""

from __future__ import annotations

from collections.abc import Sequence

from capax.figures.chart import Axis, Chart, Panel, Series
from capax.probes.quantization import Mean, Precision, Quantization

STEPS = {True: "a step for each group", False: "a step for each tensor"}


def quantization(found: Sequence[Quantization], names: Sequence[str] = ()) -> Chart:
    """Share of the bits that is left, and bits per byte, by the bits that a trained number takes in the file.

    Args:
        found: of networks that differ. Of several, integers are those with a step for each group.
        names: of several networks, in the legend; as their models say when not given.
    """
    panels = []
    for title, label in (("what is left", "share of the bits"), ("what a byte holds", "bits per byte of the file")):
        series = []
        for place, one in enumerate(found):
            name = names[place] if names else one.spec.model.words()
            shares = label.startswith("share")
            for grouped in (True, False):
                rows = [
                    row for row in one.precisions if row.name.startswith("int") and (row.group is not None) is grouped
                ]
                if grouped or len(found) == 1:
                    group = place if grouped else len(found)
                    series.append(_line(STEPS[grouped] if len(found) == 1 else name, rows, group, shares))
            floats = [row for row in one.precisions if not row.name.startswith("int")]
            single = len(found) == 1
            series.append(
                _line("floating point" if single else name, floats, 2 if single else place, shares, hollow=True)
            )
        panels.append(
            Panel(
                title=title,
                x=Axis(label="bits of the file per trained number", log=2, ticks=(4, 8, 16, 32)),
                y=Axis(label=label, from_zero=True),
                series=tuple(series),
            )
        )
    return Chart(
        name="quantization",
        title="Weights rounded to few bits",
        caption=_caption(found),
        panels=tuple(panels),
        share_y=False,
    )


def _line(name: str, rows: Sequence[Precision], group: int, shares: bool, hollow: bool = False) -> Series:
    """Rows as a line from the fewest bits to the most; floating-point numbers are points."""
    rows = sorted(rows, key=lambda row: row.file_bytes)
    values: list[Mean | None] = [row.left if shares else row.bits_per_byte for row in rows]
    kept = [(row, value) for row, value in zip(rows, values, strict=True) if value is not None]
    ends = [value.interval for _, value in kept]
    return Series(
        name=name,
        kind="points" if hollow else "line",
        x=tuple(row.file_bits_per_parameter for row, _ in kept),
        y=tuple(value.value for _, value in kept),
        low=tuple(None if end is None else end.low for end in ends),
        high=tuple(None if end is None else end.high for end in ends),
        texts=tuple(f"{row.name}: {value.value:.3g}, {row.file_bytes} bytes" for row, value in kept),
        group=group,
        hollow=hollow,
    )


def _caption(found: Sequence[Quantization]) -> str:
    first = found[0]
    counted = "known (Morris et al. 2025)" if first.bits_are == "known" else "of the recalled items above chance"
    groups = sorted({row.group for one in found for row in one.precisions if row.group is not None})
    sizes = " or ".join(map(str, groups))
    which = (
        f"a step for each {sizes} weights or for each tensor" if len(found) == 1 else f"a step for each {sizes} weights"
    )
    networks = sorted({one.networks for one in found})
    over = f"{networks[0]} to {networks[-1]}" if len(networks) > 1 else str(networks[0])
    bars = f"Bars: {first.level:.0%} intervals of the mean of {over} networks. " if networks[-1] > 1 else ""
    return (
        f"Trained matrices rounded to nearest, {which}; hollow: bfloat16 and the weights as they were kept. Bits: "
        f"{counted}. {bars}Bytes: of all that was trained, steps of {first.step_bits} bits and vectors as they are."
    )
