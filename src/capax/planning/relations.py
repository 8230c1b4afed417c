"""Plan the channel of a graph: heads and their size for each width, by a law, under a ceiling of built weights."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from pydantic import Field

from capax import working
from capax.errors import AssumptionError, LawError, shown
from capax.laws.files import load_law
from capax.laws.law import Law
from capax.planning.answers import SUREST
from capax.planning.question import Question
from capax.results import BuiltChannel, Result
from capax.specs import KeyQueryChannel, Relations
from capax.specs.relations import EMBEDDINGS, GRAPHS
from capax.specs.spec import positive, truth, whole
from capax.tasks import relation_files
from capax.theory.construct.construct import construct

WIDTHS = (16, 32, 64, 128)
"""Channels of an item that are tried where none are given."""
LAW = "reference:relation"


class TrainedChannel(Result):
    """A channel that should learn the graph, by the law."""

    n_heads: int
    d_head: int
    total_key_dim: Annotated[int, Field(description="That is enough with the plan's probability.")]


class PlannedChannel(Result):
    """The channel of one width: the smaller of what the law says and of what can be built."""

    d_model: int
    n_heads: int
    d_head: int
    total_key_dim: int
    by: Annotated[
        Literal["law", "built"], Field(description="Whether a training should reach it, or explicit weights do.")
    ]
    parameters: Annotated[int, Field(description="Of queries and keys: 2 · d_model · total_key_dim.")]
    trained: Annotated[
        TrainedChannel | None, Field(description="None outside the law's domain, without `extrapolate`.")
    ]
    built: Annotated[BuiltChannel | None, Field(description="None where no weights are found to reach F1 .99.")]


class RelationPlan(Result):
    """Channels that recognize a graph, one for each width."""

    graph: str
    n_items: int
    n_edges: int
    probability: float
    channels: tuple[PlannedChannel, ...]
    law: str
    source: str
    notes: tuple[str, ...]
    seed: int
    schema_version: Literal[1] = 1


def plan_relations(
    graph: Any,
    *,
    d_model: int | Iterable[int] | None = None,
    law: Law | str = LAW,
    probability: float = 0.9,
    extrapolate: bool = False,
    seed: int = 0,
) -> RelationPlan:
    """Heads and their size for a graph, one channel for each width.

    The law says which total key dimension a training needs; weights that are built for this very graph say which is
    enough at most, for certain: never more than the number of edges. The smaller is planned.

    Args:
        graph: a task, or a directed networkx graph, whose items are drawn.
        d_model: channels of an item, one or several. [default: those of the user's vectors, else 16, 32, 64, 128]
        law: a law of relations, or its name (`load_law`).
        probability: that a training with the law's key dimension succeeds.
        extrapolate: ask the law outside its domain, too.
        seed: names graph, items and weights.

    Raises:
        LawError: for a law of anything else, a probability that is none, or where nothing is left to plan with.
        LibraryError: for a graph that is none of relations.
        SpecError: for a width that is not allowed.
    """
    if not isinstance(graph, Relations):
        if isinstance(graph, str):
            raise LawError(f"graph: capax.Relations, or a directed networkx graph, got {shown(graph)}")
        with TemporaryDirectory() as folder:
            task = Relations.from_graph(graph, Path(folder) / "graph.graphml")
            return plan_relations(
                task, d_model=d_model, law=law, probability=probability, extrapolate=extrapolate, seed=seed
            ).model_copy(update={"graph": "the graph"})
    positive("probability", probability, SUREST, LawError)
    truth("extrapolate", extrapolate, LawError)
    law = load_law(law)
    if law.needed_for is None:
        raise LawError(f"law: one of what relations need, got {law.name}, which is of {law.items}")
    told: list[str] = []
    channels: list[PlannedChannel] = []
    for width in working.through(_widths(graph, d_model), "widths planned"):
        trained, outside = _trained(law, graph, width, probability, extrapolate)
        built = _built(graph, width, seed)
        told.extend(f"outside the domain of the law at width {width}: {reason}" for reason in outside)
        known: list[tuple[Any, Any]] = [(by, one) for by, one in (("law", trained), ("built", built)) if one]
        if not known:
            continue
        by, best = min(known, key=lambda pair: pair[1].total_key_dim)
        channels.append(
            PlannedChannel(
                d_model=width,
                **{name: getattr(best, name) for name in ("n_heads", "d_head", "total_key_dim")},
                by=by,
                parameters=2 * width * best.total_key_dim,
                trained=trained,
                built=built,
            )
        )
    if not channels:
        raise LawError("d_model: at no width does the law hold, and at none were weights found")
    notes = [*_other_kinds(law, graph), *told]
    return RelationPlan(
        graph=graph.items,
        n_items=graph.sizes()["n_items"],
        n_edges=graph.library_size,
        probability=probability,
        channels=tuple(channels),
        law=law.name,
        source=law.source_,
        notes=tuple(notes),
        seed=seed,
    )


def _other_kinds(law: Law, task: Relations) -> list[str]:
    """Kinds of graphs and of vectors that the law was measured on, where the task's is none of them."""
    notes = []
    for field, what, own in (("graph", "graphs", GRAPHS), ("embeddings", "vectors", EMBEDDINGS)):
        one = law.domain_.protocol.get(field)
        kinds = law.domain_.kinds.get(field, () if one is None else (str(one),))
        given = getattr(task, field)
        if kinds and given not in kinds:
            but = f"not on {given} ones" if given in own else "yours may be of no such kind"
            notes.append(f"the law was measured on {' or '.join(kinds)} {what}; {but}")
    return notes


def _widths(task: Relations, given: int | Iterable[int] | None) -> list[int]:
    """Widths to plan for, rising."""
    if given is None:
        fixed = "embeddings" in task.files or task.embeddings == "onehot"
        vectors = relation_files.load(task).vectors
        return [int(task.sizes()["n_items"] if vectors is None else vectors.shape[1])] if fixed else list(WIDTHS)
    values = list(given) if isinstance(given, Iterable) else [given]
    if not values:
        raise LawError("d_model: positive integers, got none")
    return sorted({whole("d_model", value, error=LawError) for value in values})


def _trained(
    law: Law, task: Relations, width: int, probability: float, extrapolate: bool
) -> tuple[TrainedChannel | None, tuple[str, ...]]:
    """The channel of a width by the law, and why it lies outside its domain."""
    question = Question(law, {"n_items": task.n_items, "d_model": width}, task.library_size)
    grid = question.grid()
    outside = question.outside([{**question.given, "d_model": width}], extrapolate=True)
    if outside and not extrapolate:
        return None, outside
    model = question.models(grid, probability)[0]
    return TrainedChannel(n_heads=model.n_heads, d_head=model.d_head, total_key_dim=model.total_key_dim), outside


def _built(task: Relations, width: int, seed: int) -> BuiltChannel | None:
    try:
        report: Any = construct(task, KeyQueryChannel(d_model=width), seed=seed).report
    except AssumptionError:
        return None
    return BuiltChannel(n_heads=report.n_heads, d_head=report.d_head, total_key_dim=report.total_key_dim)
