"""Searches for the smallest total key dimension D_K* of relations, graph by graph."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from capax.errors import ReportError
from capax.figures.chart import Axis
from capax.figures.groups import Group
from capax.figures.words import of_heads
from capax.results import Measurement
from capax.specs import Budget, KeyQueryChannel, Mac, Relations

GRAPH = frozenset({"n_items", "n_edges", "d_model", "head_counts"})
"""What cells of one figure differ in."""


@dataclass(frozen=True)
class Cell:
    """The searches for D_K* of one graph and width.

    Attributes:
        key_dim: D_K*, of several searches the (lower) median; None where no number of heads was enough.
        low, high: from the lowest to the highest end of their ranges; None where the data set no upper end.
        n_heads: heads of that search; the fewest where several are as good.
        also: fewest and most heads whose own D_K lies within its range.
        tried: head counts of that search.
    """

    n_items: int
    n_edges: int
    d_model: int
    key_dim: int | None
    low: float | None
    high: float | None
    n_heads: int | None
    also: tuple[int, int] | None
    tried: tuple[int, ...]
    searches: int

    @property
    def load(self) -> float:
        """The law's m' ln m' / d_model: D_K* but for a constant, says the paper."""
        return self.n_edges * math.log(self.n_edges) / self.d_model

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
        return f"{graph}: D_K* {self.key_dim} ({self.range}{of}) with {of_heads(self.n_heads or 0)}"


def cells(group: Group) -> list[Cell]:
    """The cells of runs by protocol budget, by edges, items and width."""
    found: dict[tuple[int, int, int], list[Measurement]] = defaultdict(list)
    for run in group.runs:
        found[cell(run)].append(run)
    return [_summary(cell, searches) for cell, searches in sorted(found.items())]


def _summary(cell: tuple[int, int, int], searches: list[Measurement]) -> Cell:
    ordered = sorted(searches, key=lambda run: math.inf if run.total_key_dim is None else run.total_key_dim)
    middle = ordered[(len(ordered) - 1) // 2]
    n_edges, n_items, d_model = cell
    protocol = middle.spec.protocol
    assert isinstance(protocol, Budget)
    ranges = [run.total_key_dim_interval for run in searches]
    known = [interval for interval in ranges if interval is not None]
    highs = [None if interval is None else interval.high for interval in ranges]
    ends = [high for high in highs if high is not None]
    return Cell(
        n_items=n_items,
        n_edges=n_edges,
        d_model=d_model,
        key_dim=middle.total_key_dim,
        low=min(interval.low for interval in known) if known else None,
        high=max(ends) if len(ends) == len(searches) else None,
        n_heads=None if middle.total_key_dim is None else middle.n_heads,
        also=_also(middle),
        tried=protocol.head_counts,
        searches=len(searches),
    )


def _also(run: Measurement) -> tuple[int, int] | None:
    if run.total_key_dim_interval is None:
        return None
    high = run.total_key_dim_interval.high
    good = [
        count.n_heads
        for count in run.per_heads or ()
        if count.total_key_dim is not None and (high is None or count.total_key_dim <= high)
    ]
    return min(good), max(good)


def of_relations(runs: Sequence[Measurement], *protocols: type) -> list[Measurement]:
    """The runs on relations by some protocols.

    Raises:
        ReportError: when there is none.
    """
    found = [run for run in runs if isinstance(run.spec.task, Relations) and isinstance(run.spec.protocol, protocols)]
    if not found:
        raise ReportError(
            "no search for D_K* (protocol budget) of relations"
            if Mac not in protocols
            else "no run on relations by protocol mac or budget"
        )
    return found


def cell(run: Measurement) -> tuple[int, int, int]:
    """Edges, items and width."""
    task, model = run.spec.task, run.spec.model
    assert isinstance(task, Relations)
    assert isinstance(model, KeyQueryChannel)
    assert task.n_items is not None
    return task.library_size, task.n_items, model.d_model


def powers(label: str, values: Sequence[float]) -> Axis:
    """A logarithmic axis with marks at powers of two; at its ends where fewer than two of these lie between them."""
    first, last = min(values), max(values)
    low, high = math.floor(math.log2(first)), math.ceil(math.log2(last))
    ticks = [2.0**power for power in range(low, high + 1)]
    if first < last and sum(first <= tick <= last for tick in ticks) < 2:
        ticks = [float(f"{end:.3g}") for end in (first, last)]
    return Axis(label=label, log=2, ticks=tuple(ticks))
