"""Runs that may be drawn as one curve: alike in everything but what the figure varies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from capax.results import Measurement
from capax.specs.apart import Fields, apart, fields_of, in_words


@dataclass(frozen=True)
class Group:
    """Runs of one kind.

    Attributes:
        apart: what tells them from the other groups, in words; empty where there is one group.
    """

    runs: tuple[Measurement, ...]
    apart: str


def alike(runs: Iterable[Measurement], varied: Collection[str]) -> list[Group]:
    """The runs in groups that differ within in nothing but `varied` and their seeds; the largest group first."""
    groups: dict[str, list[Measurement]] = defaultdict(list)
    shared: dict[str, Fields] = {}
    for run in runs:
        fields = fields_of(run.spec, varied)
        key = repr(fields)
        groups[key].append(run)
        shared[key] = fields
    found = []
    for key, members in groups.items():
        told = apart(shared[key], list(shared.values()))
        items = {run.spec.task.items for run in members}
        of = f": {next(iter(items))}" if list(told) == ["task"] and len(items) == 1 else ""
        found.append(Group(tuple(members), in_words(told) + of))
    return sorted(found, key=lambda group: -len(group.runs))
