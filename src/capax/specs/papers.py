"""What papers state of their runs: values for the fields that a run was not given (`--paper`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from capax.errors import SpecError, shown
from capax.specs.model import Model
from capax.specs.protocols import Protocol
from capax.specs.spec import Spec
from capax.specs.task import Task
from capax.specs.training import Training

Parts = Mapping[str, Mapping[str, Any]]
"""Values of fields, by the part of a run."""

S = TypeVar("S", bound=Spec)

_TRANSFORMER: Parts = {
    "model": {"embeddings": "frozen", "positions": "frozen", "readout": "frozen", "ffn": "mlp", "activation": "gelu"},
    "training": {"optimizer": "adam", "lr": 1e-3, "batch_size": 512},
}

PAPERS: dict[str, dict[tuple[str, str], Parts]] = {
    "harma2024": {
        ("sequences", "mac"): {
            **_TRANSFORMER,
            "task": {"library_size": 16_000},
            "protocol": {"restarts": 5},
        },
        ("sequences", "mls"): _TRANSFORMER,
        ("sequences", "shatter"): {
            **_TRANSFORMER,
            "task": {"library_size": 16},
            "model": {**_TRANSFORMER["model"], "d_model": 16},
            "protocol": {"trials": 1000},
        },
    },
    "mahdavi2024": {
        ("associations", "mac"): {
            "task": {"library_size": 10_000},
            "model": {"profile": "mahdavi2024"},
            "training": {"lr": 1e-3, "batch_size": 256, "max_epochs": 500, "min_steps": 50_000},
        },
    },
}
"""By paper, task and protocol. Härmä et al. name attention and FFN as what they train, from which we take it that
tables of positions are frozen; their vocabulary, the positions of their loss and their patience are not known.
Mahdavi et al.: the published code."""


def as_in(
    paper: str, task: Task, model: Model, training: Training, protocol: Protocol
) -> tuple[Task, Model, Training, Protocol]:
    """A run's parts, with what the paper states where they were given nothing.

    Raises:
        SpecError: for a paper that is none of these, or that has no such task or protocol.
    """
    if paper not in PAPERS:
        raise SpecError(f"paper: one of {', '.join(PAPERS)}, got {shown(paper)}")
    asked = str(task.tag()), protocol.protocol
    if asked not in PAPERS[paper]:
        known = "; ".join(f"{of} by protocol {by}" for of, by in PAPERS[paper])
        raise SpecError(f"paper: {paper} has {known}; got {asked[0]} by protocol {asked[1]}")
    if type(model) is not task.learner:
        raise SpecError(f"paper: {paper} has {task.learner.__name__}, got {type(model).__name__}")
    stated = PAPERS[paper][asked]
    return (
        _filled(task, stated.get("task", {})),
        _filled(model, stated.get("model", {})),
        _filled(training, stated.get("training", {})),
        _filled(protocol, stated.get("protocol", {})),
    )


def _filled(spec: S, stated: Mapping[str, Any]) -> S:
    missing = {name: value for name, value in stated.items() if name not in spec.model_fields_set}
    return spec.replace(**missing) if missing else spec
