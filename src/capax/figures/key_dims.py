"""Searches for the smallest total key dimension D_K*, graph by graph: the figures of Adler 2025 (arXiv 2509.22840).

The captions of the paper's figures were available to us, not their numbers; criterion, intervals and ranges are ours
unless said otherwise.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from capax.errors import ReportError
from capax.figures.chart import Axis, Chart, Heat, Panel, Series
from capax.figures.columns import EDGES, HEADS, ITEMS, WIDTH, Column, Of, by, powers
from capax.figures.expectations import about
from capax.figures.groups import Group, alike
from capax.figures.law_lines import LAW_POINTS
from capax.figures.lines import LAW, Lines, Measure, Shown, titled
from capax.laws.law import Law
from capax.results import Measurement

GRAPH = ("n_items", "n_edges", "d_model", "head_counts")
"""What cells of one figure differ in."""
TARGET = "total_key_dim"
NEARLY = 1.1
"""The largest ratio of edges per item at which graphs are alike in it."""
RANGE = "the 95 % range of D_K*"


@dataclass(frozen=True)
class Cell:
    """The searches for D_K* of one graph and width.

    Attributes:
        key_dim: D_K*, of several searches the (lower) median; None where no number of heads was enough.
        low, high: from the lowest to the highest end of their ranges; None where the data set no upper end.
        n_heads: heads of that search; the fewest where several are as good.
        also: fewest and most heads whose own D_K lies within its range.
        tried: head counts of that search.
        built: whether only explicit weights reach it, and no training did.
    """

    n_items: int
    n_edges: int
    d_model: int
    key_dim: int | None
    low: float | None
    high: float | None
    n_heads: int | None
    also: tuple[int | None, int | None]
    tried: tuple[int, ...]
    searches: int
    built: bool = False

    @property
    def load(self) -> float:
        """The law's m' log2 m' / d_model: D_K* but for a constant, says the paper."""
        return self.n_edges * math.log2(self.n_edges) / self.d_model

    @property
    def range(self) -> str:
        """The range in words."""
        if self.low is None:
            return "none"
        return f"{self.low:g}–{self.high:g}" if self.high is not None else f"from {self.low:g}"

    @property
    def text(self) -> str:
        """The cell in words."""
        graph = f"{self.n_items} items, {self.n_edges} edges, d_model {self.d_model}"
        if self.key_dim is None:
            return f"{graph}: not recognized with {', '.join(map(str, self.tried))} heads"
        of = f", median of {self.searches} searches" if self.searches > 1 else ""
        built = ", built, not reached by training" if self.built else ""
        return f"{graph}: D_K* {self.key_dim} ({self.range}{of}) with {HEADS.words(self.n_heads)}{built}"


def cells(group: Group) -> list[Cell]:
    """The cells of runs by protocol budget, by edges, items and width."""
    return [_cell(searches) for searches in by(group.runs, EDGES, ITEMS, WIDTH).values()]


