"""The figures of Adler 2025 (arXiv 2509.22840), of any runs on relations, as data.

Their captions were available to us, not their numbers; criterion, intervals and ranges are ours unless said otherwise.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence, Set
from typing import Literal

import numpy as np

from capax.laws.law import Law
from capax.laws.power import RelationLaw
from capax.reports.chart import Axis, Chart, Heat, Panel, Series
from capax.reports.groups import Group, alike
from capax.reports.lines import or_error, titled
from capax.reports.searches import GRAPH, Cell, cells, of_relations, powers
from capax.reports.words import protocol
from capax.results import Measurement
from capax.specs import Budget

TARGET = "total_key_dim"
_RANGE = "the 95 % range of D_K*"


def key_dimension(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 3: measured D_K* against m' ln m'/d_model, with a line of slope 1 and the law's band."""

    def chart(group: Group, found: list[Cell]) -> Chart | None:
        shown = [cell for cell in found if cell.key_dim is not None and cell.n_edges > 1]
        loads = [cell.load for cell in shown]
        if len(set(loads)) < 2:
            return None
        measured = [cell.key_dim or 1 for cell in shown]
        constant = float(np.exp((np.log(measured) - np.log(loads)).mean()))
        ends = (min(loads), max(loads))
        widths = sorted({cell.d_model for cell in shown})
        drawn = [
            *_law_band(law, shown),
            *(
                _series([cell for cell in shown if cell.d_model == d], f"d_model {d}", place, _load, "points")
                for place, d in enumerate(widths)
            ),
            Series(
                name=f"{constant:.2g} m' ln m' / d_model",
                kind="reference",
                x=ends,
                y=tuple(constant * end for end in ends),
            ),
        ]
        panel = Panel(
            x=powers("m' ln m' / d_model (m' edges)", loads),
            y=powers("measured D_K*", _extent(shown)),
            series=tuple(drawn),
        )
        slope = float(np.polyfit(np.log(loads), np.log(measured), 1)[0])
        return Chart(
            name="key-dimension",
            title=titled("Smallest total key dimension against the law", group),
            caption=f"{_found(group)} Bars: {_RANGE}. Dashed: slope 1, as the paper's law D_K* = Θ(m' log m' / d_model)"
            f" has it; the constant {constant:.2g} is fitted here (the paper's is not known to us), a free line through"
            f" the logarithms has slope {slope:.2f}." + _law_words(law, drawn) + _none(found) + " Adler 2025, Fig. 3.",
            panels=(panel,),
        )

    return _of_cells(runs, GRAPH | {"degree"}, chart, "fewer than two loads m' ln m'/d_model have a D_K*")


def _series(
    shown: list[Cell],
    name: str,
    place: int,
    x: Callable[[Cell], float],
    kind: Literal["line", "points"] = "line",
    heads: bool = False,
) -> Series:
    """D_K* of cells with their ranges; or the heads that reach it, with those whose D_K lies within its range."""
    ordered = sorted(shown, key=x)
    ends = [cell.also or (None, None) if heads else (cell.low, cell.high) for cell in ordered]
    return Series(
        name=name,
        kind=kind,
        x=tuple(map(x, ordered)),
        y=tuple(cell.n_heads if heads else cell.key_dim for cell in ordered),
        low=tuple(low for low, _ in ends),
        high=tuple(high for _, high in ends),
        texts=tuple(cell.text for cell in ordered),
        group=place,
    )


def _extent(shown: list[Cell]) -> list[float]:
    """D_K* of cells and the ends of their ranges."""
    return [end for cell in shown for end in (cell.key_dim, cell.low, cell.high) if end]


def _load(cell: Cell) -> float:
    return cell.load


def _width(cell: Cell) -> float:
    return cell.d_model


def _compression(cell: Cell) -> float:
    return cell.n_items / cell.d_model


