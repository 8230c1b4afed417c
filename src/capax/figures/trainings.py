"""F1 of every training against the total key dimension (Adler 2025, arXiv 2509.22840, Fig. 1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

import numpy as np

from capax.figures.captions import left_out, same
from capax.figures.chart import Series
from capax.figures.columns import EDGES, HEADS, ITEMS, WIDTH, Column, Of, powers, value
from capax.figures.groups import Group
from capax.figures.key_dims import GRAPH
from capax.figures.lines import Lines, Measure, Shown, across
from capax.protocols.means import half_of_mean
from capax.results import Measurement
from capax.text import counted

FEWEST = 3
"""Trainings that an interval of their mean is given for."""
TARGET = 0.99
"""The F1 that counts as recognized where no search said another."""


@dataclass(frozen=True)
class Trained:
    """F1 of the trainings of one graph, width, number of heads and total key dimension."""

    n_edges: int
    n_items: int
    d_model: int
    n_heads: int
    total_key_dim: int
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(np.mean(self.values))

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval of the mean (Student's t); None of fewer than three."""
        if len(self.values) < FEWEST:
            return None
        half = half_of_mean(self.values)
        return max(self.mean - half, 0.0), min(self.mean + half, 1.0)

    @property
    def text(self) -> str:
        """All of it in words."""
        count = len(self.values)
        over = counted(count, "training")
        return f"D_K {self.total_key_dim}, {HEADS.words(self.n_heads)}: F1 {self.mean:.3f} over {over}"


def _trained(group: Group) -> list[Trained]:
    found: dict[tuple[int, int, int, int, int], dict[str, list[float]]] = defaultdict(dict)
    for run in group.runs:
        own = defaultdict(list)
        for n_heads, size, f1 in _each(run):
            own[EDGES(run), ITEMS(run), WIDTH(run), n_heads, size].append(f1)
        drawn = f"{run.spec.seed} {run.spec.task.model_dump_json()} {run.spec.training.model_dump_json()}"
        for key, values in own.items():  # searches of one seed share trainings, as do fewer and more restarts
            found[key][drawn] = max(found[key].get(drawn, []), values, key=len)
    return [Trained(*key, tuple(chain.from_iterable(values.values()))) for key, values in found.items()]


def _each(run: Measurement) -> Iterator[tuple[int, int, float]]:
    """Heads, total key dimension and F1 of every training; of a search by an earlier version, of what it found."""
    if run.key_search is None:
        for member in run.members:
            yield HEADS(run), value(run, "total_key_dim"), member.metrics["f1"]
        return
    members = iter(run.members)
    for count in run.key_search.per_heads:
        trained = list(islice(members, count.trainings))
        if all(one.d_head is not None for one in trained):
            yield from ((count.n_heads, count.n_heads * (one.d_head or 0), one.metrics["f1"]) for one in trained)
        elif count.total_key_dim is not None:
            yield count.n_heads, count.total_key_dim, count.f1


def _target(rows: Sequence[Trained], shown: Shown, x: Of) -> list[Series]:
    target = value(shown.group.runs[0], "target_f1") or TARGET
    return across(f"F1 {target:g}", target)(rows, shown, x)


def _drawn_anew(shown: Shown) -> str:
    if shown.group.runs[0].key_search is not None:
        return "Every training of the searches: graph, vectors and weights were drawn anew in each."
    return "Restarts: the graph is the same, the weights are drawn anew; runs of other seeds have other graphs."


KEY_DIM = Column("key_dim", "total key dimension D_K", "", powers, lambda trained: trained.total_key_dim, ("d_head",))
MORE_EDGES = replace(EDGES, of=lambda trained: None if trained.n_edges == trained.n_items else trained.n_edges)
"""Edges where they are not as many as items."""

F1 = Lines(
    name="f1",
    title="F1 against total key dimension",
    of="Adler 2025, Fig. 1",
    heading="F1 against total key dimension",
    x=KEY_DIM,
    y=(
        Measure(
            "F1",
            lambda trained: trained.mean,
            lambda trained: trained.ends,
            each=True,
            said=lambda rows, shown: rows[0].text,
        ),
    ),
    line=HEADS,
    panel=(ITEMS, MORE_EDGES, WIDTH),
    protocols=("mac", "budget"),
    wanted=("n_items", "n_edges"),
    varied=(*GRAPH, "degree"),
    rows=_trained,
    reference=_target,
    caption=(
        f"Mean F1 over trainings; bars: 95 % intervals of the mean (Student's t), from {FEWEST} trainings on.",
        _drawn_anew,
        "Dashed: the F1 that counts as recognized.",
        same,
        "Adler 2025 draws this in Fig. 1, for 10 trainings; its numbers are not known to us.",
        left_out,
    ),
    most_panels=8,
    needs="relations, budget, or mac at several d_head",
)
