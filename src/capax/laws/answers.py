"""What tasks and models answer to laws and plans: methods of theirs, written here until they are there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from capax.laws.law import Law
from capax.measures import units
from capax.models.size import parameter_counts as parameter_counts
from capax.results import Measurement
from capax.specs import (
    LEARNERS,
    Associations,
    AssociativeAttention,
    KeyQueryChannel,
    Relations,
    Sequences,
    Spec,
    Transformer,
)

UNITS: dict[type[Spec], str] = {Sequences: "sequences", Associations: "associations", Relations: "edges"}
AXES: dict[type[Spec], tuple[str, ...]] = {
    Sequences: ("seq_len", "vocab_size"),
    Associations: ("context_size",),
    Relations: ("n_items", "n_edges"),
    Transformer: ("d_head", "n_layers", "n_heads", "d_model"),
    AssociativeAttention: ("n_heads", "d_model", "d_head"),
    KeyQueryChannel: ("d_model", "n_heads", "d_head"),
}
STEPS: dict[type[Spec], dict[str, int]] = {
    Transformer: {"d_model": 8},
    AssociativeAttention: {"d_model": 32, "d_head": 4},
    KeyQueryChannel: {"d_model": 16},
}


def tasks() -> dict[str, type[Any]]:
    """Tasks by their tags."""
    return {kind.model_fields["task"].default: kind for kind in LEARNERS}


def learners(kind: type[Any]) -> list[type[Any]]:
    """Models that learn a task."""
    return [LEARNERS[kind]]


def unit(kind: type[Any]) -> str:
    """What the items of a task are called."""
    return UNITS[kind]


def task_of(law: Law) -> type[Any]:
    """The task that a law is of: that of its rows, or one of whose items it speaks."""
    known = tasks()
    tag = law.domain_.protocol.get("task")
    return known[str(tag)] if tag in known else next(kind for kind in known.values() if unit(kind) == law.items)


def learner(law: Law, kind: type[Any]) -> type[Any]:
    """The model that a law is of: that of its rows, or the usual one of its task."""
    tag = law.domain_.protocol.get("model")
    return next((model for model in learners(kind) if model.model_fields["model"].default == tag), LEARNERS[kind])


def whole_fields(kind: type[Any]) -> dict[str, str]:
    """Fields that are whole numbers, and what they are."""
    return {
        name: field.description or ""
        for name, field in kind.model_fields.items()
        if field.annotation in (int, int | None) and name != "library_size"
    }


def axes(kind: type[Any]) -> tuple[str, ...]:
    """Sizes that capacity depends on; of a model the last is the one that is made as small as the target allows."""
    return AXES.get(kind) or tuple(whole_fields(kind))


def steps(kind: type[Any]) -> Mapping[str, int]:
    """What the values that a plan tries are multiples of."""
    return STEPS.get(kind, {})


def of_size(kind: type[Any], fields: Mapping[str, Any], size: int) -> Any:
    """A task with so many items."""
    if "library_size" in kind.model_fields:
        return kind(**{**fields, "library_size": size})
    edges, graph = fields.get("n_edges") or size, fields.get("graph")
    items = fields.get("n_items") or max(edges + (graph == "tree"), 2)
    degree = {"degree": edges // items} if graph == "regular" else {}
    follows = {"permutation": items, "tree": items - 1, "regular": items * (edges // items)}.get(str(graph), edges)
    shape = {"graph": graph or "random", **degree} if follows == edges else {"graph": "random"}
    return kind(**{**fields, **shape, "n_items": items, "n_edges": edges})


RULE = "rule of thumb: one head up to 2 items per channel, then one for 1 to 2 of them, and none above half the width"


def split(needed: float, task: Any, d_model: int, n_heads: int | None = None) -> dict[str, int]:
    """Heads and their size that make up a total key dimension, by `RULE` (`capax.theory.relation_design`)."""
    compression = task.n_items / d_model
    low, high = (1, 1) if compression <= 2 else (max(1, round(compression / 2)), math.ceil(compression))
    usual = min(round(math.sqrt(low * high)), max(round(needed), 1))
    heads = n_heads or max(usual, math.ceil(2 * needed / d_model))
    return {"n_heads": heads, "d_head": math.ceil(needed / heads)}


def tokens_per_parameter(task: Any, memorized: float, parameters: int) -> float | None:
    """Memorized tokens per trainable parameter (Härmä et al. 2024, eq. 12), where items are tokens."""
    return units.tokens_per_parameter(memorized, task.seq_len, parameters) if hasattr(task, "seq_len") else None


def recognized(run: Measurement, told: Mapping[str, Any]) -> bool:
    """Whether a run remembers all that it should: every item, or of relations as its law's data count success."""
    if run.f1 is not None:
        return run.f1 >= told.get("target_f1", 0.99)
    return run.memorized >= run.library_size