def _law_band(law: Law | None, shown: list[Cell]) -> list[Series]:
    """What a law of this load expects where it was fitted."""
    if not (isinstance(law, RelationLaw) and law.logarithm and law.target == TARGET):
        return []
    ordered = sorted(shown, key=lambda cell: cell.load)
    table = {
        "n_edges": np.array([cell.n_edges for cell in ordered], dtype=float),
        "d_model": np.array([cell.d_model for cell in ordered], dtype=float),
    }
    inside = law.inside_domain(table)
    if inside.sum() < 2:
        return []
    table = {name: values[inside] for name, values in table.items()}
    low, high = law.predict_interval(table)
    return [
        Series(
            name="law",
            kind="band",
            x=tuple(cell.load for cell, kept in zip(ordered, inside, strict=True) if kept),
            y=tuple(law.predict(table).tolist()),
            low=tuple(low.tolist()),
            high=tuple(high.tolist()),
            faint=True,
        )
    ]


def _law_words(law: Law | None, drawn: list[Series]) -> str:
    if law is None:
        return ""
    if any(series.kind == "band" for series in drawn):
        return f" Band: where the law {law.name} ({law.source_}) expects 95 % of new measurements."
    if not isinstance(law, RelationLaw):
        return f" The law {law.name} is of {law.items}, and not drawn."
    if law.target != TARGET:
        return f" The law given is of {law.target}, not of D_K*, and not drawn."
    if not law.logarithm:
        return " The law given is one of m'/d_model, which is not this axis, and not drawn."
    return f" The law {law.name} ({law.source_}) is not drawn: these runs lie outside its domain."


