"""`capax plan relations`: the channel of a graph, by the law under the ceiling of weights that are built."""

from __future__ import annotations

from typing import Annotated, Any

from capax.cli import output, progress
from capax.cli.flags import Flag, Json, Part, command
from capax.cli.numbers import integers
from capax.planning.relations import LAW, RelationPlan, plan_relations
from capax.specs import Relations
from capax.text import percent

FIELDS = ("graph", "n_items", "n_edges", "degree", "embeddings", "strict")


def _plan(
    task: Relations,
    *,
    d_model: str | None = None,
    law: str = LAW,
    probability: float = 0.9,
    extrapolate: Annotated[bool, Flag] = False,
    seed: int = 0,
    as_json: Json = False,
) -> None:
    """The heads and the head size with which a channel recognizes a graph, for each width.

    A law says which total key dimension a training needs; weights that are built for this very graph say which is
    enough at most. The smaller is planned.

    Parameters
    ----------
    d_model
        Widths, "32,64". [default: that of the embeddings' file, else 16,32,64,128]
    law
        A file of `capax fit --out`, or reference:relation, fitted to the study that ships with capax.
    probability
        Probability with which a training with the law's key dimension succeeds.
    extrapolate
        Ask the law outside its domain, too; else only built weights are planned there.
    seed
        Names graph, items and weights.
    """
    widths = None if d_model is None else integers("d_model", d_model)
    with progress.under_way():
        found = plan_relations(
            task, d_model=widths, law=law, probability=probability, extrapolate=extrapolate, seed=seed
        )
    output.emit(found, _show, as_json=as_json)


plan = command(_plan, Part("Task", {"": Relations}, only=FIELDS))


def _show(found: RelationPlan) -> None:
    screen = output.console()
    screen.print(
        f"{found.graph}, {found.n_edges} edges, with probability {percent(found.probability)}; law: {found.law} "
        f"({found.source}); seed {found.seed}"
    )
    rows = found.channels
    columns: dict[str, list[str]] = {
        "width": [str(row.d_model) for row in rows],
        "heads": [str(row.n_heads) for row in rows],
        "head size": [str(row.d_head) for row in rows],
        "total key dim": [str(row.total_key_dim) for row in rows],
        "by": [row.by for row in rows],
        "parameters": [str(row.parameters) for row in rows],
        "law": [_size(row.trained) for row in rows],
        "built": [_size(row.built) for row in rows],
    }
    kept = output.show_lines(columns, words=("by",), spare=("parameters",))
    screen.print("by law: a training should reach it; built: weights without training reach it (F1 .99)")
    if "parameters" in kept:
        screen.print("parameters: of queries and keys; what is trained has a scale and a threshold, too")
    output.show_notes(found.notes)


def _size(channel: Any) -> str:
    return "–" if channel is None else f"{channel.n_heads} x {channel.d_head}"