def _cell(searches: list[Measurement]) -> Cell:
    ordered = sorted(searches, key=lambda run: math.inf if run.total_key_dim is None else run.total_key_dim)
    middle = ordered[(len(ordered) - 1) // 2]
    ranges = [None if run.key_search is None else run.key_search.interval for run in searches]
    lows = [interval.low for interval in ranges if interval is not None]
    highs = [interval.high for interval in ranges if interval is not None and interval.high is not None]
    return Cell(
        n_items=ITEMS(middle),
        n_edges=EDGES(middle),
        d_model=WIDTH(middle),
        key_dim=middle.total_key_dim,
        low=min(lows, default=None),
        high=max(highs) if len(highs) == len(searches) else None,
        n_heads=None if middle.total_key_dim is None else middle.n_heads,
        also=_also(middle),
        tried=getattr(middle.spec.protocol, "head_counts", ()),
        searches=len(searches),
        built=middle.key_search is not None and middle.key_search.reached_by == "built",
    )


def _also(run: Measurement) -> tuple[int | None, int | None]:
    search = run.key_search
    if search is None or search.interval is None:
        return None, None
    if search.reached_by == "built":
        return search.n_heads, search.n_heads
    high = search.interval.high
    good = [
        count.n_heads
        for count in search.per_heads
        if count.total_key_dim is not None and (high is None or count.total_key_dim <= high)
    ]
    return min(good), max(good)


# What lines are of: cells whose D_K* is known


def _with_load(group: Group) -> list[Cell]:
    return [cell for cell in cells(group) if cell.key_dim is not None and cell.n_edges > 1]


def _with_choice(group: Group) -> list[Cell]:
    return [cell for cell in cells(group) if cell.n_heads is not None and len(cell.tried) > 1]


def _growing(group: Group) -> list[Cell]:
    """Cells whose items, edges and width grow together, of which there are several."""
    found = cells(group)
    one_each = len({(cell.n_items, cell.d_model) for cell in found}) == len(found)
    fit = [cell for cell in found if cell.key_dim is not None and (one_each or cell.n_edges == cell.n_items)]
    grown = by(fit, COMPRESSION, EDGES_PER_ITEM)
    return [cell for members in grown.values() if len(members) > 1 for cell in members]


LOAD = Column(
    "load", "m' log2 m' / d_model (m' edges)", scale=powers, of=lambda cell: cell.load, fields=("n_edges", "d_model")
)
COMPRESSION = Column(
    "compression",
    "items per channel m / d_model",
    "{} item{s} per channel",
    powers,
    lambda cell: cell.n_items / cell.d_model,
    ("n_items", "d_model"),
)


def _text(rows: Sequence[Cell], shown: float) -> str:
    return rows[0].text


def _key_dim(label: str, **fields: str) -> Measure:
    return Measure(
        label,
        lambda cell: cell.key_dim,
        lambda cell: (cell.low, cell.high),
        scale=powers,
        each=True,
        said=_text,
        **fields,  # type: ignore[arg-type]
    )


def _heads(label: str, name: str = "") -> Measure:
    return Measure(label, lambda cell: cell.n_heads, lambda cell: cell.also, name, scale=powers, each=True, said=_text)


# What is said and drawn of them


def _constant(cells: Sequence[Cell]) -> float:
    """The factor of m' log2 m' / d_model that fits best."""
    return float(np.exp(np.mean([math.log((cell.key_dim or 1) / cell.load) for cell in _trained(cells)])))


def _trained(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Cells whose D_K* a training reached; all where there are fewer than two: of the others it is only a bound."""
    trained = [cell for cell in cells if not cell.built]
    return trained if len(trained) > 1 else cells


def _proportional(rows: Sequence[Cell], shown: Shown, x: Of) -> Iterable[Series]:
    """A line of slope 1, and what a law of this load expects where it was fitted."""
    constant, loads = _constant(rows), [cell.load for cell in rows]
    ends = (min(loads), max(loads))
    yield from _law_band(shown.law, sorted(rows, key=lambda cell: cell.load))
    yield Series(
        name=f"{constant:.2g} m' log2 m' / d_model",
        kind="reference",
        x=ends,
        y=tuple(constant * end for end in ends),
        group=3,  # solid: a law is dashed
    )


def _law_band(law: Law | None, ordered: Sequence[Cell]) -> Iterable[Series]:
    """What a law expects from the smallest load that was measured to the largest, of graphs with as many edges an item.

    It is of the load alone.
    """
    if law is None or law.target != TARGET or not getattr(law, "logarithm", True) or not _alike(ordered):
        return
    table = {name: np.array([getattr(cell, name) for cell in ordered], dtype=float) for name in law.columns}
    inside = np.flatnonzero(law.inside_domain(table))
    if len(inside) < 2:
        return
    table = {name: _between(values[inside[0]], values[inside[-1]]) for name, values in table.items()}
    low, high = law.predict_interval(table)
    yield Series(
        name="law",
        kind="band",
        x=tuple((table["n_edges"] * np.log2(table["n_edges"]) / table["d_model"]).tolist()),
        y=tuple(law.predict(table).tolist()),
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
        group=LAW,
        faint=True,
    )


def _between(first: float, last: float) -> np.ndarray:
    """Numbers of equal ratio, none of which rounding brings beyond the ends."""
    return np.geomspace(first, last, LAW_POINTS).clip(min(first, last), max(first, last))


def _alike(rows: Iterable[Cell]) -> bool:
    """Whether all graphs have about as many edges an item: trees have one less than items."""
    ratios = [cell.n_edges / cell.n_items for cell in rows]
    return max(ratios) <= NEARLY * min(ratios)


def _law(shown: Shown) -> str:
    law = shown.law
    if law is None:
        return ""
    if any(series.kind == "band" for series in shown.panels[0].series):
        return f"Band: 95 % prediction interval of the law {law.name} ({law.source_})."
    if law.target != TARGET:
        return f"The law {law.name} is of {law.target}, not of D_K*, and not drawn."
    if not getattr(law, "logarithm", True):
        return "The law given is one of m'/d_model, which is not this axis, and not drawn."
    if not _alike(shown.rows):
        return "The law given depends on edges per item, in which these graphs differ, and is not drawn."
    return about(law, shown.group.runs, drawn=False)


def _found(shown: Shown) -> str:
    said = (
        f"D_K* = n_heads · d_head, reached by training: {shown.group.runs[0].spec.protocol.words()}, over head counts."
    )
    built = [f"{cell.n_items} items in {cell.d_model} channels" for cell in cells(shown.group) if cell.built]
    if not built:
        return said
    return f"{said} Explicit weights need less than any training reached for {'; '.join(built)}: D_K* is theirs."


def _none(shown: Shown) -> str:
    found = cells(shown.group)
    missing = sum(cell.key_dim is None for cell in found)
    return f"In {missing} of {len(found)} cells no number of heads tried was enough (none)." if missing else ""


def _slope(shown: Shown) -> str:
    trained = _trained(shown.rows)
    loads, measured = zip(*((math.log(cell.load), math.log(cell.key_dim or 1)) for cell in trained), strict=True)
    without = " (without what explicit weights alone reach)" if len(trained) < len(shown.rows) else ""
    return (
        "Solid grey: slope 1, as the paper's law D_K* = Θ(m' log m' / d_model) has it; the constant "
        f"{_constant(shown.rows):.2g} is fitted here (the paper's is not known to us), a free line through the "
        f"logarithms has slope {np.polyfit(loads, measured, 1)[0]:.2f}{without}."
    )


def _at_an_end(shown: Shown) -> str:
    rows = shown.rows
    at_end = sum(cell.n_heads in (cell.tried[0], cell.tried[-1]) and cell.n_heads != 1 for cell in rows)
    return (
        "The number of heads with the smallest D_K, the fewest where several are as good; bars: head counts whose D_K "
        "lies within the range of the best. Only the counts that a search was given were tried: in "
        f"{at_end} of {len(rows)} cells the best is the first or last of them (above 1), and more extreme ones may be "
        "better."
    )


EDGES_PER_ITEM = Column(
    "edges_per_item",
    "edges per item m' / m",
    "{} edge{s} per item",
    of=lambda cell: cell.n_edges / cell.n_items,
    fields=("n_edges", "n_items", "degree"),
)

KEY_DIMENSION = Lines(
    name="key-dimension",
    title="D_K* against the law",
    of="Adler 2025, Fig. 3",
    heading="Smallest total key dimension against the law",
    x=LOAD,
    y=(_key_dim("measured D_K*", kind="points"),),
    line=WIDTH,
    protocols=("budget",),
    wanted=("n_items", "n_edges"),
    varied=(*GRAPH, "degree"),
    rows=_with_load,
    reference=_proportional,
    caption=(_found, f"Bars: {RANGE}.", _slope, _law, _none, "Adler 2025, Fig. 3."),
    needs="relations, budget, several n_items, n_edges or d_model",
)
BEST_HEADS = Lines(
    name="best-heads",
    title="best number of heads",
    of="Adler 2025, Fig. 2",
    heading="Best number of heads",
    x=COMPRESSION,
    y=(_heads("best number of heads"),),
    line=WIDTH,
    panel=(EDGES_PER_ITEM,),
    protocols=("budget",),
    wanted=("n_items", "n_edges"),
    varied=GRAPH,
    rows=_with_choice,
    caption=(_found, _at_an_end, _none, "Adler 2025, Fig. 2."),
    needs="relations, budget, several n_items or d_model",
)
FIXED_COMPRESSION = Lines(
    name="fixed-compression",
    title="D_K* at fixed compression",
    of="Adler 2025, Fig. 4",
    heading="Items and width growing together",
    x=WIDTH,
    y=(_key_dim("smallest D_K*", name="D_K*"), _heads("heads that reach it", name="heads")),
    line=COMPRESSION,
    protocols=("budget",),
    wanted=("n_items", "n_edges"),
    varied=GRAPH,
    rows=_growing,
    caption=(
        _found,
        f"Left, bars: {RANGE}; right, bars: head counts whose D_K lies within it. Only the head counts that a search "
        "was given were tried.",
        "Adler 2025, Fig. 4, draws 8 items per channel.",
    ),
    needs="relations, budget, several n_items at one n_items/d_model",
)


def key_dimension_map(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 5: D_K* over items (or edges) and width, with its range in each cell.

    Raises:
        ReportError: without searches that differ in nothing else.
    """
    taken = [run for run in runs if run.key_search is not None]
    charts = [chart for group in alike(taken, GRAPH) if (chart := _map(group)) is not None]
    if not charts:
        raise ReportError(f"no runs by protocol budget that differ in {', '.join(GRAPH[:3])} and in nothing else")
    return charts


def _map(group: Group) -> Chart | None:
    found, shown = cells(group), Shown(group, (), None)
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
    unit = ("edges m' of items m" if several else EDGES.label) if by_edges else ITEMS.label
    heat = Heat(
        x=tuple(str(d) for d in widths),
        y=tuple(str(name) for name in names),
        z=tuple(tuple(_log2(rows[line].get(d)) for d in widths) for line in lines),
        texts=tuple(tuple(_written(rows[line].get(d)) for d in widths) for line in lines),
        label="log2 D_K*",
    )
    said = (
        _found(shown),
        f"In each cell D_K* and, below it, {RANGE}; colour: its logarithm.",
        _none(shown),
        "Empty cells were not measured. Adler 2025, Fig. 5, whose ranges are found in a way that is not known to us.",
    )
    return Chart(
        name="key-dimension-map",
        title=titled("Smallest total key dimension", group),
        caption=" ".join(filter(None, said)),
        panels=(Panel(x=Axis(label=WIDTH.label), y=Axis(label=unit), heat=heat),),
    )


def _log2(cell: Cell | None) -> float | None:
    return None if cell is None or cell.key_dim is None else math.log2(cell.key_dim)


def _written(cell: Cell | None) -> str:
    if cell is None:
        return ""
    return "none" if cell.key_dim is None else f"{cell.key_dim}\n{cell.range}"
