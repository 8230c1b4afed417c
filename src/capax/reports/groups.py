"""Runs that may be drawn as one curve: alike in everything but what the figure varies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from capax.results import Measurement


@dataclass(frozen=True)
class Group:
    """Runs of one kind.

    Attributes:
        fields: what all of them share, of task, model, training and protocol.
        telling: of these, what other groups have differently.
    """

    fields: dict[str, Any]
    telling: tuple[str, ...]
    runs: tuple[Measurement, ...]

    def in_words(self) -> str:
        """What tells this group from the others; empty where there is one."""
        told = {name: self.fields[name] for name in self.telling if name in self.fields}
        return ", ".join(f"no {name}" if value is None else f"{name} {value}" for name, value in told.items())


def fields_of(run: Measurement) -> dict[str, Any]:
    """Everything that a run was asked for, but its seed."""
    spec = run.spec
    parts = (spec.task, spec.model, spec.training, spec.protocol)
    return {name: value for part in parts for name, value in part.model_dump(mode="json").items()}


def alike(runs: Iterable[Measurement], varied: Collection[str]) -> list[Group]:
    """The runs in groups that differ within in nothing but `varied` and their seeds; the largest group first."""
    groups: dict[str, list[Measurement]] = defaultdict(list)
    shared: dict[str, dict[str, Any]] = {}
    for run in runs:
        fields = {name: value for name, value in fields_of(run).items() if name not in varied}
        key = repr(sorted(fields.items()))
        groups[key].append(run)
        shared[key] = fields
    names = sorted({name for fields in shared.values() for name in fields})
    absent = object()
    telling = tuple(name for name in names if len({repr(f.get(name, absent)) for f in shared.values()}) > 1)
    found = [Group(shared[key], telling, tuple(members)) for key, members in groups.items()]
    return sorted(found, key=lambda group: -len(group.runs))