def key_dimension_map(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 5: D_K* over items (or edges) and width, with its range in each cell."""

    def chart(group: Group, found: list[Cell]) -> Chart | None:
        by_edges = len({(cell.n_items, cell.d_model) for cell in found}) < len(found)
        rows: dict[tuple[int, int], dict[int, Cell]] = defaultdict(dict)
        for cell in found:
            rows[cell.n_edges if by_edges else 0, cell.n_items][cell.d_model] = cell
        widths = sorted({cell.d_model for cell in found})
        if len(rows) < 2 and len(widths) < 2:
            return None
        lines = sorted(rows)
        several = len({n_items for _, n_items in lines}) > 1
        names = [f"{edges} of {items}" if by_edges and several else edges or items for edges, items in lines]
        unit = ("edges m' of items m" if several else "edges m'") if by_edges else "items m"
        heat = Heat(
            x=tuple(str(d) for d in widths),
            y=tuple(str(name) for name in names),
            z=tuple(tuple(_log2(rows[line].get(d)) for d in widths) for line in lines),
            texts=tuple(tuple(_written(rows[line].get(d)) for d in widths) for line in lines),
            label="log2 D_K*",
        )
        return Chart(
            name="key-dimension-map",
            title=titled("Smallest total key dimension", group),
            caption=f"{_found(group)} In each cell D_K* and, below it, {_RANGE}; colour: its logarithm."
            f"{_none(found)} Empty cells were not measured. Adler 2025, Fig. 5, whose ranges are found in a way that "
            "is not known to us.",
            panels=(Panel(x=Axis(label="width d_model"), y=Axis(label=unit), heat=heat),),
        )

    return _of_cells(runs, GRAPH, chart, "fewer than two graphs or widths that differ in nothing else")


def _log2(cell: Cell | None) -> float | None:
    return None if cell is None or cell.key_dim is None else math.log2(cell.key_dim)


def _written(cell: Cell | None) -> str:
    if cell is None:
        return ""
    return "none" if cell.key_dim is None else f"{cell.key_dim}\n{cell.range}"


def best_heads(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 2: the number of heads with which D_K is smallest, against items a channel, a line per width."""

    def chart(group: Group, found: list[Cell]) -> Chart | None:
        shown = [cell for cell in found if cell.n_heads is not None and len(cell.tried) > 1]
        if len(set(map(_compression, shown))) < 2:
            return None
        widths = sorted({cell.d_model for cell in shown})
        at_end = sum(cell.n_heads in (cell.tried[0], cell.tried[-1]) and cell.n_heads != 1 for cell in shown)
        return Chart(
            name="best-heads",
            title=titled("Best number of heads", group),
            caption=f"{_found(group)} The number of heads with the smallest D_K, the fewest where several are as good; "
            "bars: head counts whose D_K lies within the range of the best. Only the counts that a search was given "
            f"were tried: in {at_end} of {len(shown)} cells the best is the first or last of them (above 1), and more "
            "extreme ones may be better." + _none(found) + " Adler 2025, Fig. 2.",
            panels=(
                Panel(
                    x=powers("items a channel m / d_model", list(map(_compression, shown))),
                    y=powers("best number of heads", [h for cell in shown for h in cell.tried]),
                    series=tuple(
                        _series(
                            [cell for cell in shown if cell.d_model == d],
                            f"d_model {d}",
                            place,
                            _compression,
                            heads=True,
                        )
                        for place, d in enumerate(widths)
                    ),
                ),
            ),
        )

    return _of_cells(runs, GRAPH, chart, "fewer than two values of n_items/d_model at which several head counts work")


def fixed_compression(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 4: D_K* and the heads that reach it, where items and width grow together."""

    def chart(group: Group, found: list[Cell]) -> Chart | None:
        diagonals: dict[float, list[Cell]] = defaultdict(list)
        for cell in found:
            if cell.key_dim is not None and (cell.n_edges == cell.n_items or not _several_edges(found)):
                diagonals[_compression(cell)].append(cell)
        lines = {ratio: shown for ratio, shown in sorted(diagonals.items()) if len(shown) > 1}
        if not lines:
            return None
        every = [cell for shown in lines.values() for cell in shown]
        names = {ratio: f"{ratio:g} item{'s' * (ratio != 1)} a channel" for ratio in lines}
        width = powers("width d_model", [cell.d_model for cell in every])
        keys = Panel(
            title="D_K*",
            x=width,
            y=powers("smallest D_K*", _extent(every)),
            series=tuple(
                _series(shown, names[ratio], place, _width) for place, (ratio, shown) in enumerate(lines.items())
            ),
        )
        heads = Panel(
            title="heads",
            x=width,
            y=powers("heads that reach it", [h for cell in every for h in cell.also or ()]),
            series=tuple(
                _series(shown, names[ratio], place, _width, heads=True)
                for place, (ratio, shown) in enumerate(lines.items())
            ),
        )
        return Chart(
            name="fixed-compression",
            title=titled("Items and width growing together", group),
            caption=f"{_found(group)} Left, bars: {_RANGE}; right, bars: head counts whose D_K lies within it. Only "
            "the head counts that a search was given were tried. Adler 2025, Fig. 4, draws 8 items a channel.",
            panels=(keys, heads),
            share_y=False,
        )

    return _of_cells(runs, GRAPH, chart, "no two graphs with as many items a channel")


def _several_edges(found: list[Cell]) -> bool:
    return len({(cell.n_items, cell.d_model) for cell in found}) < len(found)


def _found(group: Group) -> str:
    spec = group.runs[0].spec.protocol
    assert isinstance(spec, Budget)
    return f"D_K* = n_heads · d_head: {protocol(group.runs[0].spec)}, over head counts."


def _none(found: list[Cell]) -> str:
    missing = sum(cell.key_dim is None for cell in found)
    return f" In {missing} of {len(found)} cells no number of heads tried was enough (none)." if missing else ""


def _of_cells(
    runs: Sequence[Measurement], varied: Set[str], chart: Callable[[Group, list[Cell]], Chart | None], reason: str
) -> list[Chart]:
    groups = alike(of_relations(runs, Budget), varied)
    return or_error([found for group in groups if (found := chart(group, cells(group))) is not None], reason)
